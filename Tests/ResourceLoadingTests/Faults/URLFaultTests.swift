import EventLoop
import FeedStrategy
import FeedVocabulary
import HTTPTransport
import MediaCache
import TestSupport
import Testing

@testable import ResourceLoading

/// Which bytes a URL names, and what happens when it stops working.
@Suite("URLs") struct URLFaultTests {
    static let content = Pattern.bytes(200_000)

    @Test("AUTH-6: an expired URL is replaced once, at the same byte, and what is stored stays") func expiredURL()
        async throws
    {
        let content = Pattern.bytes(900_000)
        let valid = Lock(1)
        let server = try RawResponder { request in
            request.target == "/v?sig=\(valid.withLock { $0 })" ? [.file(content, request)] : [.whole("403 Expired")]
        }
        try await LoaderWorld.run { world in
            let asked = Lock(0)
            let base = server.baseURL
            var resource = Resource(key: key("a"), urls: [base + "/v?sig=1"])
            resource.refresher = URLRefresher { _ in
                asked.withLock { $0 += 1 }
                return [MediaURL(base + "/v?sig=\(valid.withLock { $0 })")]
            }
            let reader = try await world.loaders.open(resource, priority: .current, readAhead: 0)
            await reader.want([0..<300_000])
            try await reader.wait(for: 0..<300_000)
            valid.withLock { $0 = 2 }
            await reader.want([0..<900_000])
            try await reader.wait(for: 0..<900_000)
            await reader.close()
            #expect(asked.withLock { $0 } == 1)
            #expect(server.requests.last?.range?.first == 300_000)
            #expect(await world.loaders.traffic.bytesFetched == 900_000)
            // An entry that waits in the list is opened with the new URL at once.
            valid.withLock { $0 = 3 }
            await world.cache.removeAll()
            let got7 = try await world.read(resource)
            #expect(got7 == Bytes(content))
            #expect(asked.withLock { $0 } == 2)
        }
        server.stop()
    }

    @Test("AUTH-6: a refusal of the fresh URL too is final") func expiredTwice() async throws {
        let server = try RawResponder { _ in [.whole("403 Expired")] }
        try await LoaderWorld.run { world in
            let base = server.baseURL
            var resource = Resource(key: key("a"), urls: [base + "/v?sig=1"])
            resource.refresher = URLRefresher { _ in [MediaURL(base + "/v?sig=2")] }
            await #expect(throws: LoadError.status(403, url: base + "/v")) { try await world.read(resource) }
            #expect(server.requests.map(\.target) == ["/v?sig=1", "/v?sig=2"])
        }
        server.stop()
    }

    @Test("a URL whose expiry has passed is replaced before it is asked, also for a preload") func knownExpiry()
        async throws
    {
        let content = Self.content
        let server = try RawResponder { request in
            request.target == "/fresh" ? [.file(content, request)] : [.whole("403 Expired")]
        }
        try await LoaderWorld.run { world in
            let base = server.baseURL
            var resource = Resource(
                key: key("a"),
                urls: [MediaURL(base + "/old", expires: world.loop.wallTime.advanced(by: .seconds(-1)))])
            resource.refresher = URLRefresher { _ in [MediaURL(base + "/fresh")] }
            try await world.loaders.prefetch(resource, .bytes(50_000), priority: .preload)
            #expect(server.requests.map(\.target) == ["/fresh"])
        }
        server.stop()
    }

    @Test("a backup takes over when the main URL fails for good, and the switch is told") func backup() async throws {
        let content = Self.content
        let server = try RawResponder { request in
            request.target == "/backup" ? [.file(content, request)] : [.whole("404 Not Found")]
        }
        try await LoaderWorld.run { world in
            var events = await world.loaders.events().makeAsyncIterator()
            let name = key("a")
            let resource = Resource(key: name, urls: [server.baseURL + "/main?sig=secret", server.baseURL + "/backup"])
            let got8 = try await world.read(resource)
            #expect(got8 == Bytes(content))
            #expect(
                await events.next()
                    == .switchedURL(
                        name, from: server.baseURL + "/main", to: server.baseURL + "/backup",
                        because: .status(404, url: server.baseURL + "/main")))
            #expect(await events.next() == .loadedWhole(name))
        }
        server.stop()
    }

    @Test("CACHE-1, CACHE-3: the key is the identity; a new signature fetches nothing again") func keys() async throws {
        let server = try RawResponder { request in
            [.file(Pattern.bytes(5_000, version: request.target.hasPrefix("/A/") ? 1 : 2), request)]
        }
        try await LoaderWorld.run { world in
            for (path, version) in [("/A/media.mp3?sig=1", 1), ("/B/media.mp3", 2), ("/A/media.mp3?sig=2", 1)] {
                let url = server.baseURL + path
                let resource = Resource(key: CacheKey(url: url), urls: [url])
                let bytes = try await world.read(resource)
                #expect(bytes == Bytes(Pattern.bytes(5_000, version: version)))
            }
            #expect(server.requests.count == 2)
        }
        server.stop()
    }

    @Test("two files under one key are told apart by what the source knows of them") func knownFile() async throws {
        let content = Pattern.bytes(5_000)
        let server = try RawResponder { [.file(content, $0)] }
        try await LoaderWorld.run { world in
            var resource = Resource(key: key("a"), urls: [server.baseURL + "/a"])
            resource.md5 = MD5.hexDigest(of: content)
            let got11 = try await world.read(resource)
            #expect(got11 == Bytes(content))
            resource.length = 6_000
            await #expect(throws: LoadError.self) { try await world.read(resource) }
            var other = Resource(key: key("b"), urls: [server.baseURL + "/b"])
            other.md5 = MD5.hexDigest(of: [1])
            let reader = try await world.loaders.open(other, priority: .current, readAhead: 0)
            await #expect(throws: LoadError.self) {
                await reader.want([0..<5_000])
                try await reader.wait(for: 0..<5_000)
                _ = try await reader.read(at: 0, count: 5_000)
            }
            await reader.close()
            let left = await world.cache.record(of: other.key)
            #expect(left == nil)
        }
        server.stop()
    }

    @Test(
        "INPUT-2: path and query reach the server byte for byte, without the fragment",
        arguments: [
            ("/v?sig=a%2Fb%3D&x=1+2#t=3", "/v?sig=a%2Fb%3D&x=1+2"), ("/get", "/get"), ("/get?", "/get?"),
            ("/a/", "/a/"),
            ("/%E4%B8%AD%20%F0%9F%8E%B5", "/%E4%B8%AD%20%F0%9F%8E%B5"),
        ]) func untouched(path: String, target: String) async throws
    {
        let content = Pattern.bytes(100)
        let server = try RawResponder { [.file(content, $0)] }
        try await LoaderWorld.run { world in
            let url = server.baseURL + path
            let bytes = try await world.read(Resource(key: CacheKey(url: url), urls: [url]))
            #expect(bytes == Bytes(content))
            #expect(server.requests.map(\.target) == [target])
        }
        server.stop()
    }
}
