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

/// A play on its way from one page to another.
struct CarriedPlay: Sendable {
    let play: FeedPage.CurrentPlay
    let pool: EnginePool

    /// Ends it, because no page goes on with it.
    func end() async { await pool.releaseAndWait(play.clip.engine) }
}

extension FeedPage {
    /// The entry on screen.
    struct CurrentPlay: Sendable {
        let number: Int
        let clip: OpenedClip
        let source: MediaSource
        var metrics: PlayMetrics
    }

    /// What is buffered of an entry that waits until the viewer has arrived.
    private static var enoughToArrive: Duration { .milliseconds(800) }

    /// Servers declare lengths that no file has; bytes a second.
    private static var highestMediaRate: Double { 1e9 }

    /// How often the current entry's buffer is looked at.
    private static var tick: Duration { .milliseconds(200) }

    /// How long other work waits after a first frame was delivered.
    private static var grace: Duration { .milliseconds(4) }
    /// How long the end of what played before waits while a clip is being opened: whose bytes are there has its first
    /// frame by then.
    private static var openingGrace: Duration { .milliseconds(25) }

    // MARK: Playing

    /// Plays an entry: its first frame is delivered as soon as it is there, at once when it was pre-rendered.
    ///
    /// The entry that played before is stopped. The returned engine belongs to the page; it is stopped when another
    /// entry is played or the page is cleared.
    ///
    /// - Parameter options: Of the engine, when none holds the entry yet; by default the page's.
    /// - Throws: ``FeedError`` (`superseded` when another entry is played, or the page is left, before this one has
    ///   begun), ``PlaybackError``, ``LoadError``, or `CancellationError`.
    public nonisolated func play(_ entry: EntryID, options: EngineOptions? = nil) async throws -> any PlayerEngine {
        let calledAt = loop.now  // the viewer's wait begins here, not when the loop has time
        return try await startOnLoop(entry, options, calledAt)
    }

    /// A host's task would be suspended at each call between actors (Docs/Decisions/host-tasks.md); one that prefers the
    /// loop is not.
    private func startOnLoop(_ entry: EntryID, _ options: EngineOptions?, _ calledAt: LoopInstant) async throws
        -> any PlayerEngine
    {
        try await withTaskExecutorPreference(loop) { try await start(entry, options, calledAt) }
    }

    private func start(_ entry: EntryID, _ options: EngineOptions?, _ calledAt: LoopInstant) async throws
        -> any PlayerEngine
    {
        try Task.checkCancellation()  // a cancelled call ends nothing that plays
        try requireEntry(entry, for: "play")
        guard let source = sources[entry] else { preconditionFailure("\(entry) is listed without a source") }
        playNumber += 1
        let number = playNumber
        pendingPlay = number
        list.play(entry)
        overlay = nil
        planner?.selected(place: list.place, at: loop.now.offset)
        forgetLook()
        releaseStarting()
        for other in taken.keys.sorted() where other != entry {  // the viewer went elsewhere
            if let clip = taken.removeValue(forKey: other) { release(clip) }
        }
        if let engine = goOn(entry, source, number) { return engine }
        var metrics = PlayMetrics(page: id, entry: entry, number: number)
        let take = take(entry, for: number)
        // What played before is silent at once, and ends when there is time for it; or now, where its engine is needed or its
        // bytes would be in the way.
        let old = mayEndLater(current, for: take) ? current.take() : nil
        // Its own work is queued first: what ends has time.
        var opening: Int?
        switch take {
        case .ready: metrics.servedAs = .preRendered
        case .inFlight(let running): (metrics.servedAs, opening) = (.inFlight, running)
        case .none:
            opening = beginOpening(
                Opening(entry: entry, priority: .current, readAhead: firstReadAhead, head: headOfFling, play: number),
                source, options ?? engineOptions)
        }
        endCurrent()
        if let old { endSoon(old, after: opening == nil ? Self.grace : Self.openingGrace) }
        playOpening = opening
        if preloads.isEmpty, openings.keys.allSatisfy({ $0 == opening }) {
            // Nothing ends: as soon as the loop has nothing of the opening to do.
            loop.schedule(at: loop.now) { [weak self] in self?.assumeIsolated { $0.giveWay() } }
        } else {
            giveWay()
        }
        do {
            if let opening = playOpening { try await finishOpening(opening, openings[opening]?.task) }
            return try await begin(number, source, metrics, calledAt)
        } catch {
            throw failed(entry, number, error)
        }
    }

    /// What a play's begin means for others: the gate is closed, other work ends, and what played before is silent.
    private func giveWay() {
        if !leaving.isEmpty { chore { page in await page.silenceLeaving() } }
        replan()
    }

    private func silenceLeaving() async { for (_, engine) in leaving.inOrder { await setSilent(engine) } }

    /// What a play that went wrong throws; strategies go on without it.
    private func failed(_ entry: EntryID, _ number: Int, _ error: any Error) -> any Error {
        if let clip = starting.removeValue(forKey: number) { release(clip) }
        // Its opening was cancelled by the newer play, or by the page; the host's own task was not.
        guard number == playNumber else { return Task.isCancelled ? CancellationError() : FeedError.superseded }
        pendingPlay = nil
        if !(error is CancellationError) { send(.playFailed(entry, "\(error)")) }
        replan()
        return error
    }

    private func mayEndLater(_ play: CurrentPlay?, for take: Taken) -> Bool {
        if case .ready = take { return true }
        let isPoolFull = runtime.pool.assumeIsolated { $0.liveCount >= $0.limit }
        if case .none = take, isPoolFull { return false }
        return play?.clip.reader.isComplete == true
    }

    private enum Taken {
        /// In ``starting``.
        case ready
        case inFlight(Int)
        case none
    }

    private func take(_ entry: EntryID, for number: Int) -> Taken {
        if let clip = taken.removeValue(forKey: entry) ?? takeSpare(entry) {
            starting[number] = clip
            return .ready
        }
        guard case .inFlight(let attempt) = planner?.take(entry),
            let opening = openings.first(where: { $0.value.attempt == attempt })?.key
        else { return .none }
        openings[opening]?.attempt = nil
        openings[opening]?.play = number
        openings[opening]?.priority = .current
        openings[opening]?.readAhead = firstReadAhead
        if case .vid(let source) = sources[entry] { runtime.vids.assumeIsolated { $0.hurry(source) } }
        return .inFlight(opening)
    }

    private func takeSpare(_ entry: EntryID) -> OpenedClip? {
        guard spares[entry] != nil, case .ready(let attempt) = planner?.take(entry) else { return nil }
        guard let spare = spares.removeValue(forKey: entry), spare.attempt == attempt else {
            preconditionFailure("the slot is ready without an engine")
        }
        return spare.clip
    }

    private var headOfFling: Int64? { planner?.headOfFling(at: loop.now.offset) }
    private var firstReadAhead: Int64 { headOfFling == nil ? runtime.configuration.readAhead : 0 }

    /// Waits for an opening that belongs to a play. The host's cancellation, or a newer play, ends it.
    ///
    /// - Parameter task: The opening's, looked up before this call: a host's task may be suspended on its way here, and
    ///   the opening may have ended by then.
    private func finishOpening(_ opening: Int, _ task: Task<Void, any Error>?) async throws {
        guard let task else { preconditionFailure("an opening without a task") }
        let readAhead = firstReadAhead
        try await withTaskCancellationHandler {
            if let reader = openings[opening]?.reader {
                await reader.setPriority(.current)
                await reader.setReadAhead(readAhead)
            }
            try await task.value
            try Task.checkCancellation()
        } onCancel: {
            task.cancel()
        }
    }

    private func begin(
        _ number: Int, _ source: MediaSource, _ metrics: PlayMetrics, _ calledAt: LoopInstant
    ) async throws -> any PlayerEngine {
        await silenceLeaving()
        guard let clip = starting[number] else { throw FeedError.superseded }
        noteHeard(clip.engine)
        try await clip.engine.play()
        var metrics = metrics
        if metrics.servedAs == .cold {
            metrics.preloadedBytes = clip.storedBytes
            if clip.storedBytes > 0 { metrics.servedAs = .preloaded }
        }
        metrics.variant = clip.file.variant?.name
        metrics.timeToFirstFrame = calledAt.duration(to: loop.now)
        metrics.media = clip.description
        let needsAnswer = metrics.servedAs == .cold || metrics.servedAs == .preloaded
        let answer = needsAnswer ? await runtime.loaders.firstAnswer(of: clip.reader.key) : nil
        Self.fillPhases(of: &metrics, clip, answer)
        // Whoever swiped on or left meanwhile has taken the engine away.
        guard starting.removeValue(forKey: number) != nil else { throw FeedError.superseded }
        show(CurrentPlay(number: number, clip: clip, source: source, metrics: metrics))
        return clip.engine
    }

    private func show(_ play: CurrentPlay) {
        precondition(current == nil, "two plays on one page")
        (current, pendingPlay) = (play, nil)
        learned(firstFrameEnd: play.metrics.media.firstFrameEnd)
        send(.firstFrame(play.metrics))
        // The host has its frame, and gets the time to show it before other work takes the cores; and a viewer who flings
        // shows first that this is where the fling ends.
        let isFlinging = planner?.motion.isFlinging(at: loop.now.offset) == true
        chore { page in
            await play.clip.reader.markPlayed()
            // A fling's first frames stand: what follows would be fetched for nothing, and hold up the next one.
            guard page.shows(play.clip) else { return }
            if isFlinging { await page.setSilent(play.clip.engine) } else { await page.followOverlay(play.clip) }
        }
        watch(after: isFlinging ? Motion.settling : Self.grace) { page in
            if isFlinging { await page.followOverlay(play.clip) }
            await page.supply(play.clip)
        }
    }

    /// Does something about the play that goes on, unless it has ended by then.
    private func watch(after delay: Duration, _ body: @escaping @Sendable (isolated FeedPage) async -> Void) {
        stopTicking()
        tickTimer = loop.schedule(at: loop.now.advanced(by: delay)) { [weak self] in
            self?.assumeIsolated { page in
                page.tickTimer = nil
                page.chore(body)
            }
        }
    }

    /// Goes on with the play of the page before, when it is of the same clip.
    private func goOn(_ entry: EntryID, _ source: MediaSource, _ number: Int) -> (any PlayerEngine)? {
        guard let play = carried?.play,
            play.source == source || play.clip.file.resource.storageKey == source.resource?.storageKey
        else { return nil }
        carried = nil
        endCurrent()
        var metrics = play.metrics
        (metrics.page, metrics.entry, metrics.number, metrics.servedAs) = (id, entry, number, .carried)
        (metrics.timeToFirstFrame, metrics.phases) = (.zero, PlayMetrics.Phases())
        show(CurrentPlay(number: number, clip: play.clip, source: source, metrics: metrics))
        replan()
        return play.clip.engine
    }

    /// The next look at the current play is the first of it.
    func currentChanged() {
        planner?.currentChanged()
        forgetLook()
    }

    /// What was seen of the play before holds no longer, nor how fast other work went beside it.
    func forgetLook() {
        (look, mediaRate) = (nil, nil)
        setPaces(PacingPolicy.Rates(), nil)
    }

    /// What is on screen reads ahead, before everything else.
    func supply(_ clip: OpenedClip) async {
        guard shows(clip) else { return }
        await clip.reader.setPriority(.current)
        await look(clip)
    }

    /// Whether the clip's engine plays here, and the page is on top.
    func shows(_ clip: OpenedClip) -> Bool { shown?.engine === clip.engine && isOnTop }

    /// Gives the engines of plays that never began back.
    func releaseStarting() {
        for (_, clip) in starting.inOrder { release(clip) }
        starting = [:]
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

    /// The clip whose engine plays on this page, whichever page began it.
    var shown: OpenedClip? { current?.clip ?? carried?.play.clip }

    /// Looks at the buffer of what plays, and again after a tick.
    private func look(_ clip: OpenedClip) async {
        guard shows(clip) else { return }
        let status = await clip.engine.status()
        guard shows(clip) else { return }
        // Whoever is still on the way gets nothing that is not needed yet.
        let isOnTheWay = planner?.motion.untilArrived(at: loop.now.offset) != nil
        if !isOnTheWay || status.bufferedAhead < Self.enoughToArrive {
            await clip.reader.setReadAhead(runtime.configuration.readAhead)
            guard shows(clip) else { return }
        }
        current?.metrics.take(status)
        let seen = WatermarkGate.Playing(
            bufferedAhead: status.bufferedAhead, isComplete: status.isComplete, isFirstFrameShown: true,
            isStalled: status.isStalled)
        look = seen
        if let duration = clip.description.duration, duration > .zero, let length = clip.reader.length {
            mediaRate = min(Self.highestMediaRate, Double(length) / max(0.001, duration.seconds))
        }
        let surroundings = surroundings
        planner?.update(seen, surroundings)
        setPaces(
            PacingPolicy.rates(
                isComfortable: planner?.gate.isOpen == true, mediaRate: mediaRate, isComplete: status.isComplete,
                throughput: surroundings.throughput), clip)
        replan()
        watch(after: Self.tick) { await $0.look(clip) }
    }

    /// The engine that plays.
    package var currentEngine: (any PlayerEngine)? { shown?.engine }

    func stopTicking() { if let timer = tickTimer.take() { loop.cancel(timer) } }

    /// Stops what plays or is about to play, and reports what it cost.
    func endCurrent() {
        if let opening = playOpening.take() { openings[opening]?.task?.cancel() }
        stopTicking()
        if let play = current.take() { endSoon(play) }
        if let play = carried.take() { endSoon(play.play) }
    }

    func endSoon(_ play: CurrentPlay, after delay: Duration = .zero) {
        let number = number()
        leaving[number] = play.clip.engine
        chore { page in
            if delay > .zero { try? await page.loop.sleep(for: delay) }
            var metrics = play.metrics
            metrics.take(await play.clip.engine.status())
            await page.giveBack(number)
            let traffic = await page.runtime.loaders.traffic(of: play.clip.reader.key)
            (metrics.fetchedBytes, metrics.unplayedBytes) = (traffic.fetched, traffic.unplayed)
            page.send(.played(metrics))
            page.reportCacheFailure()
        }
    }

    // MARK: Playing early, and spare engines

    /// Announces the entry on which a scroll will settle, so that it is opened before ``play(_:options:)`` is called.
    ///
    /// - Throws: ``FeedError/wrongOrder(call:needs:)`` or ``FeedError/unknownEntry(_:)``.
    public func willSelect(_ entry: EntryID) throws(FeedError) {
        try requireEntry(entry, for: "willSelect")
        planner?.announced = entry == list.current ? nil : entry  // the scroll may settle where it began
        replan()
    }

    /// Whether a spare engine has the entry; `ready` also when it was taken and not played yet.
    public func peekPreRenderedEngine(for entry: EntryID) -> PreRenderStatus {
        if taken[entry] != nil || spares[entry] != nil { return .ready }
        return openings.values.contains { $0.attempt?.entry == entry } ? .inFlight : .none
    }

    /// Takes the spare engine that holds an entry, at most once; ``play(_:options:)`` of that entry uses it. A play of
    /// another entry, and another take, give it back. No event of the time before reaches the taker, and its first frame
    /// is delivered when it plays.
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
        guard let clip = takeSpare(entry) else { return nil }
        // One at a time: engines are few, and the next play may need one.
        for (_, older) in taken.inOrder { release(older) }
        taken = [entry: clip]
        replan()
        return clip.engine
    }

    /// Returns when the opening has ended, at the deadline, or when the caller's task is cancelled.
    private func waitForOpening(_ opening: Int, atMost deadline: Duration) async {
        let due = loop.now.advanced(by: deadline)
        let waiter = number()
        let giveUp: @Sendable () -> Void = { [weak self] in
            self?.assumeIsolated { $0.openings[opening]?.waiters.removeValue(forKey: waiter)?.resume() }
        }
        let timer = loop.schedule(at: due, giveUp)
        await withTaskCancellationHandler {
            await withCheckedContinuation { (continuation: CheckedContinuation<Void, Never>) in
                if openings[opening] == nil || loop.now >= due || Task.isCancelled { return continuation.resume() }
                openings[opening]?.waiters[waiter] = continuation
            }
        } onCancel: {
            loop.post(giveUp)
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
