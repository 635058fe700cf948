import EventLoop
import FeedVocabulary
import HTTPTransport
import TestSupport
import Testing

@testable import ResourceLoading

@Suite("What a resource refers to") struct RelatedReadersTests {
    private func secret(_ url: String) -> Resource {
        Resource(key: CacheKey(url: url), urls: [url], headers: ["X-Secret": "1"])
    }

    /// Two servers with the same files, and a world to ask them from.
    private func withServers(
        _ body: (_ own: RawResponder, _ other: RawResponder, LoaderWorld) async throws -> Void
    ) async throws {
        let content = Pattern.bytes(600_000)
        let (own, other) = (
            try RawResponder { [.file(content, $0)] }, try RawResponder { [.file(content, $0)] }
        )
        defer {
            own.stop()
            other.stop()
        }
        try await LoaderWorld.run { try await body(own, other, $0) }
    }

    @Test("headers go along to the same origin, to others they do not, and a private network is out of reach")
    func headers() async throws {
        try await withServers { own, other, world in
            let parent = try await world.loaders.open(
                secret(own.baseURL + "/list/index.m3u8"), priority: .current, readAhead: 0)
            for reference in ["part.ts", "../up.ts", other.baseURL + "/away.ts"] {
                let reader = try await parent.openRelated(reference)
                #expect(try await reader.read(at: 0, count: 10).count == 10)
            }
            #expect(own.requests.map(\.target) == ["/list/part.ts", "/up.ts"])
            #expect(own.requests.allSatisfy { $0.headers["x-secret"] == "1" })
            #expect(other.requests.map(\.target) == ["/away.ts"])
            #expect(other.requests.allSatisfy { $0.headers["x-secret"] == nil })
            for reference in ["http://10.0.0.1/x", "http://[::1]/x", "http://localhost/x"] {
                await #expect { try await parent.openRelated(reference) } throws: {
                    if case LoadError.refused = $0 { "\($0)".contains("private network") } else { false }
                }
            }
            await parent.close()
        }
    }

    @Test("a redirect of a part into a private network is not followed") func redirect() async throws {
        let content = Pattern.bytes(3_000)
        // The same machine by another name: it is private, and not the playlist's own host.
        let inner = try RawResponder { [.file(content, $0)] }
        let target = inner.baseURL.replacing("127.0.0.1", with: "127.0.0.2") + "/admin"
        let own = try RawResponder { _ in [.whole("302 Found", ["Location: \(target)"])] }
        defer {
            own.stop()
            inner.stop()
        }
        try await LoaderWorld.run { world in
            let list = Resource(key: CacheKey(url: "list"), urls: [own.baseURL + "/index.m3u8"])
            let parent = try await world.loaders.open(list, priority: .current, readAhead: 0)
            let reader = try await parent.openRelated("part.ts")
            await #expect(throws: LoadError.self) { try await reader.read(at: 0, count: 10) }
            #expect(inner.requests.isEmpty)
            await parent.close()
        }
    }

    @Test("what the host said of a file stays when a playlist names that file too") func named() async throws {
        try await withServers { own, other, world in
            let clip = try await world.loaders.open(
                secret(own.baseURL + "/clip.mp4"), priority: .current, readAhead: 0)
            _ = try await clip.read(at: 0, count: 10)
            let list = Resource(key: CacheKey(url: "list"), urls: [other.baseURL + "/index.m3u8"])
            let parent = try await world.loaders.open(list, priority: .current, readAhead: 0)
            _ = try await parent.openRelated(own.baseURL + "/clip.mp4")
            _ = try await clip.read(at: 500_000, count: 10)
            #expect(own.requests.count >= 2)
            #expect(own.requests.allSatisfy { $0.headers["x-secret"] == "1" })
            await parent.close()
            await clip.close()
        }
    }

    @Test("what is said to a reader is said to those of what its resource refers to; its end is theirs")
    func told() async throws {
        try await withServers { own, _, world in
            let parent = try await world.loaders.open(
                secret(own.baseURL + "/index.m3u8"), priority: .preload, readAhead: 0)
            let child = try await parent.openRelated("part.ts")
            await parent.setPriority(.current)
            await parent.setReadAhead(1_000)
            let later = try await parent.openRelated("later.ts")
            try await later.wait(for: 0..<1_000)
            try await child.wait(for: 0..<1_000)
            await parent.close()
            await #expect(throws: LoadError.closed) { try await child.read(at: 0, count: 1) }
            #expect(await world.loaders.openCount == 0)
            await #expect(throws: LoadError.closed) { try await parent.openRelated("never.ts") }
        }
    }
}
