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
        /// Bytes of the head that are fetched whatever is read.
        var head: Int64?
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
        let file: ResolvedFile
        let description: MediaDescription
        /// Bytes of the clip that were on disk when it was opened.
        let storedBytes: Int64
        /// From the begin of the opening to the begin of the engine's own work.
        let resolveTime: Duration
    }

    /// Bytes that a spare engine reads ahead while it opens: one segment, enough for most key frames.
    private static var spareReadAhead: Int64 { 256 * 1024 }

    // MARK: Planning

    /// Asks the planner what should run now, and carries it out.
    func replan() {
        guard machine.state == .sourced else { return }
        let surroundings = surroundings
        if !surroundings.hasPlay { forgetLook() }
        guard let plan = planner?.plan(list, surroundings) else { return }
        carryOut(plan.preRender)
        for cancel in plan.preload.cancels { cancelPreload(cancel.entry, cancel.reason) }
        for start in plan.preload.starts { startPreload(start) }
        preconnect()
        planWhenCalm()
    }

    /// What waits for the end of a hurry begins then, although nothing else happens.
    private func planWhenCalm() {
        guard calmTimer == nil, let calm = planner?.motion.calm(after: loop.now.offset) else { return }
        calmTimer = loop.schedule(at: LoopInstant(offset: calm)) { [weak self] in
            self?.assumeIsolated { page in
                page.calmTimer = nil
                page.replan()
            }
        }
    }

    /// What the planner goes by.
    var surroundings: StrategyPlanner.Surroundings {
        var surroundings = StrategyPlanner.Surroundings(now: loop.now.offset)
        surroundings.hasPlay = current != nil || carried != nil || pendingPlay != nil
        surroundings.isPlaying = current != nil
        let elsewhere = runtime.coordinator.assumeIsolated { $0.coveredPlays }
        (surroundings.taken, surroundings.engineLimit) = (Set(taken.keys), runtime.pool.limit - elsewhere)
        (surroundings.isFrozen, surroundings.mediaRate) = (overlay != nil, mediaRate)
        runtime.loaders.assumeIsolated { loaders in
            (surroundings.isOffline, surroundings.isBudgetSpent) = (loaders.isOffline, loaders.isBudgetSpent)
            surroundings.isMetered = loaders.network == .metered
            surroundings.throughput = loaders.throughput
        }
        return surroundings
    }

    var throughput: Double? { runtime.loaders.assumeIsolated { $0.throughput } }

    /// Where the first frame of a clip ends, if its index told; the next ones will be alike.
    func learned(firstFrameEnd: Int64?) {
        guard let firstFrameEnd else { return }
        planner?.learned(firstFrameEnd: firstFrameEnd)
        runtime.loaders.assumeIsolated { $0.learned(firstFrameEnd: firstFrameEnd) }
    }

    /// Reading ahead and strategies go only so fast that the next swipe finds the network's queue empty.
    func setPaces(_ rates: PacingPolicy.Rates, _ clip: OpenedClip?) {
        runtime.loaders.assumeIsolated { loaders in
            loaders.setBackgroundPace(rates.background)
            if let clip { loaders.setPace(of: clip.reader, rates.readAhead) }
        }
    }

    /// Connections to the hosts of the next entries, whose bytes may not be fetched yet.
    private func preconnect() {
        guard planner?.preloads != nil || planner?.preRenders != nil else { return }
        let next = Array(list.upcoming.prefix(Self.connectedAhead))
        guard next != connected else { return }
        connected = next
        let resources = next.compactMap { sources[$0]?.resource }
        guard !resources.isEmpty else { return }
        chore { page in
            for resource in resources { await page.runtime.loaders.preconnect(resource) }
        }
    }
    private static var connectedAhead: Int { 3 }

    // MARK: Preload

    private func startPreload(_ start: PreloadMachine.Start) {
        let entry = start.entry
        guard let source = sources[entry], let amount = planner?.amount(of: start, bitrate: source.bitrate) else {
            return
        }
        let number = number()
        preloads[entry] = Preload(number: number)
        record.detail = detail(of: amount)
        send(.started(.preload, entry, planner?.announced == entry ? .announced : .upcoming))
        let extras = extras[entry]
        let isLast = start.stage == .fill
        preloads[entry]?.task = loop.spawn {
            do {
                let file = try await self.runtime.resolve(source, isUrgent: false)
                await self.prepare(entry, file, forPreload: number)
                // Beside the clip: a cover whose server is dead must not be in its way.
                async let cover: Void = self.preloadCover(extras?.cover, entry, number)
                let report = try await self.runtime.loaders.prefetch(
                    file.resource, Self.amount(amount, file), priority: .preload)
                await cover
                if isLast {
                    for subtitles in extras?.subtitles ?? [] {
                        await self.preloadExtra(.subtitles, subtitles, entry, number)
                    }
                }
                await self.preloadEnded(entry, number, report, nil)
            } catch {
                await self.preloadEnded(entry, number, PrefetchReport(), error)
            }
        }
    }

    private func detail(of amount: StrategyPlanner.Amount) -> String {
        var parts: [String] =
            switch amount {
            case .bytes(let size): ["\(size / 1024) KB"]
            case .seconds(let seconds, _, _): ["\(seconds) s of media"]
            case .firstFrame: ["first frame"]
            }
        func megabits(_ rate: Double) -> String { "\(Double(Int(min(rate, 1e12) * 8 / 10_000)) / 100) Mbit/s" }
        if let throughput { parts.append("network \(megabits(throughput))") }
        if let mediaRate { parts.append("clip \(megabits(mediaRate))") }
        if let dwell = planner?.motion.typicalDwell { parts.append("dwell \(Double(Int(dwell.seconds * 10)) / 10) s") }
        return parts.joined(separator: ", ")
    }

    /// Which file is fetched ahead or opened for an entry.
    private func prepare(_ entry: EntryID, _ file: ResolvedFile, forPreload number: Int? = nil) {
        guard sources[entry] != nil, machine.state != .inactive else { return }
        if let number, preloads[entry]?.number != number { return }  // it was cancelled meanwhile
        record.works(on: runtime.loaders.assumeIsolated { $0.storageKey(of: file.resource) }, for: entry)
        let isNew = prepared[entry]?.key != file.resource.key
        prepared[entry] = PreparedFile(vid: file.vid, key: file.resource.key, variant: file.variant?.name ?? "")
        if isNew, let asked = file.fallsBackFrom, let got = file.variant?.resolution {
            send(.resolutionFellBack(entry, asked: asked, got: got))
        }
    }

    /// Tells when what is opened for a play is not what was prepared.
    private func compareWithPrepared(_ entry: EntryID, _ file: ResolvedFile) {
        if let before = prepared[entry], before.vid != nil, before.vid == file.vid, before.key != file.resource.key {
            send(.resolutionMismatch(entry, prepared: before.variant, played: file.variant?.name ?? ""))
        }
        prepare(entry, file)
    }

    /// At least what the service says that the first frame needs.
    private static func amount(_ amount: StrategyPlanner.Amount, _ file: ResolvedFile) -> StrategyPlanner.Amount {
        guard case .firstFrame(let guess, let largest) = amount, let head = file.variant?.headLength else {
            return amount
        }
        return .firstFrame(guess: min(largest, max(guess, head)), largest: largest)
    }

    private func preloadCover(_ cover: URLSource?, _ entry: EntryID, _ number: Int) async {
        if let cover { await preloadExtra(.cover, cover, entry, number) }
    }

    /// A picture or a text beside the clip: small, and never in its way.
    private func preloadExtra(_ work: PageEvent.Work, _ source: URLSource, _ entry: EntryID, _ number: Int) async {
        var resource = source.resource
        resource.expectsMedia = work == .cover
        do {
            try await runtime.loaders.prefetch(resource, .bytes(Self.largestExtra), priority: .preload)
        } catch {
            guard preloads[entry]?.number == number, !(error is CancellationError) else { return }
            send(.workFailed(work, entry, "\(error)"))
        }
    }
    static var largestExtra: Int64 { 4 * 1024 * 1024 }

    private func preloadEnded(_ entry: EntryID, _ number: Int, _ report: PrefetchReport, _ error: (any Error)?) {
        guard preloads[entry]?.number == number else { return }
        preloads[entry] = nil
        guard !(error is CancellationError) else { return }
        learned(firstFrameEnd: report.firstFrameEnd)
        let isFinal = error.map(Self.isFinal) ?? true
        planner?.preloadEnded(entry, failed: error != nil, isFinal: isFinal)
        if !isFinal { retryLater() }
        if error is PrefetchStalled {
            send(.stopped(.preload, entry, .stalled))
        } else if case .budgetSpent? = error as? LoadError {
            send(.stopped(.preload, entry, .budget))
        } else {
            if let error { send(.workFailed(.preload, entry, "\(error)")) }
            send(.stopped(.preload, entry, error == nil ? .finished : .failed))
        }
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

    func carryOut(_ action: PreRenderMachine.PlanAction) {
        for cancel in action.cancels {
            for (_, opening) in openings.inOrder where opening.attempt == cancel.attempt { opening.task?.cancel() }
            send(.stopped(.preRender, cancel.attempt.entry, cancel.reason))
        }
        for end in action.releases {
            guard let spare = spares[end.attempt.entry], spare.attempt == end.attempt else { continue }
            spares[end.attempt.entry] = nil
            release(spare.clip)
            send(.stopped(.preRender, end.attempt.entry, end.reason))
        }
        if let attempt = action.opens { startPreRender(attempt) }
    }

    private func startPreRender(_ attempt: PreRenderMachine.Attempt) {
        guard let source = sources[attempt.entry] else {
            preconditionFailure("\(attempt.entry) is listed without a source")
        }
        var options = engineOptions
        willPreRender?(attempt.entry, &options)
        let isAnnounced = planner?.announced == attempt.entry
        send(.started(.preRender, attempt.entry, isAnnounced ? .announced : .upcoming))
        beginOpening(
            Opening(
                entry: attempt.entry, priority: isAnnounced ? .current : .preRender,
                readAhead: Self.spareReadAhead, attempt: attempt), source, options)
    }

    private func preRenderEnded(_ attempt: PreRenderMachine.Attempt, _ result: Result<OpenedClip, any Error>) {
        switch result {
        case .success(let clip):
            learned(firstFrameEnd: clip.description.firstFrameEnd)
            guard planner?.engineOpened(attempt) == .hold else { return release(clip) }
            spares[attempt.entry] = (attempt, clip)
            send(.stopped(.preRender, attempt.entry, .finished))
            chore { _ in await clip.reader.setReadAhead(0) }
        case .failure(let error):
            let isFinal = Self.isFinal(error)
            guard planner?.engineFailed(attempt, isFinal: isFinal) == true else { return }
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
    private static func isFinal(_ error: any Error) -> Bool {
        if error is PrefetchStalled { return false }
        return (error as? LoadError)?.mayPass != true && (error as? VidError)?.mayPass != true
    }

    private func retryLater() {
        guard retryTimer == nil else { return }
        retryTimer = loop.schedule(at: loop.now.advanced(by: Self.retryDelay)) { [weak self] in
            self?.assumeIsolated { page in
                page.retryTimer = nil
                page.retry()
            }
        }
    }

    private func retry() {
        planner?.retry()
        replan()
    }

    /// The network, or what strategies may take of it, is another one.
    func networkChanged() {
        connected = []
        if let timer = retryTimer.take() { loop.cancel(timer) }
        retry()
    }

    // MARK: Opening

    /// Opens an entry in an engine of the pool, which belongs to the page until it is released.
    @discardableResult
    func beginOpening(_ opening: Opening, _ source: MediaSource, _ options: EngineOptions) -> Int {
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
        _ number: Int, _ entry: EntryID, _ source: MediaSource, _ options: EngineOptions, mayRetry: Bool
    ) async throws -> OpenedClip {
        let begin = loop.now
        let isUrgent = openings[number]?.priority == .current
        let file = try await runtime.resolve(source, isUrgent: isUrgent)
        compareWithPrepared(entry, file)
        let engine = try await runtime.pool.acquire(from: engineFactory)
        do {
            try Task.checkCancellation()
            guard let asked = openings[number] else { preconditionFailure("an opening runs that nobody owns") }
            let reader = try await runtime.loaders.open(
                file.resource, priority: asked.priority, readAhead: asked.readAhead)
            openings[number]?.reader = reader
            if let head = asked.head { await reader.want([0..<head]) }
            if let now = openings[number], now.priority != asked.priority {  // a play has taken it meanwhile
                await reader.setPriority(now.priority)
                await reader.setReadAhead(now.readAhead)
            }
            let stored = reader.available(in: 0..<Int64.max)
            willPrepare?(entry, engine)
            let resolveTime = begin.duration(to: loop.now)
            let input = MediaInput(reader: reader, name: file.name, subtitles: subtitles(of: entry))
            let description = try await engine.open(input, options: options)
            return OpenedClip(
                entry: entry, engine: engine, reader: reader, file: file, description: description,
                storedBytes: stored, resolveTime: resolveTime)
        } catch LoadError.changed where mayRetry && !Task.isCancelled {
            // The cached head was of an older version; it is gone now, and the new one is read from its start.
            await runtime.pool.releaseAndWait(engine)
            return try await open(number, entry, source, options, mayRetry: false)
        } catch {
            await runtime.pool.releaseAndWait(engine)
            throw error
        }
    }

    /// What stands beside an entry, to be loaded when a viewer wants it.
    private func subtitles(of entry: EntryID) -> [SubtitleInput] {
        (extras[entry]?.subtitles ?? []).map { source in
            var resource = source.resource
            resource.expectsMedia = false
            let (loaders, name) = (runtime.loaders, source.name)
            return SubtitleInput(name: name) { [resource] in
                try await loaders.readAll(resource, most: Self.largestExtra)
            }
        }
    }

    /// Gives an engine back; `clear()` waits for it.
    func release(_ clip: OpenedClip) {
        let number = number()
        leaving[number] = clip.engine
        chore { page in await page.giveBack(number) }
    }

    /// What is heard of an engine, for those who would notice a second one.
    func noteHeard(_ engine: any PlayerEngine) {
        let heard = runtime.pool.assumeIsolated { $0.note(engine, isAudible: true) }
        if heard > 1 {
            assertionFailure("\(heard) engines are heard at once")
            if let entry = list.current { send(.heardTwice(entry)) }
        }
    }
    func setHeard(_ engine: any PlayerEngine) async {
        noteHeard(engine)
        await engine.setSuspended(false)
    }
    func setSilent(_ engine: any PlayerEngine) async {
        await engine.setSuspended(true)
        _ = await runtime.pool.note(engine, isAudible: false)
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
