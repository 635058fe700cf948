import EventLoop
import Testing

@Suite("Work on threads of its own") struct LongWorkTests {
    private final class Token: Sendable {}

    @Test("what has ended is let go, and each piece of work runs once, however many there are") func many() throws {
        let loop = try LoopThread()
        let count = Lock(0)
        weak var left: Token?
        for _ in 0..<50 {
            let token = Token()
            left = token
            let works = try (0..<5).map { _ in
                try loop.startWork(named: "test") {
                    withExtendedLifetime(token) { count.withLock { $0 += 1 } }
                }
            }
            for work in works { work.wait() }
        }
        #expect(count.withLock { $0 } == 250)
        // The thread may be about to let go of it.
        for _ in 0..<1_000 where left != nil { try loop.startWork(named: "test") {}.wait() }
        #expect(left == nil)
        loop.stop()
        let late = try loop.startWork(named: "test") { count.withLock { $0 += 1 } }
        late.wait()
        #expect(count.withLock { $0 } == 251, "after the loop has ended it runs all the same")
    }
}
