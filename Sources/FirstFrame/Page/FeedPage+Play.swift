import EventLoop
import FeedStrategy
public import FeedVocabulary
import HTTPTransport
public import Playback
import ResourceLoading

/// Whether a spare engine has an entry.
public enum PreRenderStatus: String, Hashable, Sendable {
    /// Its first frame is decoded and held.
    case ready
    /// It is being opened.
    case inFlight
    /// No engine has it.
    case none
}

extension FeedPage {
    /// The entry on screen.
    struct CurrentPlay {
        let number: Int
        let clip: OpenedClip
        var metrics: PlayMetrics
    }

    /// How often the current entry's buffer is looked at.
    private static var tick: Duration { .milliseconds(200) }

    /// How long other work waits after a first frame was delivered.
    private static var grace: Duration { .milliseconds(4) }

    // MARK: Playing

    /// Plays an entry: its first frame is delivered as soon as it is there, at once when it was pre-rendered.
    ///
    /// The entry that played before is stopped. The returned engine belongs to the page; it is stopped when another
    /// entry is played or the page is cleared.
    ///
    /// - Parameter options: Of the engine, when none holds the entry yet; by default the page's.
    /// - Throws: ``FeedError`` (`superseded` when another entry is played before this one has begun),
    ///   ``PlaybackError``, ``LoadError``, or `CancellationError`.
    public nonisolated func play(_ entry: EntryID, options: EngineOptions? = nil) async throws -> any PlayerEngine {
        let calledAt = loop.now  // the viewer's wait begins here, not when the loop has time
        return try await start(entry, options, calledAt)
    }

    private func start(_ entry: EntryID, _ options: EngineOptions?, _ calledAt: LoopInstant) async throws
        -> any PlayerEngine
    {
        try Self.ordered { () throws(PageMachine.Refusal) in try machine.requireSources(for: "play") }
        guard list.contains(entry), let source = sources[entry] else { throw FeedError.unknownEntry(entry) }
        playNumber += 1
        let number = playNumber
        announced = nil
        list.play(entry)
        gate?.currentChanged()
        var metrics = PlayMetrics(page: id, entry: entry)
        let take = taken.removeValue(forKey: entry).map { PreparedClip.ready($0) } ?? takeSpare(entry)
        let old: CurrentPlay? = if case .ready = take { current.take() } else { nil }
        endCurrent()
        if let old {
            // Silent at once; its end, which costs time, comes after the new frame. Nothing of a newer play is touched
            // after this await.
            endSoon(old, after: Self.grace)
            try? await old.clip.engine.pause()
        }
        do {
            let clip: OpenedClip
            switch take {
            case .ready(let ready):
                clip = ready
                metrics.servedAs = .preRendered
            case .inFlight(let opening):
                metrics.servedAs = .inFlight
                replan()
                clip = try await finishOpening(opening, number)
            case .none:
                metrics.preloadedBytes = await runtime.loaders.stored(source.resource, in: 0..<Int64.max)
                guard number == playNumber else { throw FeedError.superseded }
                metrics.servedAs = metrics.preloadedBytes > 0 ? .preloaded : .cold
                let opening = beginOpening(
                    entry, source, options ?? engineOptions, priority: .current,
                    readAhead: runtime.configuration.readAhead)
                replan()
                clip = try await finishOpening(opening, number)
            }
            guard number == playNumber else {
                release(clip)
                throw FeedError.superseded
            }
            try await begin(clip, number, metrics, calledAt)
            return clip.engine
        } catch {
            throw failed(entry, number, error)
        }
    }

    /// What a play that went wrong throws; strategies go on without it.
    private func failed(_ entry: EntryID, _ number: Int, _ error: any Error) -> any Error {
        guard number == playNumber else { return FeedError.superseded }
        if !(error is CancellationError) { send(.playFailed(entry, "\(error)")) }
        replan()
        return error
    }

    private enum PreparedClip {
        case ready(OpenedClip)
        case inFlight(Int)
        case none
    }

    private func takeSpare(_ entry: EntryID) -> PreparedClip {
        switch preRender?.take(entry) {
        case .ready(let attempt):
            guard let spare, spare.attempt == attempt else {
                preconditionFailure("the slot is ready without an engine")
            }
            self.spare = nil
            return .ready(spare.clip)
        case .inFlight(let attempt):
            guard let number = openings.first(where: { $0.value.attempt == attempt })?.key else { return .none }
            openings[number]?.attempt = nil
            return .inFlight(number)
        case .some(.none), nil: return .none
        }
    }

    /// Waits for an opening that belongs to a play. The host's cancellation, or a newer play, ends it.
    private func finishOpening(_ opening: Int, _ number: Int) async throws -> OpenedClip {
        guard let task = openings[opening]?.task else { throw CancellationError() }
        playOpening = task
        if let reader = openings[opening]?.reader {
            await reader.setPriority(.current)
            await reader.setReadAhead(runtime.configuration.readAhead)
        }
        return try await withTaskCancellationHandler {
            let clip = try await task.value
            if Task.isCancelled {
                release(clip)
                throw CancellationError()
            }
            return clip
        } onCancel: {
            task.cancel()
        }
    }

    private func begin(_ clip: OpenedClip, _ number: Int, _ metrics: PlayMetrics, _ calledAt: LoopInstant) async throws
    {
        do {
            try await clip.engine.play()
        } catch {
            release(clip)
            throw error
        }
        var metrics = metrics
        metrics.timeToFirstFrame = calledAt.duration(to: loop.now)
        metrics.media = clip.description
        let needsAnswer = metrics.servedAs == .cold || metrics.servedAs == .preloaded
        let answer = needsAnswer ? await runtime.loaders.firstAnswer(of: clip.reader.key) : nil
        Self.fillPhases(of: &metrics, clip, answer)
        guard number == playNumber else {
            release(clip)
            throw FeedError.superseded
        }
        current = CurrentPlay(number: number, clip: clip, metrics: metrics)
        send(.firstFrame(metrics))
        // The host has its frame, and gets the time to show it before other work takes the cores.
        loop.schedule(at: loop.now.advanced(by: Self.grace)) { [weak self] in
            guard let self else { return }
            self.loop.spawn { await self.supply(clip.reader, number) }
        }
    }

    /// The entry on screen reads ahead, before everything else.
    private func supply(_ reader: ByteReader, _ number: Int) async {
        await reader.markPlayed()
        await reader.setPriority(.current)
        await reader.setReadAhead(runtime.configuration.readAhead)
        await look(number)
    }

    /// Splits the time to the first frame; what a spare engine did before the call costs the viewer nothing.
    private static func fillPhases(of metrics: inout PlayMetrics, _ clip: OpenedClip, _ answer: HTTPTiming?) {
        let total = metrics.timeToFirstFrame
        if metrics.servedAs == .cold || metrics.servedAs == .preloaded {
            let waited = clip.description.waitTime
            metrics.usedNewConnection = answer?.isNewConnection ?? false
            metrics.phases.resolve = clip.resolveTime
            metrics.phases.connect = min(waited, answer?.connect ?? .zero)
            metrics.phases.firstByte = min(waited, answer?.firstByte ?? .zero) - metrics.phases.connect
            metrics.phases.firstFrameBytes = waited - metrics.phases.connect - metrics.phases.firstByte
            metrics.phases.open = clip.description.openTime
            metrics.phases.decode = clip.description.decodeTime
        }
        let known = metrics.phases.resolve + clipTime(metrics.phases)
        metrics.phases.deliver = max(.zero, total - known)
    }

    private static func clipTime(_ phases: PlayMetrics.Phases) -> Duration {
        phases.connect + phases.firstByte + phases.firstFrameBytes + phases.open + phases.decode
    }

    /// What the entry that plays has cost so far.
    public var currentMetrics: PlayMetrics? { current?.metrics }

    /// Looks at the current entry's buffer, and again after a tick.
    private func look(_ number: Int) async {
        guard let play = current, play.number == number else { return }
        let status = await play.clip.engine.status()
        guard current?.number == number, machine.state == .sourced else { return }
        current?.metrics.take(status)
        gate?.update(
            .init(
                bufferedAhead: status.bufferedAhead, isComplete: status.isComplete, isFirstFrameShown: true,
                isStalled: status.isStalled))
        replan()
        tickTimer = loop.schedule(at: loop.now.advanced(by: Self.tick)) { [weak self] in
            guard let self else { return }
            self.loop.spawn { await self.look(number) }
        }
    }

    /// Stops what plays or is about to play, and reports what it cost.
    func endCurrent() {
        playOpening?.cancel()
        playOpening = nil
        if let tickTimer { loop.cancel(tickTimer) }
        tickTimer = nil
        if let play = current.take() { endSoon(play) }
    }

    private func endSoon(_ play: CurrentPlay, after delay: Duration = .zero) {
        let number = number()
        endings[number] = loop.spawn {
            if delay > .zero { try? await self.loop.sleep(for: delay) }
            await self.end(play, number)
        }
    }

    private func end(_ play: CurrentPlay, _ number: Int) async {
        var metrics = play.metrics
        metrics.take(await play.clip.engine.status())
        await runtime.pool.releaseAndWait(play.clip.engine)
        send(.played(metrics))
        await reportCacheFailure()
        ended(number)
    }

    // MARK: Playing early, and spare engines

    /// Announces the entry on which a scroll will settle, so that it is opened before ``play(_:options:)`` is called.
    ///
    /// - Throws: ``FeedError/wrongOrder(call:needs:)`` or ``FeedError/unknownEntry(_:)``.
    public func willSelect(_ entry: EntryID) throws(FeedError) {
        try Self.ordered { () throws(PageMachine.Refusal) in try machine.requireSources(for: "willSelect") }
        guard list.contains(entry) else { throw .unknownEntry(entry) }
        guard entry != list.current else { return }
        announced = entry
        replan()
    }

    /// Whether a spare engine has the entry.
    public func peekPreRenderedEngine(for entry: EntryID) -> PreRenderStatus {
        if taken[entry] != nil || spare?.attempt.entry == entry { return .ready }
        return openings.values.contains { $0.attempt?.entry == entry } ? .inFlight : .none
    }

    /// Takes the spare engine that holds an entry, at most once; ``play(_:options:)`` of that entry uses it. No event
    /// of the time before reaches the taker, and its first frame is delivered when it plays.
    ///
    /// - Parameter deadline: How long to wait for an engine that is being opened; zero answers at once.
    /// - Returns: `nil` when there is none, or not in time.
    public func takePreRenderedEngine(
        for entry: EntryID, waitingAtMost deadline: Duration = .zero
    ) async -> (any PlayerEngine)? {
        guard machine.state == .sourced, taken[entry] == nil else { return nil }
        if deadline > .zero, let number = openings.first(where: { $0.value.attempt?.entry == entry })?.key {
            await waitForOpening(number, atMost: deadline)
        }
        guard spare?.attempt.entry == entry, case .ready(let clip) = takeSpare(entry) else { return nil }
        taken[entry] = clip
        replan()
        return clip.engine
    }

    private func waitForOpening(_ number: Int, atMost deadline: Duration) async {
        let due = loop.now.advanced(by: deadline)
        let timer = loop.schedule(at: due) { [weak self] in
            self?.assumeIsolated { page in
                let waiters = page.openings[number]?.waiters ?? []
                page.openings[number]?.waiters = []
                for waiter in waiters { waiter.resume() }
            }
        }
        await withCheckedContinuation { (waiter: CheckedContinuation<Void, Never>) in
            if openings[number] == nil || loop.now >= due { return waiter.resume() }
            openings[number]?.waiters.append(waiter)
        }
        loop.cancel(timer)
    }
}

extension PlayMetrics {
    fileprivate mutating func take(_ status: EngineStatus) {
        (stallCount, stalledTime) = (status.stallCount, status.stalledTime)
        (droppedFrames, deliveredFrames) = (status.droppedFrames, status.deliveredFrames)
    }
}
