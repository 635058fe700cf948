import EventLoop
import FirstFrame
import Foundation

/// A host that calls everything from everywhere, and notices when a promise of Docs/Concurrency.md is broken.
actor StressHost {
    private let runtime: FeedRuntime
    private let server: String
    private var pages: [FeedPage?]
    private var open: [Int: (name: String, since: ContinuousClock.Instant)] = [:]
    private var nextCall = 0
    private(set) var report = StressReport()
    private var readers: [Task<Void, Never>] = []

    /// A call that takes longer hangs: the server is near and answers.
    private static let longestCall = Duration.seconds(60)
    private static let clipCount = 12

    init(runtime: FeedRuntime, server: String, pageCount: Int) {
        (self.runtime, self.server) = (runtime, server)
        pages = Array(repeating: nil, count: pageCount)
    }

    // MARK: Calls

    /// - Parameter isViewer: Whether the task swipes and looks, as a person does; others call what comes.
    nonisolated func callAtRandom(isViewer: Bool, until end: ContinuousClock.Instant, seed: UInt64) async {
        var random = SplitMix64(seed: seed)
        while ContinuousClock.now < end, !Task.isCancelled {
            let action = isViewer ? .swipe : Action.weighted.randomElement(using: &random) ?? .peek
            await call(action, &random)
            let pause = isViewer ? Int.random(in: 0...600, using: &random) : Int.random(in: -100...100, using: &random)
            if pause > 0 { try? await Task.sleep(for: .milliseconds(pause)) }
        }
    }

    private nonisolated func call(_ action: Action, _ random: inout SplitMix64) async {
        let number = await begin(action.rawValue)
        let seed = random.next()
        do {
            if Int(seed % 8) == 0 {
                // Some calls are cancelled, at any moment.
                let task = Task { try await self.carryOut(action, seed) }
                try? await Task.sleep(for: .microseconds(Int(seed / 8 % 3_000)))
                task.cancel()
                try await task.value
            } else {
                try await carryOut(action, seed)
            }
            await ended(number, nil)
        } catch {
            await ended(number, error)
        }
    }

    private func begin(_ name: String) -> Int {
        nextCall += 1
        open[nextCall] = (name, .now)
        report.calls[name, default: 0] += 1
        return nextCall
    }
    private func ended(_ number: Int, _ error: (any Error)?) {
        open[number] = nil
        switch error {
        case nil: return
        case is CancellationError: report.errors["cancelled", default: 0] += 1
        case let error as FeedError: report.errors["\(error)".filter { !$0.isNumber }, default: 0] += 1
        case let error as PlaybackError: report.errors["playback: \(error)", default: 0] += 1
        case let error as LoadError: report.errors["load: \(error)", default: 0] += 1
        case let error?: report.violations.append("an error that no documentation names: \(error)")
        }
    }

    private enum Action: String, CaseIterable {
        case enter, enterNested, carry, leave, clear, setSources, addSources, remove, move, swipe, play
        case willSelect, take, peek, pause, seek, read, suspend, resume, statistics, forget, enable

        /// What ends other calls comes seldom, so that something is under way when it does.
        static let weighted = allCases.flatMap { Array(repeating: $0, count: $0.weight) }
        private var weight: Int {
            switch self {
            case .peek, .read, .willSelect, .take, .pause, .statistics, .move, .remove, .addSources, .setSources: 12
            case .swipe, .resume, .seek: 4
            case .enter, .enterNested, .carry, .leave: 2
            case .clear, .suspend, .forget, .enable, .play: 1
            }
        }
    }

    private nonisolated func carryOut(_ action: Action, _ seed: UInt64) async throws {
        var random = SplitMix64(seed: seed)
        // Most calls concern a few pages, as a user's do, so that they meet.
        let page = try await page(
            Int.random(in: 0..<4, using: &random) == 0 ? nil : Int.random(in: 0..<4, using: &random), &random)
        let clip = EntryID("clip\(Int.random(in: 1...Self.clipCount, using: &random))")
        switch action {
        case .enter: try await enter(page, .clear, false, &random)
        case .enterNested: try await enter(page, .replaceSources, false, &random)
        case .carry: try await enter(page, Bool.random(using: &random) ? .clear : .replaceSources, true, &random)
        case .leave: await runtime.leave(page)
        case .clear: await page.clear()
        case .setSources: try await page.setSources(try entries(&random))
        case .addSources: try await page.addSources(try entries(&random))
        case .remove: try await page.remove(clip)
        case .move: try await page.move(clip, to: Int.random(in: 0..<12, using: &random))
        case .swipe:
            guard let owner = await owner, let next = await owner.entries.randomElement(using: &random) else { return }
            follow(try await owner.play(next))
        case .play: follow(try await page.play(clip))
        case .willSelect: try await page.willSelect(clip)
        case .take: _ = await page.takePreRenderedEngine(for: clip, waitingAtMost: .milliseconds(Int(seed % 50)))
        case .peek: _ = await page.peekPreRenderedEngine(for: clip)
        case .pause: await page.pauseOrPlay()
        case .seek: try await owner?.currentEngine?.seek(to: .milliseconds(Int(seed % 20_000)))
        case .read:
            let reader = try await runtime.open(try source(clip))
            _ = try await reader.read(at: Int64(seed % 900_000), count: 20_000)
            if seed % 2 == 0 { await reader.close() }  // otherwise the last reference closes it
        case .suspend: await runtime.suspend(keepingEngines: Bool.random(using: &random))
        case .resume: await runtime.resume()
        case .statistics: _ = await runtime.statistics()
        case .forget: await forget(Int.random(in: 0..<8, using: &random))
        case .enable: try await page.enable([.preload, .preRender])
        }
    }

    private nonisolated func enter(
        _ page: FeedPage, _ policy: TransitionPolicy, _ carrying: Bool, _ random: inout SplitMix64
    ) async throws {
        await runtime.resume()
        try await runtime.enter(page, by: policy, carryingPlay: carrying)
        if await page.entries.isEmpty { try await page.setSources(try entries(&random)) }
    }

    private nonisolated func source(_ clip: EntryID) throws -> URLSource {
        let number = Int(clip.name.filter(\.isNumber)) ?? 1
        return try URLSource(url: "\(server)/\(DemoClips.name(number))")
    }
    private nonisolated func entries(_ random: inout SplitMix64) throws -> [FeedEntry] {
        try (1...Self.clipCount).shuffled(using: &random).prefix(8).map { number in
            let id = EntryID("clip\(number)")
            return FeedEntry(try source(id), id: id)
        }
    }

    // MARK: Pages

    private func page(_ wanted: Int?, _ random: inout SplitMix64) async throws -> FeedPage {
        let number = wanted.map { $0 % pages.count } ?? Int.random(in: pages.indices, using: &random)
        if let page = pages[number] { return page }
        do {
            let page = try await runtime.makePage("P\(number)")
            if pages[number] == nil {
                pages[number] = page
                let events = page.events
                readers.append(Task { for await _ in events {} })
            }
            return page
        } catch FeedError.pageExists {
            // Made by another task meanwhile, or forgotten and not gone yet.
            guard let page = pages[number] else { throw CancellationError() }
            return page
        }
    }
    private func forget(_ number: Int) { pages[number % pages.count] = nil }

    private var owner: FeedPage? {
        get async {
            let owner = await runtime.owner
            return pages.first { $0?.id == owner && owner != nil } ?? nil
        }
    }

    /// Takes an engine's frames, as a screen would; they end when the page ends the engine.
    private nonisolated func follow(_ engine: any PlayerEngine) {
        let frames = engine.frames
        Task {
            var count = 0
            for await _ in frames { count += 1 }
            await self.add(frames: count)
        }
    }
    private func add(frames: Int) { report.frames += frames }

    // MARK: Checks

    /// Looks at all pages in one turn of the loop, again and again.
    nonisolated func watch(until end: ContinuousClock.Instant) async {
        while ContinuousClock.now < end {
            let (pages, runtime) = (await existing, self.runtime)
            let found = await withCheckedContinuation { done in
                runtime.loop.post { done.resume(returning: Self.violations(runtime, pages)) }
            }
            await took(found)
            try? await Task.sleep(for: .milliseconds(20))
        }
    }
    private var existing: [FeedPage] { pages.compactMap { $0 } }

    private static func violations(_ runtime: FeedRuntime, _ pages: [FeedPage]) -> [String] {
        let machine = runtime.coordinator.assumeIsolated { $0.machine }
        let live = runtime.pool.assumeIsolated { $0.liveCount }
        var found: [String] = []
        if live > runtime.pool.limit { found.append("\(live) engines exist, \(runtime.pool.limit) are allowed") }
        for page in pages {
            found += page.assumeIsolated { $0.audit }.brokenPromises(of: page.id, under: machine)
        }
        return found
    }

    private func took(_ found: [String]) {
        report.checks += 1
        report.violations += found
        for (number, call) in open where call.since.duration(to: .now) > Self.longestCall {
            report.violations.append("\(call.name) hangs")
            open[number] = nil
        }
    }

    /// After the shutdown: everything has ended, and calls are refused.
    func finish(_ runtime: FeedRuntime) async {
        for reader in readers { await reader.value }  // each page's events end
        pages = []
        do {
            _ = try await runtime.makePage("late")
            report.violations.append("a page can be made after the shutdown")
        } catch FeedError.stopped {
        } catch {
            report.violations.append("after the shutdown a page is refused with \(error)")
        }
    }
}

extension FeedPage {
    /// The user's thumb on the picture.
    fileprivate func pauseOrPlay() async {
        guard let engine = currentEngine else { return }
        try? await engine.pause()
        try? await engine.play()
    }
}
