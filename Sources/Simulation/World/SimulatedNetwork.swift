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
        /// What takes the place of it when a fault says that it is replaced.
        package var successors: [(bytes: [UInt8], validator: String?)] = []
        package init(bytes: [UInt8], validator: String? = nil) { (self.bytes, self.validator) = (bytes, validator) }
    }
    /// Bytes of one piece.
    private static let pieceBytes = 16 * 1024
    /// Time without a byte after which the client gives up, as the real one does.
    private static let stallTimeout = Duration.seconds(15)
    private static let connectTimeout = Duration.seconds(10)
    /// A lost piece is sent again after this long.
    private static let retransmission = Duration.milliseconds(250)
    private let roundTrip: Duration
    private let bytesPerSecond: Int
    private var resources: [String: Resource] = [:]
    private var linkFreeAt = LoopInstant(offset: .zero)
    private var isDown = false
    private var silent: Set<String> = []
    private var weather = NetworkWeather()
    private var random = SplitMix64(seed: 0)
    package private(set) var requests: [HTTPRequest] = []
    /// Exchanges that have been neither read to the end nor cancelled.
    package private(set) var openCount = 0
    /// Requests that wait for their answer.
    package private(set) var waitingCount = 0
    /// Faults done so far.
    package private(set) var faultCounts: [NetworkFault: Int] = [:]

    /// Told of each request when it is answered.
    private var observer: (@Sendable (String) -> Void)?

    package init(loop: SimulatedLoop, roundTrip: Duration, bytesPerSecond: Int) {
        (self.loop, self.roundTrip, self.bytesPerSecond) = (loop, roundTrip, bytesPerSecond)
    }

    package func serve(_ url: String, _ resource: Resource) { resources[url] = resource }
    package func observe(_ observer: (@Sendable (String) -> Void)?) { self.observer = observer }
    /// Requests of a URL get no answer until this ends; then they get one.
    package func setSilent(_ url: String, _ isSilent: Bool) {
        if isSilent { silent.insert(url) } else { silent.remove(url) }
    }
    package func setDown(_ isDown: Bool) { self.isDown = isDown }
    package func setWeather(_ weather: NetworkWeather, seed: UInt64) {
        (self.weather, random) = (weather, SplitMix64(seed: seed))
    }
    /// Bytes that have been asked for, by URL.
    package func requestedRanges(of url: String) -> [ByteRange?] { requests.filter { $0.url == url }.map(\.range) }

    /// Connections that were asked for before their first request.
    package private(set) var preconnections: [WebOrigin] = []
    package func preconnect(_ origin: WebOrigin) { preconnections.append(origin) }

    package nonisolated func path(to origin: WebOrigin) -> ServerPath? {
        assumeIsolated { network in
            guard network.answered.contains(origin) else { return nil }
            return ServerPath(roundTrip: network.roundTrip, connections: 2)
        }
    }
    /// Servers that have answered.
    private var answered: Set<WebOrigin> = []

    package func start(_ request: HTTPRequest) async throws -> any HTTPExchange {
        requests.append(request)
        waitingCount += 1
        defer { waitingCount -= 1 }
        let fault = drawFault()
        try await loop.sleep(for: roundTrip + drawJitter())
        observer?(
            "GET \(request.url) \(request.range.map { "\($0)" } ?? "whole") \(request.headers["If-Range"] ?? "")"
                + (isDown ? ", no network" : fault.map { ", \($0)" } ?? ""))
        guard !isDown else { throw failure(7, "connection refused") }
        if let origin = try? WebOrigin(url: request.url) { answered.insert(origin) }
        try await waitWhileSilent(request.url)
        if let fault { faultCounts[fault, default: 0] += 1 }
        switch fault {
        case .refused: throw failure(7, "connection refused")
        case .unresolved: throw failure(6, "no such host")
        case .redirectLoop: throw TransportError.tooManyRedirects(host: "simulated")
        case .connectTimeout:
            try await loop.sleep(for: Self.connectTimeout)
            throw TransportError.timedOut(host: "simulated")
        case .some, nil: break
        }
        guard var resource = resources[request.url] else { return page(404, request) }
        if resource.failures > 0 {
            resource.failures -= 1
            resources[request.url] = resource
            return page(resource.failureStatus, request)
        }
        if fault == .replaced, !resource.successors.isEmpty {
            (resource.bytes, resource.validator) = resource.successors.removeFirst()
            resources[request.url] = resource
        }
        return answer(request, resource, fault)
    }

    private func waitWhileSilent(_ url: String) async throws {
        let limit = loop.now.advanced(by: Self.stallTimeout)
        while silent.contains(url) {
            guard loop.now < limit else { throw TransportError.timedOut(host: "simulated") }
            try await loop.sleep(for: .milliseconds(10))
        }
    }

    // MARK: Chance

    private func drawFault() -> NetworkFault? {
        guard weather.faultRate > 0, chance(weather.faultRate) else { return nil }
        return weather.faults.randomElement(using: &random)
    }
    private func drawJitter() -> Duration {
        let most = Int(weather.jitter.milliseconds)
        return most > 0 ? .milliseconds(Int.random(in: 0...most, using: &random)) : .zero
    }
    private func chance(_ rate: Double) -> Bool { Double.random(in: 0..<1, using: &random) < rate }

    // MARK: Answers

    private func failure(_ code: UInt32, _ reason: String) -> TransportError {
        .failed(code: code, reason: reason, host: "simulated")
    }

    /// An answer whose body is no media.
    private func page(
        _ status: Int, _ request: HTTPRequest, _ fields: [(String, String)] = [], type: String = "text/plain",
        body: String = "no media here, whatever was asked for"
    ) -> any HTTPExchange {
        let fields = fields + [("Content-Type", type), ("Content-Length", "\(body.utf8.count)")]
        return exchange(request, status, fields, Array(body.utf8))
    }

    private func answer(_ request: HTTPRequest, _ resource: Resource, _ fault: NetworkFault?) -> any HTTPExchange {
        switch fault {
        case .notFound: return page(404, request)
        case .gone: return page(410, request)
        case .forbidden: return page(403, request)
        case .unauthorized: return page(401, request, [("WWW-Authenticate", "Basic realm=\"music\"")])
        case .serverError: return page(500, request)
        case .unavailable: return page(503, request, [("Retry-After", "1")])
        case .tooMany: return page(429, request)
        case .tooManyForLong: return page(429, request, [("Retry-After", "3600")])
        case .noContent: return exchange(request, 204, [], [])
        case .loginPage: return page(200, request, type: "text/html", body: "<html>Sign in</html>")
        case .emptyFile:
            return exchange(request, 200, [("Content-Type", resource.contentType), ("Content-Length", "0")], [])
        case .unsatisfiable: return page(416, request)
        case .some, nil: return media(request, resource, fault)
        }
    }

    private func media(_ request: HTTPRequest, _ resource: Resource, _ fault: NetworkFault?) -> any HTTPExchange {
        let length = Int64(resource.bytes.count)
        var fields: [(String, String)] = [("Content-Type", resource.contentType)]
        if let validator = resource.validator, fault != .withoutValidator {
            fields.append(("ETag", fault == .weakValidator ? "W/" + validator : validator))
        }
        var content = resource.bytes
        if fault == .encoded {
            fields.append(("Content-Encoding", "gzip"))
            content = content.map { $0 ^ 0x5a }  // what it looks like to who takes it as it is
        }
        let isCurrent = request.headers["If-Range"].map { $0 == resource.validator } ?? true
        let isWhole = fault == .wholeInstead || fault == .wholeWithoutLength
        guard let range = request.range, isCurrent, resource.supportsRanges, !isWhole else {
            if fault != .wholeWithoutLength { fields.append(("Content-Length", "\(length)")) }
            return exchange(request, 200, fields, content, trouble(fault, resource, length))
        }
        guard range.lowerBound < length else {
            return exchange(request, 416, [("Content-Range", "bytes */\(length)")], [])
        }
        let part = part(range.clamped(to: 0..<length), length, fault)
        let body = Array(content[Int(part.lowerBound)..<Int(part.upperBound)])
        let total =
            switch fault {
            case .wrongTotal: "\(length + 7)"
            case .withoutTotal: "*"
            case .some, nil: "\(length)"
            }
        let contentRange = "bytes \(part.lowerBound)-\(part.upperBound - 1)/\(total)"
        if fault == .multipart { return multipart(request, fields, body, contentRange) }
        fields.append(("Content-Range", fault == .badContentRange ? "bytes 9-3/2" : contentRange))
        let declared = fault == .wrongLength ? part.length + 3 : part.length
        fields.append(("Content-Length", "\(declared)"))
        return exchange(request, 206, fields, body, trouble(fault, resource, part.length))
    }

    /// The range that the server answers with.
    private func part(_ range: ByteRange, _ length: Int64, _ fault: NetworkFault?) -> ByteRange {
        switch fault {
        case .earlierRange: max(0, range.lowerBound - 1000)..<range.upperBound
        case .shorterRange: range.lowerBound..<range.lowerBound + max(1, range.length / 3)
        case .otherRange where range.upperBound < length: range.upperBound..<length
        case .some, nil: range
        }
    }

    private func multipart(
        _ request: HTTPRequest, _ fields: [(String, String)], _ body: [UInt8], _ contentRange: String
    ) -> any HTTPExchange {
        let type = fields[0].1
        let head = "--simulated\r\nContent-Type: \(type)\r\nContent-Range: \(contentRange)\r\n\r\n"
        let whole = Array(head.utf8) + body + Array("\r\n--simulated--\r\n".utf8)
        let outer =
            fields.dropFirst() + [
                ("Content-Type", "multipart/byteranges; boundary=simulated"), ("Content-Length", "\(whole.count)"),
            ]
        return exchange(request, 206, Array(outer), whole)
    }

    /// What goes wrong in the body, and after how many bytes.
    private func trouble(_ fault: NetworkFault?, _ resource: Resource, _ length: Int64) -> BodyTrouble? {
        let place = { (random: inout SplitMix64) in Int(Int64.random(in: 0..<max(1, length), using: &random)) }
        return switch fault {
        case .breaks: BodyTrouble(kind: .breaks, after: place(&random))
        case .resets: BodyTrouble(kind: .resets, after: place(&random))
        case .stalls: BodyTrouble(kind: .stalls, after: place(&random))
        case .some, nil: resource.breaksAfter.map { BodyTrouble(kind: .breaks, after: $0) }
        }
    }

    private func exchange(
        _ request: HTTPRequest, _ status: Int, _ fields: [(String, String)], _ body: [UInt8],
        _ trouble: BodyTrouble? = nil
    ) -> any HTTPExchange {
        openCount += 1
        if trouble != nil { resources[request.url]?.breaksAfter = nil }
        let head = HTTPResponseHead(status: status, headers: HTTPHeaders(fields), url: request.url)
        return SimulatedExchange(head: head, body: body, trouble: trouble, network: self)
    }

    // MARK: Bodies

    fileprivate struct BodyTrouble: Sendable {
        enum Kind { case breaks, resets, stalls }
        let kind: Kind
        var after: Int
    }

    /// Waits until `count` bytes have passed the link.
    fileprivate func pass(_ count: Int) async throws {
        linkFreeAt = max(linkFreeAt, loop.now).advanced(by: .microseconds(count * 1_000_000 / bytesPerSecond))
        if weather.lossRate > 0, chance(weather.lossRate) {
            try await loop.sleep(until: linkFreeAt.advanced(by: Self.retransmission))
        } else {
            try await loop.sleep(until: linkFreeAt)
        }
        if isDown { throw failure(56, "connection reset") }
    }
    fileprivate func suffer(_ kind: BodyTrouble.Kind) async throws {
        switch kind {
        case .breaks: throw TransportError.incomplete(host: "simulated")
        case .resets: throw failure(56, "connection reset")
        case .stalls:
            try await loop.sleep(for: Self.stallTimeout)
            throw TransportError.timedOut(host: "simulated")
        }
    }
    fileprivate func ended() { openCount -= 1 }
    fileprivate nonisolated func forgotten() { loop.post { self.assumeIsolated { $0.ended() } } }
    fileprivate static func piece(of rest: ArraySlice<UInt8>) -> ArraySlice<UInt8> { rest.prefix(pieceBytes) }
}

private final class SimulatedExchange: HTTPExchange {
    let head: HTTPResponseHead
    private struct State {
        var rest: ArraySlice<UInt8>
        var trouble: SimulatedNetwork.BodyTrouble?
        var isOver = false
    }
    private let state: Lock<State>
    private let network: SimulatedNetwork

    init(
        head: HTTPResponseHead, body: [UInt8], trouble: SimulatedNetwork.BodyTrouble?, network: SimulatedNetwork
    ) {
        (self.head, self.network) = (head, network)
        state = Lock(State(rest: body[...], trouble: trouble))
    }

    /// A reader that goes away without reading on ends the transfer, as the real client's does.
    deinit {
        if !state.withLock({ $0.isOver }) { network.forgotten() }
    }

    func next() async throws -> [UInt8]? {
        let (piece, trouble) = state.withLock { state -> (ArraySlice<UInt8>, SimulatedNetwork.BodyTrouble?) in
            if state.isOver { return ([], nil) }
            let piece = SimulatedNetwork.piece(of: state.rest)
            if let trouble = state.trouble, trouble.after < piece.count || piece.isEmpty { return ([], trouble) }
            state.trouble?.after -= piece.count
            state.rest = state.rest.dropFirst(piece.count)
            return (piece, nil)
        }
        do {
            if let trouble { try await network.suffer(trouble.kind) }
            guard !piece.isEmpty else {
                await cancel()
                return nil
            }
            try await network.pass(piece.count)
        } catch {
            await cancel()
            throw error
        }
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
