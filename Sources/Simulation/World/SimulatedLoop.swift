package import EventLoop
import Glibc

/// A loop without a thread: the test runs its jobs, and moves its clock.
///
/// Jobs that are ready at the same time run in an order drawn from the seed, so that each seed is one reproducible
/// interleaving. Work off the loop takes a virtual time drawn from the seed too.
package final class SimulatedLoop: LoopExecutor {
    private enum Work {
        case job(UnownedJob)
        case body(@Sendable () -> Void)
        /// Of a task that is not on the loop.
        case foreign(UnownedJob, SimulatedThreads)
    }
    private struct State {
        var ready: [Work] = []
        var timers = TimerQueue()
        var now = LoopInstant(offset: .zero)
        /// Orders the jobs. Apart from `chance`, so that a draw by the product doesn't change the interleaving.
        var order: SplitMix64
        var chance: SplitMix64
        var stepCount = 0
        /// Of every choice made so far.
        var fingerprint: UInt64 = 0
        var isRunning = false
        var afterStep: (@Sendable () -> Void)?
    }
    /// Jobs of one instant after which the loop counts as spinning.
    private static let largestTurn = 2_000_000
    private static let longestOffload = 2_000  // microseconds
    private let state: Lock<State>

    package init(seed: UInt64) {
        state = Lock(State(order: SplitMix64(seed: seed), chance: SplitMix64(seed: ~seed)))
    }

    package var now: LoopInstant { state.withLock { $0.now } }
    /// The simulation begins on 2027-01-15 at 08:00 UTC.
    package var wallTime: WallTime {
        WallTime(secondsSince1970: 1_800_000_000).advanced(by: now.offset)
    }
    /// Jobs run so far: equal for two runs of one seed.
    package var stepCount: Int { state.withLock { $0.stepCount } }
    /// Timers that are set.
    package var timerCount: Int { state.withLock { $0.timers.count } }

    package func enqueue(_ job: consuming ExecutorJob) {
        let job = UnownedJob(job)
        state.withLock { $0.ready.append(.job(job)) }
    }
    package func post(_ body: @escaping @Sendable () -> Void) { state.withLock { $0.ready.append(.body(body)) } }
    fileprivate func enqueue(_ job: UnownedJob, of threads: SimulatedThreads) {
        state.withLock { $0.ready.append(.foreign(job, threads)) }
    }
    @discardableResult
    package func schedule(at due: LoopInstant, _ body: @escaping @Sendable () -> Void) -> LoopTimer {
        state.withLock { $0.timers.insert(at: due, body) }
    }
    package func cancel(_ timer: LoopTimer) { state.withLock { $0.timers.remove(timer) } }
    package func offload(_ work: @escaping @Sendable () -> Void, then done: @escaping @Sendable () -> Void) {
        let delay = state.withLock { Int.random(in: 1...Self.longestOffload, using: &$0.order) }
        schedule(at: now.advanced(by: .microseconds(delay))) {
            work()
            done()
        }
    }
    /// What runs on a thread is no function of the seed.
    package func startWork(named name: String, _ work: @escaping @Sendable () -> Void) throws(LoopError) -> LongWork {
        throw LoopError(code: -ENOTSUP, call: "a simulated loop has no threads; startWork")
    }
    package func random() -> UInt64 { state.withLock { $0.chance.next() } }

    package func isIsolatingCurrentContext() -> Bool? { state.withLock { $0.isRunning } }
    package func checkIsolated() { precondition(isIsolatingCurrentContext() == true, "no job of the loop is running") }

    /// Called on the loop after each job and each timer.
    package func afterEachStep(_ body: (@Sendable () -> Void)?) { state.withLock { $0.afterStep = body } }

    /// Tells two interleavings apart: equal for two runs of one seed, and for hardly any others.
    package var fingerprint: UInt64 { state.withLock { $0.fingerprint } }

    /// Runs what is ready, and what that makes ready, without moving the clock.
    package func runUntilIdle() {
        for _ in 0..<Self.largestTurn { guard runOne() else { return } }
        preconditionFailure("the loop spins without moving its clock")
    }

    /// - Returns: Whether there was a job to run.
    private func runOne() -> Bool {
        let (work, check) = state.withLock { state -> (Work?, (@Sendable () -> Void)?) in
            guard !state.ready.isEmpty else {
                state.isRunning = false
                return (nil, nil)
            }
            let choice = Int.random(in: state.ready.indices, using: &state.order)
            state.stepCount += 1
            state.fingerprint = (state.fingerprint ^ UInt64(choice &+ state.ready.count &* 31)) &* 0x100_0000_01B3
            state.isRunning = true
            return (state.ready.remove(at: choice), state.afterStep)
        }
        switch work {
        case nil: return false
        case .job(let job):
            job.runSynchronously(isolatedTo: asUnownedSerialExecutor(), taskExecutor: asUnownedTaskExecutor())
        case .body(let body): body()
        case .foreign(let job, let threads):
            state.withLock { $0.isRunning = false }
            job.runSynchronously(on: threads.asUnownedTaskExecutor())
            state.withLock { $0.isRunning = true }
        }
        check?()
        return true
    }

    /// Runs that many jobs and timers, moving the clock to the next timer whenever nothing is ready: stops in the middle
    /// of whatever goes on.
    package func advance(steps: Int) {
        for _ in 0..<steps where !runOne() { guard fireNext(until: now.advanced(by: .seconds(60))) else { break } }
        state.withLock { $0.isRunning = false }
    }

    /// Moves the clock, running what becomes due on the way.
    package func advance(by delay: Duration) {
        runUntilIdle()
        let end = now.advanced(by: delay)
        while step(until: end) {}
        state.withLock { $0.now = end }
    }

    /// Goes to the next timer up to `end` and runs what it starts.
    private func step(until end: LoopInstant) -> Bool {
        guard fireNext(until: end) else { return false }
        runUntilIdle()
        return true
    }
    private func fireNext(until end: LoopInstant) -> Bool {
        let (body, check) = state.withLock { state -> ((@Sendable () -> Void)?, (@Sendable () -> Void)?) in
            guard let due = state.timers.nextDue(), due <= end else { return (nil, nil) }
            state.now = max(state.now, due)
            state.isRunning = true
            return (state.timers.popDue(at: due), state.afterStep)
        }
        guard let body else { return false }
        body()
        check?()
        return true
    }

    /// Does something on the loop at this instant, before whatever is ready.
    package func perform<Value>(_ body: () throws -> Value) rethrows -> Value {
        state.withLock { $0.isRunning = true }
        defer { state.withLock { $0.isRunning = false } }
        return try body()
    }

    /// Runs `body` on the loop, moving the clock until it returns.
    ///
    /// - Parameter limit: Virtual time after which the call counts as hanging.
    /// - Returns: `nil` when it hangs.
    package func run<Value: Sendable>(
        within limit: Duration = .seconds(600), _ body: @escaping @Sendable () async throws -> Value
    ) throws -> Value? {
        let outcome = Lock<Result<Value, any Error>?>(nil)
        spawn {
            let result: Result<Value, any Error>
            do { result = .success(try await body()) } catch { result = .failure(error) }
            outcome.withLock { $0 = result }
        }
        runUntilIdle()
        let end = now.advanced(by: limit)
        while outcome.withLock({ $0 == nil }) { guard step(until: end) else { return nil } }
        return try outcome.withLock { $0 }?.get()
    }
}

/// The threads of a host: tasks on it are not on the loop, so that each call into an actor of the loop, and each return,
/// is a job of its own, with whatever else comes between.
package final class SimulatedThreads: TaskExecutor {
    private let loop: SimulatedLoop
    package init(loop: SimulatedLoop) { self.loop = loop }

    package func enqueue(_ job: consuming ExecutorJob) { loop.enqueue(UnownedJob(job), of: self) }

    /// A task of the host.
    @discardableResult
    package func spawn(_ body: @escaping @Sendable () async -> Void) -> Task<Void, Never> {
        Task(executorPreference: self, operation: body)
    }
}
