import EventLoop
import FeedStrategy
public import FeedVocabulary
public import Playback
import ResourceLoading

/// One feed page: a list of entries, and the strategies that get the next ones ready while the current one plays.
///
/// Lives on its runtime's loop. Life cycle: inactive → enabled → sourced → inactive.
public actor FeedPage {
    /// The page's name in its runtime.
    public nonisolated let id: PageID
    /// What happens on the page, in order, for one consumer; the oldest of more than 1,024 unread events are dropped.
    public nonisolated let events: EngineStream<PageEvent>
    nonisolated let runtime: FeedRuntime
    nonisolated var loop: any LoopExecutor { runtime.loop }
    /// The loop of the page's runtime.
    public nonisolated var unownedExecutor: UnownedSerialExecutor { runtime.loop.asUnownedSerialExecutor() }

    var machine = PageMachine()
    var list = PageList()
    var sources: [EntryID: URLSource] = [:]
    private var strategies: [Strategy]
    private var clearing: Task<Void, Never>?

    // The strategies' machines; non-nil while they are enabled.
    var gate: WatermarkGate?
    var preload: (machine: PreloadMachine, configuration: PreloadConfiguration)?
    var preRender: PreRenderMachine?

    // The work under way. Every piece has an owner here, so that clear() can wait for it.
    var preloads: [EntryID: Preload] = [:]
    var openings: [Int: Opening] = [:]
    var spare: (attempt: PreRenderMachine.Attempt, clip: OpenedClip)?
    var taken: [EntryID: OpenedClip] = [:]
    var current: CurrentPlay?
    var endings: [Int: Task<Void, Never>] = [:]
    var announced: EntryID?
    var nextNumber = 0
    var playNumber = 0
    /// The opening that the newest play waits for; a newer play ends it.
    var playOpening: Task<OpenedClip, any Error>?
    var tickTimer: LoopTimer?

    /// Called before an entry is opened in a spare engine; may change the engine's options, such as the start time.
    var willPreRender: (@Sendable (EntryID, inout EngineOptions) -> Void)?
    var engineOptions = EngineOptions()

    init(_ id: PageID, runtime: FeedRuntime, strategies: [Strategy]) {
        (self.id, self.runtime, self.strategies) = (id, runtime, strategies)
        events = EngineStream(EngineChannel(capacity: 1024))
    }

    /// A page that its host forgot without clearing it: its tasks hold it, so only engines that stand still are left.
    deinit {
        if let tickTimer { runtime.loop.cancel(tickTimer) }
        let clips = [current?.clip, spare?.clip].compactMap { $0 } + taken.values
        for clip in clips { runtime.pool.release(clip.engine) }
        events.channel.finish()
    }

    func send(_ event: PageEvent) { events.channel.send(event) }

    func number() -> Int {
        nextNumber += 1
        return nextNumber
    }

    static func validate(_ strategies: [Strategy]) throws(ConfigurationError) {
        for case .preload(let configuration) in strategies { try configuration.validate() }
    }

    static func ordered<Value>(_ body: () throws(PageMachine.Refusal) -> Value) throws(FeedError) -> Value {
        do { return try body() } catch {
            let needs =
                switch (error.call, error.state) {
                case ("enable", .enabled), ("enable", .sourced): "clear()"
                case (_, .enabled): "setSources(_:)"
                case (_, .inactive), (_, .sourced), (_, .clearing): "enable(_:) or the runtime's enter(_:)"
                }
            throw .wrongOrder(call: error.call, needs: needs)
        }
    }

    // MARK: Life cycle

    /// Enables strategies. ``FeedRuntime/enter(_:)`` does it as part of a page switch.
    ///
    /// - Throws: ``FeedError/wrongOrder(call:needs:)`` on an enabled page, ``FeedError/ownedByOther(_:)``, or
    ///   ``ConfigurationError``.
    public func enable(_ strategies: [Strategy]) async throws {
        try Self.validate(strategies)
        try await runtime.coordinator.claim(id)
        try Self.ordered { () throws(PageMachine.Refusal) in try machine.enable() }
        self.strategies = strategies
        for strategy in strategies {
            switch strategy {
            case .preload(let configuration):
                preload = (PreloadMachine(configuration), configuration)
                gate = WatermarkGate(
                    start: .seconds(configuration.startBufferLimit), stop: .seconds(configuration.stopBufferLimit))
            case .preRender: preRender = PreRenderMachine()
            }
        }
        let limits = PreloadConfiguration()
        if gate == nil {
            gate = WatermarkGate(start: .seconds(limits.startBufferLimit), stop: .seconds(limits.stopBufferLimit))
        }
    }

    /// The second half of a page switch: enabled again, with the remembered list at its remembered position.
    func enter() async throws {
        await clearing?.value
        guard machine.state == .inactive else { return }
        try await enable(strategies)
        guard !list.entries.isEmpty else { return }
        try Self.ordered { () throws(PageMachine.Refusal) in try machine.setSources() }
        replan()
    }

    /// Ends all work of the page: preloads, spare and playing engines. When it returns nothing of the page runs and no
    /// event of it will come. The list and the position are remembered; bytes on disk stay. Idempotent.
    public func clear() async {
        if let clearing { return await clearing.value }
        guard machine.beginClear() else { return }
        let task = loop.spawn { await self.endEverything() }
        clearing = task
        await task.value
    }

    private func endEverything() async {
        playNumber += 1
        if let tickTimer { loop.cancel(tickTimer) }
        (tickTimer, announced) = (nil, nil)
        for entry in preload?.machine.clear() ?? [] { cancelPreload(entry, .pageLeft) }
        if let action = preRender?.clear() { carryOut(action, .pageLeft) }
        for opening in openings.values { opening.task?.cancel() }
        for (_, clip) in taken { release(clip) }
        taken = [:]
        endCurrent()
        (gate, preload, preRender) = (nil, nil, nil)
        list.rest()
        while true {
            let preloads = preloads.values.compactMap(\.task)
            let openings = openings.values.compactMap(\.task)
            let endings = Array(endings.values)
            if preloads.isEmpty && openings.isEmpty && endings.isEmpty { break }
            for task in preloads { await task.value }
            for task in openings { _ = await task.result }
            for task in endings { await task.value }
        }
        machine.endClear()
        await runtime.coordinator.cleared(id)
        clearing = nil
    }

    // MARK: The list

    /// Sets the list: at the first load and at a refresh. Entries that stay keep their work.
    ///
    /// - Throws: ``FeedError/wrongOrder(call:needs:)`` before the page is enabled.
    public func setSources(_ entries: [FeedEntry]) throws(FeedError) {
        try Self.ordered { () throws(PageMachine.Refusal) in try machine.setSources() }
        var unique: [EntryID] = []
        var seen: [EntryID: URLSource] = [:]
        for entry in entries {
            if seen.updateValue(entry.source, forKey: entry.id) == nil {
                unique.append(entry.id)
            } else {
                send(.duplicateEntry(entry.id))
            }
        }
        for id in list.set(unique) { entryLeft(id) }
        for (id, source) in seen where sources[id].map({ $0 != source }) ?? false { dropWork(of: id, .removed) }
        sources = seen
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
        let known = Set(list.insert(entries.map(\.id), at: min(max(0, index), list.entries.count)))
        for entry in entries {
            if known.contains(entry.id) { send(.duplicateEntry(entry.id)) } else { sources[entry.id] = entry.source }
        }
        replan()
    }

    /// Removes an entry and cancels its work. An entry that plays goes on playing.
    public func remove(_ entry: EntryID) throws(FeedError) {
        try Self.ordered { () throws(PageMachine.Refusal) in try machine.requireSources(for: "remove") }
        guard list.contains(entry) else { throw .unknownEntry(entry) }
        list.remove(entry)
        sources[entry] = nil
        entryLeft(entry)
        replan()
    }

    private func entryLeft(_ entry: EntryID) {
        dropWork(of: entry, .removed)
        if announced == entry { announced = nil }
    }

    private func dropWork(of entry: EntryID, _ reason: StrategyReason) {
        if preload?.machine.removed(entry) == true { cancelPreload(entry, reason) }
        if let clip = taken.removeValue(forKey: entry) { release(clip) }
        if spare?.attempt.entry == entry, let action = preRender?.plan(nil, mayOpen: false) { carryOut(action, reason) }
    }

    /// The entries in order.
    public var entries: [EntryID] { list.entries }
    /// The entry that plays, or the one at which the page goes on.
    public var position: EntryID? { list.current ?? list.upcoming.first }

    /// Sets the options of engines that the page opens from now on.
    public func setEngineOptions(_ options: EngineOptions) { engineOptions = options }

    /// Sets the hook that is called before an entry is opened in a spare engine; it may change that engine's options.
    public func setWillPreRender(_ hook: (@Sendable (EntryID, inout EngineOptions) -> Void)?) { willPreRender = hook }
}
