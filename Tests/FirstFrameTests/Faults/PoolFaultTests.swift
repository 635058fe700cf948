import EventLoop
import FeedVocabulary
import FirstFrame
import Simulation
import Testing

@Suite("Engine pool faults") struct PoolFaultTests {
    @Test("POOL-1: between a swipe and the next first frame nothing of the former entry is heard or seen") func former()
        throws
    {
        try withTwoPages { world, a, _, entries in
            let old = try #require(await a.currentEngine)
            await world.network.setSilent(entries[7].url, true)
            try await a.addSources([entries[7]])
            let play = Task(executorPreference: world.loop) { try await a.play("7") }
            try await world.loop.sleep(for: .milliseconds(200))
            #expect(world.engines.counts.playing == 0)
            #expect(await a.currentMetrics == nil)
            var late: [EngineEvent] = []
            for await event in old.events { late.append(event) }  // its stream has ended, or this hangs
            #expect(late.filter { $0 == .firstFrame }.count <= 1)
            await world.network.setSilent(entries[7].url, false)
            let new = try await play.value
            #expect(new !== old)
            #expect(await a.currentMetrics?.entry == "7")
        }
    }

    @Test(
        "POOL-2, POOL-5: an engine whose page or caller goes away while it opens ends, and tells nothing",
        arguments: UInt64(0)..<4)
    func whileOpening(seed: UInt64) throws {
        let world = try SimulatedWorld(seed: seed, openTime: .milliseconds(60))
        let entries = try world.serveClips(6, bytes: 120_000)
        try world.run {
            let page = try await world.openPage("A", entries)
            for round in 0..<125 {
                let play = Task(executorPreference: world.loop) { _ = try await page.play(EntryID("\(round % 6)")) }
                try await world.loop.sleep(for: .microseconds(Int(world.loop.random() % 140_000)))
                if round % 2 == 0 {
                    play.cancel()
                } else {
                    await world.runtime.leave(page)  // traps when an event would be told after it
                    #expect(await world.runtime.statistics().liveEngines == 0)
                    try await world.runtime.enter(page)
                }
                _ = await play.result
            }
            await page.clear()
            #expect(await world.runtime.statistics().liveEngines == 0)
            #expect(await world.runtime.statistics().openResources == 0)
        }
    }

    @Test("POOL-3: two hundred swipes forward and back never need more engines than the limit, and none gets slower")
    func manySwipes() throws {
        let world = try SimulatedWorld(seed: 3)
        let entries = try world.serveClips(100, bytes: 100_000)
        let times = Lock<[Duration]>([])
        try world.run {
            let page = try await world.openPage("A", entries)
            for place in Array(0..<100) + Array((0..<99).reversed()) {
                _ = try await page.play(EntryID("\(place)"))
                let time = await page.currentMetrics?.timeToFirstFrame
                times.withLock { $0.append(time ?? .seconds(99)) }
                #expect(await world.runtime.statistics().liveEngines <= 3)
                try await world.loop.sleep(for: .seconds(3))
            }
            await page.clear()
            #expect(await world.runtime.statistics().liveEngines == 0)
        }
        // From the second on: pre-rendered each time, forward and back, but for the turn.
        let slow = times.withLock { $0.dropFirst().filter { $0 > .zero }.count }
        #expect(slow <= 1)
    }

    @Test("POOL-7: an engine that is held stays silent at its first frame, whatever its server does") func held() throws
    {
        try withTwoPages { world, a, _, entries in
            #expect(await a.peekPreRenderedEngine(for: "2") == .ready)
            let spare = try #require(await a.takePreRenderedEngine(for: "2"))
            for _ in 0..<2 {
                await world.network.setSilent(entries[2].url, true)
                try await world.loop.sleep(for: .seconds(2))
                await world.network.setSilent(entries[2].url, false)
                try await world.loop.sleep(for: .seconds(2))
            }
            #expect(await spare.status().position == .zero)
            #expect(world.engines.counts.playing == 1)
            _ = try await a.play("2")
            #expect(world.engines.counts.playing == 1)
        }
    }

    @Test("POOL-11: the first frame is told once for each start, with a time that is not negative") func once() throws {
        try withTwoPages { world, a, _, _ in
            _ = try await a.play("2")  // pre-rendered
            try await world.loop.sleep(for: .seconds(1))
            let engine = try await a.play("0")  // cold
            try await engine.seek(to: .seconds(3))
            try await world.loop.sleep(for: .seconds(1))
            await a.clear()
            await world.runtime.shutdown()
            var frames: [PlayMetrics] = []
            var order: [Int] = []
            for await event in a.events {
                if case .firstFrame(let metrics) = event {
                    frames.append(metrics)
                    order.append(metrics.number)
                }
            }
            #expect(frames.map(\.entry) == ["1", "2", "0"])
            #expect(frames.allSatisfy { $0.timeToFirstFrame >= .zero })
            #expect(order == order.sorted() && Set(order).count == 3)
            var events: [EngineEvent] = []
            for await event in engine.events { events.append(event) }
            #expect(events.filter { $0 == .firstFrame }.count == 1)
        }
    }
}
