import EventLoop
import Playback
import Simulation
import Testing

@Suite("Engine streams") struct EngineStreamTests {
    @Test("a stream that another consumer took over is not ended by the cancel of the first", arguments: UInt64(0)..<30)
    func takeover(seed: UInt64) throws {
        let loop = SimulatedLoop(seed: seed)
        let channel = EngineChannel<Int>(capacity: 4)
        let stream = EngineStream(channel)
        let threads = SimulatedThreads(loop: loop)
        let heard = Lock<[Int]>([])
        let first = threads.spawn { for await _ in stream { Issue.record("the first consumer has nothing to take") } }
        loop.runUntilIdle()
        threads.spawn { for await number in stream { heard.withLock { $0.append(number) } } }
        threads.spawn { first.cancel() }
        loop.runUntilIdle()
        for number in 0..<3 {
            channel.send(number)
            loop.runUntilIdle()
        }
        #expect(heard.withLock { $0 } == [0, 1, 2], "seed \(seed)")
        channel.finish()
        loop.runUntilIdle()
    }
}
