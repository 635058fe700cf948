internal import CMicrohttpd
import EventLoop
import Glibc

/// libmicrohttpd without a thread, driven by the loop through its epoll descriptor, and the shape of its answers.
///
/// An answer's bytes are handed to libmicrohttpd when they would arrive at the client; until then its connection is
/// suspended. Loop thread only.
final class OriginCore {
    typealias RequestID = Int

    fileprivate final class Connection {
        let number: Int
        let link: Int
        var isFresh = true
        init(number: Int, link: Int) { (self.number, self.link) = (number, link) }
    }
    /// One request from its head to its last byte; libmicrohttpd holds a reference in its request context.
    fileprivate final class Request {
        let id: RequestID
        let connection: Connection
        let handle: OpaquePointer
        let core: OriginCore
        let answer: FileAnswer
        let sendsBody: Bool
        /// Bytes of head and body still to be put on the link, and those that have arrived.
        var pending: Int64
        var released: Int64 = 0
        var isSuspended = false
        /// Whether the head of the answer has arrived at the client.
        var isReady: Bool { released > 0 }
        init(
            id: RequestID, _ connection: Connection, _ handle: OpaquePointer, _ core: OriginCore, _ answer: FileAnswer,
            sendsBody: Bool
        ) {
            (self.id, self.connection, self.handle, self.core) = (id, connection, handle, core)
            (self.answer, self.sendsBody) = (answer, sendsBody)
            pending = NetworkShape.headBytes + (sendsBody ? Int64(answer.body.count) : 0)
        }
    }

    private let folder: String
    private var shape: NetworkShape
    private var link: ShapedLink
    private let loop: LoopThread
    private var daemon: OpaquePointer?
    private var watcher: DescriptorWatcher?
    private weak var server: OriginServer?
    private var timer: LoopTimer?
    private var connections: [OpaquePointer: Connection] = [:]
    private var active: [RequestID: Request] = [:]
    private var nextID = 0
    /// From here on nothing is suspended any more, and answers under way are cut.
    fileprivate var isStopping = false
    private(set) var requests: [OriginRequest] = []
    private(set) var connectionCount = 0
    private(set) var bytesSent: Int64 = 0

    init(folder: String, shape: NetworkShape, loop: LoopThread) {
        (self.folder, self.shape, self.loop) = (folder, shape, loop)
        link = ShapedLink(shape)
    }

    func listen(_ port: UInt16) throws(OriginError) -> Int {
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_port = port.bigEndian
        address.sin_addr.s_addr = UInt32(0x7f00_0001).bigEndian
        let me = Unmanaged.passUnretained(self).toOpaque()
        daemon = withUnsafePointer(to: &address) { address in
            address.withMemoryRebound(to: sockaddr.self, capacity: 1) { address in
                ff_mhd_start(
                    port, address,
                    { context, connection, path, method, _, _, _, request in
                        let core = Unmanaged<OriginCore>.fromOpaque(context!).takeUnretainedValue()
                        return core.handle(connection!, String(cString: path!), String(cString: method!), request!)
                    }, me,
                    { context, connection, _, what in
                        let core = Unmanaged<OriginCore>.fromOpaque(context!).takeUnretainedValue()
                        core.connectionChanged(connection!, isOpen: what == ff_mhd_started)
                    }, me,
                    { _, _, request, _ in
                        guard let held = request?.pointee else { return }
                        request?.pointee = nil
                        Unmanaged<Request>.fromOpaque(held).takeRetainedValue().ended()
                    }, me)
            }
        }
        guard let daemon else { throw OriginError(port: port) }
        return Int(ff_mhd_port(daemon))
    }

    func attach(_ server: OriginServer) throws {
        self.server = server
        guard let daemon else { return }
        watcher = try DescriptorWatcher(ff_mhd_epoll_descriptor(daemon), on: loop) { [weak self] _ in self?.run() }
        watcher?.watch(.readable)
    }

    func setShape(_ shape: NetworkShape) {
        self.shape = shape
        link = ShapedLink(shape)
        connections = connections.mapValues { Connection(number: $0.number, link: link.connect()) }
    }

    func stop() {
        watcher?.close()
        watcher = nil
        if let timer { loop.cancel(timer) }
        // libmicrohttpd refuses to stop over a suspended connection.
        isStopping = true
        for request in active.values { resume(request) }
        if let daemon {
            self.daemon = nil
            MHD_run(daemon)
            MHD_stop_daemon(daemon)
        }
        active.removeAll()
        connections.removeAll()
    }

    func run() {
        guard let daemon else { return }
        MHD_run(daemon)
        if let timer { loop.cancel(timer) }
        timer = nil
        var milliseconds: UInt64 = 0
        guard MHD_get_timeout(daemon, &milliseconds) == .YES else { return }
        after(.milliseconds(Int64(milliseconds))) { $0.run() }.map { timer = $0 }
    }

    @discardableResult
    private func after(_ delay: Duration, _ body: @escaping @Sendable (isolated OriginServer) -> Void) -> LoopTimer? {
        at(loop.now.advanced(by: delay), body)
    }

    @discardableResult
    private func at(_ due: LoopInstant, _ body: @escaping @Sendable (isolated OriginServer) -> Void) -> LoopTimer? {
        guard let server else { return nil }
        return loop.schedule(at: due) { [weak server] in server?.assumeIsolated { body($0) } }
    }

    // MARK: libmicrohttpd asks

    private func connectionChanged(_ handle: OpaquePointer, isOpen: Bool) {
        if isOpen {
            connectionCount += 1
            connections[handle] = Connection(number: connectionCount, link: link.connect())
        } else if let connection = connections.removeValue(forKey: handle) {
            link.disconnect(connection.link)
        }
    }

    private func handle(
        _ handle: OpaquePointer, _ path: String, _ method: String,
        _ context: UnsafeMutablePointer<UnsafeMutableRawPointer?>
    ) -> MHD_Result {
        if let held = context.pointee {
            let request = Unmanaged<Request>.fromOpaque(held).takeUnretainedValue()
            if request.isReady { return queue(request) }
            if isStopping { return .NO }
            receive(request)
            return .YES
        }
        guard let connection = connections[handle] else { return .NO }
        func field(_ name: String) -> String? {
            MHD_lookup_connection_value(handle, ff_mhd_header_kind, name).map { String(cString: $0) }
        }
        let isKnown = method == "GET" || method == "HEAD"
        let answer =
            isKnown
            ? FileAnswer(folder: folder, path: path, range: field("Range"), ifRange: field("If-Range"))
            : FileAnswer(status: 405, text: "GET and HEAD only\n")
        nextID += 1
        let request = Request(id: nextID, connection, handle, self, answer, sendsBody: method != "HEAD")
        requests.append(
            OriginRequest(
                method: method, path: path, range: field("Range"), connection: connection.number,
                status: Int(answer.status)))
        active[request.id] = request
        // The first call tells of the head only; an answer queued now would close the connection after it.
        context.pointee = Unmanaged.passRetained(request).toOpaque()
        return .YES
    }

    /// The request is whole: it is on its way to the server.
    private func receive(_ request: Request) {
        let connection = request.connection
        // A new connection has cost the client one round trip before it could ask; the request costs half of one.
        let delay = shape.roundTrip / 2 + (connection.isFresh ? shape.roundTrip : .zero)
        connection.isFresh = false
        suspend(request)
        let id = request.id
        after(delay) { $0.send(id) }
    }

    private func queue(_ request: Request) -> MHD_Result {
        let length = UInt64(request.answer.body.count)
        let response = MHD_create_response_from_callback(
            length, 64 * 1024,
            { context, position, buffer, room in
                Unmanaged<Request>.fromOpaque(context!).takeUnretainedValue().read(at: Int64(position), buffer!, room)
            }, Unmanaged.passRetained(request).toOpaque(),
            { Unmanaged<Request>.fromOpaque($0!).release() })
        guard let response else { return .NO }
        for (name, value) in request.answer.fields { MHD_add_response_header(response, name, value) }
        let result = MHD_queue_response(request.handle, request.answer.status, response)
        MHD_destroy_response(response)
        return result
    }

    // MARK: The shape

    func send(_ id: RequestID) {
        guard let request = active[id] else { return }
        while request.pending > 0 {
            switch link.admit(request.connection.link, pending: request.pending, at: loop.now) {
            case .sent(let segment):
                request.pending -= segment.bytes
                let connection = request.connection.link
                at(segment.arrival) { $0.arrived(id, segment.bytes) }
                at(segment.acknowledged) { $0.acknowledged(connection, segment.bytes, id) }
            case .waitsForAcknowledgement: return
            case .waitsUntil(let time):
                at(time) { $0.send(id) }
                return
            }
        }
    }

    func arrived(_ id: RequestID, _ bytes: Int64) {
        guard let request = active[id] else { return }
        request.released += bytes
        resume(request)
        run()
    }

    func acknowledged(_ connection: Int, _ bytes: Int64, _ id: RequestID) {
        link.acknowledge(connection, bytes)
        send(id)
    }

    fileprivate func suspend(_ request: Request) {
        guard !request.isSuspended, !isStopping else { return }
        request.isSuspended = true
        MHD_suspend_connection(request.handle)
    }

    private func resume(_ request: Request) {
        guard request.isSuspended else { return }
        request.isSuspended = false
        MHD_resume_connection(request.handle)
    }

    fileprivate func ended(_ request: Request) { active[request.id] = nil }
    fileprivate func count(_ bytes: Int64) { bytesSent += bytes }
}

extension OriginCore.Request {
    fileprivate func ended() { core.ended(self) }

    /// Gives libmicrohttpd the bytes that have arrived, or suspends the connection until more have.
    fileprivate func read(at position: Int64, _ buffer: UnsafeMutablePointer<CChar>, _ room: Int) -> Int {
        let count = min(Int64(room), released - NetworkShape.headBytes - position)
        guard count > 0 else {
            core.suspend(self)
            return core.isStopping ? ff_mhd_end_of_stream : 0
        }
        core.count(count)
        if let file = answer.file {
            let got = pread(file.raw, buffer, Int(count), off_t(answer.body.lowerBound + position))
            return got > 0 ? got : ff_mhd_end_of_stream
        }
        let text = Array(answer.text.utf8)[Int(position)..<Int(position + count)]
        UnsafeMutableRawBufferPointer(start: buffer, count: Int(count)).copyBytes(from: text)
        return Int(count)
    }
}
