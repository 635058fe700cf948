/// Threads for a loop's work that blocks, which take up one piece after the other: whoever begins next is spared the making
/// of a thread, and finds its memory warm.
///
/// Not libuv's pool, whose every answer is a `uv_async_send`, for which libuv 1.44's loop spins (see
/// Docs/Decisions/wake-up.md): in a fast download a sixth of all time went there.
final class WorkerPool: Sendable {
    private typealias Work = @Sendable () -> Void
    private struct State {
        /// By number: whoever is free takes the first.
        var queue: [(number: Int, run: Work)] = []
        var next = 0
        var numbers = 0
        var busy = 0  // threads at work, and work that waits
        var threads: [WorkerThread] = []
        var isStopped = false

        mutating func append(_ work: @escaping Work) -> Int {
            numbers += 1
            queue.append((numbers, work))
            busy += 1
            return numbers
        }
        mutating func popFirst() -> Work? {
            guard next < queue.count else { return nil }
            let work = queue[next].run
            next += 1
            if next == queue.count { (queue, next) = ([], 0) }
            return work
        }
        /// - Returns: Whether it still waited.
        mutating func remove(_ number: Int) -> Bool {
            guard let index = queue.lastIndex(where: { $0.number == number }), index >= next else { return false }
            queue.remove(at: index)
            busy -= 1
            return true
        }
    }
    private enum Step {
        case work(Work)
        case end
        var work: Work? { if case .work(let work) = self { work } else { nil } }
    }
    private let limit: Int
    private let state = Lock(State())

    /// - Parameter limit: Threads that are kept at most.
    init(limit: Int) { self.limit = limit }

    /// Queues work; first come, first served.
    func submit(_ work: @escaping @Sendable () -> Void) {
        let needsThread = state.withLockNotifyingOne { state -> Bool in
            _ = state.append(work)
            return state.busy > state.threads.count && state.threads.count < limit
        }
        guard needsThread else { return }
        do throws(LoopError) { try addThread(named: "ff-work") } catch {
            // One thread does for all; without any, the work is done here.
            if state.withLock({ $0.threads.isEmpty }), let work = state.withLock({ $0.popFirst() }) {
                work()
                state.withLock { $0.busy -= 1 }
            }
        }
    }

    /// Runs work that takes long at once: on a thread that is free, on a new one, or beyond the limit on one that ends
    /// with it.
    ///
    /// - Parameter name: Of a new thread.
    func start(named name: String, _ body: @escaping @Sendable () -> Void) throws(LoopError) -> LongWork {
        let work = LongWork()
        let run: Work = {
            body()
            work.end()
        }
        // A kept thread takes its work from the queue, so that nothing of it is held while it waits for the next.
        let (number, needsThread) = state.withLockNotifyingOne { state -> (Int?, Bool) in
            let isOneFree = state.busy < state.threads.count
            guard !state.isStopped, isOneFree || state.threads.count < limit else { return (nil, true) }
            return (state.append(run), !isOneFree)
        }
        guard needsThread else { return work }
        guard let number else {
            work.keep(try WorkerThread(named: name, run))
            return work
        }
        do throws(LoopError) { try addThread(named: name) } catch {
            // Unless another thread became free and has it.
            if state.withLock({ $0.remove(number) }) { throw error }
        }
        return work
    }

    private func addThread(named name: String) throws(LoopError) {
        let thread = try WorkerThread(named: name) { [self] in serve() }
        state.withLock { $0.threads.append(thread) }
    }

    private func serve() {
        while let work = state.waitWithLock({ state -> Step? in
            if let work = state.popFirst() { return .work(work) }
            return state.isStopped ? .end : nil
        }).work {
            work()
            state.withLock { $0.busy -= 1 }
        }
    }

    /// Ends the threads after what they are at, and what is queued. Blocks.
    func stop() {
        let threads = state.withLockNotifying { state -> [WorkerThread] in
            state.isStopped = true
            return state.threads
        }
        for thread in threads { thread.join() }
    }
}
