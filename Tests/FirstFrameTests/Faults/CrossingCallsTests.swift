import EventLoop
import FeedVocabulary
import FirstFrame
import Simulation
import Testing

/// Calls of one page or of several that are under way at the same time.
@Suite("Crossing calls") struct CrossingCallsTests {
    @Test("a nested page that is left while it is entered gives the page below back", arguments: 0..<12)
    func leftWhileEntered(delay: Int) throws {
        var weather = EngineWeather()
        (weather.openTime, weather.longestStop) = (.milliseconds(5), .milliseconds(40))
        let world = try SimulatedWorld(seed: 11, engines: weather, engineLimit: 4)
        let entries = try world.serveClips(4, bytes: 100_000)
        try world.run {
            let a = try await world.runtime.makePage("A")
            let b = try await world.runtime.makePage("B")
            try await world.runtime.enter(a)
            try await a.setSources(entries)
            _ = try await a.play("0")
            try await world.loop.sleep(for: .seconds(2))
            let entering = Task(executorPreference: world.loop) {
                try await world.runtime.enter(b, by: .replaceSources)
            }
            try await world.loop.sleep(for: .milliseconds(delay * 4))
            await world.runtime.leave(b)
            #expect(await world.runtime.owner == a.id)
            #expect(await a.audit.state == .sourced)
            _ = await entering.result
            try await world.loop.sleep(for: .milliseconds(100))
            #expect(world.engines.counts.playing == 1)
        }
    }

    @Test("the way back is made though the task that leaves is cancelled, or a switch between comes to nothing")
    func wayBack() throws {
        try withTwoPages { world, a, b, entries in
            try await world.runtime.enter(b, by: .replaceSources)
            let leaving = Task(executorPreference: world.loop) { await world.runtime.leave(b) }
            leaving.cancel()
            await leaving.value
            #expect(await world.runtime.owner == a.id)
            let c = try await world.runtime.makePage("C")
            try await world.runtime.enter(b, by: .replaceSources)
            let both = (
                Task(executorPreference: world.loop) { await world.runtime.leave(b) },
                Task(executorPreference: world.loop) { try await world.runtime.enter(c, by: .replaceSources) }
            )
            both.1.cancel()
            await both.0.value
            _ = await both.1.result
            #expect(await world.runtime.owner == a.id)
        }
    }

    @Test("CONC-3: a call of a task that is cancelled already changes nothing") func cancelledBefore() throws {
        try withTwoPages { world, a, b, entries in
            let play = Task(executorPreference: world.loop) { _ = try await a.play("3") }
            play.cancel()
            await #expect(throws: CancellationError.self) { try await play.value }
            #expect(await a.currentMetrics?.entry == "1")
            #expect(world.engines.counts.playing == 1)
            let enter = Task(executorPreference: world.loop) { try await world.runtime.enter(b) }
            enter.cancel()
            await #expect(throws: CancellationError.self) { try await enter.value }
            #expect(await world.runtime.owner == a.id)
            #expect(world.engines.counts.playing == 1)
        }
    }

    @Test("in the background pages may be left and entered, and nothing is heard or fetched") func leftInBackground()
        throws
    {
        try withTwoPages { world, a, b, entries in
            try await world.runtime.enter(b, by: .replaceSources)
            try await b.setSources(Array(entries[4...]))
            _ = try await b.play("4")
            await world.runtime.suspend()
            let requests = await world.network.requests.count
            await world.runtime.leave(b)
            #expect(await world.runtime.owner == a.id)
            #expect(await a.audit.state == .covered)
            try await world.loop.sleep(for: .seconds(3))
            #expect(world.engines.counts.playing == 0)
            #expect(await world.network.requests.count == requests)
            #expect(world.engines.counts.live == 1)
            await world.runtime.suspend(keepingEngines: false)  // a memory warning
            #expect(world.engines.counts.live == 0)
            await world.runtime.resume()
            #expect(await a.audit.state == .sourced)
            #expect(await a.position == "1")
        }
    }

    @Test("POOL-10: taken engines that nobody plays don't keep a play waiting") func takenEngines() throws {
        let world = try SimulatedWorld(seed: 4, engineLimit: 2)
        let entries = try world.serveClips(6, bytes: 100_000)
        try world.run {
            let page = try await world.openPage("A", entries)
            for entry: EntryID in ["0", "1"] {
                try await page.willSelect(entry)
                _ = await page.takePreRenderedEngine(for: entry, waitingAtMost: .seconds(Int64.max))
            }
            _ = try await page.play("3")
            #expect(await page.peekPreRenderedEngine(for: "0") == .none)
        }
    }

    @Test("PRELOAD-9: an identity that is twice in one list counts once, with the source that came first")
    func repeated()
        throws
    {
        try withTwoPages { world, a, b, entries in
            let other = FeedEntry(entries[6].source, id: "5")
            try await a.addSources([entries[5], other, entries[5]])
            #expect(await a.entries == ["0", "1", "2", "3", "5"])
            _ = try await a.play("5")
            #expect(await world.network.requestedRanges(of: entries[6].url).isEmpty)
            try await a.setSources([entries[5], other, entries[1]])
            #expect(await a.entries == ["5", "1"])
            _ = try await a.play("5")
            #expect(await world.network.requestedRanges(of: entries[6].url).isEmpty)
        }
    }

    @Test("PRELOAD-6: what failed while the network was away is there some seconds after it is back")
    func passingFailure()
        throws
    {
        try withTwoPages { world, a, b, entries in
            await world.network.setDown(true)
            try await a.setSources([entries[1]] + Array(entries[4...]))
            try await world.loop.sleep(for: .seconds(10))
            #expect(await a.peekPreRenderedEngine(for: "4") != .ready)
            await world.network.setDown(false)
            try await world.loop.sleep(for: .seconds(12))
            #expect(await a.peekPreRenderedEngine(for: "4") == .ready)
        }
    }

    @Test("a scroll that settles where it began takes its announcement back") func settledBack() throws {
        try withTwoPages { world, a, b, entries in
            try await world.loop.sleep(for: .seconds(2))
            try await a.willSelect("3")
            try await world.loop.sleep(for: .seconds(1))
            #expect(await a.peekPreRenderedEngine(for: "3") == .ready)
            try await a.willSelect("1")
            try await world.loop.sleep(for: .seconds(1))
            #expect(await a.peekPreRenderedEngine(for: "2") == .ready)
            #expect(await a.peekPreRenderedEngine(for: "3") == .none)
        }
    }
}
