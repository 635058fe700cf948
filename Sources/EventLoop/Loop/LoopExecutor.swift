/// The loop that runs every actor of a runtime: one job at a time, with time, chance and blocking work of its own.
///
/// Production has ``LoopThread``; the simulation has a loop without a thread whose order of jobs, time and chance
/// come from a seed. Code above this floor takes `any LoopExecutor`, so that a run is a function of that seed.
package protocol LoopExecutor: SerialExecutor, TaskExecutor {
    /// Monotonic time since some fixed instant. Any thread.
    var now: LoopInstant { get }

    /// The time of day, for dates that others wrote; it may jump. Any thread.
    var wallTime: WallTime { get }

    /// Runs `body` on the loop at `due`, or as soon after as the loop is free. Any thread.
    @discardableResult
    func schedule(at due: LoopInstant, _ body: @escaping @Sendable () -> Void) -> LoopTimer

    /// Forgets a timer that has not fired; afterwards it never does. Any thread; harmless when it fired already.
    func cancel(_ timer: LoopTimer)

    /// Runs `body` on the loop, after what was enqueued before. Any thread.
    func post(_ body: @escaping @Sendable () -> Void)

    /// Runs `work`, which may block, off the loop, then `done` on the loop. Any thread.
    func offload(_ work: @escaping @Sendable () -> Void, then done: @escaping @Sendable () -> Void)

    /// Runs `work`, which may block for long, on a thread of its own. Any thread.
    ///
    /// - Parameter name: At most 15 characters; shown by debuggers and `top`.
    func startWork(named name: String, _ work: @escaping @Sendable () -> Void) throws(LoopError) -> LongWork

    /// The next number of the loop's own random source. Any thread.
    func random() -> UInt64
}

extension LoopExecutor {
    /// Starts unstructured work on the loop; the only way to do so, because a bare `Task` starts on the global pool.
    @discardableResult
    package func spawn(_ body: @escaping @Sendable () async -> Void) -> Task<Void, Never> {
        Task(executorPreference: self, operation: body)
    }

    /// The result of blocking work that runs off the loop.
    package func offload<Value: Sendable>(
        _ work: @escaping @Sendable () throws -> Value
    ) async throws -> Value {
        let outcome = Lock<Result<Value, any Error>?>(nil)
        await withCheckedContinuation { (waiting: CheckedContinuation<Void, Never>) in
            offload {
                let result = Result { try work() }
                outcome.withLock { $0 = result }
            } then: {
                waiting.resume()
            }
        }
        guard let result = outcome.withLock({ $0 }) else { preconditionFailure("offloaded work left no outcome") }
        return try result.get()
    }

    /// Suspends until `due`.
    ///
    /// - Throws: `CancellationError` as soon as the task is cancelled.
    package func sleep(until due: LoopInstant) async throws {
        let wait = Lock(SleepState.idle)
        let finish: @Sendable (Bool) -> Void = { cancelled in
            let waiting = wait.withLock { wait -> (LoopTimer, CheckedContinuation<Void, any Error>)? in
                switch wait {
                case .waiting(let timer, let continuation):
                    wait = .over
                    return (timer, continuation)
                case .idle:
                    wait = cancelled ? .cancelled : .over
                    return nil
                case .cancelled, .over: return nil
                }
            }
            guard let (timer, continuation) = waiting else { return }
            if cancelled { self.cancel(timer) }
            continuation.resume(with: cancelled ? .failure(CancellationError()) : .success(()))
        }
        try await withTaskCancellationHandler {
            try await withCheckedThrowingContinuation { continuation in
                // The timer may fire only after the lock is released, so its body always finds the continuation.
                let isCancelled = wait.withLock { wait -> Bool in
                    if case .cancelled = wait { return true }
                    wait = .waiting(schedule(at: due) { finish(false) }, continuation)
                    return false
                }
                if isCancelled { continuation.resume(throwing: CancellationError()) }
            }
        } onCancel: {
            finish(true)
        }
    }

    /// Suspends for `delay`.
    package func sleep(for delay: Duration) async throws { try await sleep(until: now.advanced(by: delay)) }

    /// The loop's time as a standard clock.
    package var clock: LoopClock { LoopClock(loop: self) }

    /// A number drawn evenly from `range`.
    package func random(in range: ClosedRange<Double>) -> Double {
        let unit = Double(random() >> 11) * 0x1p-53
        return range.lowerBound + unit * (range.upperBound - range.lowerBound)
    }
}

private enum SleepState {
    case idle
    case cancelled
    case waiting(LoopTimer, CheckedContinuation<Void, any Error>)
    case over
}

/// A moment on a loop's monotonic clock.
public struct LoopInstant: InstantProtocol, Hashable, Sendable {
    /// Time since the clock's own zero.
    public let offset: Duration
    package init(offset: Duration) { self.offset = offset }
    /// The moment `duration` later.
    public func advanced(by duration: Duration) -> LoopInstant { LoopInstant(offset: offset + duration) }
    /// Time from this moment to `other`.
    public func duration(to other: LoopInstant) -> Duration { other.offset - offset }
    /// Earlier than.
    public static func < (left: LoopInstant, right: LoopInstant) -> Bool { left.offset < right.offset }
}

/// A moment of the calendar, to the second: the expiry of a URL or a credential, the age of a cached file.
public struct WallTime: InstantProtocol, Hashable, Sendable {
    /// Seconds since 1970-01-01 00:00 UTC, leap seconds not counted.
    public let secondsSince1970: Int64
    /// A moment by its count of seconds, as `time(2)` gives it.
    public init(secondsSince1970: Int64) { self.secondsSince1970 = secondsSince1970 }
    /// The moment `duration` later; parts of a second are dropped.
    public func advanced(by duration: Duration) -> WallTime {
        WallTime(secondsSince1970: secondsSince1970 &+ duration.components.seconds)
    }
    /// Time from this moment to `other`.
    public func duration(to other: WallTime) -> Duration {
        .seconds(other.secondsSince1970 &- secondsSince1970)
    }
    /// Earlier than.
    public static func < (left: WallTime, right: WallTime) -> Bool { left.secondsSince1970 < right.secondsSince1970 }
}

/// Names one timer of a loop.
package struct LoopTimer: Hashable, Sendable {
    package let id: UInt64
    package init(id: UInt64) { self.id = id }
}

/// The loop's time for code that takes a standard `Clock`.
package struct LoopClock: Clock {
    private let loop: any LoopExecutor
    package init(loop: any LoopExecutor) { self.loop = loop }
    package var now: LoopInstant { loop.now }
    package var minimumResolution: Duration { .milliseconds(1) }
    package func sleep(until deadline: LoopInstant, tolerance: Duration?) async throws {
        try await loop.sleep(until: deadline)
    }
}

extension Duration {
    /// The duration as a number of seconds.
    package var seconds: Double {
        Double(components.seconds) + Double(components.attoseconds) * 1e-18
    }
    /// The duration as a number of milliseconds.
    package var milliseconds: Double { seconds * 1000 }
    /// The duration in whole nanoseconds, towards zero; at most what 64 bits hold, 292 years.
    package var wholeNanoseconds: Int64 {
        let (seconds, isTooLong) = components.seconds.multipliedReportingOverflow(by: 1_000_000_000)
        let (sum, isOver) = seconds.addingReportingOverflow(components.attoseconds / 1_000_000_000)
        return isTooLong || isOver ? (components.seconds < 0 ? .min : .max) : sum
    }
}
