import EventLoop
import FeedVocabulary
import Foundation
import HTTPTransport
import Origin
import Testing

/// An origin and a client on loops of their own, over a folder with one file.
private func withOrigin(
    _ shape: NetworkShape = NetworkShape(), bytes: Int = 600_000,
    _ body: (OriginServer, HTTPClient, [UInt8]) async throws -> Void
) async throws {
    let folder = FileManager.default.temporaryDirectory.path() + "/ff-origin-\(UUID().uuidString)"
    try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
    defer { try? FileManager.default.removeItem(atPath: folder) }
    let content = (0..<bytes).map { UInt8(truncatingIfNeeded: $0 &* 13 &+ $0 >> 9) }
    try Data(content).write(to: URL(filePath: folder + "/a b.mp4"))
    let (originLoop, clientLoop) = (try LoopThread(), try LoopThread())
    let client = HTTPClient(loop: clientLoop)
    let origin = try await OriginServer.start(folder: folder, shape: shape, on: originLoop)
    let result: Result<Void, any Error>
    do { result = .success(try await body(origin, client, content)) } catch { result = .failure(error) }
    await client.shutdown()
    await origin.stop()
    clientLoop.stop()
    originLoop.stop()
    try result.get()
}

private func get(
    _ client: HTTPClient, _ url: String, _ range: ByteRange? = nil
) async throws -> (head: HTTPResponseHead, body: [UInt8]) {
    let exchange = try await client.start(HTTPRequest(url: url, range: range))
    var body: [UInt8] = []
    while let piece = try await exchange.next() { body += piece }
    return (exchange.head, body)
}

@Suite("Shaped link") struct ShapedLinkTests {
    @Test("when the queue is full, connections have it in turn") func turns() {
        var link = ShapedLink(NetworkShape(roundTrip: .milliseconds(20), bitsPerSecond: 4_000_000))
        let (large, small) = (link.connect(isGrown: true), link.connect(isGrown: true))
        var now = LoopInstant(offset: .zero)
        var (sent, waits) = ([large: Int64(0), small: 0], [large: now, small: now])
        // The first has the queue full before the second comes.
        for _ in 0..<4_000 {
            let id = waits[large]! <= waits[small]! ? large : small
            now = max(now, waits[id]!)
            if id == small, sent[large]! < 64_000 {
                waits[small] = now.advanced(by: .milliseconds(1))
                continue
            }
            switch link.admit(id, pending: 1_000_000, at: now) {
            case .sent(let segment): sent[id]! += segment.bytes
            case .waitsUntil(let time): waits[id] = time
            case .waitsForAcknowledgement: waits[id] = now.advanced(by: .seconds(1))
            }
        }
        let later = sent[large]! - 64_000
        #expect(sent[small]! > 100_000 && abs(later - sent[small]!) < 20_000, "\(later) and \(sent[small]!)")
    }
}

@Suite("Origin and client", .serialized) struct OriginTests {
    @Test("ranges, validators, missing files and bad paths are answered as RFC 9110 says") func answers() async throws {
        try await withOrigin { origin, client, content in
            let url = origin.baseURL + "/a%20b.mp4"
            let whole = try await get(client, url)
            #expect(whole.head.status == 200 && whole.body == content)
            #expect(whole.head.headers["content-type"] == "video/mp4")
            let part = try await get(client, url, 1_000..<2_000)
            #expect(part.head.status == 206 && part.body == Array(content[1_000..<2_000]))
            #expect(part.head.contentRange?.total == 600_000)
            #expect(try await get(client, url, 599_000..<Int64.max).body == Array(content[599_000...]))
            #expect(try await get(client, url, 600_000..<600_001).head.status == 416)
            #expect(try await get(client, origin.baseURL + "/none").head.status == 404)
            #expect(try await get(client, origin.baseURL + "/%2e%2e/passwd").head.status == 400)
            #expect(await origin.connectionCount == 1)  // all on one connection
        }
    }

    @Test("the shape is what was asked: rate, round trip, new connections; and never faster") func shape() async throws
    {
        let shape = NetworkShape(roundTrip: .milliseconds(100), bitsPerSecond: 8_000_000)
        #expect(shape.timeToDeliver(1_000_000 - 300, isNewConnection: false) == .milliseconds(1_100))
        // 14,480 bytes in the first window, twice as many each round trip; the handshake costs one more.
        #expect(shape.timeToDeliver(14_000, isNewConnection: true) == .milliseconds(200) + .microseconds(14_300))
        try await withOrigin(shape) { origin, client, _ in
            // A busy machine only adds to the time; what it adds is for benchmarks to tell.
            let asked = shape.timeToDeliver(600_000, isNewConnection: false)
            let clock = ContinuousClock()
            for _ in 0..<3 {
                let start = clock.now
                _ = try await get(client, origin.baseURL + "/a%20b.mp4")
                let took = start.duration(to: clock.now)
                #expect(took > asked * 0.95, "\(took) of \(asked)")
            }
        }
    }

    @Test("CONC-8: a reader that doesn't read holds the sender; then all bytes come") func backPressure() async throws {
        try await withOrigin(bytes: 20_000_000) { origin, client, content in
            let exchange = try await client.start(HTTPRequest(url: origin.baseURL + "/a%20b.mp4"))
            try await Task.sleep(for: .milliseconds(200))
            // What left the server is in socket buffers and the client's window, not in memory without bound.
            #expect(await origin.bytesSent < 16_000_000)
            var body: [UInt8] = []
            while let piece = try await exchange.next() { body += piece }
            #expect(body == content)
        }
    }

    @Test("CONC-6: cancelled requests free their slots", arguments: 0..<3) func cancel(round: Int) async throws {
        try await withOrigin(NetworkShape(roundTrip: .milliseconds(20), bitsPerSecond: 50_000_000)) {
            origin, client, content in
            for number in 0..<60 {
                let task = Task { try await get(client, origin.baseURL + "/a%20b.mp4").body.count }
                if number % 3 == 0 { try await Task.sleep(for: .milliseconds(number % 7)) }
                task.cancel()
                _ = await task.result
            }
            #expect(try await get(client, origin.baseURL + "/a%20b.mp4", 0..<10).body == Array(content[..<10]))
            #expect(await client.transferCount == 0)
        }
    }

    @Test("a dead server is an error that names it; a stopped client refuses") func dead() async throws {
        try await withOrigin { origin, client, _ in
            await origin.stop()
            do {
                _ = try await get(client, origin.baseURL + "/x")
                Issue.record("answered")
            } catch let error as TransportError {
                guard case .failed(7, _, "127.0.0.1") = error else {
                    Issue.record("\(error)")
                    return
                }
            }
            await client.shutdown()
            await #expect(throws: TransportError.stopped) { try await get(client, origin.baseURL + "/x") }
        }
    }

    @Test(
        "AUTH-7: a header that would break the request is refused before anything is sent",
        arguments: [
            ("X-A", "x\r\nEvil: 1"), ("X A", "1"), ("X:A", "1"), ("é", "1"), ("X-A", "a\0b"), ("", "1"),
        ]) func headers(name: String, value: String) async throws
    {
        try await withOrigin(bytes: 10) { origin, client, _ in
            await #expect(throws: TransportError.self) {
                try await client.start(HTTPRequest(url: origin.baseURL + "/", headers: HTTPHeaders([(name, value)])))
            }
            #expect(await origin.requests.isEmpty)
        }
    }
}
