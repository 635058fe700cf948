/// Threads for work that blocks for long, such as decoding: one each, and taken up again by what begins next, which is
/// spared the making of a thread and finds its memory warm.
final class ThreadShelf: Sendable {
    private struct State {
        var queue: [@Sendable () -> Void] = []
        var idle = 0
        var threads: [WorkerThread] = []
        var isStopped = false
    }
    private enum Step {
        case work(@Sendable () -> Void)
        case end
    }
    /// Threads kept at most; work beyond has threads that end with it.
    private static let limit = 3
    private let state = Lock(State())

    func start(named name: String, _ body: @escaping @Sendable () -> Void) throws(LoopError) -> LongWork {
        let work = LongWork()
        let run: @Sendable () -> Void = {
            body()
            work.end()
        }
        let (isTaken, isKept) = state.withLockNotifyingOne { state -> (Bool, Bool) in
            // Whoever waits and is not promised to somebody takes it.
            if state.idle > state.queue.count {
                state.queue.append(run)
                return (true, true)
            }
            return (false, state.threads.count < Self.limit && !state.isStopped)
        }
        if isTaken { return work }
        let thread = try WorkerThread(named: name) { [self] in
            run()
            if isKept { serve() }
        }
        if isKept { state.withLock { $0.threads.append(thread) } } else { work.keep(thread) }
        return work
    }

    private func serve() {
        state.withLock { $0.idle += 1 }
        while true {
            let step = state.waitWithLock { state -> Step? in
                if !state.queue.isEmpty {
                    state.idle -= 1
                    return .work(state.queue.removeFirst())
                }
                return state.isStopped ? .end : nil
            }
            guard case .work(let run) = step else { return }
            run()
            state.withLock { $0.idle += 1 }
        }
    }

    /// Ends the threads after what they are at. Blocks.
    func stop() {
        let threads = state.withLockNotifying { state -> [WorkerThread] in
            state.isStopped = true
            return state.threads
        }
        for thread in threads { thread.join() }
    }
}

/// Work that runs on a thread of its own until it returns by itself.
package final class LongWork: Sendable {
    private let state = Lock<(isOver: Bool, thread: WorkerThread?)>((false, nil))

    func end() { state.withLockNotifying { $0.isOver = true } }
    func keep(_ thread: WorkerThread) { state.withLock { $0.thread = thread } }

    /// Blocks until it is over; off the loop.
    package func wait() {
        let thread = state.waitWithLock { state -> WorkerThread?? in state.isOver ? .some(state.thread.take()) : nil }
        thread?.join()
    }
}
