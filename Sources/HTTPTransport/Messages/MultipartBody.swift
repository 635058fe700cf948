import EventLoop
package import FeedVocabulary

/// Takes the first part out of a `multipart/byteranges` body (RFC 9110 §14.6), piece by piece.
///
/// One range was asked for, so one part is expected; servers that answer so all the same exist.
package struct MultipartBody: Sendable {
    /// Bytes before the part's own head, and of that head, beyond which this is no multipart body.
    package static let largestHead = 8 * 1024
    private let delimiter: [UInt8]
    private var pending: [UInt8] = []
    private var left: Int64 = 0
    /// The part's own head, once it has come.
    package private(set) var range: ContentRange?
    package private(set) var contentType: String?
    package private(set) var isBroken = false

    /// The boundary of a `Content-Type`, `nil` when it is no multipart of byte ranges.
    package static func boundary(_ contentType: String) -> String? {
        var scanner = FieldScanner(contentType)
        guard let type = scanner.token(), scanner.take("/"), let subtype = scanner.token(),
            type.lowercased() == "multipart", ["byteranges", "x-byteranges"].contains(subtype.lowercased())
        else { return nil }
        while true {
            scanner.skip(" \t;")
            guard let name = scanner.token(), scanner.take("="), let value = scanner.value() else { return nil }
            // RFC 2046 §5.1.1: 1 to 70 characters.
            if name.lowercased() == "boundary" { return (1...70).contains(value.utf8.count) ? value : nil }
        }
    }

    package init(boundary: String) { delimiter = Array("--\(boundary)".utf8) }

    /// Whether all bytes of the part have been given out.
    package var isComplete: Bool { range != nil && left == 0 }

    /// Bytes of the part that `bytes`, the next piece of the body, brings.
    package mutating func take(_ bytes: [UInt8]) -> [UInt8] {
        guard !isBroken, !isComplete else { return [] }
        guard range == nil else { return cut(bytes[...]) }
        pending += bytes
        guard let body = readHead() else {
            if pending.count > Self.largestHead { isBroken = true }
            return []
        }
        defer { pending = [] }
        return cut(pending[body...])
    }

    private mutating func cut(_ bytes: ArraySlice<UInt8>) -> [UInt8] {
        let part = bytes.prefix(Int(min(left, Int64(bytes.count))))
        left -= Int64(part.count)
        return Array(part)
    }

    /// Reads delimiter line, fields and blank line; gives where the part's bytes begin.
    private mutating func readHead() -> Int? {
        var lines: [Substring] = []
        var start = 0
        var isInside = false
        while let end = pending[start...].firstIndex(of: UInt8(ascii: "\n")) {
            var line = pending[start..<end]
            if line.last == UInt8(ascii: "\r") { line = line.dropLast() }
            start = end + 1
            if !isInside {
                isInside = line.starts(with: delimiter)  // what stands before the first delimiter is for nobody
            } else if line.isEmpty {
                return finishHead(lines) ? start : nil
            } else {
                lines.append(String(decoding: line, as: UTF8.self)[...])
            }
        }
        return nil
    }

    private mutating func finishHead(_ lines: [Substring]) -> Bool {
        var headers = HTTPHeaders()
        for line in lines {
            guard let colon = line.firstIndex(of: ":") else { continue }
            headers.append(
                String(line[..<colon]), String(line[line.index(after: colon)...].drop { $0 == " " || $0 == "\t" }))
        }
        let values = headers.all("Content-Range")
        guard values.count == 1, let found = ContentRange(values[0]), let bytes = found.range else {
            isBroken = true
            return false
        }
        (range, left, contentType) = (found, bytes.length, headers["Content-Type"])
        return true
    }
}

/// An answer whose first part is given as if it were the whole body.
package final class MultipartExchange: HTTPExchange {
    package let head: HTTPResponseHead
    private let exchange: any HTTPExchange
    private let body: Lock<State>
    private struct State {
        var multipart: MultipartBody
        var first: [UInt8]?
    }

    /// `exchange` itself, or its single part when it is a multipart answer.
    ///
    /// - Throws: ``TransportError``; what is no readable multipart body keeps its head, which nobody can use.
    package static func unwrap(_ exchange: any HTTPExchange) async throws -> any HTTPExchange {
        guard exchange.head.status == 206,
            let boundary = exchange.head.headers["Content-Type"].flatMap(MultipartBody.boundary)
        else { return exchange }
        var multipart = MultipartBody(boundary: boundary)
        var first: [UInt8] = []
        while multipart.range == nil, !multipart.isBroken, let piece = try await exchange.next() {
            first = multipart.take(piece)
        }
        guard let range = multipart.range else { return exchange }
        return MultipartExchange(exchange, multipart, first: first, range: range)
    }

    private init(_ exchange: any HTTPExchange, _ multipart: MultipartBody, first: [UInt8], range: ContentRange) {
        self.exchange = exchange
        var head = exchange.head
        var headers = HTTPHeaders(
            head.headers.fields
                .filter { !["content-length", "content-type", "content-range"].contains($0.name.lowercased()) }
                .map { ($0.name, $0.value) })
        if let bytes = range.range {
            headers.append(
                "Content-Range",
                "bytes \(bytes.lowerBound)-\(bytes.upperBound - 1)/\(range.total.map(String.init) ?? "*")")
            headers.append("Content-Length", "\(bytes.length)")
        }
        if let type = multipart.contentType { headers.append("Content-Type", type) }
        head.headers = headers
        self.head = head
        body = Lock(State(multipart: multipart, first: first))
    }

    package func next() async throws -> [UInt8]? {
        if let first = body.withLock({ $0.first.take() }), !first.isEmpty { return first }
        while !body.withLock({ $0.multipart.isComplete }) {
            guard let piece = try await exchange.next() else {
                throw TransportError.incomplete(host: WebOrigin.redacted(head.url))
            }
            let bytes = body.withLock { $0.multipart.take(piece) }
            if !bytes.isEmpty { return bytes }
        }
        return nil
    }
    package func cancel() async { await exchange.cancel() }
    package func setPriority(_ priority: LoadPriority) async { await exchange.setPriority(priority) }
}
