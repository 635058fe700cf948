import EventLoop
import FeedStrategy
import FeedVocabulary
import MediaCache
import TestSupport
import Testing

@testable import ResourceLoading

/// Answers as its closure says, and notes what it was told.
private final class Host: ResourceLoaderDelegate {
    struct Notes {
        var requests: [LoadingRequest] = []
        var cancelled = 0
        var whole: [String] = []
        var failed: [LoadError] = []
    }
    let notes = Lock(Notes())
    private let answer: @Sendable (LoadingRequest) -> Bool
    init(_ answer: @escaping @Sendable (LoadingRequest) -> Bool) { self.answer = answer }

    func shouldLoad(_ request: LoadingRequest) -> Bool {
        notes.withLock { $0.requests.append(request) }
        return answer(request)
    }
    func didCancel(_ request: LoadingRequest) { notes.withLock { $0.cancelled += 1 } }
    func didLoadWhole(_ url: String, key: CacheKey) { notes.withLock { $0.whole.append(url) } }
    func didFail(_ url: String, key: CacheKey, error: LoadError) { notes.withLock { $0.failed.append(error) } }
}

@Suite("Custom schemes") struct SchemeTests {
    static let content = Pattern.bytes(700_000)

    private func serve(_ request: LoadingRequest, length: Int64? = 700_000, upTo limit: Int = .max) {
        let content = Self.content
        Task {
            if request.wantsContentInformation {
                request.setContentInformation(ContentInformation(length: length, contentType: "audio/mpeg"))
            }
            let end =
                request.requestsAllDataToEnd
                ? content.count : min(content.count, Int(request.requestedOffset + request.requestedLength))
            var position = Int(request.requestedOffset)
            let stop = min(end, position &+ limit < 0 ? .max : position + min(limit, content.count))
            while position < stop, !request.isFinished {
                let next = min(stop, position + 30_000)
                await request.respond(with: Array(content[position..<next]))
                position = next
            }
            request.finish()
        }
    }

    @Test("a delegate's own bytes are read, cached and fetched once, also by a preload") func ownBytes() async throws {
        let host = Host {
            self.serve($0); return true
        }
        try await LoaderWorld.run { world in
            try await world.loaders.register(host, scheme: "drive")
            let resource = Resource(key: key("a"), urls: ["Drive:files/a?x=%20"])
            try await world.loaders.prefetch(resource, .bytes(100_000), priority: .preload)
            let got1 = try await world.read(resource)
            #expect(got1 == Bytes(Self.content))
            let got2 = try await world.read(resource, 699_999..<Int64.max)
            #expect(got2 == Bytes(Array(Self.content.suffix(1))))
            #expect(await world.loaders.traffic.bytesFetched == 700_000)
            let notes = host.notes.withLock { $0 }
            #expect(notes.requests.first?.wantsContentInformation == true)
            #expect(
                notes.requests.dropFirst().allSatisfy { !$0.wantsContentInformation && $0.url == "Drive:files/a?x=%20" }
            )
            #expect(notes.whole == ["Drive:files/a?x=%20"])
            #expect(notes.cancelled == 0)
        }
    }

    @Test(
        "an early finish ends a resource of unknown length, and is only a pause in one of known length",
        arguments: [nil, 700_000]) func earlyFinish(length: Int64?) async throws
    {
        let host = Host {
            self.serve($0, length: length, upTo: 50_000); return true
        }
        try await LoaderWorld.run { world in
            try await world.loaders.register(host, scheme: "drive")
            let resource = Resource(key: key("a"), urls: ["drive:a"])
            let got3 = try await world.read(resource)
            #expect(got3 == Bytes(Self.content))
            #expect(await world.cache.record(of: resource.key)?.length == 700_000)
        }
    }

    @Test("a delegate answers with an HTTP request that the loader carries out") func redirected() async throws {
        let content = Self.content
        let server = try RawResponder { request in
            request.headers["dropbox-api-arg"] == "{}" ? [.file(content, request)] : [.whole("400 Bad")]
        }
        let base = server.baseURL
        let host = Host { request in
            request.redirect(to: LoadingRedirect(url: base + "/f", headers: ["Dropbox-API-Arg": "{}"]))
            request.redirect(to: LoadingRedirect(url: "http://other/"))  // the second answer is ignored
            request.finish()
            return true
        }
        try await LoaderWorld.run { world in
            try await world.loaders.register(host, scheme: "drive")
            let resource = Resource(key: key("a"), urls: ["drive:a"])
            let got4 = try await world.read(resource)
            #expect(got4 == Bytes(content))
        }
        server.stop()
    }

    @Test("INPUT-1: illegal and reserved schemes are refused, an unknown one is named") func names() async throws {
        try await LoaderWorld.run { world in
            let host = Host { _ in false }
            for name in ["__loader__https", "1abc", "a b", "", "ä"] {
                await #expect(throws: SchemeError.illegal(name)) {
                    try await world.loaders.register(host, scheme: name)
                }
            }
            for name in ["http", "HTTPS"] {
                await #expect(throws: SchemeError.reserved(name.lowercased())) {
                    try await world.loaders.register(host, scheme: name)
                }
            }
            try await world.loaders.register(host, scheme: "a+b-c.1")
            for scheme in ["nobody", "a+b-c.1"] {
                let resource = Resource(key: key("a"), urls: ["\(scheme):x"])
                await #expect(throws: LoadError.notHandled(scheme: scheme)) { try await world.read(resource) }
            }
        }
    }

    @Test("a cancelled read cancels the request, and what the delegate says afterwards is ignored") func cancelled()
        async throws
    {
        let host = Host { _ in true }  // takes it, and does nothing
        try await LoaderWorld.run { world in
            try await world.loaders.register(host, scheme: "drive")
            let resource = Resource(key: key("a"), urls: ["drive:a"])
            let task = Task { try await world.read(resource) }
            while host.notes.withLock({ $0.requests.isEmpty }) { try await world.loop.sleep(for: .milliseconds(2)) }
            task.cancel()
            _ = await task.result
            for _ in 0..<200 where host.notes.withLock({ $0.cancelled }) == 0 {
                try await world.loop.sleep(for: .milliseconds(5))
            }
            let request = try #require(host.notes.withLock { $0.requests.first })
            #expect(request.isCancelled)
            await request.respond(with: [1, 2, 3])
            request.finish()
            request.fail("late")
            #expect(host.notes.withLock { $0.cancelled } == 1)
            #expect(request.currentOffset == 0)
            #expect(await world.loaders.openCount == 0)
        }
    }

    @Test("a failure is told to the reader and to the delegate") func failure() async throws {
        let host = Host { request in
            request.fail("no such song")
            return true
        }
        try await LoaderWorld.run { world in
            try await world.loaders.register(host, scheme: "drive")
            let resource = Resource(key: key("a"), urls: ["drive:a"])
            await #expect(throws: LoadError.host(reason: "no such song")) { try await world.read(resource) }
            #expect(host.notes.withLock { $0.failed }.first == .host(reason: "no such song"))
        }
    }

    @Test("CONC-1: whatever races, a request ends once", arguments: UInt64(0)..<4) func endsOnce(seed: UInt64)
        async throws
    {
        let host = Host { request in
            Task {
                await request.respond(with: [1])
                request.finish()
            }
            Task { request.fail("x") }
            Task { request.finish() }
            return true
        }
        try await LoaderWorld.run(seed: seed) { world in
            try await world.loaders.register(host, scheme: "drive")
            var random = SplitMix64(seed: seed)
            for number in 0..<300 {
                let resource = Resource(key: key("a\(number)"), urls: ["drive:\(number)"])
                let task = Task { try await world.read(resource, 0..<1, readAhead: 0) }
                if Bool.random(using: &random) { task.cancel() }
                _ = await task.result
            }
            #expect(await world.loaders.openCount == 0)
            #expect(await world.loaders.fetchCount == 0)
        }
    }

    @Test("CONC-8: a reader that stops slows the delegate") func backPressure() async throws {
        let given = Lock(0)
        let host = Host { request in
            Task {
                request.setContentInformation(ContentInformation(length: 1 << 40, contentType: "audio/mpeg"))
                let piece = [UInt8](repeating: 7, count: 100_000)
                for _ in 0..<1_000 where !request.isFinished {
                    let before = request.currentOffset
                    await request.respond(with: piece)
                    given.withLock { $0 += Int(request.currentOffset - before) }
                }
                request.finish()
            }
            return true
        }
        try await LoaderWorld.run { world in
            try await world.loaders.register(host, scheme: "drive")
            let resource = Resource(key: key("a"), urls: ["drive:a"])
            let reader = try await world.loaders.open(resource, priority: .current, readAhead: 1_000_000)
            _ = try await reader.read(at: 0, count: 1_000)
            try await world.loop.sleep(for: .milliseconds(300))
            #expect(given.withLock { $0 } < 3_000_000)
            await reader.close()
        }
    }
}
