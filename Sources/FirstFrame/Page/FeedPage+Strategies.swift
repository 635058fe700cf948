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
        var task: Task<Void, any Error>?
        /// Known once the cache has answered; a taker raises its priority.
        var reader: ByteReader?
        var priority: LoadPriority
        var readAhead: Int64
        /// Those who wait for the end of the opening, with a deadline, by number.
        var waiters: [Int: CheckedContinuation<Void, Never>] = [:]
        /// Of the spare place, until a play takes the opening over.
        var attempt: PreRenderMachine.Attempt?
        /// The play that it is for.
        var play: Int?
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
        if current == nil && carried == nil && pendingPlay == nil {
            gate?.nothingPlays()
            look = nil
        }
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
        let action = preload?.machine.plan(
            upcoming: upcoming, previous: list.previous, current: list.current, isGateOpen: mayPreload,
            now: loop.now.offset)
        if let action {
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

    private func preloadEnded(_ entry: EntryID, _ number: Int, _ error: (any Error)?) {
        guard preloads[entry]?.number == number else { return }
        preloads[entry] = nil
        guard !(error is CancellationError) else { return }
        let isFinal = error.map(Self.isFinal) ?? true
        preload?.machine.ended(entry, isFinal: isFinal)
        if !isFinal { retryLater() }
        if let error { send(.workFailed(.preload, entry, "\(error)")) }
        send(.stopped(.preload, entry, error == nil ? .finished : .failed))
        reportCacheFailure()
        replan()
    }

    /// A cancelled preload says nothing more; the page waits for its end.
    func cancelPreload(_ entry: EntryID, _ reason: StrategyReason) {
        guard let preload = preloads.removeValue(forKey: entry) else { return }
        if let task = preload.task {
            task.cancel()
            chore { _ in await task.value }
        }
        send(.stopped(.preload, entry, reason))
    }

    // MARK: Pre-render

    func carryOut(_ action: PreRenderMachine.PlanAction, _ reason: StrategyReason) {
        if let attempt = action.cancels {
            for (_, opening) in openings.inOrder where opening.attempt == attempt { opening.task?.cancel() }
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
            preconditionFailure("\(attempt.entry) is listed without a source")
        }
        var options = engineOptions
        willPreRender?(attempt.entry, &options)
        send(.started(.preRender, attempt.entry, announced == attempt.entry ? .announced : .upcoming))
        beginOpening(
            Opening(
                entry: attempt.entry, priority: announced == attempt.entry ? .current : .preRender,
                readAhead: Self.spareReadAhead, attempt: attempt), source, options)
    }

    private func preRenderEnded(_ attempt: PreRenderMachine.Attempt, _ result: Result<OpenedClip, any Error>) {
        switch result {
        case .success(let clip):
            guard preRender?.engineOpened(attempt) == .hold else { return release(clip) }
            spare = (attempt, clip)
            send(.stopped(.preRender, attempt.entry, .finished))
            chore { _ in await clip.reader.setReadAhead(0) }
        case .failure(let error):
            let isFinal = Self.isFinal(error)
            guard preRender?.engineFailed(attempt, isFinal: isFinal) == true else { return }
            if !isFinal { retryLater() }
            if !(error is CancellationError) { send(.workFailed(.preRender, attempt.entry, "\(error)")) }
            send(.stopped(.preRender, attempt.entry, .failed))
        }
        reportCacheFailure()
        replan()
    }

    /// How long work that failed for the moment is left alone: longer than most dead spots of a mobile network.
    private static var retryDelay: Duration { .seconds(5) }

    /// Whether another attempt would fail too; otherwise there will be one, later.
    private static func isFinal(_ error: any Error) -> Bool { (error as? LoadError)?.mayPass != true }

    private func retryLater() {
        guard retryTimer == nil else { return }
        retryTimer = loop.schedule(at: loop.now.advanced(by: Self.retryDelay)) { [weak self] in
            self?.assumeIsolated { page in
                page.retryTimer = nil
                page.preRender?.retry()
                page.preload?.machine.retry()
                page.replan()
            }
        }
    }

    // MARK: Opening

    /// Opens an entry in an engine of the pool, which belongs to the page until it is released.
    @discardableResult
    func beginOpening(_ opening: Opening, _ source: URLSource, _ options: EngineOptions) -> Int {
        let number = number()
        openings[number] = opening
        openings[number]?.task = Task(executorPreference: loop) {
            do {
                let clip = try await self.open(number, opening.entry, source, options, mayRetry: true)
                try await self.openingEnded(number, .success(clip))
            } catch {
                try await self.openingEnded(number, .failure(error))
            }
        }
        return number
    }

    /// Gives the engine its next owner, without a suspension between.
    private func openingEnded(_ number: Int, _ result: Result<OpenedClip, any Error>) throws {
        guard let opening = openings.removeValue(forKey: number) else { return }
        for (_, waiter) in opening.waiters.inOrder { waiter.resume() }
        if let attempt = opening.attempt {
            preRenderEnded(attempt, result)
        } else {
            let clip = try result.get()
            guard opening.play == playNumber else { return release(clip) }  // the viewer swiped on, or left
            starting[playNumber] = clip
        }
    }

    private func open(
        _ number: Int, _ entry: EntryID, _ source: URLSource, _ options: EngineOptions, mayRetry: Bool
    ) async throws -> OpenedClip {
        let begin = loop.now
        let engine = try await runtime.pool.acquire()
        do {
            try Task.checkCancellation()
            guard let asked = openings[number] else { preconditionFailure("an opening runs that nobody owns") }
            let reader = try await runtime.loaders.open(
                source.resource, priority: asked.priority, readAhead: asked.readAhead)
            openings[number]?.reader = reader
            if let now = openings[number], now.priority != asked.priority {  // a play has taken it meanwhile
                await reader.setPriority(now.priority)
                await reader.setReadAhead(now.readAhead)
            }
            let resolveTime = begin.duration(to: loop.now)
            let description = try await engine.open(MediaInput(reader: reader, name: source.name), options: options)
            return OpenedClip(
                entry: entry, engine: engine, reader: reader, description: description, resolveTime: resolveTime)
        } catch LoadError.changed where mayRetry && !Task.isCancelled {
            // The cached head was of an older version; it is gone now, and the new one is read from its start.
            await runtime.pool.releaseAndWait(engine)
            return try await open(number, entry, source, options, mayRetry: false)
        } catch {
            await runtime.pool.releaseAndWait(engine)
            throw error
        }
    }

    /// Gives an engine back; `clear()` waits for it.
    func release(_ clip: OpenedClip) {
        let number = number()
        leaving[number] = clip.engine
        chore { page in await page.giveBack(number) }
    }

    func giveBack(_ number: Int) async {
        guard let engine = leaving[number] else { return }
        await runtime.pool.releaseAndWait(engine)
        leaving[number] = nil
    }

    func reportCacheFailure() {
        chore { page in
            if let failure = await page.runtime.loaders.takeCacheFailure() {
                page.send(.cacheFailed(failure.description))
            }
        }
    }
}
