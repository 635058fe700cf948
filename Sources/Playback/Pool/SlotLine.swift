import EventLoop

/// A number of places; who finds none free waits in line, first come, first served. Touched on its loop only.
final class SlotLine {
    private struct Waiter {
        let id: Int
        let continuation: CheckedContinuation<Void, any Error>
    }
    let limit: Int
    private(set) var usedCount = 0
    private var waiters: [Waiter] = []
    private var nextID = 0
    private var isClosed = false

    init(limit: Int) {
        precondition(limit > 0, "a line has at least one place")
        self.limit = limit
    }

    /// Waits for a place; to be given back with ``leave()``.
    ///
    /// - Parameter owner: The actor that has the line.
    /// - Throws: `CancellationError`, or ``PlaybackError/stopped`` when the line is closed.
    func enter<Owner: Actor>(
        of owner: isolated Owner, on loop: any LoopExecutor, _ line: @escaping @Sendable (isolated Owner) -> SlotLine
    ) async throws {
        nextID += 1
        let id = nextID
        try await withTaskCancellationHandler {
            try await withCheckedThrowingContinuation { continuation in
                // Naming the owner is what keeps this closure on it: one that did not capture the isolated parameter
                // would run on the global pool.
                owner.preconditionIsolated()
                enter(id, continuation)
            }
        } onCancel: {
            loop.post { owner.assumeIsolated { line($0).giveUp(id) } }
        }
    }

    /// Takes a place now, or puts the caller in line. Called inside the caller's continuation: a host's task may be
    /// suspended on the way there, so that what was asked before no longer holds.
    private func enter(_ id: Int, _ continuation: CheckedContinuation<Void, any Error>) {
        if Task.isCancelled { return continuation.resume(throwing: CancellationError()) }
        if isClosed { return continuation.resume(throwing: PlaybackError.stopped) }
        if usedCount < limit, waiters.isEmpty {
            usedCount += 1
            return continuation.resume()
        }
        waiters.append(Waiter(id: id, continuation: continuation))
    }

    private func giveUp(_ id: Int) {
        guard let index = waiters.firstIndex(where: { $0.id == id }) else { return }
        waiters.remove(at: index).continuation.resume(throwing: CancellationError())
    }

    /// A place is free: the first in line has it, so that nobody can overtake.
    func leave() {
        if waiters.isEmpty { usedCount -= 1 } else { waiters.removeFirst().continuation.resume() }
    }

    func close() {
        isClosed = true
        for waiter in waiters { waiter.continuation.resume(throwing: PlaybackError.stopped) }
        waiters = []
    }
}
