import EventLoop
import FeedVocabulary
import HTTPTransport
import TestSupport
import Testing

@Suite("Preconnecting") struct PreconnectTests {
    @Test("the connection that was made ahead carries the first request, and none is made while one is warm")
    func warm()
        async throws
    {
        let server = try RawResponder { request in
            let body = request.method == "HEAD" ? "" : "hello"
            return [.send(Array("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n\(body)".utf8))]
        }
        let loop = try LoopThread()
        defer { loop.stop() }
        let client = HTTPClient(loop: loop)
        let origin = try WebOrigin(url: server.baseURL)
        let start = loop.now
        for _ in 0..<3 { await client.preconnect(origin) }
        while await client.transferCount > 0 { try await loop.sleep(for: .milliseconds(5)) }
        let exchange = try await client.start(HTTPRequest(url: server.baseURL + "/clip"))
        #expect(!exchange.head.timing.isNewConnection)
        while try await exchange.next() != nil {}
        await client.preconnect(origin)
        await client.shutdown()
        // On a machine so busy that connections count as old meanwhile, more of them are right.
        if start.duration(to: loop.now) < .seconds(30) {
            #expect(server.requests.map(\.method) == ["HEAD", "HEAD", "GET"])
            #expect(Set(server.requests.map(\.connection)).count == 2, "one for a head, one for an index at the end")
        }
        #expect(server.requests.first?.headers["authorization"] == nil)
    }
    @Test("the way to a server is known after its answers, with as many connections as are open") func path()
        async throws
    {
        let body = String(repeating: "x", count: 8_000_000)
        let server = try RawResponder { _ in
            [.send(Array("HTTP/1.1 200 OK\r\nContent-Length: \(body.utf8.count)\r\n\r\n\(body)".utf8))]
        }
        let loop = try LoopThread()
        defer { loop.stop() }
        let client = HTTPClient(loop: loop)
        let origin = try WebOrigin(url: server.baseURL)
        func path() async -> ServerPath? { await Task(executorPreference: loop) { client.path(to: origin) }.value }
        #expect(await path() == nil, "nobody has asked yet")
        let first = try await client.start(HTTPRequest(url: server.baseURL + "/clip"))
        #expect(await path()?.connections == 1)
        let second = try await client.start(HTTPRequest(url: server.baseURL + "/clip"))
        #expect(await path()?.connections == 2)
        let roundTrip = await path()?.roundTrip ?? .zero
        #expect(roundTrip > .zero && roundTrip < .seconds(10))
        await first.cancel()
        #expect(await path()?.connections == 1, "given up in the middle, it is closed")
        while try await second.next() != nil {}
        #expect(await path()?.connections == 1, "read to its end, it is kept")
        await client.shutdown()
    }
    @Test("a host that is not there costs nothing but the attempt") func dead() async throws {
        let server = try RawResponder { _ in [.close] }
        let origin = try WebOrigin(url: server.baseURL)
        server.stop()
        let loop = try LoopThread()
        defer { loop.stop() }
        let client = HTTPClient(loop: loop)
        await client.preconnect(origin)
        while await client.transferCount > 0 { try await loop.sleep(for: .milliseconds(5)) }
        await client.shutdown()
    }
}
