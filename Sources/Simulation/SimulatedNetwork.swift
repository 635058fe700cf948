import EventLoop
package import FeedVocabulary
package import HTTPTransport

/// Servers, and the network before them, in virtual time: a round trip, and a rate that all transfers share.
package actor SimulatedNetwork: Transport {
    nonisolated let loop: SimulatedLoop
    package nonisolated var unownedExecutor: UnownedSerialExecutor { loop.asUnownedSerialExecutor() }

    /// What a server says to requests of one URL.
    package struct Resource: Sendable {
        package var bytes: [UInt8]
        package var validator: String?
        package var contentType = "video/mp4"
        /// Requests that fail before the first that succeeds, with this status.
        package var failures = 0
        package var failureStatus = 503
        /// Whether the server knows ranges.
        package var supportsRanges = true
        /// Bytes of an answer after which the connection breaks, once.
        package var breaksAfter: Int?
        package init(bytes: [UInt8], validator: String? = nil) { (self.bytes, self.validator) = (bytes, validator) }
    }
    /// Bytes of one piece.
    private static let pieceBytes = 16 * 1024
    private let roundTrip: Duration
    private let bytesPerSecond: Int
    private var resources: [String: Resource] = [:]
    private var linkFreeAt = LoopInstant(offset: .zero)
    private var isDown = false
    package private(set) var requests: [HTTPRequest] = []
    /// Exchanges that have been neither read to the end nor cancelled.
    package private(set) var openCount = 0

    package init(loop: SimulatedLoop, roundTrip: Duration, bytesPerSecond: Int) {
        (self.loop, self.roundTrip, self.bytesPerSecond) = (loop, roundTrip, bytesPerSecond)
    }

    package func serve(_ url: String, _ resource: Resource) { resources[url] = resource }
    package func setDown(_ isDown: Bool) { self.isDown = isDown }
    /// Bytes that have been asked for, by URL.
    package func requestedRanges(of url: String) -> [ByteRange?] { requests.filter { $0.url == url }.map(\.range) }

    package func start(_ request: HTTPRequest) async throws -> any HTTPExchange {
        requests.append(request)
        try await loop.sleep(for: roundTrip)
        guard !isDown else { throw TransportError.failed(code: 7, reason: "connection refused", host: "simulated") }
        guard var resource = resources[request.url] else { return exchange(status: 404, [:], [], request.url) }
        if resource.failures > 0 {
            resource.failures -= 1
            resources[request.url] = resource
            return exchange(status: resource.failureStatus, [:], [], request.url)
        }
        let length = Int64(resource.bytes.count)
        var fields: [(String, String)] = [("Content-Type", resource.contentType)]
        if let validator = resource.validator { fields.append(("ETag", validator)) }
        let isCurrent = request.headers["If-Range"].map { $0 == resource.validator } ?? true
        guard let range = request.range, isCurrent, resource.supportsRanges else {
            fields.append(("Content-Length", "\(length)"))
            return exchange(status: 200, HTTPHeaders(fields), resource.bytes, request.url, resource.breaksAfter)
        }
        guard range.lowerBound < length else {
            return exchange(status: 416, HTTPHeaders([("Content-Range", "bytes */\(length)")]), [], request.url)
        }
        let part = range.clamped(to: 0..<length)
        fields.append(("Content-Range", "bytes \(part.lowerBound)-\(part.upperBound - 1)/\(length)"))
        fields.append(("Content-Length", "\(part.length)"))
        let body = Array(resource.bytes[Int(part.lowerBound)..<Int(part.upperBound)])
        return exchange(status: 206, HTTPHeaders(fields), body, request.url, resource.breaksAfter)
    }

    private func exchange(
        status: Int, _ headers: HTTPHeaders, _ body: [UInt8], _ url: String, _ breaksAfter: Int? = nil
    ) -> any HTTPExchange {
        openCount += 1
        if breaksAfter != nil { resources[url]?.breaksAfter = nil }
        let head = HTTPResponseHead(status: status, headers: headers, url: url)
        return SimulatedExchange(head: head, body: body, breaksAfter: breaksAfter, network: self)
    }

    /// Waits until `count` bytes have passed the link.
    fileprivate func pass(_ count: Int) async throws {
        linkFreeAt = max(linkFreeAt, loop.now).advanced(by: .microseconds(count * 1_000_000 / bytesPerSecond))
        try await loop.sleep(until: linkFreeAt)
    }
    fileprivate func ended() { openCount -= 1 }
    fileprivate nonisolated func forgotten() { loop.post { self.assumeIsolated { $0.ended() } } }
    fileprivate static func piece(of rest: ArraySlice<UInt8>) -> ArraySlice<UInt8> { rest.prefix(pieceBytes) }
}

private final class SimulatedExchange: HTTPExchange {
    let head: HTTPResponseHead
    private struct State {
        var rest: ArraySlice<UInt8>
        var left: Int?
        var isOver = false
    }
    private let state: Lock<State>
    private let network: SimulatedNetwork

    init(head: HTTPResponseHead, body: [UInt8], breaksAfter: Int?, network: SimulatedNetwork) {
        (self.head, self.network) = (head, network)
        state = Lock(State(rest: body[...], left: breaksAfter))
    }

    /// A reader that goes away without reading on ends the transfer, as the real client's does.
    deinit {
        if !state.withLock({ $0.isOver }) { network.forgotten() }
    }

    func next() async throws -> [UInt8]? {
        let (piece, breaks) = state.withLock { state -> (ArraySlice<UInt8>, Bool) in
            if state.isOver { return ([], false) }
            let piece = SimulatedNetwork.piece(of: state.rest)
            if let left = state.left, left < piece.count { return ([], true) }
            state.left? -= piece.count
            state.rest = state.rest.dropFirst(piece.count)
            return (piece, false)
        }
        if breaks {
            await cancel()
            throw TransportError.incomplete(host: "simulated")
        }
        guard !piece.isEmpty else {
            await cancel()
            return nil
        }
        try await network.pass(piece.count)
        return Array(piece)
    }
    func cancel() async {
        let wasOpen = state.withLock { state in
            defer { state.isOver = true }
            return !state.isOver
        }
        if wasOpen { await network.ended() }
    }
    func setPriority(_ priority: LoadPriority) async {}
}
