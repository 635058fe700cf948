package import EventLoop

/// At most ``limit`` engines live at a time; who asks for one more waits in line.
package actor EnginePool {
    nonisolated private let loop: any LoopExecutor
    package nonisolated var unownedExecutor: UnownedSerialExecutor { loop.asUnownedSerialExecutor() }
    private let factory: any EngineFactory
    package nonisolated let limit: Int
    /// Engines that exist, those being stopped included.
    package private(set) var liveCount = 0
    private var waiters: [(id: Int, continuation: CheckedContinuation<Void, any Error>)] = []
    private var nextID = 0
    private var isClosed = false
    private var idleWaiters: [CheckedContinuation<Void, Never>] = []

    package init(on loop: any LoopExecutor, factory: any EngineFactory, limit: Int) {
        precondition(limit > 0, "a pool holds at least one engine")
        (self.loop, self.factory, self.limit) = (loop, factory, limit)
    }

    /// A new engine, after those who asked before have theirs. Give it back with ``release(_:)``, exactly once.
    ///
    /// - Throws: `CancellationError`, or ``PlaybackError/stopped`` when the pool is closed.
    package func acquire() async throws -> any PlayerEngine {
        guard !isClosed else { throw PlaybackError.stopped }
        if liveCount < limit, waiters.isEmpty {
            liveCount += 1
        } else {
            try await waitInLine()  // the slot is handed over, so nobody can overtake
        }
        return factory.makeEngine(in: EngineEnvironment(loop: loop))
    }

    private func waitInLine() async throws {
        nextID += 1
        let id = nextID
        try await withTaskCancellationHandler {
            try await withCheckedThrowingContinuation { (continuation: CheckedContinuation<Void, any Error>) in
                if Task.isCancelled { return continuation.resume(throwing: CancellationError()) }
                if isClosed { return continuation.resume(throwing: PlaybackError.stopped) }
                // A slot may have become free since: a host's task may be suspended on the way into the closure.
                if liveCount < limit, waiters.isEmpty {
                    liveCount += 1
                    return continuation.resume()
                }
                waiters.append((id, continuation))
            }
        } onCancel: {
            loop.post { self.assumeIsolated { $0.giveUp(id) } }
        }
    }

    private func giveUp(_ id: Int) {
        guard let index = waiters.firstIndex(where: { $0.id == id }) else { return }
        waiters.remove(at: index).continuation.resume(throwing: CancellationError())
    }

    /// Stops the engine in the background; its slot is free when it has stopped.
    package nonisolated func release(_ engine: any PlayerEngine) {
        loop.spawn {
            await engine.stop()
            await self.freeSlot()
        }
    }

    /// Stops the engine and waits until it has stopped.
    package func releaseAndWait(_ engine: any PlayerEngine) async {
        await engine.stop()
        freeSlot()
    }

    private func freeSlot() {
        if waiters.isEmpty {
            liveCount -= 1
            if liveCount == 0 {
                for waiter in idleWaiters { waiter.resume() }
                idleWaiters = []
            }
        } else {
            waiters.removeFirst().continuation.resume()
        }
    }

    /// Refuses new engines and waits until those given out are back.
    package func close() async {
        isClosed = true
        for waiter in waiters { waiter.continuation.resume(throwing: PlaybackError.stopped) }
        waiters = []
        await withCheckedContinuation { waiter in
            // Asked here and not before: a host's task may be suspended on the way into the closure.
            if liveCount == 0 { waiter.resume() } else { idleWaiters.append(waiter) }
        }
    }
}
