import EventLoop
import FeedStrategy
import FeedVocabulary
import FirstFrame
import Playback

/// The host app of one simulated run: makes pages, does what the user does, and takes down what comes back.
package actor SimulatedHost {
    nonisolated let loop: SimulatedLoop
    nonisolated private let threads: SimulatedThreads
    package nonisolated var unownedExecutor: UnownedSerialExecutor { loop.asUnownedSerialExecutor() }
    nonisolated let scenario: Scenario
    nonisolated private let network: SimulatedNetwork
    nonisolated private let library = ClipLibrary.shared
    var runtime: FeedRuntime
    var pages: [FeedPage?]
    private var nextCall = 0
    /// Calls that have not returned.
    private var calls: [Int: Call] = [:]
    private struct Call {
        let name: String
        let began: LoopInstant
        /// When it has to be over.
        var due: LoopInstant
        var task: Task<Void, Never>?
    }
    /// Engines that the user paused; kept, so that no other one gets the identity.
    private var paused: [ObjectIdentifier: any PlayerEngine] = [:]
    /// By the stream that told of them: a page that was forgotten may have told something that is heard after another
    /// one of its name has begun.
    private var runningPreloads: [Int: Set<EntryID>] = [:]
    private var streams = 0
    var guarantees = Guarantees()
    var trace = SimulationTrace()
    package internal(set) var operations: [String: Int] = [:]
    private var versions: [Int: Int] = [:]

    init(scenario: Scenario, loop: SimulatedLoop, network: SimulatedNetwork, runtime: FeedRuntime, tracing: Bool) {
        (self.scenario, self.loop, self.network, self.runtime) = (scenario, loop, network, runtime)
        threads = SimulatedThreads(loop: loop)
        pages = Array(repeating: nil, count: scenario.pageCount)
        trace.isOn = tracing
    }

    // MARK: Calls

    /// Calls of the public API end within this: a server may stall for 15 s, four times without progress.
    private static let longestCall = Duration.seconds(600)
    /// What nothing on the network may hold up.
    private static let promptCall = Duration.seconds(2)

    func begin(_ step: UserStep, isCancelled: Bool = false) {
        nextCall += 1
        let number = nextCall
        let name = step.name
        operations[String(name.prefix { $0 != "(" }), default: 0] += 1
        trace.note(loop.now, "user", name)
        let limit = step.isPrompt ? Self.promptCall : Self.longestCall
        calls[number] = Call(name: name, began: loop.now, due: loop.now.advanced(by: limit))
        calls[number]?.task = threads.spawn { await self.carryOut(number, step) }
        if isCancelled { cancel(number) }
    }

    private nonisolated func carryOut(_ number: Int, _ step: UserStep) async {
        do {
            try await perform(step)
            await returned(number, nil)
        } catch {
            await returned(number, error)
        }
    }

    private func returned(_ number: Int, _ error: (any Error)?) {
        let outcome = error.map { "\($0)" } ?? "done"
        guard let call = calls.removeValue(forKey: number) else { return }
        trace.note(call.began, "call", "\(call.name): \(outcome)", until: loop.now)
    }

    func saw(_ track: String, _ text: String) { trace.note(loop.now, track, text) }

    /// Calls that should be over by now.
    func checkCalls() {
        for (_, call) in calls.inOrder where call.due < loop.now {
            guarantees.violated("\(call.name) has not returned after \(call.began.duration(to: loop.now))")
        }
    }
    var openCalls: [String] { calls.inOrder.map(\.value.name) }

    private func cancelNewest() {
        if let number = calls.keys.sorted().last(where: { calls[$0]?.name.hasPrefix("cancelNewest") == false }) {
            cancel(number)
        }
    }
    private func cancel(_ number: Int) {
        guard let call = calls[number] else { return }
        call.task?.cancel()
        calls[number]?.due = min(call.due, loop.now.advanced(by: Self.promptCall))
    }

    // MARK: Pages

    private func number(of page: UserStep.Page) -> Int {
        switch page {
        case .number(let number): return number
        case .owner:
            let owner = owner
            return pages.firstIndex { $0 === owner && owner != nil } ?? 0
        }
    }

    // What is asked of actors on the same loop, between two steps of it.

    private var owner: FeedPage? {
        guard let owner = runtime.coordinator.assumeIsolated({ $0.machine.owner }) else { return nil }
        return pages.first { $0?.id == owner } ?? nil
    }
    private func audit(_ page: FeedPage) -> PageAudit { page.assumeIsolated { $0.audit } }
    private func shownEngine(of page: FeedPage) -> (any PlayerEngine)? { page.assumeIsolated { $0.currentEngine } }

    private nonisolated func page(_ reference: UserStep.Page) async throws -> FeedPage {
        let number = await number(of: reference)
        if let page = await pages[number] { return page }
        let runtime = await runtime
        var strategies: [Strategy] = [.preload(scenario.preload)]
        if scenario.preRenders { strategies.append(.preRender(scenario.preRender)) }
        let page = try await runtime.makePage("P\(number)", strategies: strategies)
        await took(page, number)
        return page
    }
    private func took(_ page: FeedPage, _ number: Int) {
        guard page.runtime === runtime else { return }  // its process has ended meanwhile
        pages[number] = page
        follow(page)
    }

    /// Takes in what the page tells; the stream does not keep the page.
    private func follow(_ page: FeedPage) {
        let (id, events) = (page.id, page.events)
        streams += 1
        let stream = streams
        runningPreloads[stream] = []
        threads.spawn {
            for await event in events { await self.heard(id, stream, event) }
        }
    }

    private func heard(_ page: PageID, _ stream: Int, _ event: PageEvent) {
        if trace.isOn { trace.note(loop.now, page.name, event.line) }
        switch event {
        case .started(.preload, let entry, _):
            if runningPreloads[stream]?.insert(entry).inserted == false {
                guarantees.violated("\(page) tells twice that the preload of \(entry) started")
            }
        case .stopped(.preload, let entry, _):
            if runningPreloads[stream]?.remove(entry) == nil {
                guarantees.violated("\(page) tells that the preload of \(entry) stopped, which had not started")
            }
        case _: break
        }
    }

    private nonisolated func entry(_ clip: Int) throws -> FeedEntry {
        FeedEntry(
            try URLSource(url: library.clips[clip].url, cacheKey: library.clips[clip].key), id: EntryID("e\(clip)"))
    }
    private nonisolated func entries(_ clips: [Int]) throws -> [FeedEntry] { try clips.map { try entry($0) } }

    /// The entry at a place of a list that may have become shorter.
    private nonisolated func entry(_ page: FeedPage, at place: Int) async -> EntryID {
        let entries = await page.entries
        guard !entries.isEmpty else { return "nowhere" }
        return entries[place % entries.count]
    }

    private nonisolated func neighbour(_ page: FeedPage, _ distance: Int) async -> EntryID {
        let (entries, position, isPlaying) = (await page.entries, await page.position, await page.audit.hasCurrent)
        guard let position, let index = entries.firstIndex(of: position) else { return "nowhere" }
        let place = isPlaying ? index + distance : index
        return entries.indices.contains(place) ? entries[place] : "nowhere"
    }

    // MARK: Steps

    private nonisolated func perform(_ step: UserStep) async throws {
        switch step {
        case .enter(let page, let policy, let carrying):
            let page = try await self.page(page)
            try await runtime.enter(page, by: policy, carryingPlay: carrying)
            if await page.entries.isEmpty { try await page.setSources(try entries(scenario.clips)) }
        case .leave(let page): await clear(try await self.page(page), byLeaving: true)
        case .clear(let page): await clear(try await self.page(page), byLeaving: false)
        case .enable(let page): try await self.page(page).enable([.preload(scenario.preload), .preRender])
        case .clearAll: await runtime.clearAll()
        case .forget(let page): await forget(page)
        case .setSources(let page, let clips): try await self.page(page).setSources(try entries(clips))
        case .addSources(let page, let clips): try await self.page(page).addSources(try entries(clips))
        case .insert(let page, let clip, let place): try await self.page(page).insert([try entry(clip)], at: place)
        case .remove(let page, let place):
            let page = try await self.page(page)
            try await page.remove(await entry(page, at: place))
        case .move(let page, let from, let to):
            let page = try await self.page(page)
            try await page.move(await entry(page, at: from), to: to)
        case .update(let page, let place, let clip):
            let page = try await self.page(page)
            let source = try self.entry(clip).source
            try await page.update(FeedEntry(source, id: await entry(page, at: place)))
        case .swipe(let page):
            let page = try await self.page(page)
            try await play(page, await neighbour(page, 1))
        case .swipeBack(let page):
            let page = try await self.page(page)
            try await play(page, await neighbour(page, -1))
        case .play(let page, let place):
            let page = try await self.page(page)
            try await play(page, await entry(page, at: place))
        case .fling(let page, let count): try await fling(try await self.page(page), count)
        case .willSelect(let page, let place):
            let page = try await self.page(page)
            try await page.willSelect(await entry(page, at: place))
        case .take(let page, let place, let deadline):
            let page = try await self.page(page)
            var wanted = await neighbour(page, 1)
            if let place { wanted = await entry(page, at: place) }
            _ = await page.takePreRenderedEngine(for: wanted, waitingAtMost: .milliseconds(deadline))
        case .pause(let page): try await pause(page, true)
        case .goOn(let page): try await pause(page, false)
        case .seek(let page, let time):
            let page = try await self.page(page)
            try await page.currentEngine?.seek(to: .milliseconds(time))
        case .browse(let page, let place):
            let page = try await self.page(page)
            try await page.browse(at: place == 0 ? nil : await entry(page, at: place))
        case .overlay(let page, let overlay): try await self.page(page).setOverlay(overlay)
        case .network(let kind): await runtime.setNetwork(kind)
        case .limit(let limits): try await runtime.setLimits(limits, for: await runtime.network)
        case .suspend(let keeping): await runtime.suspend(keepingEngines: keeping)
        case .resume: await runtime.resume()
        case .cancelNewest: await cancelNewest()
        case .loseNetwork(let milliseconds):
            await network.setDown(true)
            try await loop.sleep(for: .milliseconds(milliseconds))
            await network.setDown(false)
        case .replaceOnServer(let clip): await replace(clip)
        case .read(let clip, let offset, let count): try await read(clip, offset, count)
        case .clearCache: await runtime.clearCache(keepingMostRecent: 1)
        case .askStatistics: _ = await runtime.statistics()
        case .rest(let milliseconds): try await rest(.milliseconds(milliseconds))
        case .shutdown: await runtime.shutdown()
        case .kill, .cutPower: break  // done to the host, not by it
        }
    }

    private nonisolated func play(_ page: FeedPage, _ entry: EntryID) async throws {
        _ = try await page.play(entry)
    }

    /// Swipes that don't wait for one another.
    private nonisolated func fling(_ page: FeedPage, _ count: Int) async throws {
        for distance in 1...count {
            let entry = await neighbour(page, distance > 1 && count % 2 == 0 ? -1 : 1)
            let place = await page.entries.firstIndex(of: entry) ?? 0
            await begin(.play(.number(await number(of: .owner)), at: place))
            try await loop.sleep(for: .milliseconds(30))
        }
    }

    private nonisolated func pause(_ page: UserStep.Page, _ isPaused: Bool) async throws {
        let page = try await self.page(page)
        if let engine = await page.currentEngine { try await pause(engine, isPaused) }
    }
    /// On the loop, so that what is taken down and what is done have one order.
    private func pause(_ engine: any PlayerEngine, _ isPaused: Bool) async throws {
        paused[ObjectIdentifier(engine)] = isPaused ? engine : nil
        if isPaused { try await engine.pause() } else { try await engine.play() }
    }
    private func note(violation text: String) { guarantees.violated(text) }
    private func forget(_ page: UserStep.Page) { pages[number(of: page)] = nil }

    private nonisolated func clear(_ page: FeedPage, byLeaving: Bool) async {
        let life = await page.audit.life
        let calls = await nextCall
        if byLeaving { await runtime.leave(page) } else { await page.clear() }
        let audit = await page.audit
        if byLeaving { await checkReturn(since: calls) }
        if audit.life == life, audit.state != .inactive {
            await note(violation: "\(page.id) is \(audit.state) after its clear has returned")
        }
    }

    /// The page below is back when `leave` has returned, if nothing else was called meanwhile.
    private func checkReturn(since number: Int) {
        let machine = runtime.coordinator.assumeIsolated { $0.machine }
        guard number == nextCall, calls.count == 1, machine.phase == .unowned, !machine.stack.isEmpty else { return }
        guarantees.violated("nobody owns the strategies after a leave, and \(machine.stack) lie covered")
    }

    /// Encoded again: the file has another length and another validator.
    private func replace(_ clip: Int) async {
        let version = (versions[clip, default: 0] + 1) % library.clips[clip].versions.count
        versions[clip] = version
        await serve(clip)
    }
    func serve(_ clip: Int) async {
        guard !scenario.deadClips.contains(clip) else { return }
        let file = library.clips[clip]
        let version = versions[clip, default: 0]
        var resource = SimulatedNetwork.Resource(bytes: file.versions[version], validator: file.validator(version))
        let next = (version + 1) % file.versions.count
        resource.successors = [(file.versions[next], file.validator(next))]
        await network.serve(file.url, resource)
    }

    private nonisolated func read(_ clip: Int, _ offset: Int, _ count: Int) async throws {
        let file = library.clips[clip]
        let reader = try await runtime.open(try entry(clip).source)
        do {
            var position = Int64(offset)
            var versions = Set(file.versions.indices)
            for try await piece in reader.read(Int64(offset)..<Int64(offset + count)) {
                versions = versions.filter { file.has(piece[...], at: position, version: $0) }
                if versions.isEmpty { await note(violation: "a read of clip \(clip) got bytes of no one version") }
                position += Int64(piece.count)
            }
        } catch {
            await reader.close()
            throw error
        }
        await reader.close()
    }

    // MARK: What should be so when nothing happens

    private func rest(_ duration: Duration) async throws {
        let page = owner
        let before = page.map(audit)
        let engine = page.flatMap(shownEngine(of:))
        let position = await engine?.status().position
        let calls = nextCall
        try await loop.sleep(for: duration)
        guard let page, calls == nextCall, self.calls.count == 1, let before else { return }
        let after = audit(page)
        guard before.state == after.state, before.life == after.life else { return }
        if let engine, let position, engine === shownEngine(of: page) {
            let now = await engine.status()
            let shouldStand =
                paused[ObjectIdentifier(engine)] != nil || !after.state.isOnTop || after.overlay == .standingStill
            if shouldStand, now.position != position {
                guarantees.violated("\(page.id), which is \(after.state), plays on though it should stand still")
            }
            let isOver = now.position >= .seconds(SimulatedEngines.clipSeconds)
            if scenario.mood == .calm, !shouldStand, now.position == position, !isOver, duration >= .seconds(8) {
                guarantees.violated("\(page.id) plays nothing though nobody paused it")
            }
        }
        guarantees.shouldRest(page, after)
        if scenario.mood == .calm, duration >= .seconds(8), after.state == .sourced {
            guarantees.shouldBeReady(
                page, after, engineLimit: scenario.engineLimit,
                preRenders: scenario.preRenders && scenario.preRender.ahead > 0)
        }
    }

    // MARK: The end of a process

    /// The process ends: the next one makes its pages anew.
    func restart(_ runtime: FeedRuntime) {
        self.runtime = runtime
        forgetEverything()
    }
    func forgetEverything() {
        pages = Array(repeating: nil, count: scenario.pageCount)
        paused = [:]
        guarantees.forgetPages()
    }
}

extension UserStep {
    /// Whether nothing on the network may hold it up.
    fileprivate var isPrompt: Bool {
        switch self {
        case .leave, .clear, .clearAll, .suspend, .resume, .enter, .enable, .shutdown, .setSources, .addSources, .pause,
            .browse, .overlay, .network, .limit:
            true
        case .take, .forget, .insert, .remove, .move, .update, .swipe, .swipeBack, .fling, .play, .willSelect, .goOn,
            .seek,
            .cancelNewest, .loseNetwork, .replaceOnServer, .read, .clearCache, .askStatistics, .rest, .kill, .cutPower:
            false
        }
    }
}

extension PageEvent {
    /// One line, the same for the same event.
    fileprivate var line: String {
        switch self {
        case .firstFrame(let metrics):
            "first frame of \(metrics.entry), \(metrics.servedAs), \(metrics.timeToFirstFrame)"
        case .played(let metrics): "played \(metrics.entry), \(metrics.stallCount) stalls"
        case _: String(describing: self)
        }
    }
}
