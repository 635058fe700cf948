import EventLoop
import Glibc

/// What the origin answers to one request for a file: status, fields, and which bytes.
struct FileAnswer {
    var status: UInt32
    var fields: [(String, String)] = []
    /// Bytes of the file that make up the body.
    var body: Range<Int64> = 0..<0
    var file: FileDescriptor?
    /// A body that is no part of a file.
    var text = ""

    /// Owns one descriptor.
    final class FileDescriptor: Sendable {
        let raw: Int32
        init(_ raw: Int32) { self.raw = raw }
        deinit { close(raw) }
    }

    /// - Parameters:
    ///   - path: As in the request line, with or without query.
    ///   - range: The `Range` field.
    ///   - ifRange: The `If-Range` field.
    init(folder: String, path: String, range: String?, ifRange: String?) {
        guard let name = Self.decode(path.prefix { $0 != "?" }), !name.split(separator: "/").contains("..") else {
            self.init(status: 400, text: "bad path\n")
            return
        }
        let descriptor = open(folder + name, O_RDONLY | O_CLOEXEC)
        var status = stat()
        guard descriptor >= 0, fstat(descriptor, &status) == 0, status.st_mode & S_IFMT == S_IFREG else {
            if descriptor >= 0 { close(descriptor) }
            self.init(status: 404, text: "no such file\n")
            return
        }
        let length = Int64(status.st_size)
        let tag = "\"\(String(length, radix: 16))-\(status.st_mtim.tv_sec)-\(status.st_mtim.tv_nsec)\""
        self.init(status: 200, text: "")
        file = FileDescriptor(descriptor)
        fields = [("ETag", tag), ("Accept-Ranges", "bytes"), ("Content-Type", Self.type(of: name))]
        body = 0..<length
        guard let range, ifRange.map({ $0 == tag }) ?? true else { return }
        switch Self.parse(range, length: length) {
        case .whole: break
        case .part(let part):
            self.status = 206
            body = part
            fields.append(("Content-Range", "bytes \(part.lowerBound)-\(part.upperBound - 1)/\(length)"))
        case .unsatisfiable:
            self.init(status: 416, text: "")
            fields = [("Content-Range", "bytes */\(length)")]
        }
    }

    init(status: UInt32, text: String) {
        self.status = status
        self.text = text
        body = 0..<Int64(text.utf8.count)
        fields = [("Content-Type", "text/plain")]
    }

    private enum Part {
        case whole
        case part(Range<Int64>)
        case unsatisfiable
    }

    /// One range (RFC 9110 §14.1.2); several, or a malformed field, are answered with the whole file.
    private static func parse(_ field: String, length: Int64) -> Part {
        guard field.hasPrefix("bytes="), !field.contains(",") else { return .whole }
        let ends = field.dropFirst(6).split(separator: "-", omittingEmptySubsequences: false)
        guard ends.count == 2 else { return .whole }
        if ends[0].isEmpty {
            guard let count = Int64(ends[1]), count >= 0 else { return .whole }
            return count == 0 || length == 0 ? .unsatisfiable : .part(max(0, length - count)..<length)
        }
        guard let first = Int64(ends[0]), first >= 0 else { return .whole }
        let last = ends[1].isEmpty ? length - 1 : Int64(ends[1]) ?? length - 1
        if first >= length { return .unsatisfiable }
        return last < first ? .whole : .part(first..<min(last, length - 1) + 1)
    }

    private static func decode(_ path: Substring) -> String? {
        var bytes: [UInt8] = []
        var rest = path.utf8
        while let byte = rest.popFirst() {
            guard byte == UInt8(ascii: "%") else {
                bytes.append(byte)
                continue
            }
            guard let value = UInt8(String(Substring(rest.prefix(2))), radix: 16), rest.count >= 2, value != 0 else {
                return nil
            }
            bytes.append(value)
            rest = rest.dropFirst(2)
        }
        return String(validating: bytes, as: UTF8.self)
    }

    private static func type(of name: String) -> String {
        let types = [
            "mp4": "video/mp4", "m4a": "audio/mp4", "webm": "video/webm", "mkv": "video/x-matroska",
            "mp3": "audio/mpeg",
            "flac": "audio/flac", "ogg": "audio/ogg", "wav": "audio/wav", "ts": "video/mp2t", "txt": "text/plain",
        ]
        return types[name.split(separator: ".").last.map { $0.lowercased() } ?? ""] ?? "application/octet-stream"
    }
}
