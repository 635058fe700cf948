package import EventLoop

/// At most ``limit`` engines live at a time; who asks for one more waits in line.
package actor EnginePool {
    nonisolated private let loop: any LoopExecutor
    package nonisolated var unownedExecutor: UnownedSerialExecutor { loop.asUnownedSerialExecutor() }
    private let factory: any EngineFactory
    package nonisolated let limit: Int
    private let line: SlotLine
    private var idleWaiters: [CheckedContinuation<Void, Never>] = []
    /// Engines whose clock runs with sound, as far as those who play them say.
    private var audible: Set<ObjectIdentifier> = []

    package init(on loop: any LoopExecutor, factory: any EngineFactory, limit: Int) {
        (self.loop, self.factory, self.limit) = (loop, factory, limit)
        line = SlotLine(limit: limit)
    }

    /// Engines that exist, those being stopped included.
    package var liveCount: Int { line.usedCount }

    /// A new engine, after those who asked before have theirs. Give it back with ``release(_:)``, exactly once.
    ///
    /// - Parameter factory: Of the host's own; `nil` for the pool's.
    /// - Throws: `CancellationError`, or ``PlaybackError/stopped`` when the pool is closed.
    package func acquire(from factory: (any EngineFactory)? = nil) async throws -> any PlayerEngine {
        try await line.enter(of: self, on: loop) { $0.line }
        return (factory ?? self.factory).makeEngine(in: EngineEnvironment(loop: loop))
    }

    /// Stops the engine in the background; its slot is free when it has stopped.
    package nonisolated func release(_ engine: any PlayerEngine) {
        loop.spawn { await self.releaseAndWait(engine) }
    }

    /// Stops the engine and waits until it has stopped.
    package func releaseAndWait(_ engine: any PlayerEngine) async {
        await engine.stop()
        audible.remove(ObjectIdentifier(engine))
        line.leave()
        guard line.usedCount == 0 else { return }
        for waiter in idleWaiters { waiter.resume() }
        idleWaiters = []
    }

    /// The engine's clock runs from now on, or stands still.
    ///
    /// - Returns: How many engines are heard now; more than one is a fault.
    package func note(_ engine: any PlayerEngine, isAudible: Bool) -> Int {
        if isAudible { audible.insert(ObjectIdentifier(engine)) } else { audible.remove(ObjectIdentifier(engine)) }
        return audible.count
    }

    /// Refuses new engines and waits until those given out are back.
    package func close() async {
        line.close()
        await withCheckedContinuation { waiter in
            // Asked here and not before: a host's task may be suspended on the way into the closure.
            if line.usedCount == 0 { waiter.resume() } else { idleWaiters.append(waiter) }
        }
    }
}
