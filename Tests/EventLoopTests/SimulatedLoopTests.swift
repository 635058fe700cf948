import EventLoop
import Simulation
import Testing

@Suite("Simulated loop") struct SimulatedLoopTests {
    @Test("virtual time passes only when it is moved, and timers see it") func time() throws {
        let loop = SimulatedLoop(seed: 1)
        let woke = Lock<[Duration]>([])
        for seconds in [3, 1, 2] {
            loop.spawn {
                try? await loop.sleep(for: .seconds(seconds))
                woke.withLock { $0.append(loop.now.offset) }
            }
        }
        loop.advance(by: .seconds(2))
        #expect(woke.withLock { $0 } == [.seconds(1), .seconds(2)])
        loop.advance(by: .seconds(5))
        #expect(woke.withLock { $0 }.last == .seconds(3))
        #expect(loop.now.offset == .seconds(7))
        #expect(loop.timerCount == 0)
    }

    @Test("a run that can't end is told from one that takes long") func hang() throws {
        let loop = SimulatedLoop(seed: 1)
        #expect(try loop.run(within: .seconds(10)) { try await loop.sleep(for: .seconds(9)) } != nil)
        #expect(try loop.run(within: .seconds(10)) { try await loop.sleep(for: .seconds(99)) } == nil)
    }
}
