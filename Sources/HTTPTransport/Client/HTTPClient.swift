internal import CLibcurl
package import EventLoop
package import FeedVocabulary

/// How a client behaves towards servers.
package struct HTTPClientConfiguration: Sendable {
    /// Sent with each request.
    package var userAgent = "FirstFrame/0.1"
    /// PEM file of the authorities to trust instead of the system's; TLS is always verified.
    package var certificateAuthorityFile: String?
    /// Time for name, connection and TLS together.
    package var connectTimeout: Duration = .seconds(10)
    /// Time without a byte, after which the server counts as stalled. Whole seconds, at least 1.
    package var stallTimeout: Duration = .seconds(15)
    package init() {}
}

/// HTTP on curl's multi-socket interface, driven by the loop. One thread, no callback ever calls back into libcurl.
package actor HTTPClient: Transport {
    nonisolated private let loop: LoopThread
    package nonisolated var unownedExecutor: UnownedSerialExecutor { loop.asUnownedSerialExecutor() }
    private let configuration: HTTPClientConfiguration
    private let multi: CurlMulti
    private var transfers: [Int: CurlTransfer] = [:]
    private let handles = LoginHandles()
    private var admission = TransferAdmission()
    private var nextID = 0
    /// What is known of an origin that was asked.
    private struct Use {
        /// When it was asked last.
        var last: LoopInstant
        /// The most transfers at one time, less those whose connections were given up.
        var connections = 0
        var roundTrip: Duration?
    }
    private var uses: [WebOrigin: Use] = [:]
    private var isStopped = false

    package init(loop: LoopThread, configuration: HTTPClientConfiguration = HTTPClientConfiguration()) {
        (self.loop, self.configuration) = (loop, configuration)
        multi = CurlMulti(loop: loop)
        multi.client = self
    }

    /// Transfers that exist, waiting ones included.
    package var transferCount: Int { transfers.count }

    // MARK: Requests

    package func start(_ request: HTTPRequest) async throws -> any HTTPExchange {
        try request.headers.validate()
        try request.credential?.fields.validate()
        var hop = request
        var origin = try origin(of: request.url)
        // Both stay with their origins; also on the way back from others.
        let trusted = request.headerOrigins ?? [origin]
        var (sendsHeaders, credential) = (true, request.credential)
        var visited: Set<String> = []
        for _ in 0...HTTPLimits.redirects {
            sendsHeaders = sendsHeaders && trusted.contains(origin)
            if credential?.origins.contains(origin) == false { credential = nil }
            hop.headers = sendsHeaders ? request.headers : request.headers.forwardedAcrossOrigins
            for field in credential?.fields.fields ?? [] { hop.headers.set(field.name, field.value) }
            hop.credential = credential
            let transfer = try add(hop, origin)
            let head = try await head(of: transfer.id)
            noteRoundTrip(head.timing, of: origin)
            guard [301, 302, 303, 307, 308].contains(head.status), let target = transfer.redirectURL else {
                return CurlExchange(id: transfer.id, head: head, client: self)
            }
            cancel(transfer.id)
            let next = try redirectOrigin(of: target)
            guard visited.insert(target).inserted else { throw TransportError.tooManyRedirects(host: next.host) }
            (hop.url, origin) = (target, next)
        }
        throw TransportError.tooManyRedirects(host: origin.host)
    }

    /// A connection that was used this long ago is still open: servers keep idle ones for 60 s and longer.
    private static let connectionLife = Duration.seconds(45)

    /// Connections that a start may use at once: one for the head of a file, one for an index at its end.
    private static let warmConnections = 2

    package func preconnect(_ origin: WebOrigin) {
        forgetOldUses()
        // libcurl keeps no connection that carried no request: so ask for the head of what every server has.
        for _ in min(Self.warmConnections, uses[origin]?.connections ?? 0)..<Self.warmConnections {
            var request = HTTPRequest(url: "\(origin)/", priority: .preload)
            request.isHead = true
            guard let transfer = try? add(request, origin).id else { return }
            loop.spawn { await self.endPreconnect(transfer, origin) }
        }
    }

    private func endPreconnect(_ transfer: Int, _ origin: WebOrigin) async {
        if let head = try? await head(of: transfer) { noteRoundTrip(head.timing, of: origin) }
        cancel(transfer)
    }

    package nonisolated func path(to origin: WebOrigin) -> ServerPath? {
        assumeIsolated { client in
            guard let use = client.uses[origin], client.isRecent(use), let roundTrip = use.roundTrip else { return nil }
            return ServerPath(roundTrip: roundTrip, connections: use.connections)
        }
    }

    private func origin(of url: String) throws(TransportError) -> WebOrigin {
        do { return try WebOrigin(url: url) } catch { throw .invalidURL(error) }
    }

    private func redirectOrigin(of url: String) throws(TransportError) -> WebOrigin {
        do { return try WebOrigin(url: url) } catch {
            if case .unsupportedScheme(let scheme) = error { throw .forbiddenRedirect(scheme: scheme) }
            throw .invalidURL(error)
        }
    }

    private func add(_ request: HTTPRequest, _ origin: WebOrigin) throws(TransportError) -> CurlTransfer {
        guard !isStopped else { throw .stopped }
        noteUse(of: origin)
        nextID += 1
        let transfer = CurlTransfer(
            id: nextID, request: request, origin: origin, configuration: configuration, handles: handles)
        transfers[transfer.id] = transfer
        admission.enqueue(transfer.id, origin: origin, priority: request.priority)
        admit()
        return transfer
    }

    private func noteUse(of origin: WebOrigin) {
        if uses.count >= 256 { forgetOldUses() }
        let running = transfers.values.count { $0.origin == origin } + 1
        var use = uses[origin] ?? Use(last: loop.now)
        (use.last, use.connections) = (loop.now, max(running, use.connections))
        uses[origin] = use
    }
    private func isRecent(_ use: Use) -> Bool { use.last.duration(to: loop.now) < Self.connectionLife }
    private func forgetOldUses() { uses = uses.filter { isRecent($0.value) } }

    /// What an answer took tells of the way; one that waited in the network's queue tells less.
    private func noteRoundTrip(_ timing: HTTPTiming, of origin: WebOrigin) {
        let taken = timing.firstByte - timing.connect
        let known = uses[origin]?.roundTrip ?? taken
        uses[origin]?.roundTrip = taken < known ? taken : known + (taken - known) / 8
    }
    private func noteClosed(_ origin: WebOrigin) {
        guard let use = uses[origin] else { return }
        uses[origin]?.connections = max(0, use.connections - 1)
    }

    private func admit() {
        while let id = admission.admitNext() {
            if let transfer = transfers[id] { multi.add(transfer) }
        }
    }

    private func head(of id: Int) async throws -> HTTPResponseHead {
        try await withTaskCancellationHandler {
            try await withCheckedThrowingContinuation { waiter in
                guard !Task.isCancelled, let transfer = transfers[id] else {
                    cancel(id)
                    return waiter.resume(throwing: CancellationError())
                }
                transfer.waitForHead(waiter)
                if transfer.deliver() { goOn([transfer]) }
            }
        } onCancel: {
            forget(id)
        }
    }

    fileprivate func next(of id: Int) async throws -> [UInt8]? {
        try await withTaskCancellationHandler {
            try await withCheckedThrowingContinuation { waiter in
                guard !Task.isCancelled, let transfer = transfers[id] else {
                    cancel(id)
                    return waiter.resume(throwing: isStopped ? TransportError.stopped : CancellationError())
                }
                transfer.waitForBody(waiter)
                if transfer.deliver() { goOn([transfer]) }
                if transfer.isOver { transfers[id] = nil }
            }
        } onCancel: {
            forget(id)
        }
    }

    /// Ends pauses that their readers have made unnecessary, after those readers have had their turn: what they got is
    /// then written while more comes. libcurl 7.88 goes on only at the next event, so make one.
    private func goOn(_ paused: [CurlTransfer]) {
        let ids = paused.map(\.id)
        loop.post {
            self.assumeIsolated { client in
                guard !client.isStopped else { return }
                for id in ids { client.transfers[id]?.unpause() }
                client.multi.act(on: nil, 0)
                client.settle()
            }
        }
    }

    fileprivate func cancel(_ id: Int) {
        guard let transfer = transfers[id] else { return }
        if admission.isWaiting(id) {
            _ = transfer.abandon()
            return remove(transfer)
        }
        guard !transfer.abandon() else { return }
        if !transfer.isEnded { noteClosed(transfer.origin) }
        remove(transfer)
    }

    /// The reader went away without reading to the end.
    fileprivate nonisolated func forget(_ id: Int) { loop.post { self.assumeIsolated { $0.cancel(id) } } }

    private func remove(_ transfer: CurlTransfer) {
        transfers[transfer.id] = nil
        multi.remove(transfer)
        admission.finish(transfer.id)
        admit()
    }

    fileprivate func setPriority(_ id: Int, _ priority: LoadPriority) {
        transfers[id]?.priority = priority
        admission.setPriority(id, priority)
        admit()
    }

    // MARK: From the loop

    /// A watched socket has events (`bits` of `CURL_CSELECT_…`), or, without a socket, libcurl's timer is due.
    func socketReady(_ socket: curl_socket_t?, _ bits: Int32) {
        multi.act(on: socket, bits)
        settle()
    }

    /// After libcurl did something: hand over what came, and forget what is over and read.
    func settle() {
        for (easy, result) in multi.finished() {
            guard let transfer = CurlTransfer.of(easy) else { continue }
            transfer.finish(result)
            if result != CURLE_OK { noteClosed(transfer.origin) }
            multi.remove(transfer)
            admission.finish(transfer.id)
        }
        var paused: [CurlTransfer] = []
        for transfer in transfers.values {
            if transfer.deliver() { paused.append(transfer) }
            if transfer.isOver { transfers[transfer.id] = nil }
        }
        if !paused.isEmpty { goOn(paused) }
        admit()
    }

    /// Ends all transfers and closes all connections. Waiting readers get ``TransportError/stopped``.
    package func shutdown() {
        guard !isStopped else { return }
        isStopped = true
        for transfer in transfers.values {
            transfer.end(with: .stopped)
            _ = transfer.deliver()
            multi.remove(transfer)
        }
        transfers.removeAll()
        multi.close()
    }
}

/// The reader's end of one transfer.
private final class CurlExchange: HTTPExchange {
    private let id: Int
    let head: HTTPResponseHead
    private let client: HTTPClient

    init(id: Int, head: HTTPResponseHead, client: HTTPClient) { (self.id, self.head, self.client) = (id, head, client) }
    deinit { client.forget(id) }
    func next() async throws -> [UInt8]? { try await client.next(of: id) }
    func cancel() async { await client.cancel(id) }
    func setPriority(_ priority: LoadPriority) async { await client.setPriority(id, priority) }
}
