import EventLoop
import FeedVocabulary
import FirstFrame
import HTTPTransport
import Simulation
import Testing

/// Requirements on pages and their coordination, each with its number.
@Suite("Page faults") struct PageFaultTests {
    @Test("PAGE-1: only the page on top is heard, under an overlay and after the way back") func audible() throws {
        try withTwoPages { world, a, b, entries in
            #expect(world.engines.counts.playing == 1)
            try await world.runtime.enter(b, by: .replaceSources)  // an overlay without a list
            #expect(world.engines.counts.playing == 0)  // silent when it returns, not 100 ms later
            try await b.setSources(Array(entries[4...]))
            _ = try await b.play("4")
            #expect(world.engines.counts.playing == 1)
            await world.runtime.leave(b)
            #expect(await world.runtime.owner == a.id)
            try await world.loop.sleep(for: .milliseconds(1))
            #expect(world.engines.counts.playing == 1)
            #expect(await a.currentMetrics?.entry == "1")  // still the same play
            await world.runtime.leave(a)
            #expect(world.engines.counts.playing == 0)
        }
    }

    @Test("PAGE-2: what is still opening when its page is left does not start, and starts once on return")
    func leftWhileOpening() throws {
        try withTwoPages(openTime: .seconds(2)) { world, a, b, entries in
            let play = Task(executorPreference: world.loop) { _ = try await a.play("3") }
            try await world.loop.sleep(for: .milliseconds(500))
            try await world.runtime.enter(b)
            await #expect(throws: FeedError.superseded) { try await play.value }
            try await world.loop.sleep(for: .seconds(5))
            #expect(world.engines.counts.playing == 0 && world.engines.counts.live == 0)
            try await world.runtime.enter(a)
            _ = try await a.play("3")
            #expect(world.engines.counts.playing == 1)
        }
    }

    @Test("PAGE-2: a source that fails over while its page is left does not start") func leftDuringFailOver() throws {
        try withTwoPages { world, a, b, entries in
            var good = SimulatedNetwork.Resource(bytes: [UInt8](repeating: 1, count: 100_000), validator: "\"g\"")
            good.failures = 2
            await world.network.serve("http://simulated.test/backup.mp4", good)
            let urls = [MediaURL("http://simulated.test/none.mp4"), MediaURL("http://simulated.test/backup.mp4")]
            try await a.addSources([FeedEntry(try URLSource(urls: urls), id: "failing")])
            let play = Task(executorPreference: world.loop) { _ = try await a.play("failing") }
            try await world.loop.sleep(for: .milliseconds(100))
            await world.runtime.leave(a)
            await #expect(throws: FeedError.superseded) { try await play.value }
            try await world.loop.sleep(for: .seconds(20))
            #expect(world.engines.counts.playing == 0)
        }
    }

    @Test("PAGE-3: a pause by the user survives other pages and the background; an automatic one ends by itself")
    func pauses() throws {
        try withTwoPages { world, a, b, entries in
            let engine = try #require(await a.currentEngine)
            try await engine.pause()
            try await world.runtime.enter(b, by: .replaceSources)
            await world.runtime.leave(b)
            await world.runtime.suspend()
            await world.runtime.resume()
            try await world.loop.sleep(for: .seconds(1))
            #expect(world.engines.counts.playing == 0)
            try await engine.play()
            #expect(world.engines.counts.playing == 1)
            await world.runtime.suspend()
            #expect(world.engines.counts.playing == 0)
            try await engine.pause()  // a media key, while the app is in the background
            await world.runtime.resume()
            try await world.loop.sleep(for: .seconds(1))
            #expect(world.engines.counts.playing == 0)
            try await engine.play()
            await world.runtime.suspend()
            await world.runtime.resume()
            try await world.loop.sleep(for: .milliseconds(1))
            #expect(world.engines.counts.playing == 1)
        }
    }

    /// Enter C, with the short life of another page around it.
    @Test("PAGE-4: only the final state of overlapping transitions acts", arguments: 0..<3, UInt64(0)..<20)
    func transitions(place: Int, seed: UInt64) throws {
        let world = try SimulatedWorld(seed: seed, openTime: .milliseconds(5))
        let entries = try world.serveClips(4, bytes: 300_000)
        try world.run {
            var pages: [FeedPage] = []
            for name in ["old", "A", "C"] {
                let page = try await world.runtime.makePage(name)
                pages.append(page)
                try await world.runtime.enter(page)
                try await page.setSources(entries)
            }
            try await world.runtime.enter(pages[0])
            _ = try await pages[0].play("0")
            let (a, c) = (pages[1], pages[2])
            let steps: [@Sendable () async -> Void] = [
                { try? await world.runtime.enter(a) }, { await world.runtime.leave(a) },
            ]
            let enterC: @Sendable () async -> Void = { try? await world.runtime.enter(c) }
            var order = steps
            order.insert(enterC, at: place)
            var tasks: [Task<Void, Never>] = []
            for step in order {
                tasks.append(world.loop.spawn(step))
                try await world.loop.sleep(for: .microseconds(Int(seed) * 10))
            }
            for task in tasks { await task.value }
            #expect(await a.audit.state == .inactive, "seed \(seed)")
            // When A's short life began after C's had, and was not over before the switch, C has to be entered again.
            if await world.runtime.owner == nil { try await world.runtime.enter(c) }
            #expect(await world.runtime.owner == c.id, "seed \(seed)")
            _ = try await c.play("1")
            try await world.loop.sleep(for: .seconds(1))
            #expect(world.engines.counts.playing == 1, "seed \(seed)")
        }
        #expect(world.engines.counts.mostPlaying == 1, "seed \(seed)")
    }

    @Test("PAGE-5: a late clear of one page leaves the other one alone; the first is rebuilt on return")
    func lateClear()
        throws
    {
        try withTwoPages { world, a, b, entries in
            for isLate in [false, true] {
                if !isLate { await world.runtime.leave(a) }
                try await world.runtime.enter(b)
                try await b.setSources(Array(entries[4...]))
                _ = try await b.play("4")
                if isLate { await a.clear() }
                try await world.loop.sleep(for: .seconds(3))
                #expect(await b.peekPreRenderedEngine(for: "5") == .ready)
                #expect(world.engines.counts.playing == 1)
                try await world.runtime.enter(a)
                #expect(await a.entries == ["0", "1", "2", "3"])
                #expect(await a.position == "1")
                _ = try await a.play("1")
                try await world.loop.sleep(for: .seconds(3))
                #expect(await a.peekPreRenderedEngine(for: "2") == .ready)
            }
        }
    }

    @Test("PAGE-6: closing a page whose network is dead takes no time") func promptClose() throws {
        try withTwoPages { world, a, b, entries in
            await world.network.setDown(true)
            await world.runtime.clearCache()
            let plays = (0..<3).map { number in
                Task(executorPreference: world.loop) { _ = try? await a.play(EntryID("\(number)")) }
            }
            try await world.loop.sleep(for: .milliseconds(400))  // in the middle of the retries
            let start = world.loop.now
            await world.runtime.leave(a)
            #expect(start.duration(to: world.loop.now) < .milliseconds(100))
            for play in plays { await play.value }
            let statistics = await world.runtime.statistics()
            #expect(statistics.openResources == 0 && statistics.runningFetches == 0 && statistics.liveEngines == 0)
            #expect(await world.network.waitingCount == 0)
        }
    }

    @Test("PAGE-7: the position follows the entry through insertions, moves and removals") func position() throws {
        try withTwoPages { world, a, b, entries in
            try await a.insert([entries[5]], at: 0)
            #expect(await a.position == "1")
            try await a.remove("0")
            try await a.move("1", to: 3)
            #expect(await a.entries == ["5", "2", "3", "1"])
            #expect(await a.position == "1")
            try await a.move("1", to: 1)
            #expect(await a.entries == ["5", "1", "2", "3"])
            #expect(await a.currentMetrics?.entry == "1")
            try await a.remove("1")
            #expect(world.engines.counts.playing == 1)  // it plays on
            #expect(await a.position == "2")  // and the one after it is next
            try await a.move("2", to: 3)
            #expect(await a.entries == ["5", "3", "2"])
            #expect(await a.position == "2")
        }
    }

    @Test("an entry's new source is used from its next play on; its spare engine goes at once") func update() throws {
        try withTwoPages { world, a, b, entries in
            try await world.loop.sleep(for: .seconds(2))
            #expect(await a.peekPreRenderedEngine(for: "2") == .ready)
            try await a.update(FeedEntry(entries[6].source, id: "2"))
            #expect(await a.peekPreRenderedEngine(for: "2") != .ready)
            _ = try await a.play("2")
            #expect(await world.network.requestedRanges(of: entries[6].url).isEmpty == false)
            await #expect(throws: FeedError.unknownEntry("none")) {
                try await a.update(FeedEntry(entries[6].source, id: "none"))
            }
            await #expect(throws: FeedError.unknownEntry("none")) { try await a.move("none", to: 0) }
        }
    }

    @Test("PAGE-8: events name their entry, and none of an older play comes after a newer one's first frame")
    func generations() throws {
        try withTwoPages { world, a, b, entries in
            let events = Lock<[String]>([])
            let listener = world.loop.spawn {
                for await event in a.events {
                    switch event {
                    case .firstFrame(let metrics): events.withLock { $0.append("frame \(metrics.entry)") }
                    case .played(let metrics): events.withLock { $0.append("played \(metrics.entry)") }
                    case .playFailed(let entry, _): events.withLock { $0.append("failed \(entry)") }
                    case _: break
                    }
                }
            }
            for entry: EntryID in ["0", "3", "0"] {
                world.loop.spawn { _ = try? await a.play(entry) }
                try await world.loop.sleep(for: .milliseconds(30))
            }
            try await world.loop.sleep(for: .seconds(3))
            await world.runtime.leave(a)
            try await world.loop.sleep(for: .milliseconds(1))  // what was told before is heard
            let atReturn = events.withLock { $0 }
            try await world.loop.sleep(for: .seconds(3))
            #expect(events.withLock { $0 } == atReturn)
            #expect(atReturn == ["frame 1", "played 1", "frame 3", "played 3", "frame 0", "played 0"])
            await world.runtime.shutdown()
            await listener.value
        }
    }

    @Test("PAGE-10: of a list with five dead entries each gives one error, and the good one plays") func deadEntries()
        throws
    {
        try withTwoPages { world, a, b, entries in
            let network = world.network
            var empty = SimulatedNetwork.Resource(bytes: [])
            empty.contentType = "video/mp4"
            await network.serve("http://simulated.test/empty.mp4", empty)
            var page = SimulatedNetwork.Resource(bytes: Array("<html>moved</html>".utf8))
            page.contentType = "text/html"
            await network.serve("http://simulated.test/page.mp4", page)
            var list: [FeedEntry] = []
            for name in ["none", "empty", "page", "other"] {
                list.append(FeedEntry(try URLSource(url: "http://simulated.test/\(name).mp4"), id: EntryID(name)))
            }
            list.append(FeedEntry(try URLSource(url: "http://nowhere.test/a.mp4"), id: "far"))
            try await a.setSources(list + [entries[0]])
            for entry in list {
                await #expect(throws: LoadError.self) { _ = try await a.play(entry.id) }
                #expect(world.engines.counts.playing == 0)
            }
            _ = try await a.play("0")
            try await world.loop.sleep(for: .seconds(1))  // plays in such a hurry are a fling
            #expect(world.engines.counts.playing == 1)
        }
    }

    // MARK: Pages and engines that go on

    @Test("a play is carried into a page and back: one engine, no byte fetched twice, nothing heard twice")
    func carriedPlay() throws {
        try withTwoPages { world, a, b, entries in
            let engine = try #require(await a.currentEngine)
            let position = await engine.status().position
            try await world.runtime.enter(b, by: .replaceSources, carryingPlay: true)
            try await b.setSources([entries[1], entries[5]])
            try await world.loop.sleep(for: .seconds(1))
            #expect(world.engines.counts.playing == 1)
            #expect(try await b.play("1") === engine)
            #expect(await b.currentMetrics?.servedAs == .carried)
            #expect(await engine.status().position >= position + .seconds(1))
            try await world.runtime.enter(a, carryingPlay: true)
            #expect(try await a.play("1") === engine)
            #expect(await engine.status().position >= position + .seconds(1))
            try await world.runtime.enter(b, by: .replaceSources, carryingPlay: true)
            try await b.setSources([entries[5]])
            _ = try await b.play("5")  // another clip ends it
            try await world.loop.sleep(for: .seconds(1))
            #expect(world.engines.counts.playing == 1)
            #expect(await engine.status().position < .seconds(10))
        }
    }

    @Test("what two pages need is fetched once, and leaving one does not end it") func sharedClip() throws {
        try withTwoPages { world, a, b, entries in
            await world.runtime.leave(a)
            let before = await world.runtime.statistics().bytesFetched
            let reader = try await world.runtime.open(entries[4].source, priority: .preload)
            let whole = Task(executorPreference: world.loop) {
                var count = 0
                for try await piece in reader.read() { count += piece.count }
                return count
            }
            try await world.loop.sleep(for: .milliseconds(100))
            try await world.runtime.enter(b)
            try await b.setSources([entries[4]])
            _ = try await b.play("4")
            await world.runtime.leave(b)
            let count = try await whole.value
            #expect(count == 300_000)
            await reader.close()
            let after = await world.runtime.statistics().bytesFetched
            #expect(after - before == 300_000)
        }
    }

    @Test("an owner that goes away frees the place, and its engines end") func forgottenOwner() throws {
        let world = try SimulatedWorld(seed: 3)
        let entries = try world.serveClips(2, bytes: 300_000)
        try world.run {
            var page: FeedPage? = try await world.runtime.makePage("A")
            try await world.runtime.enter(page!)
            try await page!.setSources(entries)
            _ = try await page!.play("0")
            try await world.loop.sleep(for: .seconds(5))
            page = nil
            try await world.loop.sleep(for: .seconds(1))
            #expect(await world.runtime.owner == nil)
            #expect(world.engines.counts.live == 0)
            let other = try await world.runtime.makePage("A")  // the name is free again
            try await other.enable([.preload])
        }
    }

    @Test(
        "background: nothing works and nothing is heard; engines are kept or dropped as the host chose",
        arguments: [true, false])
    func background(keepsEngines: Bool) throws {
        try withTwoPages { world, a, b, entries in
            await world.runtime.suspend(keepingEngines: keepsEngines)
            #expect(world.engines.counts.playing == 0)
            #expect(world.engines.counts.live == (keepsEngines ? 1 : 0))
            let requests = await world.network.requests.count
            try await world.loop.sleep(for: .seconds(60))
            #expect(await world.network.requests.count == requests)
            await #expect(
                throws: FeedError.wrongOrder(call: "play", needs: "the runtime's enter(_:) or resume()")
            ) { _ = try await a.play("0") }
            // A page that is entered meanwhile stands still, too.
            try await world.runtime.enter(b)
            #expect(await b.audit.state == .covered)
            try await world.runtime.enter(a)
            await world.runtime.resume()
            #expect(await a.audit.state == .sourced)
            #expect(await a.position == "1")
        }
    }
}
