import Foundation

/// A scripted TCP server for what no proper server sends. Each connection has a thread; each request is recorded.
package final class RawResponder: @unchecked Sendable {
    // @unchecked: `state` is guarded by `lock`; the rest never changes.
    package struct Request: Sendable {
        package let method, target: String
        /// Lower-case names.
        package let headers: [String: String]
        /// Counts from 0 over all requests.
        package let number: Int
        package let connection: Int
        package let arrival: ContinuousClock.Instant
        /// First and last byte of a `Range: bytes=a-b`; the last is `nil` for an open end.
        package var range: (first: Int, last: Int?)? {
            guard let text = headers["range"], text.hasPrefix("bytes=") else { return nil }
            let parts = text.dropFirst(6).split(separator: "-", omittingEmptySubsequences: false)
            guard parts.count == 2, let first = Int(parts[0]) else { return nil }
            return (first, Int(parts[1]))
        }
    }
    package enum Action: Sendable {
        case send([UInt8])
        /// Ends the connection as a proper server does.
        case close
        /// Ends it with a reset.
        case reset
        /// Sends nothing more until the client goes away, or the server is stopped.
        case stall
        case wait(seconds: Double)
        /// Bytes of a pattern, up to this many, until the client goes away; for endless bodies.
        case flood(Int)
    }

    private struct State {
        var requests: [Request] = []
        var connections: Set<Int32> = []
        var connectionCount = 0
        var mostConnections = 0
        var sentBytes = 0
        var isStopped = false
    }
    private let listener: Int32
    package let port: Int
    private let lock = NSLock()
    private var state = State()
    private let handler: @Sendable (Request) -> [Action]

    /// - Parameter handler: What to do about a request, on a thread of its connection. Without ``Action/close`` or
    ///   ``Action/reset`` the connection waits for the next request.
    package init(_ handler: @escaping @Sendable (Request) -> [Action]) throws {
        self.handler = handler
        // Not for the children that exit tests start: they have limits to test.
        let listener = socket(AF_INET, Int32(SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue), 0)
        self.listener = listener
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_addr.s_addr = UInt32(0x7f00_0001).bigEndian
        var length = socklen_t(MemoryLayout<sockaddr_in>.size)
        let bound = withUnsafeMutablePointer(to: &address) { pointer in
            pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { address in
                bind(listener, address, length) == 0 && getsockname(listener, address, &length) == 0
                    && listen(listener, 512) == 0
            }
        }
        guard bound else { throw POSIXError(.EADDRINUSE) }
        port = Int(UInt16(bigEndian: address.sin_port))
        Thread.detachNewThread { [self] in accept() }
    }

    package var baseURL: String { "http://127.0.0.1:\(port)" }
    package var requests: [Request] { lock.withLock { state.requests } }
    package var mostConnections: Int { lock.withLock { state.mostConnections } }
    package var openConnections: Int { lock.withLock { state.connections.count } }
    package var sentBytes: Int { lock.withLock { state.sentBytes } }

    package func stop() {
        lock.withLock {
            // Once: the listener's thread closes it then, and another socket of the process may have its number.
            guard !state.isStopped else { return }
            state.isStopped = true
            shutdown(listener, Int32(SHUT_RDWR))
            // Under the lock: a connection leaves the set before it is closed.
            for connection in state.connections { shutdown(connection, Int32(SHUT_RDWR)) }
        }
    }
    deinit { stop() }

    private func accept() {
        while true {
            let connection = Glibc.accept(listener, nil, nil)
            if connection >= 0 { _ = fcntl(connection, F_SETFD, FD_CLOEXEC) }
            guard connection >= 0 else { break }
            let number = lock.withLock { () -> Int? in
                guard !state.isStopped else { return nil }
                state.connections.insert(connection)
                state.connectionCount += 1
                state.mostConnections = max(state.mostConnections, state.connections.count)
                return state.connectionCount
            }
            guard let number else {
                close(connection)
                continue
            }
            Thread.detachNewThread { [self] in
                serve(connection, number)
                lock.withLock { _ = state.connections.remove(connection) }
                close(connection)
            }
        }
        close(listener)
    }

    private func serve(_ connection: Int32, _ number: Int) {
        var pending: [UInt8] = []
        while let request = read(connection, &pending, number) {
            for action in handler(request) {
                switch action {
                case .send(let bytes): guard send(connection, bytes) else { return }
                case .close: return
                case .reset:
                    var linger = linger(l_onoff: 1, l_linger: 0)
                    setsockopt(
                        connection, SOL_SOCKET, SO_LINGER, &linger, socklen_t(MemoryLayout.size(ofValue: linger)))
                    return
                case .stall:
                    var byte: UInt8 = 0
                    while recv(connection, &byte, 1, 0) > 0 {}
                    return
                case .wait(let seconds): Thread.sleep(forTimeInterval: seconds)
                case .flood(let count):
                    var sent = 0
                    while sent < count {
                        let piece = Pattern.bytes(sent..<min(count, sent + 65_536))
                        guard send(connection, piece) else { return }
                        sent += piece.count
                    }
                }
            }
        }
    }

    private func send(_ connection: Int32, _ bytes: [UInt8]) -> Bool {
        var rest = bytes[...]
        while !rest.isEmpty {
            let count = rest.withUnsafeBytes { Glibc.send(connection, $0.baseAddress, $0.count, Int32(MSG_NOSIGNAL)) }
            guard count > 0 else { return false }
            lock.withLock { state.sentBytes += count }
            rest = rest.dropFirst(count)
        }
        return true
    }

    private func read(_ connection: Int32, _ pending: inout [UInt8], _ number: Int) -> Request? {
        let blank = Array("\r\n\r\n".utf8)
        while true {
            if let end = pending.indices.dropLast(3).first(where: { Array(pending[$0..<$0 + 4]) == blank }) {
                let lines = String(decoding: pending[..<end], as: UTF8.self).components(separatedBy: "\r\n")
                pending.removeFirst(end + 4)
                let words = lines[0].split(separator: " ")
                guard words.count == 3 else { return nil }
                var headers: [String: String] = [:]
                for line in lines.dropFirst() {
                    let sides = line.split(separator: ":", maxSplits: 1, omittingEmptySubsequences: false)
                    headers[sides[0].lowercased()] =
                        sides.count > 1 ? sides[1].trimmingCharacters(in: .whitespaces) : ""
                }
                return lock.withLock {
                    let request = Request(
                        method: String(words[0]), target: String(words[1]), headers: headers,
                        number: state.requests.count, connection: number, arrival: .now)
                    state.requests.append(request)
                    return request
                }
            }
            var buffer = [UInt8](repeating: 0, count: 16_384)
            let count = recv(connection, &buffer, buffer.count, 0)
            guard count > 0 else { return nil }
            pending += buffer[..<count]
        }
    }
}

extension RawResponder.Action {
    /// Head and body of an answer; `fields` are sent as they are.
    package static func answer(_ status: String, _ fields: [String] = [], _ body: [UInt8] = []) -> Self {
        .send(Array(("HTTP/1.1 \(status)\r\n" + fields.map { $0 + "\r\n" }.joined() + "\r\n").utf8) + body)
    }
    /// The same with a `Content-Length`.
    package static func whole(_ status: String, _ fields: [String] = [], _ body: [UInt8] = []) -> Self {
        .answer(status, ["Content-Length: \(body.count)"] + fields, body)
    }
    /// What a proper server answers to a request for `bytes`.
    package static func file(
        _ bytes: [UInt8], _ request: RawResponder.Request, tag: String? = "\"1\"", type: String = "video/mp4"
    ) -> Self {
        let fields = ["Content-Type: \(type)"] + (tag.map { ["ETag: \($0)"] } ?? [])
        let isCurrent = request.headers["if-range"].map { $0 == tag } ?? true
        guard let range = request.range, isCurrent else { return .whole("200 OK", fields, bytes) }
        guard range.first < bytes.count else {
            return .whole("416 Range Not Satisfiable", ["Content-Range: bytes */\(bytes.count)"], Array("<html>".utf8))
        }
        let last = min(range.last ?? bytes.count - 1, bytes.count - 1)
        return .whole(
            "206 Partial Content", fields + ["Content-Range: bytes \(range.first)-\(last)/\(bytes.count)"],
            Array(bytes[range.first...last]))
    }
}

/// Bytes that differ at every offset near by, so that a shifted or mixed answer is seen.
package enum Pattern {
    package static func byte(_ offset: Int, version: Int = 0) -> UInt8 {
        var value = UInt64(truncatingIfNeeded: offset / 4 + version &* 0x9e37_79b9) &* 0xbf58_476d_1ce4_e5b9
        value ^= value >> 31
        return UInt8(truncatingIfNeeded: value >> UInt64(offset % 4 * 8))
    }
    package static func bytes(_ range: Range<Int>, version: Int = 0) -> [UInt8] {
        range.map { byte($0, version: version) }
    }
    package static func bytes(_ count: Int, version: Int = 0) -> [UInt8] { bytes(0..<count, version: version) }
}

/// A folder that goes away with its owner.
package final class TemporaryFolder: Sendable {
    package let path: String
    package init() {
        path = FileManager.default.temporaryDirectory.path() + "/ff-test-\(UUID().uuidString)"
        try? FileManager.default.createDirectory(atPath: path, withIntermediateDirectories: true)
    }
    deinit { try? FileManager.default.removeItem(atPath: path) }
    package func write(_ bytes: [UInt8], to name: String) throws {
        let url = URL(filePath: path + "/" + name)
        try FileManager.default.createDirectory(at: url.deletingLastPathComponent(), withIntermediateDirectories: true)
        try Data(bytes).write(to: url)
    }
}
