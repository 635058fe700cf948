import EventLoop
import FeedVocabulary
import Foundation
import HTTPTransport
import MediaCache
import TestSupport
import Testing

@testable import ResourceLoading

@Suite("Limits") struct LimitFaultTests {
    @Test("HTTP-9: nobody asks a host before the time that it named, in seconds or as a date") func retryAfter()
        async throws
    {
        let content = Pattern.bytes(3_000)
        let server = try RawResponder { request in
            switch request.number {
            case 0: [.whole("429 Too Many", ["Retry-After: 1"])]
            case 1:
                [
                    .whole(
                        "503 Busy",
                        ["Date: Sun, 06 Nov 1994 08:49:37 GMT", "Retry-After: Sun, 06 Nov 1994 08:49:38 GMT"])
                ]
            case _: [.file(content, request)]
            }
        }
        try await LoaderWorld.run { world in
            let first = Resource(key: key("a0"), urls: [server.baseURL + "/0"])
            async let one = world.read(first)
            while server.requests.isEmpty { try await world.loop.sleep(for: .milliseconds(5)) }
            try await world.loop.sleep(for: .milliseconds(100))
            // Seven others come while the host is to be left alone.
            try await withThrowingTaskGroup(of: Bool.self) { group in
                for number in 1..<8 {
                    let resource = Resource(key: key("a\(number)"), urls: [server.baseURL + "/\(number)"])
                    group.addTask { try await world.read(resource) == content }
                }
                for try await isRight in group { #expect(isRight) }
            }
            let got1 = try await one
            #expect(got1 == content)
            let arrivals = server.requests.map(\.arrival)
            #expect(arrivals[0].duration(to: arrivals[1]) >= .seconds(1))
            #expect(arrivals[1].duration(to: arrivals[2]) >= .seconds(1))
            #expect(server.requests.count <= 12)
        }
        server.stop()
    }

    @Test("HTTP-9: a wait that no viewer would take is told at once, and kept to") func longRetryAfter() async throws {
        let server = try RawResponder { _ in [.whole("503 Busy", ["Retry-After: 3600"])] }
        try await LoaderWorld.run { world in
            let resource = Resource(key: key("a"), urls: [server.baseURL + "/a"])
            await #expect(throws: LoadError.busy(url: server.baseURL + "/a", retryAfter: .seconds(3600))) {
                try await world.read(resource)
            }
            await #expect(throws: LoadError.self) { try await world.read(resource) }
            #expect(server.requests.count == 1)
        }
        server.stop()
    }

    @Test("LIMIT-7: a stall ends in a retry at the byte where it began, then in an error") func stall() async throws {
        let content = Pattern.bytes(300_000)
        let server = try RawResponder { request in
            guard request.target == "/once", request.number > 0 else {
                let fields = ["Content-Range: bytes 0-299999/300000", "Content-Length: 300000", "ETag: \"1\""]
                return request.range?.first == 0
                    ? [.answer("206 Partial Content", fields, Array(content[..<100_000])), .stall] : [.stall]
            }
            return [.file(content, request)]
        }
        var http = HTTPClientConfiguration()
        http.stallTimeout = .seconds(1)
        try await LoaderWorld.run(http: http) { world in
            let once = Resource(key: key("a"), urls: [server.baseURL + "/once"])
            let got2 = try await world.read(once, 0..<250_000)
            #expect(got2 == Bytes(Array(content[..<250_000])))
            #expect(server.requests[1].range?.first == 100_000)
            let begin = server.requests.count
            let always = Resource(key: key("b"), urls: [server.baseURL + "/always"])
            await #expect(throws: LoadError.self) { try await world.read(always, 0..<250_000) }
            // The first attempt made progress, so the budget counts from the second.
            #expect(server.requests.count - begin == 1 + RetryPolicy.maximumRetries)
            #expect(await world.cache.record(of: key("b"))?.ranges.ranges == [0..<100_000])
        }
        server.stop()
    }

    @Test("LIMIT-8: attempts are counted and end", arguments: ["500", "reset", "403"]) func budget(kind: String)
        async throws
    {
        let server = try RawResponder { _ in
            kind == "reset" ? [.reset] : [.whole("\(kind) No")]
        }
        try await LoaderWorld.run { world in
            let resource = Resource(key: key("a"), urls: [server.baseURL + "/a"])
            await #expect(throws: LoadError.self) { try await world.read(resource) }
            let asked = server.requests.count
            #expect(asked == (kind == "403" ? 1 : 1 + RetryPolicy.maximumRetries))
            try await world.loop.sleep(for: .milliseconds(500))
            #expect(server.requests.count == asked)
        }
        server.stop()
    }

    @Test("LIMIT-9: a server without ranges is read no further than is wanted") func wholeIsBounded() async throws {
        let server = try RawResponder { _ in
            [.answer("200 OK", ["Content-Length: 5000000000", "Content-Type: video/mp4"]), .flood(5_000_000_000)]
        }
        try await LoaderWorld.run { world in
            let resource = Resource(key: key("a"), urls: [server.baseURL + "/a"])
            let reader = try await world.loaders.open(resource, priority: .current, readAhead: 64 * 1024)
            let got3 = try await reader.read(at: 0, count: 65_536)
            #expect(got3 == Pattern.bytes(65_536))
            try await world.loop.sleep(for: .milliseconds(300))
            #expect(await world.loaders.traffic.bytesFetched < 2_000_000)
            // And going on goes on, on the same answer.
            var position: Int64 = 65_536
            while position < 3_000_000 {
                let piece = try await reader.read(at: position, count: 65_536)
                #expect(piece == Pattern.bytes(Int(position)..<Int(position) + piece.count))
                position += Int64(piece.count)
            }
            #expect(server.requests.count == 1)
            await reader.close()
            for _ in 0..<100 where server.openConnections > 0 { try await world.loop.sleep(for: .milliseconds(20)) }
            #expect(server.openConnections == 0)
        }
        server.stop()
    }

    @Test("LIMIT-1, LIMIT-4: failed loads leave no descriptor and no registration") func leaks() async throws {
        let server = try RawResponder { request in
            switch request.number % 3 {
            case 0: [.whole("404 Not Found")]
            case 1: [.reset]
            case _: [.whole("410 Gone")]
            }
        }
        try await LoaderWorld.run { world in
            let descriptors = { try FileManager.default.contentsOfDirectory(atPath: "/proc/self/fd").count }
            let load = { (number: Int) in
                let resource = Resource(key: key("a\(number)"), urls: [server.baseURL + "/a"])
                _ = try? await world.read(resource)
            }
            for number in 0..<20 { await load(number) }
            let before = try descriptors()
            for number in 20..<320 { await load(number) }
            #expect(await world.loaders.openCount == 0)
            #expect(await world.client.transferCount == 0)
            #expect(await world.cache.records.isEmpty)
            #expect(try descriptors() <= before + 40)  // other tests run beside this one
        }
        server.stop()
    }

    @Test("LIMIT-6: connections to one host never exceed the cap") func connections() async throws {
        let content = Pattern.bytes(50_000)
        let server = try RawResponder { request in [.wait(seconds: 0.01), .file(content, request)] }
        try await LoaderWorld.run { world in
            try await withThrowingTaskGroup(of: Bool.self) { group in
                for number in 0..<50 {
                    let resource = Resource(key: key("a\(number)"), urls: [server.baseURL + "/\(number)"])
                    group.addTask {
                        try await world.read(resource, priority: number == 49 ? .current : .preload) == content
                    }
                }
                for try await isRight in group { #expect(isRight) }
            }
            #expect(server.mostConnections <= HTTPLimits.transfersPerOrigin)
        }
        server.stop()
    }

    @Test("one slow host does not hold up another") func slowHost() async throws {
        let content = Pattern.bytes(50_000)
        let slow = try RawResponder { _ in [.stall] }
        let quick = try RawResponder { [.file(content, $0)] }
        try await LoaderWorld.run { world in
            var waiting: [Task<Void, Never>] = []
            for number in 0..<40 {
                let resource = Resource(key: key("s\(number)"), urls: [slow.baseURL + "/\(number)"])
                waiting.append(Task { _ = try? await world.read(resource, priority: .preload) })
            }
            while slow.requests.isEmpty { try await world.loop.sleep(for: .milliseconds(5)) }
            let got4 = try await world.read(Resource(key: key("q"), urls: [quick.baseURL + "/q"]))
            #expect(got4 == Bytes(content))
            for task in waiting { task.cancel() }
            for task in waiting { await task.value }
            #expect(await world.loaders.openCount == 0)
        }
        slow.stop()
        quick.stop()
    }

    @Test("CONC-10: a failure reaches all who wait, and a later request works") func failureForAll() async throws {
        let content = Pattern.bytes(50_000)
        let server = try RawResponder { request in
            request.number < 4 ? [.wait(seconds: 0.05), .reset] : [.file(content, request)]
        }
        try await LoaderWorld.run { world in
            let resource = Resource(key: key("a"), urls: [server.baseURL + "/a"])
            let failures = await withTaskGroup(of: Bool.self) { group in
                for start in [0, 10_000, 20_000] {
                    group.addTask {
                        (try? await world.read(resource, Int64(start)..<Int64(start) + 100, readAhead: 0)) == nil
                    }
                }
                return await group.reduce(0) { $0 + ($1 ? 1 : 0) }
            }
            #expect(failures == 3)
            let got5 = try await world.read(resource)
            #expect(got5 == Bytes(content))
        }
        server.stop()
    }

    @Test("CONC-5: a cancel reaches the hop after a redirect") func cancelAfterRedirect() async throws {
        let slow = try RawResponder { _ in
            [
                .answer("200 OK", ["Content-Length: 1000000000", "Content-Type: video/mp4"]), .wait(seconds: 0.05),
                .flood(1_000_000_000),
            ]
        }
        let target = slow.baseURL
        let first = try RawResponder { _ in [.whole("302 Found", ["Location: \(target)/b"])] }
        try await LoaderWorld.run { world in
            let resource = Resource(key: key("a"), urls: [first.baseURL + "/a"])
            let task = Task { try await world.read(resource) }
            while slow.requests.isEmpty { try await world.loop.sleep(for: .milliseconds(5)) }
            task.cancel()
            _ = await task.result
            for _ in 0..<100 where slow.openConnections > 0 { try await world.loop.sleep(for: .milliseconds(10)) }
            #expect(slow.openConnections == 0)
            #expect(await world.loaders.fetchCount == 0)
        }
        slow.stop()
        first.stop()
    }

    @Test("CONC-6: cancels at random moments free their slots") func slots() async throws {
        let content = Pattern.bytes(20_000)
        let server = try RawResponder { request in [.wait(seconds: 0.002), .file(content, request)] }
        try await LoaderWorld.run(seed: 5) { world in
            var random = SplitMix64(seed: 5)
            for number in 0..<200 {
                let resource = Resource(key: key("a\(number)"), urls: [server.baseURL + "/\(number)"])
                let task = Task { _ = try? await world.read(resource) }
                try await world.loop.sleep(for: .microseconds(Int.random(in: 0..<3_000, using: &random)))
                task.cancel()
                await task.value
            }
            let got6 = try await world.read(Resource(key: key("z"), urls: [server.baseURL + "/z"]))
            #expect(got6 == Bytes(content))
            #expect(await world.loaders.openCount == 0)
            for _ in 0..<100 where await world.client.transferCount > 0 {
                try await world.loop.sleep(for: .milliseconds(10))
            }
            #expect(await world.client.transferCount == 0)
        }
        server.stop()
    }

    @Test("CONC-11: ends and begins of one key in a tight loop lose no request") func endsAndBegins() async throws {
        let content = Pattern.bytes(2_000)
        let server = try RawResponder { [.file(content, $0)] }
        try await LoaderWorld.run { world in
            let resource = Resource(key: key("a"), urls: [server.baseURL + "/a"])
            await withTaskGroup(of: Int.self) { group in
                for _ in 0..<8 {
                    group.addTask {
                        var right = 0
                        for _ in 0..<250 { if (try? await world.read(resource)) == Bytes(content) { right += 1 } }
                        return right
                    }
                }
                #expect(await group.reduce(0, +) == 2_000)
            }
            #expect(await world.loaders.openCount == 0)
            #expect(await world.loaders.traffic.bytesFetched == 2_000)
        }
        server.stop()
    }
}
