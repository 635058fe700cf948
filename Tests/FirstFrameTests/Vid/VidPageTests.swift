import EventLoop
import FeedVocabulary
import FirstFrame
import Simulation
import Testing

/// Answers after a while, and counts.
private final class Service: VidResolver {
    struct Counts {
        var asked: [String] = []
        var running = 0, mostRunning = 0
    }
    let counts = Lock(Counts())
    private let loop: SimulatedLoop
    private let life: Duration?
    let failure = Lock<VidError?>(nil)

    init(on loop: SimulatedLoop, life: Duration? = nil) { (self.loop, self.life) = (loop, life) }

    func resolve(_ source: VidSource, with http: WebClient) async throws -> VidMedia {
        counts.withLock { counts in
            counts.asked.append(source.vid)
            counts.running += 1
            counts.mostRunning = max(counts.mostRunning, counts.running)
        }
        defer { counts.withLock { $0.running -= 1 } }
        try await loop.sleep(for: .milliseconds(100))
        if let failure = failure.withLock({ $0 }) { throw failure }
        let expires = life.map { loop.wallTime.advanced(by: $0) }
        let variants = [Resolution.p480, .p720].map { resolution in
            var variant = VidMedia.Variant(
                resolution: resolution,
                urls: [MediaURL("http://simulated.test/\(source.vid)-\(resolution).mp4", expires: expires)])
            variant.bitrate = resolution == .p480 ? 500_000 : 1_500_000
            return variant
        }
        return VidMedia(vid: source.vid, variants: variants)
    }
    var asked: [String] { counts.withLock { $0.asked } }
}

/// Lists a file that cannot be had, or gives up.
private final class OddResolver: VidResolver {
    let givesUp = Lock(false)
    let count = Lock(0)
    func resolve(_ source: VidSource, with http: WebClient) async throws -> VidMedia {
        count.withLock { $0 += 1 }
        if givesUp.withLock({ $0 }) { throw CancellationError() }
        return VidMedia(
            vid: source.vid,
            variants: [
                .init(resolution: .p720, urls: []),
                .init(resolution: .p480, urls: [MediaURL("http://simulated.test/a.mp4")]),
            ])
    }
}

/// Passes the world's service on, because the world needs a configuration before it has a loop.
private final class Door: VidResolver {
    let service = Lock<Service?>(nil)
    func resolve(_ source: VidSource, with http: WebClient) async throws -> VidMedia {
        guard let service = service.withLock({ $0 }) else { throw VidError.noVariant(vid: source.vid) }
        return try await service.resolve(source, with: http)
    }
}

private func withVids(
    life: Duration? = nil, startup: StartupResolution = StartupResolution(), count: Int = 6,
    _ body: @escaping @Sendable (SimulatedWorld, Service) async throws -> Void
) throws {
    let door = Door()
    let world = try SimulatedWorld(seed: 1) { configuration in
        (configuration.vidResolver, configuration.startup) = (door, startup)
    }
    let service = Service(on: world.loop, life: life)
    door.service.withLock { $0 = service }
    try world.run {
        for number in 0..<count {
            for resolution in ["480p", "720p"] {
                let content = [UInt8](repeating: UInt8(number), count: 200_000)
                await world.network.serve(
                    "http://simulated.test/v\(number)-\(resolution).mp4",
                    .init(bytes: content, validator: "\"\(number)\""))
            }
        }
        try await body(world, service)
    }
}
private func entry(_ number: Int, _ resolution: Resolution? = nil) throws -> FeedEntry {
    FeedEntry(try VidSource(vid: "v\(number)", playAuthToken: "t\(number)", resolution: resolution))
}
private func requests(_ world: SimulatedWorld, _ name: String) async -> Int {
    await world.network.requestedRanges(of: "http://simulated.test/\(name).mp4").count
}

@Suite("Ids as sources") struct VidPageTests {
    @Test("an id is asked for once, and preload, pre-render and play have the same file") func oneChoice() throws {
        try withVids { world, service in
            let page = try await world.openPage("A", try (0..<4).map { try entry($0) })
            _ = try await page.play("v0")
            try await world.loop.sleep(for: .seconds(6))
            #expect(await page.peekPreRenderedEngine(for: "v1") == .ready)
            _ = try await page.play("v1")
            #expect(await page.currentMetrics?.servedAs == .preRendered)
            #expect(await page.currentMetrics?.variant == "720p h264")
            #expect(Set(service.asked).count == service.asked.count)
            #expect(await requests(world, "v1-480p") == 0)
        }
    }
    @Test("the choice stays although the network has changed since the preload") func sticky() throws {
        try withVids { world, service in
            let page = try await world.openPage("A", try (0..<4).map { try entry($0) })
            _ = try await page.play("v0")
            try await world.loop.sleep(for: .seconds(6))
            await world.runtime.setNetwork(.metered)  // 480p at most for what is chosen from now on
            _ = try await page.play("v1")
            #expect(await page.currentMetrics?.variant == "720p h264")
            try await page.addSources([try entry(5)])
            _ = try await page.play("v5")
            #expect(await page.currentMetrics?.variant == "480p h264")
        }
    }
    @Test("a play at another resolution than was prepared is another file, and that is told") func mismatch() throws {
        try withVids { world, service in
            let page = try await world.openPage("A", [try entry(0), try entry(1, .p480), try entry(2)])
            _ = try await page.play("v0")
            try await world.loop.sleep(for: .seconds(6))
            try await page.update(try entry(1, .p720))
            _ = try await page.play("v1")
            #expect(await page.currentMetrics?.variant == "720p h264")
            var told: [String] = []
            await page.clear()
            await world.runtime.shutdown()
            for await event in page.events {
                if case .resolutionMismatch(let entry, let prepared, let played) = event {
                    told.append("\(entry) \(prepared) \(played)")
                }
            }
            #expect(told == ["v1 480p h264 720p h264"])
        }
    }
    @Test("a resolution that is not offered falls to the nearest lower one, and that is told") func fallback() throws {
        try withVids { world, service in
            let page = try await world.openPage("A", [try entry(0, .p1080), try entry(1, .p240)])
            _ = try await page.play("v0")
            _ = try await page.play("v1")
            await world.runtime.shutdown()
            var told: [String] = []
            for await event in page.events {
                if case .resolutionFellBack(let entry, let asked, let got) = event {
                    told.append("\(entry) \(asked) \(got)")
                }
            }
            #expect(told == ["v0 1080p 720p", "v1 240p 480p"])
        }
    }
    @Test("at most four at a time, and who plays goes before who preloads") func inFlight() throws {
        try withVids(count: 12) { world, service in
            let page = try await world.runtime.makePage("A", strategies: [.preload(.init(count: 10))])
            try await world.runtime.enter(page)
            try await page.setSources(try (0..<12).map { try entry($0) })
            var readers: [Task<Void, any Error>] = []
            for number in 0..<10 {
                let source = try entry(number).source
                readers.append(
                    Task(executorPreference: world.loop) {
                        await (try await world.runtime.open(source, priority: .preload)).close()
                    })
            }
            try await world.loop.sleep(for: .milliseconds(1))
            let play = Task(executorPreference: world.loop) { _ = try await page.play("v11") }
            try await play.value
            for reader in readers { try await reader.value }
            #expect(service.counts.withLock { $0.mostRunning } == 4)
            #expect(service.asked.firstIndex(of: "v11") ?? 99 <= 4, "\(service.asked)")
        }
    }
    @Test("an answer is kept until its URLs expire") func expiry() throws {
        try withVids(life: .seconds(160)) { world, service in
            let page = try await world.runtime.makePage("A", strategies: [])
            try await world.runtime.enter(page)
            try await page.setSources([try entry(0), try entry(1)])
            for _ in 0..<3 {
                _ = try await page.play("v0")
                try await world.loop.sleep(for: .seconds(10))
            }
            #expect(service.asked == ["v0"])
            await world.runtime.clearCache()
            try await world.loop.sleep(for: .seconds(80))
            _ = try await page.play("v1")
            _ = try await page.play("v0")
            #expect(service.asked == ["v0", "v1", "v0"])
        }
    }
    @Test("a refusal is the play's error; the token of today works") func refused() throws {
        try withVids { world, service in
            let page = try await world.runtime.makePage("A", strategies: [])
            try await world.runtime.enter(page)
            try await page.setSources([try entry(0)])
            service.failure.withLock { $0 = .expiredToken(vid: "v0") }
            await #expect(throws: VidError.expiredToken(vid: "v0")) { _ = try await page.play("v0") }
            service.failure.withLock { $0 = nil }
            try await page.update(FeedEntry(try VidSource(vid: "v0", playAuthToken: "new")))
            _ = try await page.play("v0")
            #expect(await page.currentMetrics?.entry == "v0")
        }
    }
    @Test("a variant without URLs is none, and a resolver that gives up is asked once") func odd() throws {
        let odd = OddResolver()
        let world = try SimulatedWorld(seed: 1) { $0.vidResolver = odd }
        try world.run {
            let url = "http://simulated.test/a.mp4"
            await world.network.serve(url, .init(bytes: [UInt8](repeating: 1, count: 100_000)))
            let page = try await world.openPage("A", [try entry(0, .p720)], [])
            _ = try await page.play("v0")
            #expect(await page.currentMetrics?.variant == "480p h264")
            odd.givesUp.withLock { $0 = true }
            try await page.addSources([try entry(1)])
            await #expect(throws: VidError.network(vid: "v1", reason: "the resolver gave up")) {
                _ = try await page.play("v1")
            }
            #expect(odd.count.withLock { $0 } == 2)
        }
    }
    @Test("new tokens for the same ids don't change what was chosen") func tokens() throws {
        try withVids { world, service in
            let page = try await world.openPage("A", try (0..<3).map { try entry($0) }, [.preload])
            _ = try await page.play("v0")
            try await world.loop.sleep(for: .seconds(6))
            await world.runtime.setNetwork(.metered)
            try await page.setSources(
                try (0..<3).map { FeedEntry(try VidSource(vid: "v\($0)", playAuthToken: "new\($0)")) })
            _ = try await page.play("v1")
            #expect(await page.currentMetrics?.variant == "720p h264")
            #expect(await page.currentMetrics?.servedAs == .preloaded)
        }
    }
    @Test("CONC-3, PAGE-6: a page that is left while ids are asked for is cleared at once") func leaving() throws {
        try withVids { world, service in
            let page = try await world.openPage("A", try (0..<4).map { try entry($0) })
            let play = Task(executorPreference: world.loop) { _ = try await page.play("v2") }
            try await world.loop.sleep(for: .milliseconds(10))
            let before = world.loop.now
            await world.runtime.leave(page)
            #expect(before.duration(to: world.loop.now) == .zero)
            await #expect(throws: FeedError.superseded) { try await play.value }
        }
    }
    @Test("whoever asks while a cancelled request still ends gets an answer of its own") func crossing() throws {
        try withVids { world, service in
            let source = try entry(0).source
            let first = Task(executorPreference: world.loop) {
                await (try await world.runtime.open(source)).close()
            }
            try await world.loop.sleep(for: .milliseconds(50))
            first.cancel()
            await (try await world.runtime.open(source)).close()
            await #expect(throws: CancellationError.self) { try await first.value }
        }
    }
}
