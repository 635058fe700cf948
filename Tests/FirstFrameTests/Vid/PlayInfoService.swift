import EventLoop
import FirstFrame
import HTTPTransport
import TestSupport

/// A server on loopback that answers `GetPlayInfo` as the published API does, and a client to ask it with.
final class PlayInfoService: Sendable {
    struct File {
        var definition: String, codec = "h264", fileID: String? = nil, md5: String? = nil
        var size = 100_000, bitrate = 800_000, expires = 4_000_000_000
        var url: String
    }
    let server: RawResponder
    let resolver: VolcengineVidResolver

    /// - Parameter answer: Of a request target, the status and the JSON to answer with.
    init(_ answer: @escaping @Sendable (_ target: String) -> (Int, String)) throws {
        server = try RawResponder { request in
            let (status, body) = answer(request.target)
            let head =
                "HTTP/1.1 \(status) Answer\r\nContent-Type: application/json\r\nContent-Length: \(body.utf8.count)\r\n\r\n"
            return [.send(Array((head + body).utf8))]
        }
        resolver = VolcengineVidResolver(endpoint: server.baseURL)
    }

    func resolve(_ source: VidSource) async throws -> VidMedia {
        let loop = try LoopThread()
        defer { loop.stop() }
        let client = HTTPClient(loop: loop)
        do {
            let media = try await resolver.resolve(source, with: WebClient(transport: client))
            await client.shutdown()
            return media
        } catch {
            await client.shutdown()
            throw error
        }
    }

    /// What an app's server gives: base64 of the signed query and its version.
    static func token(vid: String, version: String = "V2", query: String? = nil) -> String {
        let query =
            query
            ?? "Action=GetPlayInfo&Version=2020-08-01&Vid=\(vid)&X-Expires=3600&X-Signature=0a%2Fb%3D"
        return base64(#"{"GetPlayInfoToken":"\#(query)","TokenVersion":"\#(version)"}"#)
    }
    static func base64(_ text: String) -> String {
        let alphabet = Array("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/")
        let bytes = Array(text.utf8)
        var encoded = ""
        for start in stride(from: 0, to: bytes.count, by: 3) {
            let group = bytes[start..<min(start + 3, bytes.count)]
            let bits = group.reduce(0) { $0 << 8 | Int($1) } << (8 * (3 - group.count))
            for place in 0..<4 {
                encoded.append(place <= group.count ? alphabet[bits >> (18 - 6 * place) & 63] : "=")
            }
        }
        return encoded
    }

    static func answer(vid: String, status: Int = 10, _ files: [File]) -> String {
        let list = files.map { file in
            """
            {"FileId":\(file.fileID.map { "\"\($0)\"" } ?? "null"),"Md5":"\(file.md5 ?? "")","FileType":"video",
            "Format":"mp4","Codec":"\(file.codec)","Definition":"\(file.definition)","MainPlayUrl":"\(file.url)",
            "BackupPlayUrl":"\(file.url)?backup=1","Bitrate":\(file.bitrate),"Width":1280,"Height":720,
            "Size":\(file.size),"MainUrlExpire":"\(file.expires)","BackupUrlExpire":"\(file.expires + 100)",
            "IndexRange":"738-1105","Quality":"normal","CheckInfo":""}
            """
        }
        return """
            {"ResponseMetadata":{"RequestId":"1","Action":"GetPlayInfo","Version":"2020-08-01","Service":"vod"},
            "Result":{"Vid":"\(vid)","Status":\(status),"PosterUrl":"http://simulated.test/poster.jpg",
            "Duration":12.5,"TotalCount":\(files.count),"PlayInfoList":[\(list.joined(separator: ","))]}}
            """
    }
    static func failure(code: String, message: String) -> String {
        #"{"ResponseMetadata":{"RequestId":"1","Error":{"CodeN":100,"Code":"\#(code)","Message":"\#(message)"}}}"#
    }
}
