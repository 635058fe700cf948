import EventLoop
import FirstFrame
import Playback
import Simulation
import TestSupport
import Testing

/// Calls from tasks of the host, which have no executor of ours: they may be suspended where ours are not.
@Suite("Host tasks") struct HostTaskTests {
    @Test("POOL-4, POOL-10, CONC-2: acquiring, giving back and closing from any task loses nobody") func pool()
        async throws
    {
        let loop = try LoopThread()
        for _ in 0..<200 {
            let engines = SimulatedEngines(openTime: .zero)
            let pool = EnginePool(on: loop, factory: engines, limit: 2)
            await withTaskGroup(of: Void.self) { group in
                for _ in 0..<6 {
                    group.addTask {
                        for _ in 0..<5 {
                            guard let engine = try? await pool.acquire() else { return }
                            if Bool.random() { pool.release(engine) } else { await pool.releaseAndWait(engine) }
                        }
                    }
                }
            }
            let last = try await pool.acquire()
            pool.release(last)
            await pool.close()
            #expect(await pool.liveCount == 0)
        }
        loop.stop()
    }

    @Test("PAGE-4, CONC-2: page switches from many tasks, cancelled or superseded, each end", arguments: 0..<10)
    func switches(round: Int) async throws {
        let folder = TemporaryFolder()
        var configuration = RuntimeConfiguration()
        configuration.cacheDirectory = folder.path + "/cache"
        let runtime = try await FeedRuntime.start(
            engines: SimulatedEngines(openTime: .zero), configuration: configuration)
        let pages = [try await runtime.makePage("A"), try await runtime.makePage("B"), try await runtime.makePage("C")]
        let ended = await withTaskGroup(of: Int.self) { group in
            for worker in 0..<8 {
                group.addTask {
                    var random = SplitMix64(seed: UInt64(round * 8 + worker))
                    for _ in 0..<25 {
                        let page = pages[Int.random(in: 0..<3, using: &random)]
                        let task = Task { try await runtime.enter(page) }
                        if Bool.random(using: &random) { task.cancel() }
                        if Int.random(in: 0..<4, using: &random) == 0 { await page.clear() }
                        _ = await task.result
                    }
                    return 25
                }
            }
            return await group.reduce(0, +)
        }
        #expect(ended == 200)
        try await runtime.enter(pages[0])
        #expect(await runtime.owner == pages[0].id)
        await runtime.shutdown()
    }
}
