import EventLoop
import FeedVocabulary
import FirstFrame
import HTTPTransport
import Simulation
import Testing

extension SimulatedWorld {
    /// Entries of which something has been asked for, in the order of the first request.
    func asked() async -> [EntryID] {
        var seen: [EntryID] = []
        for request in await network.requests {
            let name = request.url.drop { !$0.isNumber }.prefix { $0.isNumber }
            if !seen.contains(EntryID(String(name))) { seen.append(EntryID(String(name))) }
        }
        return seen
    }
}

@Suite("Preload faults") struct PreloadFaultTests {
    @Test("PRELOAD-1: with a network hardly faster than the clip, it has all of it until its buffer is at the limit")
    func currentFirst() throws {
        let world = try SimulatedWorld(seed: 1, bytesPerSecond: 130_000)
        let entries = try world.serveClips(6)  // 100 KB a second each
        try world.run {
            let strategy = Strategy.preload(.init(count: 5, startBufferLimit: 5, stopBufferLimit: 3))
            let page = try await world.openPage("A", entries, [strategy])
            let engine = try await page.play("0")
            while await world.asked() == ["0"] { try await world.loop.sleep(for: .milliseconds(20)) }
            let status = await engine.status()
            #expect(status.isComplete || status.bufferedAhead >= .seconds(5))
            try await world.loop.sleep(for: .seconds(6))
            #expect(await engine.status().stallCount == status.stallCount)
        }
    }

    @Test("PRELOAD-2: after a jump, work for what was passed ends at once, and the target is served first") func jump()
        throws
    {
        let world = try SimulatedWorld(seed: 2)
        let entries = try world.serveClips(12, bytes: 4_000_000)
        try world.run {
            let strategy = Strategy.preload(.init(count: 5, size: 3_000_000, startBufferLimit: 1, stopBufferLimit: 0.5))
            let page = try await world.openPage("A", entries, [strategy])
            _ = try await page.play("0")
            while await world.asked().count < 3 { try await world.loop.sleep(for: .milliseconds(50)) }
            let before = await world.network.requests.count
            _ = try await page.play("6")
            let target = "http://simulated.test/clip6.mp4"
            let urls = await world.network.requests.dropFirst(before).map(\.url).drop { $0 != target }
            #expect(!urls.isEmpty && urls.allSatisfy { $0 == target })
            #expect(await page.audit.preloads == 0)
            let fetched = await world.runtime.statistics().bytesFetched
            try await world.loop.sleep(for: .milliseconds(100))
            let moreThanItself = await world.runtime.statistics().bytesFetched - fetched
            #expect(moreThanItself <= 200_000, "what is under way is at most a piece or two")
        }
    }

    @Test("PRELOAD-4: after thirty swipes in three seconds, the last one starts as from rest") func flood() throws {
        func firstFrame(afterSwipes swipes: Int) throws -> Duration {
            let world = try SimulatedWorld(seed: 3)
            let entries = try world.serveClips(32)
            let time = Lock(Duration.zero)
            try world.run {
                let page = try await world.openPage("A", entries, FeedScene.smallVideo.strategies)
                if swipes == 0 { await page.clear(); try await page.enable([]); try await page.setSources(entries) }
                for number in 0..<swipes {
                    world.loop.spawn { _ = try? await page.play(EntryID("\(number)")) }
                    try await world.loop.sleep(for: .milliseconds(100))
                }
                _ = try await page.play("30")
                let metrics = await page.currentMetrics
                time.withLock { $0 = metrics?.timeToFirstFrame ?? .seconds(99) }
                #expect(await world.runtime.statistics().liveEngines <= 3)
            }
            return time.withLock { $0 }
        }
        let (rested, hurried) = (try firstFrame(afterSwipes: 0), try firstFrame(afterSwipes: 30))
        #expect(hurried <= rested * 1.25, "\(hurried) after a hurry, \(rested) from rest")
    }

    @Test("PRELOAD-8: a list of one, and of two, plays with everything on") func short() throws {
        let world = try SimulatedWorld(seed: 4)
        let entries = try world.serveClips(2)
        try world.run {
            let page = try await world.openPage("A", [entries[0]], FeedScene.smallVideo.strategies)
            for _ in 0..<3 {
                _ = try await page.play("0")
                try await world.loop.sleep(for: .seconds(12))  // to its end
            }
            #expect(await world.asked() == ["0"])
            try await page.addSources([entries[1]])
            try await world.loop.sleep(for: .seconds(1))
            #expect(await page.peekPreRenderedEngine(for: "1") == .ready)
        }
    }

    @Test("PRELOAD-10: what was preloaded starts without the network") func offline() throws {
        let world = try SimulatedWorld(seed: 5)
        let entries = try world.serveClips(3)
        try world.run {
            let page = try await world.openPage("A", entries, [.preload])
            _ = try await page.play("0")
            try await world.loop.sleep(for: .seconds(5))
            let isThere = await page.decisions.contains {
                $0.entry == "1" && $0.kind == .stopped && $0.reason == .finished
            }
            #expect(isThere)
            await world.network.setDown(true)
            _ = try await page.play("1")
            #expect(await page.currentMetrics?.servedAs == .preloaded)
        }
    }

    @Test("a preload that gets no byte lets those behind it go first, and is tried again later") func stalled() throws {
        let world = try SimulatedWorld(seed: 6)
        var entries = try world.serveClips(5)
        entries.insert(FeedEntry(try URLSource(url: "http://simulated.test/silent.mp4"), id: "silent"), at: 1)
        let list = entries
        try world.run {
            await world.network.serve(
                "http://simulated.test/silent.mp4", .init(bytes: [UInt8](repeating: 9, count: 500_000)))
            await world.network.setSilent("http://simulated.test/silent.mp4", true)
            let page = try await world.openPage("A", list, [.preload(.init(count: 5, size: 100_000))])
            _ = try await page.play("0")
            try await world.loop.sleep(for: .seconds(8))
            #expect(Set(await world.asked()).isSuperset(of: ["1", "2", "3", "4"]))
            let before = await page.decisions.last { $0.entry == "silent" && $0.kind == .stopped }?.reason
            #expect(before == .stalled)
            await world.network.setSilent("http://simulated.test/silent.mp4", false)
            try await world.loop.sleep(for: .seconds(6))
            let after = await page.decisions.last { $0.entry == "silent" && $0.kind == .stopped }?.reason
            #expect(after == .finished)
        }
    }
}

@Suite("What strategies may take") struct NetworkLimitTests {
    private func withPage(
        _ strategies: [Strategy], clips: Int = 5, bytes: Int = 1_000_000,
        _ body: @escaping @Sendable (SimulatedWorld, FeedPage) async throws -> Void
    ) throws {
        let world = try SimulatedWorld(seed: 7)
        let entries = try world.serveClips(clips, bytes: bytes)
        try world.run {
            let page = try await world.openPage("A", entries, strategies)
            try await body(world, page)
        }
    }

    @Test("a byte budget ends strategies, and the current entry is exempt") func budget() throws {
        try withPage([.preload(.init(count: 4, size: 500_000)), .preRender]) { world, page in
            try await world.runtime.setLimits(NetworkLimits(byteBudget: 600_000), for: .unmetered)
            _ = try await page.play("0")
            try await world.loop.sleep(for: .seconds(15))
            let fetched = await world.runtime.statistics().bytesFetched
            #expect((1_500_000...1_700_000).contains(fetched), "\(fetched): all of the current one, and the budget")
            #expect(await page.decisions.last?.reason == .budget)
            #expect(await page.audit.preloads == 0)
            // A new budget begins anew.
            try await world.runtime.setLimits(NetworkLimits(), for: .unmetered)
            try await world.loop.sleep(for: .seconds(15))
            let all = await world.runtime.statistics().bytesFetched
            #expect(all > 2_950_000, "all of the current one and the heads, but for pieces that were under way")
            try await world.runtime.setLimits(NetworkLimits(byteBudget: 0), for: .unmetered)
            _ = try await page.play("4")
            #expect(await page.currentMetrics?.entry == "4")
        }
    }
    @Test("CONC-3: a host's own preload is told that the budget is spent, and does not wait for ever") func spent()
        throws
    {
        try withPage([]) { world, page in
            try await world.runtime.setLimits(NetworkLimits(byteBudget: 300_000), for: .unmetered)
            let source = try #require(await page.source(of: "1"))
            let reader = try await world.runtime.open(source, priority: .preload)
            await #expect(throws: LoadError.budgetSpent) { for try await _ in reader.read() {} }
            await #expect(throws: LoadError.budgetSpent) { for try await _ in reader.read(900_000..<950_000) {} }
            // Beside one that plays it.
            _ = try await page.play("1")
            try await world.loop.sleep(for: .seconds(5))
            let second = try await world.runtime.open(source, priority: .preload)
            for try await _ in second.read() {}
            // The same kind of network said again is no new budget.
            await world.runtime.setNetwork(.unmetered)
            await world.runtime.setNetwork(.metered)
            await world.runtime.setNetwork(.unmetered)
            let other = try #require(await page.source(of: "2"))
            let third = try await world.runtime.open(other, priority: .preload)
            await #expect(throws: LoadError.budgetSpent) { for try await _ in third.read() {} }
            for reader in [reader, second, third] { await reader.close() }
        }
    }
    @Test("a slow rate is no slow server: nothing counts as stalled") func slow() throws {
        try withPage([.preload(.init(count: 1, size: 100_000))]) { world, page in
            try await world.runtime.setLimits(NetworkLimits(bytesPerSecond: 4_000), for: .unmetered)
            _ = try await page.play("0")
            try await world.loop.sleep(for: .seconds(45))
            #expect(await page.decisions.allSatisfy { $0.reason != .stalled })
            #expect(await page.decisions.last { $0.entry == "1" }?.reason == .finished)
        }
    }
    @Test("PRELOAD-3: a server without ranges is asked once for a head, whatever the pace") func withoutRanges() throws
    {
        try withPage([]) { world, page in
            var resource = SimulatedNetwork.Resource(bytes: [UInt8](repeating: 3, count: 3_000_000))
            resource.supportsRanges = false
            await world.network.serve("http://simulated.test/whole.mp4", resource)
            try await world.runtime.setLimits(NetworkLimits(bytesPerSecond: 300_000), for: .unmetered)
            let other = try await world.runtime.makePage("B", strategies: [.preload(.init(count: 1, size: 500_000))])
            try await world.runtime.enter(other)
            try await other.setSources([FeedEntry(try URLSource(url: "http://simulated.test/whole.mp4"), id: "w")])
            try await world.loop.sleep(for: .seconds(10))
            #expect(await other.decisions.last?.reason == .finished)
            #expect(await world.network.requests.filter { $0.url.hasSuffix("whole.mp4") }.count <= 3)
        }
    }
    @Test("a rate limit holds for strategies together, and not for the current entry") func rate() throws {
        try withPage([.preload(.init(count: 4, size: 500_000))]) { world, page in
            try await world.runtime.setLimits(NetworkLimits(bytesPerSecond: 50_000), for: .unmetered)
            _ = try await page.play("0")
            while await world.asked().count < 2 { try await world.loop.sleep(for: .milliseconds(10)) }
            let engine = try #require(await page.currentEngine)
            #expect(await engine.status().isComplete, "the default limits: nothing before")
            let (start, before) = (world.loop.now, await world.runtime.statistics().bytesFetched)
            try await world.loop.sleep(for: .seconds(20))
            let rate =
                Double(await world.runtime.statistics().bytesFetched - before)
                / (start.duration(to: world.loop.now) / .seconds(1))
            #expect((45_000...53_000).contains(rate), "\(rate)")
        }
    }
    @Test("limits are kept for each kind of network, and hold when that network is there") func kinds() throws {
        try withPage([.preload(.init(count: 4, size: 500_000))]) { world, page in
            try await world.runtime.setLimits(NetworkLimits(byteBudget: 0), for: .metered)
            _ = try await page.play("0")
            await world.runtime.setNetwork(.metered)
            try await world.loop.sleep(for: .seconds(8))
            #expect(await world.asked() == ["0"])
            await world.runtime.setNetwork(.unmetered)
            try await world.loop.sleep(for: .seconds(8))
            #expect(await world.asked().sorted() == ["0", "1", "2", "3", "4"])
            await #expect(throws: ConfigurationError.self) {
                try await world.runtime.setLimits(NetworkLimits(bytesPerSecond: 3), for: .metered)
            }
        }
    }
    @Test("PRELOAD-6: without a network strategies end, what plays goes on, and all comes back at once") func lost()
        throws
    {
        try withPage([.preload(.init(count: 4, size: 900_000)), .preRender], bytes: 2_000_000) { world, page in
            let engine = try await page.play("0")
            while await page.audit.preloads == 0 { try await world.loop.sleep(for: .milliseconds(50)) }
            await world.network.setDown(true)
            await world.runtime.setNetwork(.none)
            #expect(await page.audit.preloads == 0)
            #expect(await page.decisions.last?.reason == .network)
            let position = await engine.status().position
            try await world.loop.sleep(for: .seconds(2))
            #expect(await engine.status().position > position)
            await world.network.setDown(false)
            await world.runtime.setNetwork(.unmetered)
            #expect(await page.audit.preloads + page.audit.openings > 0)
        }
    }
    @Test("PAGE-9: a network that comes back does not undo a pause by the user") func pausedOffline() throws {
        try withPage(FeedScene.smallVideo.strategies, bytes: 10_000_000) { world, page in
            let engine = try await page.play("0")
            await world.runtime.setNetwork(.none)
            try await world.loop.sleep(for: .seconds(3))  // it stalls
            #expect(await engine.status().isStalled)
            try await engine.pause()
            await world.runtime.setNetwork(.unmetered)
            try await world.loop.sleep(for: .seconds(5))
            let position = await engine.status().position
            try await world.loop.sleep(for: .seconds(2))
            #expect(await engine.status().position == position)
            #expect(world.engines.counts.playing == 0)
        }
    }
    @Test("requests wait a minute for a network that the host says is not there, and then fail") func offlineStart()
        throws
    {
        try withPage([]) { world, page in
            await world.runtime.setNetwork(.none)
            let before = world.loop.now
            await #expect(throws: LoadError.network(reason: "there has been no network for a minute")) {
                _ = try await page.play("0")
            }
            let waited = before.duration(to: world.loop.now)
            #expect(waited >= .seconds(60) && waited < .seconds(61))
            let play = Task(executorPreference: world.loop) { _ = try await page.play("0") }
            try await world.loop.sleep(for: .seconds(30))
            await world.runtime.setNetwork(.metered)
            try await play.value
        }
    }
    @Test("hosts of the next entries are connected to before their bytes may be fetched") func preconnect() throws {
        let world = try SimulatedWorld(seed: 8)
        var entries = try world.serveClips(1)
        for number in 1..<6 {
            entries.append(FeedEntry(try URLSource(url: "https://cdn\(number).test/a.mp4"), id: EntryID("\(number)")))
        }
        let list = entries
        try world.run {
            let page = try await world.openPage("A", list, [.preload(.init(count: 1))])
            _ = try await page.play("0")
            try await world.loop.sleep(for: .milliseconds(1))
            let hosts = await world.network.preconnections.map(\.host)
            #expect(hosts.suffix(3) == ["cdn1.test", "cdn2.test", "cdn3.test"])
        }
    }
    @Test("once the buffer is comfortable, reading ahead is spaced so that the network is free most of the time")
    func pacing()
        throws
    {
        // 100 KB a second on a network of 1 MB a second: 150 KB a second of reading ahead.
        let world = try SimulatedWorld(seed: 9)
        let entries = try world.serveClips(1, bytes: 1_000_000)
        try world.run {
            let strategy = Strategy.preload(.init(count: 1, startBufferLimit: 4, stopBufferLimit: 2))
            let page = try await world.openPage("A", entries, [strategy])
            let engine = try await page.play("0")
            while await page.audit.isGateOpen != true { try await world.loop.sleep(for: .milliseconds(10)) }
            try await world.loop.sleep(for: .milliseconds(300))  // the request under way
            let (start, before) = (world.loop.now, await world.runtime.statistics().bytesFetched)
            let status = await engine.status()
            #expect(!status.isComplete)
            try await world.loop.sleep(for: .seconds(2))
            let rate =
                Double(await world.runtime.statistics().bytesFetched - before)
                / (start.duration(to: world.loop.now) / .seconds(1))
            #expect(rate < 200_000, "\(rate)")
            #expect(await engine.status().stallCount == status.stallCount)
        }
    }
}
