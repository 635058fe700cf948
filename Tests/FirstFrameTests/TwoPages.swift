import EventLoop
import FirstFrame
import Simulation
import Testing

extension SimulatedWorld {
    /// A page that owns the strategies and has its list.
    func openPage(
        _ name: String, _ entries: [FeedEntry], _ strategies: [Strategy] = FeedScene.smallVideo.strategies
    ) async throws -> FeedPage {
        let page = try await runtime.makePage(name, strategies: strategies)
        try await runtime.enter(page)
        try await page.setSources(entries)
        return page
    }

    /// Runs in virtual time, and ends the runtime.
    func run(_ body: @escaping @Sendable () async throws -> Void) throws {
        let ended: Void? = try loop.run {
            try await body()
            await self.runtime.shutdown()
        }
        #expect(ended != nil, "it hangs")
        #expect(engines.counts.live == 0)
    }
}

/// Two pages with four clips each; A plays its second one.
func withTwoPages(
    seed: UInt64 = 1, openTime: Duration = .milliseconds(10),
    _ body: @escaping @Sendable (SimulatedWorld, _ a: FeedPage, _ b: FeedPage, [FeedEntry]) async throws -> Void
) throws {
    let world = try SimulatedWorld(seed: seed, openTime: openTime, engineLimit: 4)
    let entries = try world.serveClips(8, bytes: 300_000)
    try world.run {
        let a = try await world.openPage("A", Array(entries[..<4]))
        let b = try await world.runtime.makePage("B")
        _ = try await a.play("1")
        try await world.loop.sleep(for: .seconds(1))
        try await body(world, a, b, entries)
    }
    #expect(world.engines.counts.mostPlaying <= 1)
}

extension FeedEntry {
    /// The URL of an entry that has one.
    var url: String { if case .url(let source) = source { source.url } else { "" } }
}
