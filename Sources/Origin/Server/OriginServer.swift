internal import CMicrohttpd
package import EventLoop
import Glibc

/// One request as the origin saw it.
package struct OriginRequest: Hashable, Sendable {
    package var method: String
    package var path: String
    package var range: String?
    /// Counts connections from 1.
    package var connection: Int
    package var status: Int
}

/// A loopback HTTP server for a folder, behind a shaped network. For demos, benchmarks and tests.
package actor OriginServer {
    nonisolated let loop: LoopThread
    package nonisolated var unownedExecutor: UnownedSerialExecutor { loop.asUnownedSerialExecutor() }
    /// `http://127.0.0.1:PORT`
    package nonisolated let baseURL: String
    let core: OriginCore

    /// Serves a folder until ``stop()``.
    ///
    /// - Parameter port: 0 takes a free one.
    /// - Throws: ``OriginError`` when the port is taken.
    package static func start(
        folder: String, shape: NetworkShape = NetworkShape(), on loop: LoopThread, port: UInt16 = 0
    ) async throws -> OriginServer {
        let starter = OriginStarter(loop: loop)
        return try await starter.start(folder: folder, shape: shape, port: port)
    }

    fileprivate init(core: sending OriginCore, loop: LoopThread, port: Int) {
        (self.loop, self.core) = (loop, core)
        baseURL = "http://127.0.0.1:\(port)"
    }

    fileprivate func attach() throws { try core.attach(self) }

    /// The requests so far, in the order of their arrival.
    package var requests: [OriginRequest] { core.requests }
    /// Connections that were made so far.
    package var connectionCount: Int { core.connectionCount }
    /// Bytes of bodies handed to clients.
    package var bytesSent: Int64 { core.bytesSent }
    /// Changes the network for connections made from now on.
    package func setShape(_ shape: NetworkShape) { core.setShape(shape) }
    /// Closes all connections.
    package func stop() { core.stop() }

    func run() { core.run() }
    func arrived(_ request: OriginCore.RequestID, _ bytes: Int64) { core.arrived(request, bytes) }
    func acknowledged(_ connection: Int, _ bytes: Int64, _ request: OriginCore.RequestID) {
        core.acknowledged(connection, bytes, request)
    }
    func send(_ request: OriginCore.RequestID) { core.send(request) }
}

/// Makes the server on its loop, where its descriptors belong.
private actor OriginStarter {
    nonisolated private let loop: LoopThread
    nonisolated var unownedExecutor: UnownedSerialExecutor { loop.asUnownedSerialExecutor() }
    init(loop: LoopThread) { self.loop = loop }

    func start(folder: String, shape: NetworkShape, port: UInt16) async throws -> OriginServer {
        let core = OriginCore(folder: folder, shape: shape, loop: loop)
        let port = try core.listen(port)
        let server = OriginServer(core: core, loop: loop, port: port)
        try await server.attach()
        return server
    }
}

/// The origin can't listen.
package struct OriginError: Error, Hashable, CustomStringConvertible {
    package let port: UInt16
    package var description: String {
        "the built-in origin can't listen on 127.0.0.1 port \(port); another one may be free"
    }
}
