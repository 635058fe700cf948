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
