import EventLoop
import FeedVocabulary
import Foundation
import HTTPTransport
import TestSupport
import Testing

/// Requirements on the loop as libcurl's and libuv's common home, each with its number.
@Suite("Loop faults", .serialized) struct LoopFaultTests {
    private static func withClient(
        _ configuration: HTTPClientConfiguration = HTTPClientConfiguration(),
        _ body: @Sendable (HTTPClient) async throws -> Void
    ) async throws {
        let loop = try LoopThread()
        let client = HTTPClient(loop: loop, configuration: configuration)
        var failure: (any Error)?
        do { try await body(client) } catch { failure = error }
        await client.shutdown()
        loop.stop()
        if let failure { throw failure }
    }

    /// The whole body, or the error that ended it.
    private static func read(_ client: HTTPClient, _ url: String) async -> Result<[UInt8], any Error> {
        do {
            let exchange = try await client.start(HTTPRequest(url: url))
            var bytes: [UInt8] = []
            while let piece = try await exchange.next() { bytes += piece }
            return .success(bytes)
        } catch {
            return .failure(error)
        }
    }

    @Test("LOOP-1: servers that reset at any moment give transfer errors, and every transfer ends") func resets()
        async throws
    {
        let body = Pattern.bytes(30_000)
        let servers = try (0..<3).map { _ in
            try RawResponder { request in
                switch request.number % 5 {
                case 0: [.reset]
                case 1:
                    [
                        .answer("200 OK", ["Content-Length: 30000"], Array(body[..<(request.number * 7 % 30_000)])),
                        .reset,
                    ]
                case 2: [.whole("200 OK", [], body), .reset]
                case 3: [.whole("200 OK", [], body), .close]
                case _: [.whole("200 OK", [], body)]
                }
            }
        }
        try await Self.withClient { client in
            let counts = await withTaskGroup(of: (whole: Int, failed: Int).self) { group in
                for task in 0..<10 {
                    group.addTask {
                        var counts = (whole: 0, failed: 0)
                        for round in 0..<100 {
                            switch await Self.read(client, servers[(task + round) % 3].baseURL + "/\(round)") {
                            case .success(let bytes):
                                #expect(Bytes(bytes) == body)
                                counts.whole += 1
                            case .failure(let error):
                                #expect(error is TransportError)
                                counts.failed += 1
                            }
                        }
                        return counts
                    }
                }
                return await group.reduce((0, 0)) { ($0.0 + $1.whole, $0.1 + $1.failed) }
            }
            #expect(counts.0 + counts.1 == 1_000)
            #expect(counts.0 >= 300 && counts.1 >= 200)
        }
        for server in servers { server.stop() }
    }

    @Test(
        "LOOP-1: transfers over TLS that are given up at any moment", .enabled(if: RealServer.Kind.nginxTLS.isInstalled)
    )
    func resetsOverTLS() async throws {
        let server = try RealServer(.nginxTLS)
        defer { server.stop() }
        let body = Pattern.bytes(400_000)
        try server.write(body, to: "a")
        var configuration = HTTPClientConfiguration()
        configuration.certificateAuthorityFile = server.authority
        try await Self.withClient(configuration) { client in
            await withTaskGroup { group in
                for task in 0..<8 {
                    group.addTask {
                        for round in 0..<25 {
                            let work = Task {
                                var request = HTTPRequest(url: server.baseURL + "/a")
                                var credential = HTTPCredential(origins: [try WebOrigin(url: server.baseURL)])
                                credential.login = HTTPLogin(
                                    user: RealServer.user, password: RealServer.password, scheme: .asAsked)
                                request.credential = credential
                                let exchange = try await client.start(request)
                                var bytes: [UInt8] = []
                                while let piece = try await exchange.next() { bytes += piece }
                                return bytes
                            }
                            if round % 5 != 4 {
                                try? await Task.sleep(for: .microseconds((task * 25 + round) * 37 % 9_000))
                                work.cancel()
                                _ = await work.result
                            } else if let bytes = try? await work.value {
                                #expect(Bytes(bytes) == body)
                            } else {
                                Issue.record("a transfer that nobody gave up failed")
                            }
                        }
                    }
                }
            }
        }
    }

    @Test("LOOP-2: each event reaches its transfer though descriptor numbers repeat all the time")
    func shortConnections()
        async throws
    {
        let server = try RawResponder { request in
            [.whole("200 OK", ["Connection: close"], Array("body of \(request.target)".utf8)), .close]
        }
        try await Self.withClient { client in
            let wrong = await withTaskGroup(of: Int.self) { group in
                for task in 0..<16 {
                    group.addTask {
                        var wrong = 0
                        for round in 0..<60 {
                            let target = "/\(task)-\(round)"
                            let bytes = try? await Self.read(client, server.baseURL + target).get()
                            if bytes.map({ String(decoding: $0, as: UTF8.self) }) != "body of \(target)" { wrong += 1 }
                        }
                        return wrong
                    }
                }
                return await group.reduce(0, +)
            }
            #expect(wrong == 0)
        }
        #expect(server.openConnections == 0)
        server.stop()
    }

    @Test("LOOP-3, LOOP-4: a thousand transfers begun in one turn, and again from their answers, all end")
    func manyAtOnce()
        async throws
    {
        let server = try RawResponder { request in [.whole("200 OK", [], Array(request.target.utf8))] }
        try await Self.withClient { client in
            let ended = await withTaskGroup(of: Bool.self) { group in
                for number in 0..<1_000 {
                    group.addTask {
                        // The answer's first piece starts the next request and gives up this one.
                        guard let exchange = try? await client.start(HTTPRequest(url: server.baseURL + "/a\(number)")),
                            (try? await exchange.next()) != nil
                        else { return false }
                        async let next = Self.read(client, server.baseURL + "/b\(number)")
                        await exchange.cancel()
                        return (try? await next.get()).map { String(decoding: $0, as: UTF8.self) } == "/b\(number)"
                    }
                }
                return await group.reduce(0) { $0 + ($1 ? 1 : 0) }
            }
            #expect(ended == 1_000)
        }
        #expect(server.requests.count == 2_000)
        #expect(server.mostConnections <= HTTPLimits.transfersPerOrigin + 1)
        server.stop()
    }

    @Test("LOOP-5: a reader that pauses at random places gets every byte") func pauses() async throws {
        let count = 6_000_000
        let server = try RawResponder { _ in [.answer("200 OK", ["Content-Length: \(count)"]), .flood(count)] }
        try await Self.withClient { client in
            var random = SplitMix64(seed: 5)
            let exchange = try await client.start(HTTPRequest(url: server.baseURL))
            try await Task.sleep(for: .milliseconds(50))  // before the first byte
            var offset = 0
            var pauses = 0
            while let piece = try await exchange.next() {
                let expected = Pattern.bytes(offset..<offset + piece.count)
                #expect(Bytes(piece) == expected)
                offset += piece.count
                if pauses < 100 {
                    pauses += 1
                    try await Task.sleep(for: .milliseconds(Int.random(in: 0...8, using: &random)))
                }
            }
            #expect(offset == count)
        }
        server.stop()
    }

    @Test("LOOP-6: paused transfers, with data waiting in the kernel, cost no processor time") func idle() async {
        await #expect(processExitsWith: .success) {
            let server = try RawResponder { _ in [.answer("200 OK", ["Content-Length: 50000000"]), .flood(50_000_000)] }
            let loop = try LoopThread()
            let client = HTTPClient(loop: loop, configuration: HTTPClientConfiguration())
            var exchanges: [any HTTPExchange] = []
            for number in 0..<5 {
                let exchange = try await client.start(HTTPRequest(url: server.baseURL + "/\(number)"))
                _ = try await exchange.next()
                exchanges.append(exchange)
            }
            var sent = 0
            while server.sentBytes > sent {  // buffers fill, sockets are paused
                sent = server.sentBytes
                try await Task.sleep(for: .milliseconds(500))
            }
            func used() -> Int {
                var usage = rusage()
                getrusage(__rusage_who_t(RUSAGE_SELF.rawValue), &usage)
                return usage.ru_utime.tv_sec * 1_000_000 + Int(usage.ru_utime.tv_usec) + usage.ru_stime.tv_sec
                    * 1_000_000
                    + Int(usage.ru_stime.tv_usec)
            }
            let before = used()
            try await Task.sleep(for: .seconds(3))
            let microseconds = used() - before
            precondition(microseconds < 150_000, "\(microseconds) us of processor time in 3 s of doing nothing")  // 5 %
            for exchange in exchanges { await exchange.cancel() }
            await client.shutdown()
            loop.stop()
            server.stop()
        }
    }

    @Test("LOOP-7: a shutdown in the middle of transfers and timers ends everything, 150 times") func shutdowns()
        async throws
    {
        let body = Pattern.bytes(200_000)
        let server = try RawResponder { request in
            request.number % 3 == 0
                ? [.wait(seconds: 0.002), .whole("200 OK", [], body)] : [.whole("200 OK", [], body)]
        }
        for round in 0..<150 {
            let loop = try LoopThread()
            let client = HTTPClient(loop: loop, configuration: HTTPClientConfiguration())
            let transfers = (0..<4).map { number in
                Task { await Self.read(client, server.baseURL + "/\(round)/\(number)") }
            }
            for delay in 0..<5 { loop.schedule(at: loop.now.advanced(by: .microseconds(delay * 700))) {} }
            try await Task.sleep(for: .microseconds(round * 40))
            await client.shutdown()
            loop.stop()
            for transfer in transfers {
                switch await transfer.value {
                case .success(let bytes): #expect(Bytes(bytes) == body)
                case .failure(let error): #expect(error is TransportError || error is CancellationError)
                }
            }
        }
        server.stop()
    }

    @Test("LOOP-10: the end closes idle connections to several hosts, and a new beginning works, 60 times")
    func restarts()
        async throws
    {
        let servers = try (0..<3).map { _ in try RawResponder { _ in [.whole("200 OK", [], [1, 2, 3])] } }
        for _ in 0..<60 {
            try await Self.withClient { client in
                await withTaskGroup { group in
                    for number in 0..<10 {
                        group.addTask {
                            let bytes = try? await Self.read(client, servers[number % 3].baseURL + "/").get()
                            #expect(bytes == [1, 2, 3])
                        }
                    }
                }
                #expect(servers.contains { $0.openConnections > 0 })  // kept for the next request
            }
        }
        for server in servers {
            for _ in 0..<200 where server.openConnections > 0 { try await Task.sleep(for: .milliseconds(10)) }
            #expect(server.openConnections == 0)
            server.stop()
        }
    }
}
