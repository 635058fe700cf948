package import FeedVocabulary

/// All decisions of one page's strategies, from when they are enabled to when they are cleared: what is fetched ahead, what
/// spare engines hold, and what waits for what. The page carries them out, and nothing else.
package struct StrategyPlanner: Hashable, Sendable {
    /// What the page knows when it asks.
    package struct Surroundings: Hashable, Sendable {
        package var now: Duration
        /// Whether something plays, is about to, or is carried over from another page.
        package var hasPlay = false
        /// Whether this page's own entry has shown its first frame.
        package var isPlaying = false
        /// Entries whose spare engine the host has taken and not played yet.
        package var taken: Set<EntryID> = []
        /// Engines that there can be; one is for what plays.
        package var engineLimit = 3
        package var isOffline = false
        package var isBudgetSpent = false
        package var isMetered = false
        /// Whether what runs goes on and nothing is begun.
        package var isFrozen = false
        /// Bytes a second of the network.
        package var throughput: Double?
        /// Bytes a second that the current entry plays.
        package var mediaRate: Double?
        package init(now: Duration) { self.now = now }
    }
    package struct Plan: Hashable, Sendable {
        package var preRender = PreRenderMachine.PlanAction()
        package var preload = PreloadMachine.Action()
    }

    /// `nil` without preloading.
    package let preloads: PreloadConfiguration?
    /// `nil` without pre-rendering.
    package let preRenders: PreRenderConfiguration?
    package private(set) var gate: WatermarkGate
    package private(set) var preload = PreloadMachine()
    package private(set) var preRender = PreRenderMachine()
    package private(set) var motion = Motion()
    /// What the automatic policy chose last.
    package private(set) var choice: AutomaticPolicy.Choice?
    /// The entry on which a scroll will settle.
    package var announced: EntryID?
    /// The entry in view of a viewer who scrolls through a list and plays nothing.
    package var browsed: EntryID?
    /// Bytes to the end of the first frame, of the clips seen so far.
    private var firstFrames = RecentSizes()

    package init(preloads: PreloadConfiguration?, preRenders: PreRenderConfiguration?) {
        (self.preloads, self.preRenders) = (preloads, preRenders)
        let limits = preloads ?? PreloadConfiguration()
        gate = WatermarkGate(start: .seconds(limits.startBufferLimit), stop: .seconds(limits.stopBufferLimit))
    }

    // MARK: What happens

    /// The viewer goes to an entry; `place` is its index.
    package mutating func selected(place: Int, at now: Duration) {
        motion.selected(place: place, at: now)
        (announced, browsed) = (nil, nil)
        gate.currentChanged()
    }
    /// A play goes on that began elsewhere.
    package mutating func currentChanged() { gate.currentChanged() }
    /// The list changed around the viewer, who is at `place` now.
    ///
    /// - Parameter isAnother: Whether the entry at which the viewer was is gone.
    package mutating func listChanged(place: Int, isAnother: Bool = false) {
        if isAnother { motion.interrupt() } else { motion.moved(to: place) }
    }
    /// How what plays stands now.
    package mutating func update(_ playing: WatermarkGate.Playing, _ surroundings: Surroundings) {
        choose(surroundings)
        if let choice { gate.setLimits(start: .seconds(choice.start), stop: .seconds(choice.stop)) }
        gate.update(playing)
    }
    package mutating func learned(firstFrameEnd: Int64) { firstFrames.add(firstFrameEnd) }
    package mutating func preloadEnded(_ entry: EntryID, failed: Bool, isFinal: Bool) {
        preload.ended(entry, failed: failed, isFinal: isFinal)
    }
    package mutating func engineOpened(_ attempt: PreRenderMachine.Attempt) -> PreRenderMachine.OpenedAction {
        preRender.engineOpened(attempt)
    }
    package mutating func engineFailed(_ attempt: PreRenderMachine.Attempt, isFinal: Bool) -> Bool {
        preRender.engineFailed(attempt, isFinal: isFinal)
    }
    package mutating func take(_ entry: EntryID) -> PreRenderMachine.TakeAction { preRender.take(entry) }
    /// Time has passed, or the network is another one: what failed for the moment may work.
    package mutating func retry() {
        preload.retry()
        preRender.retry()
    }

    /// The entry left the list, or has another source.
    ///
    /// - Returns: Whether its preload has to be cancelled, and what of its engine ends.
    package mutating func dropWork(of entry: EntryID) -> (cancelsPreload: Bool, preRender: PreRenderMachine.PlanAction)
    {
        (preload.removed(entry), preRender.forget(entry))
    }
    package mutating func left(_ entry: EntryID) {
        if announced == entry { announced = nil }
        if browsed == entry { browsed = nil }
    }
    /// All work ends; what is known of clips and viewer stays, for ``resume()``.
    package mutating func clear(
        because reason: StrategyReason
    ) -> (preloads: [EntryID], preRender: PreRenderMachine.PlanAction) {
        announced = nil
        return (preload.clear(), preRender.clear(because: reason))
    }
    /// The page is on top again.
    package mutating func resume() { preRender = preRender.resumed }

    // MARK: What follows

    package mutating func plan(_ list: PageList, _ surroundings: Surroundings) -> Plan {
        if !surroundings.hasPlay { gate.nothingPlays() }
        choose(surroundings)
        var plan = Plan()
        let refusal = refusal(surroundings)
        if preRenders != nil { plan.preRender = planPreRender(list, surroundings, refusal) }
        if let preloads, !preloads.isOff { plan.preload = planPreload(preloads, list, surroundings, refusal) }
        return plan
    }

    /// Why strategies may not fetch now; `nil` when they may.
    private func refusal(_ surroundings: Surroundings) -> StrategyReason? {
        if surroundings.isOffline { return .network }
        if surroundings.isBudgetSpent { return .budget }
        if !gate.isOpen { return .watermark }
        return motion.isFlinging(at: surroundings.now) ? .hurry : nil
    }

    private mutating func planPreRender(
        _ list: PageList, _ surroundings: Surroundings, _ refusal: StrategyReason?
    ) -> PreRenderMachine.PlanAction {
        let announced = announced
        return preRender.plan(spareEntries(list, surroundings), isFrozen: surroundings.isFrozen) { entry in
            entry == announced ? nil : refusal
        }
    }

    /// The entries that spare engines should hold, most wanted first.
    package func spareEntries(_ list: PageList, _ surroundings: Surroundings) -> [EntryID] {
        guard let preRenders else { return [] }
        let window = PreloadWindow(count: preRenders.ahead, behind: preRenders.behind)
        let likely = window.entries(of: list, direction: motion.direction)
        var wanted = announced.map { [$0] + likely.filter { $0 != announced } } ?? likely
        wanted.removeAll { surroundings.taken.contains($0) || list.current == $0 }
        // What is announced takes the place of what was only likely.
        let places = max(preRenders.ahead + preRenders.behind, announced == nil ? 0 : 1)
        return Array(wanted.prefix(min(surroundings.engineLimit - 1, places)))
    }

    private mutating func planPreload(
        _ configuration: PreloadConfiguration, _ list: PageList, _ surroundings: Surroundings,
        _ refusal: StrategyReason?
    ) -> PreloadMachine.Action {
        var window = PreloadWindow(count: choice?.count ?? configuration.count, behind: configuration.behind)
        if choice == nil, motion.isHurried(at: surroundings.now) { window = window.halved }
        var order = PreloadMachine.Order(
            window: window.entries(of: list, direction: motion.direction, browsing: browsed), current: list.current,
            refusal: refusal)
        // Heads of entries further on are for a viewer who has arrived.
        if motion.untilArrived(at: surroundings.now) != nil, order.refusal == nil { order.refusal = .hurry }
        // Before the first play the entry that will be played comes first, alone.
        let isOpeningFirst =
            !surroundings.isPlaying && list.current == nil && preRender.ready.isEmpty && preRender.isOpening
        if isOpeningFirst, order.refusal == nil { order.refusal = .superseded }
        order.isFrozen = surroundings.isFrozen
        if let choice {
            order.inFlight = choice.inFlight
            order.stages = choice.fills ? [.firstFrame, .fill] : [.firstFrame]
        }
        return preload.plan(order)
    }

    private mutating func choose(_ surroundings: Surroundings) {
        guard let preloads, preloads.isAutomatic else { return }
        var sight = AutomaticPolicy.Sight()
        (sight.throughput, sight.mediaRate) = (surroundings.throughput, surroundings.mediaRate)
        (sight.firstFrame, sight.dwell) = (firstFrames.usual, motion.typicalDwell)
        (sight.isHurried, sight.isMetered) = (motion.isHurried(at: surroundings.now), surroundings.isMetered)
        choice = AutomaticPolicy.choose(sight, within: preloads)
    }

    // MARK: How much

    /// What is fetched of an entry; see ``PreloadConfiguration``.
    package enum Amount: Hashable, Sendable {
        case bytes(Int64)
        /// Seconds of media, as far as the file tells where they end: at most `largest` bytes, and `fallback` bytes of a
        /// file that does not tell.
        case seconds(Double, fallback: Int64, largest: Int64)
        /// To the end of the first frame; `guess` bytes at once, and no more of a file that does not tell.
        case firstFrame(guess: Int64, largest: Int64)
    }

    /// - Parameter bitrate: Bits a second of the entry, where its source tells.
    package func amount(of start: PreloadMachine.Start, bitrate: Int?) -> Amount {
        let configuration = preloads ?? PreloadConfiguration()
        if let choice {
            return start.stage == .firstFrame
                ? .firstFrame(guess: choice.firstFrame, largest: configuration.size) : .bytes(choice.size)
        }
        guard let seconds = configuration.seconds else { return .bytes(configuration.size) }
        let (product, isTooLarge) = configuration.size.multipliedReportingOverflow(
            by: PreloadConfiguration.largestFactor)
        let largest = isTooLarge ? .max : product
        let known = bitrate.map { Int64(min(Double($0) / 8 * seconds, 1e15)) }
        return .seconds(seconds, fallback: min(largest, known ?? configuration.size), largest: largest)
    }

    /// Bytes of the head that a play fetches of a viewer who flings through the list: the first frame and no more. `nil`
    /// for a viewer who will stay, and for whom everything is read ahead.
    package func headOfFling(at now: Duration) -> Int64? {
        motion.isFlinging(at: now) ? firstFrames.usual ?? AutomaticPolicy.usualFirstFrame : nil
    }
}
