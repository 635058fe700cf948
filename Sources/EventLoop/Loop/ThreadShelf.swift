/// Threads for work that blocks for long, such as decoding: one each, and taken up again by what begins next, which is
/// spared the making of a thread and finds its memory warm.
final class ThreadShelf: Sendable {
    private struct State {
        /// By number: whoever waits takes the first.
        var queue: [(number: Int, run: @Sendable () -> Void)] = []
        var next = 0
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
        // A kept thread takes its work from the queue, so that nothing of it is held while it waits for the next.
        let (number, needsThread) = state.withLockNotifyingOne { state -> (Int?, Bool) in
            let isWaitedFor = state.idle > state.queue.count
            guard !state.isStopped, isWaitedFor || state.threads.count < Self.limit else { return (nil, true) }
            state.next += 1
            state.queue.append((state.next, run))
            return (state.next, !isWaitedFor)
        }
        guard needsThread else { return work }
        guard let number else {
            work.keep(try WorkerThread(named: name, run))
            return work
        }
        do throws(LoopError) {
            let thread = try WorkerThread(named: name) { [self] in serve() }
            state.withLock { $0.threads.append(thread) }
        } catch {
            let isTaken = state.withLock { state -> Bool in
                let count = state.queue.count
                state.queue.removeAll { $0.number == number }
                return state.queue.count == count
            }
            if !isTaken { throw error }  // another thread became free and has it
        }
        return work
    }

    private func serve() {
        while true {
            var isWaiting = false
            let step = state.waitWithLock { state -> Step? in
                if !state.queue.isEmpty {
                    if isWaiting { state.idle -= 1 }
                    return .work(state.queue.removeFirst().run)
                }
                if state.isStopped { return .end }
                if !isWaiting { state.idle += 1 }
                isWaiting = true
                return nil
            }
            guard case .work(let run) = step else { return }
            run()
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
