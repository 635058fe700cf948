import EventLoop
import Playback
import Simulation
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
}
