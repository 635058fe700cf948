import EventLoop
import Simulation
import Testing

@testable import FirstFrame

@Suite("Feed page") struct FeedPageTests {
    @Test("bad order of calls is refused, and the error names the missing call") func order() async throws {
        let world = try SimulatedWorld(seed: 1)
        let entries = try world.serveClips(2)
        try world.run {
            let page = try await world.runtime.makePage("A")
            await #expect(
                throws: FeedError.wrongOrder(call: "setSources", needs: "enable(_:) or the runtime's enter(_:)")
            ) {
                try await page.setSources(entries)
            }
            try await page.enable([.preload])
            await #expect(throws: FeedError.wrongOrder(call: "enable", needs: "clear()")) { try await page.enable([]) }
            await #expect(throws: FeedError.wrongOrder(call: "play", needs: "setSources(_:)")) {
                _ = try await page.play("0")
            }
            let other = try await world.runtime.makePage("B")
            await #expect(throws: FeedError.ownedByOther(page.id)) { try await other.enable([]) }
            await #expect(throws: FeedError.pageExists(page.id)) { _ = try await world.runtime.makePage("A") }
            await page.clear()
            await page.clear()
            try await other.enable([])
        }
    }

    @Test("a pre-rendered entry is served at once; the next one is opened only when the current is supplied")
    func preRendered() async throws {
        let world = try SimulatedWorld(seed: 2)
        let entries = try world.serveClips(5)
        let metrics = try world.loop.run {
            let page = try await world.openPage("A", entries)
            _ = try await page.play("0")
            try await world.loop.sleep(for: .seconds(5))
            #expect(await page.peekPreRenderedEngine(for: "1") == .ready)
            #expect(await page.peekPreRenderedEngine(for: "2") == .none)
            _ = try await page.play("1")
            return await page.currentMetrics
        }
        #expect(metrics??.servedAs == .preRendered)
        #expect(metrics??.timeToFirstFrame == .zero)  // virtual time: not even one timer passed
    }

    @Test("PRELOAD-5: preload, pre-render and play of one clip fetch each byte once") func once() async throws {
        let world = try SimulatedWorld(seed: 3)
        let entries = try world.serveClips(3, bytes: 1_500_000)
        let statistics = try world.loop.run {
            let page = try await world.openPage("A", entries)
            for entry in entries {
                _ = try await page.play(entry.id)
                try await world.loop.sleep(for: .seconds(8))
            }
            await page.clear()
            return await world.runtime.statistics()
        }
        #expect(statistics?.bytesFetched == 4_500_000)
        #expect(statistics?.liveEngines == 0 && statistics?.openResources == 0 && statistics?.runningFetches == 0)
    }

    @Test("PAGE-10: a dead clip gives one error, and the feed goes on") func deadClip() async throws {
        let world = try SimulatedWorld(seed: 4)
        var entries = try world.serveClips(2)
        entries.insert(FeedEntry(try URLSource(url: "http://simulated.test/none.mp4"), id: "dead"), at: 1)
        let list = entries
        try world.run {
            let page = try await world.openPage("A", list)
            _ = try await page.play("0")
            await #expect(throws: LoadError.status(404, url: "http://simulated.test/none.mp4")) {
                _ = try await page.play("dead")
            }
            _ = try await page.play("1")
            await page.clear()
        }
        #expect(world.engines.counts.stopped == world.engines.counts.made)
    }

    @Test("a page that is entered again goes on with its list at its position") func position() async throws {
        let world = try SimulatedWorld(seed: 5)
        let entries = try world.serveClips(6)
        try world.run {
            let a = try await world.runtime.makePage("A")
            let b = try await world.runtime.makePage("B")
            try await world.runtime.enter(a)
            try await a.setSources(Array(entries[..<3]))
            _ = try await a.play("1")
            try await world.runtime.enter(b)
            #expect(await world.runtime.owner == b.id)
            #expect(world.engines.counts.playing == 0)
            try await b.setSources(Array(entries[3...]))
            try await world.runtime.enter(a)
            #expect(await a.position == "1")
            #expect(await a.entries == ["0", "1", "2"])
            _ = try await a.play("1")
        }
    }

    @Test("PAGE-7: removing the entry that plays leaves it playing, and its neighbour is next") func removal()
        async throws
    {
        let world = try SimulatedWorld(seed: 6)
        let entries = try world.serveClips(4)
        try world.run {
            let page = try await world.openPage("A", entries)
            _ = try await page.play("1")
            try await page.remove("1")
            #expect(world.engines.counts.playing == 1)
            #expect(await page.position == "2")
            try await page.addSources([entries[3], entries[0]])
            #expect(await page.entries == ["0", "2", "3"])
        }
    }
}
