import EventLoop
import FeedStrategy
import FeedVocabulary
import MediaCache
import Playback
import ResourceLoading

extension FeedPage {
    struct Preload {
        let number: Int
        var task: Task<Void, Never>?
    }

    /// An engine being opened, for the spare place or for a play.
    struct Opening {
        let entry: EntryID
        var task: Task<OpenedClip, any Error>?
        /// Known once the cache has answered; a taker raises its priority.
        var reader: ByteReader?
        /// Those who wait for the end of the opening, with a deadline.
        var waiters: [CheckedContinuation<Void, Never>] = []
        var attempt: PreRenderMachine.Attempt?
    }

    /// An engine that holds its first frame.
    struct OpenedClip: Sendable {
        let entry: EntryID
        let engine: any PlayerEngine
        let reader: ByteReader
        let description: MediaDescription
        /// From the begin of the opening to the begin of the engine's own work.
        let resolveTime: Duration
    }

    /// Bytes that a spare engine reads ahead while it opens: one segment, enough for most key frames.
    private static var spareReadAhead: Int64 { 256 * 1024 }

    // MARK: Planning

    /// Asks the machines what should run now, and carries it out.
    func replan() {
        guard machine.state == .sourced else { return }
        if current == nil { gate?.nothingPlays() }
        let isGateOpen = gate?.isOpen ?? true
        let upcoming = list.upcoming
        let target = announced ?? upcoming.first
        let wanted = target.flatMap { taken[$0] == nil && list.current != $0 ? $0 : nil }
        if let action = preRender?.plan(wanted, mayOpen: isGateOpen || announced != nil) {
            carryOut(action, isGateOpen ? .swipe : .watermark)
        }
        // Before the first play the entry that will be played comes first, alone.
        let isOpeningFirst = current == nil && list.current == nil && spare == nil && preRender?.isOpening == true
        let mayPreload = isGateOpen && !isOpeningFirst
        if let action = preload?.machine.plan(upcoming: upcoming, current: list.current, isGateOpen: mayPreload) {
            for cancel in action.cancels { cancelPreload(cancel.entry, cancel.reason) }
            for entry in action.starts { startPreload(entry) }
        }
    }

    // MARK: Preload

    private func startPreload(_ entry: EntryID) {
        guard let source = sources[entry], let size = preload?.configuration.size else { return }
        let number = number()
        preloads[entry] = Preload(number: number)
        send(.started(.preload, entry, .upcoming))
        preloads[entry]?.task = loop.spawn {
            do {
                try await self.runtime.loaders.prefetch(source.resource, size: size, priority: .preload)
                await self.preloadEnded(entry, number, nil)
            } catch {
                await self.preloadEnded(entry, number, error)
            }
        }
    }

    private func preloadEnded(_ entry: EntryID, _ number: Int, _ error: (any Error)?) async {
        guard preloads[entry]?.number == number else { return }
        preloads[entry] = nil
        guard !(error is CancellationError) else { return }
        preload?.machine.ended(entry)
        if let error { send(.workFailed(.preload, entry, "\(error)")) }
        send(.stopped(.preload, entry, error == nil ? .finished : .failed))
        await reportCacheFailure()
        replan()
    }

    /// The task is forgotten when it has ended; a cancelled one says nothing more.
    func cancelPreload(_ entry: EntryID, _ reason: StrategyReason) {
        guard let preload = preloads.removeValue(forKey: entry) else { return }
        preload.task?.cancel()
        let number = number()
        if let task = preload.task { endings[number] = loop.spawn { await self.waitFor(task, number) } }
        send(.stopped(.preload, entry, reason))
    }

    private func waitFor(_ task: Task<Void, Never>, _ number: Int) async {
        await task.value
        endings[number] = nil
    }

    // MARK: Pre-render

    func carryOut(_ action: PreRenderMachine.PlanAction, _ reason: StrategyReason) {
        if let attempt = action.cancels {
            for opening in openings.values where opening.attempt == attempt { opening.task?.cancel() }
            send(.stopped(.preRender, attempt.entry, reason))
        }
        if let attempt = action.releasesHeld, let spare, spare.attempt == attempt {
            self.spare = nil
            release(spare.clip)
            send(.stopped(.preRender, attempt.entry, reason))
        }
        if let attempt = action.opens { startPreRender(attempt) }
    }

    private func startPreRender(_ attempt: PreRenderMachine.Attempt) {
        guard let source = sources[attempt.entry] else {
            _ = preRender?.engineFailed(attempt)
            return
        }
        var options = engineOptions
        willPreRender?(attempt.entry, &options)
        send(.started(.preRender, attempt.entry, announced == attempt.entry ? .announced : .upcoming))
        beginOpening(
            attempt.entry, source, options, priority: announced == attempt.entry ? .current : .preRender,
            readAhead: Self.spareReadAhead, attempt: attempt)
    }

    private func preRenderEnded(_ attempt: PreRenderMachine.Attempt, _ result: Result<OpenedClip, any Error>) async {
        switch result {
        case .success(let clip):
            switch preRender?.engineOpened(attempt) {
            case .hold:
                spare = (attempt, clip)
                send(.stopped(.preRender, attempt.entry, .finished))
                await clip.reader.setReadAhead(0)
            case .discard, nil:
                if !isTaken(attempt) { release(clip) }
            }
        case .failure(let error):
            guard preRender?.engineFailed(attempt) == true else { break }
            if !(error is CancellationError) { send(.workFailed(.preRender, attempt.entry, "\(error)")) }
            send(.stopped(.preRender, attempt.entry, .failed))
        }
        await reportCacheFailure()
        replan()
    }

    // MARK: Opening

    /// Opens an entry in an engine of the pool; the work belongs to the page until it is given to a play or released.
    @discardableResult
    func beginOpening(
        _ entry: EntryID, _ source: URLSource, _ options: EngineOptions, priority: LoadPriority, readAhead: Int64,
        attempt: PreRenderMachine.Attempt? = nil
    ) -> Int {
        let number = number()
        openings[number] = Opening(entry: entry, attempt: attempt)
        openings[number]?.task = Task(executorPreference: loop) {
            let result: Result<OpenedClip, any Error>
            do {
                result = .success(
                    try await self.open(
                        entry, source, options, priority: priority, readAhead: readAhead, number: number, mayRetry: true
                    ))
            } catch {
                result = .failure(error)
            }
            await self.openingEnded(number, attempt, result)
            return try result.get()
        }
        return number
    }

    private func openingEnded(
        _ number: Int, _ attempt: PreRenderMachine.Attempt?, _ result: Result<OpenedClip, any Error>
    ) async {
        let opening = openings[number]
        let wasTaken = opening.map { $0.attempt == nil } ?? true
        for waiter in opening?.waiters ?? [] { waiter.resume() }
        if let attempt, !wasTaken { await preRenderEnded(attempt, result) }
        openings[number] = nil
    }

    private func isTaken(_ attempt: PreRenderMachine.Attempt) -> Bool {
        !openings.values.contains { $0.attempt == attempt }
    }

    private func open(
        _ entry: EntryID, _ source: URLSource, _ options: EngineOptions, priority: LoadPriority, readAhead: Int64,
        number: Int, mayRetry: Bool
    ) async throws -> OpenedClip {
        let begin = loop.now
        let engine = try await runtime.pool.acquire()
        do {
            try Task.checkCancellation()
            let reader = try await runtime.loaders.open(source.resource, priority: priority, readAhead: readAhead)
            openings[number]?.reader = reader
            let resolveTime = begin.duration(to: loop.now)
            let description = try await engine.open(MediaInput(reader: reader, name: source.name), options: options)
            return OpenedClip(
                entry: entry, engine: engine, reader: reader, description: description, resolveTime: resolveTime)
        } catch LoadError.changed where mayRetry && !Task.isCancelled {
            // The cached head was of an older version; it is gone now, and the new one is read from its start.
            runtime.pool.release(engine)
            return try await open(
                entry, source, options, priority: priority, readAhead: readAhead, number: number, mayRetry: false)
        } catch {
            runtime.pool.release(engine)
            throw error
        }
    }

    /// Gives an engine back; `clear()` waits for it.
    func release(_ clip: OpenedClip) {
        let number = number()
        endings[number] = loop.spawn {
            await self.runtime.pool.releaseAndWait(clip.engine)
            await self.ended(number)
        }
    }

    func ended(_ number: Int) { endings[number] = nil }

    func reportCacheFailure() async {
        if let failure = await runtime.loaders.takeCacheFailure() { send(.cacheFailed(failure.description)) }
    }
}
