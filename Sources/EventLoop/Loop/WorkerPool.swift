/// The threads that run a loop's blocking work: writes, index commits, checksums.
///
/// Not libuv's pool, whose every answer is a `uv_async_send`, for which libuv 1.44's loop spins (see
/// Docs/Decisions/wake-up.md): in a fast download a sixth of all time went there.
final class WorkerPool: Sendable {
    private struct State {
        var queue: [@Sendable () -> Void] = []
        var next = 0
        var busy = 0  // threads at work, and work that waits
        var threads: [WorkerThread] = []
        var isStopped = false

        mutating func popFirst() -> (@Sendable () -> Void)? {
            guard next < queue.count else { return nil }
            let work = queue[next]
            next += 1
            if next == queue.count { (queue, next) = ([], 0) }
            return work
        }
    }
    private enum Step {
        case work(@Sendable () -> Void)
        case end
        var work: (@Sendable () -> Void)? { if case .work(let work) = self { work } else { nil } }
    }
    /// Enough that a slow commit does not hold up the reads and writes of other resources.
    private static let limit = 4
    private let state = Lock(State())

    /// Queues work; first come, first served.
    func submit(_ work: @escaping @Sendable () -> Void) {
        let needsThread = state.withLockNotifyingOne { state -> Bool in
            state.queue.append(work)
            state.busy += 1
            return state.busy > state.threads.count && state.threads.count < Self.limit
        }
        guard needsThread else { return }
        do throws(LoopError) {
            let thread = try WorkerThread(named: "ff-work") { [self] in serve() }
            state.withLock { $0.threads.append(thread) }
        } catch {
            // One thread does for all; without any, the work is done here.
            if state.withLock({ $0.threads.isEmpty }), let work = take() {
                work()
                state.withLock { $0.busy -= 1 }
            }
        }
    }

    private func take() -> (@Sendable () -> Void)? { state.withLock { $0.popFirst() } }

    private func serve() {
        while let work = state.waitWithLock({ state -> Step? in
            if let work = state.popFirst() { return .work(work) }
            return state.isStopped ? .end : nil
        }).work {
            work()
            state.withLock { $0.busy -= 1 }
        }
    }

    /// Ends the threads after what is queued. Blocks.
    func stop() {
        let threads = state.withLockNotifying { state -> [WorkerThread] in
            state.isStopped = true
            return state.threads
        }
        for thread in threads { thread.join() }
    }
}
