import EventLoop
package import FeedStrategy
public import FeedVocabulary
public import Playback
import ResourceLoading

/// One feed page: a list of entries, and the strategies that get the next ones ready while the current one plays.
///
/// Lives on its runtime's loop. Life cycle: inactive → enabled → sourced → inactive; covered while a nested page lies
/// above it. Docs/Concurrency.md says what holds whatever is called from wherever.
public actor FeedPage {
    /// The page's name in its runtime.
    public nonisolated let id: PageID
    /// What happens on the page, in order, for one consumer; the oldest of more than 1,024 unread events are dropped.
    public nonisolated let events: EngineStream<PageEvent>
    package nonisolated let runtime: FeedRuntime
    nonisolated var loop: any LoopExecutor { runtime.loop }
    /// The loop of the page's runtime.
    public nonisolated var unownedExecutor: UnownedSerialExecutor { runtime.loop.asUnownedSerialExecutor() }

    package internal(set) var machine = PageMachine()
    package internal(set) var list = PageList()
    var sources: [EntryID: MediaSource] = [:]
    /// What goes along with some entries.
    var extras: [EntryID: EntryExtras] = [:]
    private var strategies: [Strategy]
    private var clearing: Task<Void, Never>?
    private var covering: Task<Void, Never>?

    /// The strategies' decisions; non-nil while they are enabled.
    package internal(set) var planner: StrategyPlanner?
    /// What lies above the page and will go away again, with its strategies resting as they are.
    var overlay: Overlay?
    /// Bytes a second that the current entry plays; `nil` until the file has told.
    var mediaRate: Double?
    /// The window whose hosts were connected to last.
    var connected: [EntryID] = []
    /// The file that was last fetched ahead or opened for an entry, to tell when a play takes another one.
    var prepared: [EntryID: PreparedFile] = [:]
    var record = PageRecord()

    // The work under way. Every piece has an owner here, across every suspension, so that clear() can end it.
    var preloads: [EntryID: Preload] = [:]
    var openings: [Int: Opening] = [:]
    var spares: [EntryID: (attempt: PreRenderMachine.Attempt, clip: OpenedClip)] = [:]
    var taken: [EntryID: OpenedClip] = [:]
    /// Engines that have their first frame and become current as soon as their play goes on, by its number.
    var starting: [Int: OpenedClip] = [:]
    var current: CurrentPlay?
    /// A play that goes on from the page before; this page's play of the same clip continues it.
    var carried: CarriedPlay?
    /// Short tasks: ends of plays, looks at the buffer.
    private var chores: [Int: Task<Void, Never>] = [:]
    /// Engines that are on their way back to the pool: none may be heard when the next play begins.
    var leaving: [Int: any PlayerEngine] = [:]
    private var nextNumber = 0
    var playNumber = 0
    /// The newest play, until its first frame is delivered or it has failed.
    var pendingPlay: Int?
    /// What the gate was told last of the current play.
    var look: WatermarkGate.Playing?
    /// The opening that the newest play waits for; a newer play ends it.
    var playOpening: Int?
    /// The next look at the current entry.
    var tickTimer: LoopTimer?
    /// When work that failed for the moment is tried again.
    var retryTimer: LoopTimer?
    /// When the viewer's hurry is over, and what waited for that begins.
    var calmTimer: LoopTimer?

    /// Called before an entry is opened in a spare engine; may change the engine's options, such as the start time.
    var willPreRender: (@Sendable (EntryID, inout EngineOptions) -> Void)?
    /// Called with each engine that is about to open an entry.
    var willPrepare: (@Sendable (EntryID, any PlayerEngine) -> Void)?
    /// Makes this page's engines instead of the runtime's.
    var engineFactory: (any EngineFactory)?
    var engineOptions = EngineOptions()

    init(_ id: PageID, runtime: FeedRuntime, strategies: [Strategy]) {
        (self.id, self.runtime, self.strategies) = (id, runtime, strategies)
        events = EngineStream(EngineChannel(capacity: 1024))
    }

    /// A page that its host forgot without clearing it: its tasks hold it, so only engines that stand still are left.
    deinit {
        for case let timer? in [tickTimer, retryTimer, calmTimer] { runtime.loop.cancel(timer) }
        let clips =
            [current?.clip, carried?.play.clip].compactMap { $0 } + spares.inOrder.map(\.value.clip)
            + taken.inOrder.map(\.value)
        for clip in clips { runtime.pool.release(clip.engine) }
        events.channel.finish()
        runtime.coordinator.forget(id)
    }

    func send(_ event: PageEvent) {
        precondition(machine.state != .inactive, "\(id) is cleared and tells \(event)")
        record.note(event, at: loop.now)
        events.channel.send(event)
    }

    func number() -> Int {
        nextNumber += 1
        return nextNumber
    }

    var choreCount: Int { chores.count }

    var isClearing: Bool { clearing != nil }
    func clearingEnds() async { await clearing?.value }

    var isOnTop: Bool { machine.state.isOnTop }

    /// Starts a short task of the page; ``clear()`` waits for its end.
    func chore(_ body: @escaping @Sendable (isolated FeedPage) async -> Void) {
        let number = number()
        chores[number] = loop.spawn { await self.carryOut(number, body) }
    }
    private func carryOut(_ number: Int, _ body: @Sendable (isolated FeedPage) async -> Void) async {
        await body(self)
        chores[number] = nil
    }

    static func validate(_ strategies: [Strategy]) throws(ConfigurationError) {
        for strategy in strategies {
            switch strategy {
            case .preload(let configuration): try configuration.validate()
            case .preRender(let configuration): try configuration.validate()
            }
        }
    }

    static func ordered<Value>(_ body: () throws(PageMachine.Refusal) -> Value) throws(FeedError) -> Value {
        do { return try body() } catch {
            let needs =
                switch (error.call, error.state) {
                case ("enable", .enabled), ("enable", .sourced), ("enable", .covering), ("enable", .covered): "clear()"
                case (_, .enabled): "setSources(_:)"
                case (_, .covering), (_, .covered): "the runtime's enter(_:) or resume()"
                case (_, .inactive), (_, .sourced), (_, .clearing): "enable(_:) or the runtime's enter(_:)"
                }
            throw .wrongOrder(call: error.call, needs: needs)
        }
    }

    // MARK: Life cycle

    /// Enables strategies. ``FeedRuntime/enter(_:by:carryingPlay:)`` does it as part of a page switch.
    ///
    /// - Throws: ``FeedError/wrongOrder(call:needs:)`` on an enabled page, ``FeedError/ownedByOther(_:)``,
    ///   ``FeedError/stopped``, or ``ConfigurationError``.
    public func enable(_ strategies: [Strategy]) async throws {
        try Self.validate(strategies)
        try beginLife(strategies)
        if isRuntimeSuspended { startCovering(keepingPlay: false) }  // in the background it stands still at once
        await coverEnds()
    }

    private var isRuntimeSuspended: Bool { runtime.coordinator.assumeIsolated { $0.machine.isSuspended } }

    /// Decides and registers without a suspension, so that no clear or other page comes between.
    private func beginLife(_ strategies: [Strategy]) throws(FeedError) {
        var trial = machine
        try Self.ordered { () throws(PageMachine.Refusal) in try trial.enable() }
        try runtime.coordinator.assumeIsolated { [id] coordinator in
            Result { () throws(FeedError) in try coordinator.claim(id) }
        }.get()
        machine = trial
        self.strategies = strategies
        makePlanner()
    }

    private func makePlanner() {
        var (preloads, preRenders): (PreloadConfiguration?, PreRenderConfiguration?)
        for strategy in strategies {
            switch strategy {
            case .preload(let configuration): preloads = configuration
            case .preRender(let configuration): preRenders = configuration
            }
        }
        planner = StrategyPlanner(preloads: preloads, preRenders: preRenders)
    }

    /// The second half of a page switch: enabled again, with the remembered list at its remembered position.
    ///
    /// - Parameter standsStill: Whether the app is in the background: then the page is covered at once.
    func enter(carrying play: CarriedPlay?, standingStill standsStill: Bool) throws(FeedError) {
        if machine.state == .inactive {
            try beginLife(strategies)
            if !list.entries.isEmpty {
                try Self.ordered { () throws(PageMachine.Refusal) in try machine.setSources() }
            }
        }
        guard isOnTop else {
            if play == nil, machine.state == .covering || machine.state == .covered { return }  // in the background
            throw FeedError.superseded
        }
        if let play { adopt(play) }
        if standsStill { startCovering(keepingPlay: play != nil) } else { replan() }
    }

    /// Waits until the page is covered, as it is about to be, or cleared, if that came between.
    func coverEnds() async {
        await covering?.value
        await clearing?.value
    }

    /// Ends all work of the page: preloads, spare and playing engines. When it returns nothing of the page runs and no
    /// event of it will come. The list and the position are remembered; bytes on disk stay. Idempotent.
    ///
    /// A switch to it that waits or is under way throws ``FeedError/superseded``. A page that it covered stays covered
    /// until it is entered; ``FeedRuntime/leave(_:)`` brings it back.
    public func clear() async {
        withdrawSwitches()
        await endLife()
    }
    private func withdrawSwitches() { runtime.coordinator.assumeIsolated { [id] in $0.withdrawSwitches(to: id) } }

    /// The clear as part of a switch to another page.
    func endLife() async { await startClearing()?.value }

    /// From now on nothing begins on the page.
    @discardableResult func startClearing() -> Task<Void, Never>? {
        if machine.beginClear() { clearing = loop.spawn { await self.endEverything() } }
        return clearing
    }

    private func endEverything() async {
        stopWork(.pageLeft)
        endCurrent()
        (planner, overlay) = (nil, nil)
        list.rest()
        await workEnds()
        await covering?.value
        precondition(audit.isIdle, "\(id) is cleared while something of it is left: \(audit)")
        becomeInactive()
    }

    private func becomeInactive() {
        machine.endClear()
        runtime.coordinator.assumeIsolated { [id] in $0.cleared(id) }
        clearing = nil
    }

    /// Ends the strategies' work and plays that have not begun; what plays is left alone.
    private func stopWork(_ reason: StrategyReason) {
        playNumber += 1
        pendingPlay = nil
        for timer in [retryTimer.take(), calmTimer.take()] { if let timer { loop.cancel(timer) } }
        setPaces(PacingPolicy.Rates(), nil)
        if let ends = planner?.clear(because: reason) {
            for entry in ends.preloads { cancelPreload(entry, reason) }
            carryOut(ends.preRender)
        }
        for (_, opening) in openings.inOrder { opening.task?.cancel() }
        for (_, clip) in taken.inOrder { release(clip) }
        taken = [:]
        releaseStarting()
    }

    /// Waits until no task of the page runs.
    private func workEnds() async {
        while true {
            let preloads = preloads.inOrder.compactMap(\.value.task)
            let openings = openings.inOrder.compactMap(\.value.task)
            let chores = chores.inOrder.map(\.value)
            if preloads.isEmpty && openings.isEmpty && chores.isEmpty { return }
            for task in preloads + chores { await task.value }
            for task in openings { _ = await task.result }
        }
    }

    // MARK: Under another page, or in the background

    /// The page's strategies rest. What plays stands still, silently, and is there when the page comes back; or it ends,
    /// and the page comes back at its entry.
    func cover(keepingPlay: Bool) async {
        await clearing?.value
        startCovering(keepingPlay: keepingPlay)
        await coverEnds()
    }

    /// From now on nothing begins on the page.
    func startCovering(keepingPlay: Bool) {
        if machine.beginCover() { covering = loop.spawn { await self.rest(keepingPlay: keepingPlay) } }
    }

    private func rest(keepingPlay: Bool) async {
        defer { covering = nil }
        guard machine.state == .covering else { return }  // cleared before it had begun
        stopWork(.covered)
        stopTicking()
        if keepingPlay, let kept = shown {
            await setSilent(kept.engine)
            // It stays the viewer's: what its thread still waits for is exempt from limits.
            await kept.reader.setReadAhead(0)
        } else {
            endCurrent()
            list.rest()
        }
        await workEnds()
        _ = machine.endCover()
    }

    /// A page further up keeps its play now, and there are only so many engines.
    func dropCoveredPlay() async {
        guard machine.state == .covered else { return }
        endCurrent()
        list.rest()
        // These and no others: the page may come back meanwhile.
        for (_, task) in chores.inOrder { await task.value }
    }

    /// The page is on top again: its list is set again, and what it played goes on.
    ///
    /// - Returns: Whether it was still covered; else nothing was done.
    @discardableResult func uncover(carrying play: CarriedPlay?) -> Bool {
        guard machine.uncover() else { return false }
        planner?.resume()
        if let play {
            adopt(play)
        } else if let kept = shown {
            currentChanged()
            chore { page in
                await page.followOverlay(kept)
                await page.supply(kept)
            }
        }
        replan()
        return true
    }

    /// Gives the play away, so that another page goes on with it, and begins nothing any more.
    func surrenderPlay(whileCovering isCovered: Bool) -> CarriedPlay? {
        guard isOnTop else { return nil }
        let given = carried.take() ?? current.take().map { CarriedPlay(play: $0, pool: runtime.pool) }
        guard let given else { return nil }
        stopTicking()
        list.rest()
        if isCovered { startCovering(keepingPlay: false) } else { startClearing() }
        return given
    }

    private func adopt(_ play: CarriedPlay) {
        // Whatever the page itself plays or is about to play ends.
        playNumber += 1
        pendingPlay = nil
        releaseStarting()
        endCurrent()
        carried = play
        currentChanged()
        chore { page in
            await page.followOverlay(play.play.clip)  // it may have stood still on the page before
            await page.supply(play.play.clip)
        }
    }

    // MARK: The list

    /// Sets the list: at the first load and at a refresh. Entries that stay keep their work.
    ///
    /// - Throws: ``FeedError/wrongOrder(call:needs:)`` before the page is enabled.
    public func setSources(_ entries: [FeedEntry]) throws(FeedError) {
        try Self.ordered { () throws(PageMachine.Refusal) in try machine.setSources() }
        var unique: [EntryID] = []
        var seen: [EntryID: MediaSource] = [:]
        var extras: [EntryID: EntryExtras] = [:]
        unique.reserveCapacity(entries.count)
        seen.reserveCapacity(entries.count)
        for entry in entries {
            if seen[entry.id] == nil {
                seen[entry.id] = entry.source
                if let more = EntryExtras(entry) { extras[entry.id] = more }
                unique.append(entry.id)
            } else {
                send(.duplicateEntry(entry.id))
            }
        }
        let place = position
        for id in list.set(unique) { entryLeft(id) }
        for id in unique {
            if let old = sources[id], old != seen[id] { dropWork(of: id) }
        }
        (sources, self.extras) = (seen, extras)
        planner?.listChanged(place: list.place, isAnother: place.map { !list.contains($0) } ?? true)
        replan()
    }

    /// Adds entries at the end of the list: load more. An identity that is there already changes nothing and is reported.
    public func addSources(_ entries: [FeedEntry]) throws(FeedError) {
        try insert(entries, at: list.entries.count)
    }

    /// Inserts entries. An identity that is there already changes nothing and is reported.
    ///
    /// - Parameter index: From 0 to the number of entries; others are clamped.
    public func insert(_ entries: [FeedEntry], at index: Int) throws(FeedError) {
        try Self.ordered { () throws(PageMachine.Refusal) in try machine.requireSources(for: "insert") }
        let known = list.insert(entries.map(\.id), at: min(max(0, index), list.entries.count))
        // The first of several with one identity counts, in the list as in one call.
        for entry in entries where sources[entry.id] == nil { keep(entry) }
        for id in known { send(.duplicateEntry(id)) }
        planner?.listChanged(place: list.place)
        replan()
    }

    /// Removes an entry and cancels its work. An entry that plays goes on playing.
    public func remove(_ entry: EntryID) throws(FeedError) {
        try requireEntry(entry, for: "remove")
        list.remove(entry)
        (sources[entry], extras[entry]) = (nil, nil)
        entryLeft(entry)
        planner?.listChanged(place: list.place)
        replan()
    }

    /// Moves an entry to another place. Its work stays as far as it is still among the next ones.
    ///
    /// - Parameter index: Where it is afterwards; clamped to the list.
    public func move(_ entry: EntryID, to index: Int) throws(FeedError) {
        try requireEntry(entry, for: "move")
        list.move(entry, to: min(max(0, index), list.entries.count - 1))
        planner?.listChanged(place: list.place)
        replan()
    }

    /// Gives an entry another source; its work on the old one ends. An entry that plays goes on with what it has.
    public func update(_ entry: FeedEntry) throws(FeedError) {
        try requireEntry(entry.id, for: "update")
        let isSame = sources[entry.id] == entry.source
        if !isSame { dropWork(of: entry.id) }
        keep(entry)
        if !isSame { replan() }
    }

    private func keep(_ entry: FeedEntry) {
        sources[entry.id] = entry.source
        extras[entry.id] = EntryExtras(entry)
    }

    func requireEntry(_ entry: EntryID, for call: String) throws(FeedError) {
        try Self.ordered { () throws(PageMachine.Refusal) in try machine.requireSources(for: call) }
        guard list.contains(entry) else { throw .unknownEntry(entry) }
    }

    private func entryLeft(_ entry: EntryID) {
        dropWork(of: entry)
        prepared[entry] = nil
        planner?.left(entry)
    }

    private func dropWork(of entry: EntryID) {
        let ends = planner?.dropWork(of: entry)
        if ends?.cancelsPreload == true { cancelPreload(entry, .removed) }
        if let clip = taken.removeValue(forKey: entry) { release(clip) }
        if let ends { carryOut(ends.preRender) }
    }

    /// The entries in order.
    public var entries: [EntryID] { list.entries }
    /// What an entry of the list is played from.
    public func source(of entry: EntryID) -> MediaSource? { sources[entry] }
    /// The entry that plays, or the one at which the page goes on.
    public var position: EntryID? { list.current ?? list.upcoming.first }

    /// Sets the options of engines that the page opens from now on.
    public func setEngineOptions(_ options: EngineOptions) { engineOptions = options }

    /// Sets the hook that is called before an entry is opened in a spare engine; it may change that engine's options.
    public func setWillPreRender(_ hook: (@Sendable (EntryID, inout EngineOptions) -> Void)?) { willPreRender = hook }

    /// Sets the hook that is called with each engine, spare or not, after its source is known and before it opens it: the
    /// place to attach what reads the engine's streams. Called on the loop; it must not wait for anything.
    public func setWillPrepare(_ hook: (@Sendable (EntryID, any PlayerEngine) -> Void)?) { willPrepare = hook }

    /// Makes the page's engines from now on, within the runtime's ``RuntimeConfiguration/engineLimit``; `nil` goes back
    /// to the runtime's own.
    public func setEngineFactory(_ factory: (any EngineFactory)?) { engineFactory = factory }
}
