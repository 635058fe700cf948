import EventLoop
import FeedVocabulary
import FirstFrame
import HTTPTransport
import Playback
import Simulation
import Testing

private func withPage(
    _ strategies: [Strategy] = FeedScene.smallVideo.strategies, clips: Int = 8, bytes: Int = 500_000,
    engineLimit: Int = 3,
    _ body: @escaping @Sendable (SimulatedWorld, FeedPage, [FeedEntry]) async throws -> Void
) throws {
    let world = try SimulatedWorld(seed: 11, engineLimit: engineLimit)
    let entries = try world.serveClips(clips, bytes: bytes)
    try world.run {
        try await body(world, try await world.openPage("A", entries, strategies), entries)
    }
}

@Suite("The play before") struct PlayBeforeTests {
    @Test("what played before is silent at once, and ends when the next one has had time to open") func silence() throws
    {
        try withPage([]) { world, page, _ in
            _ = try await page.play("0")
            try await world.loop.sleep(for: .seconds(5))
            #expect(world.engines.counts.playing == 1)
            async let next = page.play("4")
            try await world.loop.sleep(for: .milliseconds(10))
            #expect(world.engines.counts.playing == 0)
            #expect(world.engines.counts.live == 2)
            try await world.loop.sleep(for: .milliseconds(20))
            #expect(world.engines.counts.live == 1)
            _ = try await next
            #expect(world.engines.counts.playing == 1)
        }
    }
    @Test("whose bytes are still on their way ends at once, and leaves the network to the next one") func fetching()
        throws
    {
        try withPage([], bytes: 50_000_000) { world, page, _ in
            _ = try await page.play("0")
            try await world.loop.sleep(for: .seconds(1))
            async let next = page.play("4")
            try await world.loop.sleep(for: .milliseconds(10))
            #expect(world.engines.counts.live == 1)
            _ = try await next
        }
    }
    @Test("where its engine is needed it ends at once") func needed() throws {
        try withPage([.preRender], engineLimit: 2) { world, page, _ in
            _ = try await page.play("0")
            try await world.loop.sleep(for: .seconds(5))
            #expect(await page.peekPreRenderedEngine(for: "1") == .ready)
            async let next = page.play("4")
            try await world.loop.sleep(for: .milliseconds(10))
            #expect(world.engines.counts.live == 1)
            #expect(world.engines.counts.made == 3)
            _ = try await next
        }
    }
}

@Suite("Motion on a page") struct PageMotionTests {
    @Test("after a swipe back the entry before is pre-rendered, after one forward the next") func direction() throws {
        try withPage { world, page, _ in
            _ = try await page.play("4")
            try await world.loop.sleep(for: .seconds(5))
            #expect(await page.peekPreRenderedEngine(for: "5") == .ready)
            _ = try await page.play("3")
            try await world.loop.sleep(for: .seconds(5))
            #expect(await page.peekPreRenderedEngine(for: "2") == .ready)
            #expect(await page.peekPreRenderedEngine(for: "4") == .none)
            _ = try await page.play("4")
            try await world.loop.sleep(for: .seconds(5))
            #expect(await page.peekPreRenderedEngine(for: "5") == .ready)
        }
    }
    @Test("two ahead and one behind are held where there are engines for them") func several() throws {
        let strategies: [Strategy] = [.preload, .preRender(PreRenderConfiguration(ahead: 2, behind: 1))]
        try withPage(strategies, engineLimit: 4) { world, page, _ in
            _ = try await page.play("3")
            try await world.loop.sleep(for: .seconds(5))
            for (entry, status) in [("2", PreRenderStatus.ready), ("4", .ready), ("5", .ready), ("6", .none)] {
                #expect(await page.peekPreRenderedEngine(for: EntryID(entry)) == status, "\(entry)")
            }
            #expect(await world.runtime.statistics().liveEngines == 4)
            _ = try await page.play("4")
            #expect(await page.currentMetrics?.servedAs == .preRendered)
            try await world.loop.sleep(for: .seconds(5))
            #expect(await page.peekPreRenderedEngine(for: "3") == .ready)
            #expect(await page.peekPreRenderedEngine(for: "2") == .none)
        }
        try withPage(strategies, engineLimit: 3) { world, page, _ in
            _ = try await page.play("3")
            try await world.loop.sleep(for: .seconds(5))
            #expect(await page.peekPreRenderedEngine(for: "2") == .none, "those ahead come first")
            #expect(await page.peekPreRenderedEngine(for: "5") == .ready)
        }
    }
    @Test("a viewer who browses has heads on both sides of what is in view") func browsing() throws {
        try withPage([.preload(.init(count: 4, size: 100_000))]) { world, page, _ in
            try await page.browse(at: "4")
            try await world.loop.sleep(for: .seconds(3))
            #expect(await world.asked().suffix(5).sorted() == ["2", "3", "4", "5", "6"])
            await #expect(throws: FeedError.unknownEntry("none")) { try await page.browse(at: "none") }
            _ = try await page.play("0")
            try await world.loop.sleep(for: .seconds(3))
            #expect(await world.asked().contains("1"))
        }
    }
    @Test("a scene has the strategies that suit it") func scenes() {
        #expect(FeedScene.smallVideo.strategies == [.preload(.automatic), .preRender(.init(ahead: 1, behind: 0))])
        #expect(FeedScene.shortVideo.strategies == [.preload(.init(count: 5))])
    }
    @Test("a new list cancels the work of what left it, and keeps that of what stayed") func newList() throws {
        try withPage([.preload(.init(count: 2, size: 400_000)), .preRender]) { world, page, entries in
            _ = try await page.play("0")
            try await world.loop.sleep(for: .seconds(5))
            #expect(await page.peekPreRenderedEngine(for: "1") == .ready)
            let made = world.engines.counts.made
            try await page.setSources([entries[0], entries[1], entries[5]])
            #expect(await page.peekPreRenderedEngine(for: "1") == .ready)
            #expect(world.engines.counts.made == made, "the same engine")
            try await page.setSources([entries[0], entries[5]])
            #expect(await page.peekPreRenderedEngine(for: "1") == .none)
            #expect(await page.decisions.contains { $0.entry == "1" && $0.work == .preRender && $0.reason == .removed })
            try await world.loop.sleep(for: .seconds(2))
            #expect(await page.peekPreRenderedEngine(for: "5") == .ready)
        }
    }
    @Test("the announced entry is opened at once, whatever the gate says") func announced() throws {
        try withPage(bytes: 5_000_000) { world, page, _ in
            _ = try await page.play("0")
            try await page.willSelect("5")
            try await world.loop.sleep(for: .milliseconds(300))
            #expect(await page.peekPreRenderedEngine(for: "5") == .ready)
            _ = try await page.play("5")
            #expect(await page.currentMetrics?.servedAs == .preRendered)
        }
    }
    @Test("under an overlay what is ready stays and nothing begins; what plays stands still if that is asked for")
    func overlay() throws {
        try withPage([.preload(.init(count: 5, size: 200_000)), .preRender]) { world, page, entries in
            let engine = try await page.play("0")
            while await page.audit.preloads == 0 { try await world.loop.sleep(for: .milliseconds(20)) }
            try await page.setOverlay(.standingStill)
            #expect(world.engines.counts.playing == 0)
            try await world.loop.sleep(for: .seconds(5))
            let asked = await world.asked()
            #expect(asked.count < 6, "no further preload began")
            #expect(await page.peekPreRenderedEngine(for: "1") == .ready)
            let position = await engine.status().position
            await world.runtime.suspend()
            await world.runtime.resume()
            try await world.loop.sleep(for: .seconds(1))
            #expect(await engine.status().position == position, "the overlay is still there")
            try await page.setOverlay(nil)
            #expect(world.engines.counts.playing == 1)
            try await world.loop.sleep(for: .seconds(5))
            #expect(await Set(world.asked()) == ["0", "1", "2", "3", "4", "5"])
            try await page.setOverlay(.playingOn)
            #expect(world.engines.counts.playing == 1)
            _ = try await page.play("1")
            #expect(await page.currentMetrics?.servedAs == .preRendered)
            await page.clear()
            await #expect(throws: FeedError.self) { try await page.setOverlay(nil) }
        }
    }
    @Test("ten entries in two seconds: nothing but what is looked at is fetched, and the last one starts as from rest")
    func fling() throws {
        func stop(afterFling count: Int) throws -> (time: Duration, fetched: Int64, unplayed: Int64) {
            let found = Lock((time: Duration.zero, fetched: Int64(0), unplayed: Int64(0)))
            let world = try SimulatedWorld(seed: 5)
            let entries = try world.serveClips(16, bytes: 1_875_000)  // 1.5 Mbit/s on a network of 8
            try world.run {
                let strategies = count == 0 ? [] : FeedScene.smallVideo.strategies
                let page = try await world.openPage("A", entries, strategies)
                _ = try await page.play("0")
                // Long enough that only first frames of the next ones are on disk.
                try await world.loop.sleep(for: .milliseconds(500))
                let before = await world.runtime.statistics()
                for number in 1..<max(count, 1) {
                    world.loop.spawn { _ = try? await page.play(EntryID("\(number)")) }
                    try await world.loop.sleep(for: .milliseconds(200))
                }
                _ = try await page.play("10")
                let time = await page.currentMetrics?.timeToFirstFrame ?? .seconds(99)
                await page.clear()
                let after = await world.runtime.statistics()
                found.withLock {
                    $0 = (
                        time, after.bytesFetched - before.bytesFetched,
                        after.bytesNeverPlayed - before.bytesNeverPlayed
                    )
                }
            }
            return found.withLock { $0 }
        }
        let (cold, flung) = (try stop(afterFling: 0), try stop(afterFling: 10))
        #expect(flung.time <= cold.time * 1.25, "\(flung.time), \(cold.time) from rest")
        #expect(
            Double(flung.unplayed) <= 0.15 * Double(flung.fetched), "\(flung.unplayed) of \(flung.fetched) bytes wasted"
        )
    }
    @Test("a fling's first frames stand; where it stops the clip goes on, after a failure too") func standing() throws {
        try withPage { world, page, _ in
            _ = try await page.play("0")
            try await world.loop.sleep(for: .seconds(5))
            _ = try await page.play("1")
            try await world.loop.sleep(for: .milliseconds(200))
            let engine = try await page.play("2")
            try await world.loop.sleep(for: .milliseconds(290))
            let current = await page.currentEngine
            #expect(world.engines.counts.playing == 0 && engine === current)
            #expect(await page.peekPreRenderedEngine(for: "3") == .none)
            try await world.loop.sleep(for: .milliseconds(20))
            #expect(world.engines.counts.playing == 1)
            try await world.loop.sleep(for: .seconds(3))
            #expect(await page.peekPreRenderedEngine(for: "3") == .ready)
        }
        try withPage { world, page, _ in
            let dead = FeedEntry(try URLSource(url: "http://simulated.test/none.mp4"), id: "dead")
            try await page.insert([dead], at: 1)
            _ = try await page.play("0")
            try await world.loop.sleep(for: .milliseconds(100))
            await #expect(throws: LoadError.self) { _ = try await page.play("dead") }
            #expect(await page.audit.openings == 0)
            try await world.loop.sleep(for: .seconds(2))
            #expect(await page.peekPreRenderedEngine(for: "1") == .ready, "nothing else happened")
        }
    }
    @Test("what a page has learnt of its viewer and its clips survives the background") func learnt() throws {
        try withPage([.preload(.init(count: 2, size: 50_000)), .preRender]) { world, page, _ in
            try await page.addSources([FeedEntry(try URLSource(url: "http://simulated.test/none.mp4"), id: "dead")])
            try await page.move("dead", to: 3)
            _ = try await page.play("5")
            try await world.loop.sleep(for: .seconds(3))
            _ = try await page.play("3")
            try await world.loop.sleep(for: .seconds(3))  // backward: the dead one is next, and has failed for good
            let attempts = await page.decisions.count {
                $0.entry == "dead" && $0.work == .preRender && $0.kind == .started
            }
            #expect(attempts == 1)
            await world.runtime.suspend()
            await world.runtime.resume()
            try await world.loop.sleep(for: .seconds(3))
            let after = await page.decisions.count {
                $0.entry == "dead" && $0.work == .preRender && $0.kind == .started
            }
            #expect(after == 1)
            try await page.browse(at: "0")
            await world.runtime.suspend()
            await world.runtime.resume()
            try await world.loop.sleep(for: .seconds(3))
            #expect(await world.asked().contains("0"))
        }
    }
    @Test("with a network five times as fast as the clips, swipes every three seconds are pre-rendered") func swipes()
        throws
    {
        try withPage(clips: 40, bytes: 1_875_000) { world, page, _ in
            for number in 0..<40 {
                _ = try await page.play(EntryID("\(number)"))
                try await world.loop.sleep(for: .seconds(3))
            }
            let metrics = await page.metrics()
            #expect((metrics.plays[.preRendered] ?? 0) >= 38, "\(metrics.plays)")
            #expect(metrics.preRenderedShare >= 0.95)
        }
    }
}

/// Passes engines on, and counts them.
private final class CountingFactory: EngineFactory {
    let made = Lock(0)
    private let engines: SimulatedEngines
    init(_ engines: SimulatedEngines) { self.engines = engines }
    func makeEngine(in environment: EngineEnvironment) -> any PlayerEngine {
        made.withLock { $0 += 1 }
        return engines.makeEngine(in: environment)
    }
}

@Suite("Hooks, covers, the log") struct PageHookTests {
    @Test("each engine is shown to the host before it opens its entry, and the host may make engines itself")
    func hooks()
        throws
    {
        try withPage { world, page, _ in
            let seen = Lock<[String]>([])
            await page.setWillPreRender { entry, options in
                seen.withLock { $0.append("options \(entry)") }
                options.startTime = .seconds(2)
            }
            await page.setWillPrepare { entry, _ in seen.withLock { $0.append("engine \(entry)") } }
            let factory = CountingFactory(world.engines)
            await page.setEngineFactory(factory)
            _ = try await page.play("0")
            try await world.loop.sleep(for: .seconds(5))
            #expect(seen.withLock { Array($0.suffix(3)) } == ["engine 0", "options 1", "engine 1"])
            #expect(factory.made.withLock { $0 } >= 1)
            await page.setEngineFactory(nil)
            let made = factory.made.withLock { $0 }
            _ = try await page.play("5")
            #expect(factory.made.withLock { $0 } == made)
        }
    }
    @Test("cover and subtitles of the next entries come with their heads, and never stop them") func extras() throws {
        try withPage([]) { world, page, entries in
            await world.network.serve(
                "http://simulated.test/cover.jpg", .init(bytes: [UInt8](repeating: 1, count: 9_000)))
            await world.network.serve("http://simulated.test/text.vtt", .init(bytes: Array("WEBVTT".utf8)))
            let other = try await world.runtime.makePage("B", strategies: [.preload(.init(count: 2, size: 50_000))])
            try await world.runtime.enter(other)
            var (first, second) = (entries[1], entries[2])
            first.cover = try URLSource(url: "http://simulated.test/cover.jpg")
            first.subtitles = [try URLSource(url: "http://simulated.test/text.vtt")]
            second.cover = try URLSource(url: "http://simulated.test/nothing.jpg")
            try await other.setSources([entries[0], first, second])
            _ = try await other.play("0")
            try await world.loop.sleep(for: .seconds(5))
            let urls = await world.network.requests.map(\.url)
            let order = ["cover.jpg", "clip1.mp4", "text.vtt"].map { name in
                urls.firstIndex { $0.hasSuffix(name) } ?? -1
            }
            #expect(order == order.sorted() && !order.contains(-1))
            #expect(await world.runtime.cachedMedia().contains { $0.key == first.cover?.cacheKey && $0.isComplete })
            let ends = await other.decisions.filter { $0.kind == .stopped && $0.entry == "2" }.map(\.reason)
            #expect(ends.last == .finished)
            await other.clear()
            await world.runtime.shutdown()
            var failures: [PageEvent.Work] = []
            for await event in other.events { if case .workFailed(let work, "2", _) = event { failures.append(work) } }
            #expect(failures.last == .cover)
        }
    }
    @Test("every start says how much and why, every end why") func log() throws {
        try withPage([.preload(.init(count: 2, size: 102_400)), .preRender]) { world, page, _ in
            _ = try await page.play("0")
            try await world.loop.sleep(for: .seconds(5))
            let decisions = await page.decisions.filter { $0.entry == "1" && $0.work == .preload }
            #expect(decisions.map(\.kind).suffix(2) == [.started, .stopped])
            #expect(decisions.map(\.reason).suffix(2) == [.upcoming, .finished])
            let detail = decisions.dropLast().last?.detail ?? ""
            #expect(detail.hasPrefix("100 KB, network ") && detail.contains("clip 0.4 Mbit/s"), "\(detail)")
            #expect(await page.decisions.allSatisfy { $0.kind == .started || $0.detail.isEmpty })
        }
    }
    @Test("what was fetched and not played is told with the reason for which its work ended") func metrics() throws {
        try withPage([.preload(.init(count: 2, size: 100_000))]) { world, page, _ in
            _ = try await page.play("0")
            try await world.loop.sleep(for: .seconds(12))
            var metrics = await page.metrics()
            #expect(metrics.unplayedBytes == [.finished: 200_000])
            #expect(metrics.plays[.cold, default: 0] + metrics.plays[.preloaded, default: 0] == 1)
            _ = try await page.play("1")
            try await world.loop.sleep(for: .seconds(12))
            metrics = await page.metrics()
            #expect(metrics.unplayedBytes == [.finished: 200_000], "2 and 3; all of 1 was played")
            #expect(metrics.timesToFirstFrame.count == 2 && metrics.medianTimeToFirstFrame != nil)
            await page.clear()
            await world.runtime.shutdown()
            var played: [PlayMetrics] = []
            for await event in page.events { if case .played(let metrics) = event { played.append(metrics) } }
            #expect(played.map(\.fetchedBytes) == [500_000, 500_000])
            #expect(played.last?.unplayedBytes == 0)
        }
    }
    @Test("a preload of some seconds of media goes by the source's bit rate where the file does not tell")
    func seconds()
        throws
    {
        try withPage([]) { world, _, entries in
            let page = try await world.runtime.makePage(
                "B", strategies: [.preload(.init(count: 1, size: 50_000, seconds: 4))])
            try await world.runtime.enter(page)
            let source = try URLSource(
                urls: [MediaURL(entries[1].url)], cacheKey: "other", bitrate: 400_000)
            try await page.setSources([entries[0], FeedEntry(source, id: "1")])
            _ = try await page.play("0")
            try await world.loop.sleep(for: .seconds(5))
            let stored = await world.runtime.cachedMedia().first { $0.key == source.cacheKey }?.storedBytes
            #expect(stored == 200_000)
        }
    }
}
