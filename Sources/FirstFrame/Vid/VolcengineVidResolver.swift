import EventLoop
import FeedStrategy
import FoundationEssentials
import ResourceLoading

/// Resolves ids of Volcengine VOD (BytePlus VOD at its own endpoint) with the play-auth tokens of an app's server.
///
/// Source: the published play-auth flow and its call `GetPlayInfo`. The token is base64 of JSON with the field
/// `GetPlayInfoToken`, a signed query, which is sent to the endpoint as it is; the app's keys are in neither.
public struct VolcengineVidResolver: VidResolver {
    /// Where the signed query goes, without a path.
    public let endpoint: String

    /// The public endpoint in mainland China by default; `https://vod.byteplusapi.com` elsewhere.
    public init(endpoint: String = "https://vod.volcengineapi.com") { self.endpoint = endpoint }

    /// The files of a source.
    public func resolve(_ source: VidSource, with http: WebClient) async throws -> VidMedia {
        let vid = source.vid
        let query = try Self.query(of: source)
        let answer: WebClient.Answer
        do {
            answer = try await http.get("\(endpoint)/?\(query)", headers: ["Accept": "application/json"])
        } catch let error as LoadError {
            throw VidError.network(vid: vid, reason: error.description)
        }
        let told: PlayInfoAnswer
        do {
            told = try Self.decoder.decode(PlayInfoAnswer.self, from: Data(answer.body))
        } catch {
            guard answer.status == 200 else {
                throw VidError.network(vid: vid, reason: "it answered \(answer.status)")
            }
            throw VidError.unreadableAnswer(vid: vid, reason: "it is no JSON of the known form")
        }
        if let error = told.responseMetadata?.error {
            let code = error.code ?? "\(answer.status)"
            if Self.namesExpiry(code) || Self.namesExpiry(error.message ?? "") { throw VidError.expiredToken(vid: vid) }
            throw VidError.refused(vid: vid, code: code, message: error.message ?? "no reason given")
        }
        guard let result = told.result else {
            throw VidError.unreadableAnswer(vid: vid, reason: "it has neither a result nor an error")
        }
        return try Self.media(of: result, for: vid)
    }

    private static func namesExpiry(_ text: String) -> Bool { text.lowercased().contains("expire") }

    // MARK: The token

    private struct Token: Decodable {
        let getPlayInfoToken: String
        let tokenVersion: String?
    }

    /// The signed query of a token; nothing is sent for one that can't be good.
    static func query(of source: VidSource) throws(VidError) -> String {
        let vid = source.vid
        // Some servers write base64 for URLs, or leave the padding out.
        var text = source.playAuthToken.replacing("-", with: "+").replacing("_", with: "/").filter { !$0.isWhitespace }
        while text.utf8.count % 4 != 0 { text += "=" }
        guard let json = Data(base64Encoded: text) else {
            throw .malformedToken(vid: vid, reason: "it is no base64")
        }
        guard let token = try? decoder.decode(Token.self, from: json), !token.getPlayInfoToken.isEmpty else {
            throw .malformedToken(vid: vid, reason: "it has no field GetPlayInfoToken")
        }
        guard token.tokenVersion == nil || token.tokenVersion == "V2" else {
            throw .malformedToken(vid: vid, reason: "its version is \(token.tokenVersion ?? ""), known is V2")
        }
        let query = token.getPlayInfoToken
        guard query.utf8.allSatisfy({ $0 > 0x20 && $0 < 0x7F && $0 != UInt8(ascii: "#") }), query.contains("=") else {
            throw .malformedToken(vid: vid, reason: "its GetPlayInfoToken is no query")
        }
        let named = query.split(separator: "&").first { $0.hasPrefix("Vid=") }?.dropFirst(4)
        // Ids are letters and digits; what is encoded is left to the service.
        if let named, named != vid, !named.contains("%") { throw .otherVid(asked: vid, got: String(named)) }
        return query
    }

    // MARK: The answer

    /// The service's field names begin with capitals.
    private static var decoder: JSONDecoder {
        let decoder = JSONDecoder()
        decoder.keyDecodingStrategy = .custom { path in
            let name = path.last?.stringValue ?? ""
            return FieldName(stringValue: name.prefix(1).lowercased() + name.dropFirst())
        }
        return decoder
    }
    private struct FieldName: CodingKey {
        let stringValue: String
        var intValue: Int? { nil }
        init(stringValue: String) { self.stringValue = stringValue }
        init?(intValue: Int) { nil }
    }

    private struct PlayInfoAnswer: Decodable {
        struct Failure: Decodable { let code, message: String? }
        struct Metadata: Decodable { let error: Failure? }
        struct Info: Decodable {
            let fileId, md5, fileType, format, codec, definition, mainPlayUrl, backupPlayUrl: String?
            let mainUrlExpire, backupUrlExpire: LooseNumber?
            let bitrate, size: LooseNumber?
            let indexRange: String?
        }
        struct Play: Decodable {
            let vid: String?
            let status: LooseNumber?
            let posterUrl: String?
            let duration: Double?
            let playInfoList: [Info]?
        }
        let responseMetadata: Metadata?
        let result: Play?
    }
    /// A number that some versions of the service write as text.
    private struct LooseNumber: Decodable {
        let value: Int64?
        init(from decoder: any Decoder) throws {
            let container = try decoder.singleValueContainer()
            if let number = try? container.decode(Double.self) {
                value = Int64(exactly: number.rounded())
            } else {
                value = (try? container.decode(String.self)).flatMap { Int64($0) }
            }
        }
        var positive: Int64? { value.flatMap { $0 > 0 ? $0 : nil } }
    }

    /// What the service calls a video that was taken down, or is not published.
    private static let unplayable: Set<Int64> = [1000, 1010]

    private static func media(of result: PlayInfoAnswer.Play, for vid: String) throws(VidError) -> VidMedia {
        if let got = result.vid, got != vid { throw .otherVid(asked: vid, got: got) }
        if let status = result.status?.value, unplayable.contains(status) {
            throw .notPlayable(vid: vid, status: Int(status))
        }
        let variants = (result.playInfoList ?? []).compactMap(variant)
        guard !variants.isEmpty else { throw .noVariant(vid: vid) }
        var media = VidMedia(vid: vid, variants: variants)
        media.posterURL = result.posterUrl.flatMap { $0.isEmpty ? nil : $0 }
        media.duration = result.duration.flatMap { $0 > 0 ? $0 : nil }
        return media
    }

    private static func variant(_ info: PlayInfoAnswer.Info) -> VidMedia.Variant? {
        guard let resolution = info.definition.flatMap({ Resolution(rawValue: $0.lowercased()) }) else { return nil }
        func expiry(_ seconds: LooseNumber?) -> WallTime? {
            seconds?.positive.map { WallTime(secondsSince1970: $0) }
        }
        let urls = [
            info.mainPlayUrl.map { MediaURL($0, expires: expiry(info.mainUrlExpire)) },
            info.backupPlayUrl.map { MediaURL($0, expires: expiry(info.backupUrlExpire)) },
        ].compactMap { $0 }.filter { $0.url.contains("://") }
        guard !urls.isEmpty, let codec = codec(info.codec) else { return nil }
        var variant = VidMedia.Variant(resolution: resolution, codec: codec, urls: urls)
        variant.fileID = info.fileId.flatMap { $0.isEmpty ? nil : $0 }
        variant.md5 = info.md5.flatMap { $0.utf8.count == 32 && $0.allSatisfy(\.isHexDigit) ? $0.lowercased() : nil }
        variant.length = info.size?.positive
        variant.bitrate = info.bitrate?.positive.map { Int(clamping: $0) }
        // "0-1023" or "738-1234": where the index is; the head reaches to its end.
        variant.headLength = info.indexRange?.split(separator: "-").last.flatMap { Int64($0) }.flatMap {
            (0..<1 << 30).contains($0) ? $0 + 1 : nil
        }
        return variant
    }

    private static func codec(_ name: String?) -> VideoCodec? {
        switch name?.lowercased() {
        case nil, "", "h264", "avc": .h264
        case "h265", "hevc", "bytevc1": .hevc
        case "h266", "vvc", "bytevc2": .vvc
        case "av1": .av1
        case _: nil
        }
    }
}
