import EventLoop
package import FeedStrategy
package import FirstFrame

/// One thing that a user or the host app does, as far as the simulation can choose it beforehand. Which entry "the next"
/// is depends on what happened, so that a list of steps stays meaningful when some of it is left out.
package enum UserStep: Hashable, Sendable {
    /// A page by its number, or the one that owns the strategies at that moment.
    package enum Page: Hashable, Sendable { case owner, number(Int) }

    case enter(Page, TransitionPolicy, carryingPlay: Bool)
    case leave(Page), clear(Page), enable(Page), clearAll
    /// The host drops its reference without a clear; a later step on the page makes it anew.
    case forget(Page)
    case setSources(Page, [Int]), addSources(Page, [Int])
    case insert(Page, clip: Int, at: Int), remove(Page, at: Int), move(Page, from: Int, to: Int)
    case update(Page, at: Int, clip: Int)
    case swipe(Page), swipeBack(Page), fling(Page, Int), play(Page, at: Int)
    /// The engine of the entry at a place, or of the one after the current.
    case willSelect(Page, at: Int), take(Page, at: Int?, milliseconds: Int)
    case pause(Page), goOn(Page)
    case seek(Page, milliseconds: Int)
    case suspend(keepingEngines: Bool), resume
    case browse(Page, at: Int), overlay(Page, Overlay?)
    case network(NetworkKind), limit(NetworkLimits)
    /// The host cancels the task of its newest call.
    case cancelNewest
    case loseNetwork(milliseconds: Int)
    case replaceOnServer(clip: Int)
    case read(clip: Int, offset: Int, count: Int)
    case clearCache, askStatistics
    /// Waits without doing anything; then what should be ready is.
    case rest(milliseconds: Int)
    case kill, cutPower, shutdown
}

extension UserStep {
    /// One line for people.
    package var name: String {
        String(describing: self).replacing("Simulation.UserStep.Page.", with: "")
            .replacing("FeedStrategy.TransitionPolicy.", with: "")
    }
}

/// A step and how long after the step before it is done.
package struct TimedStep: Hashable, Sendable {
    package enum Wait: Hashable, Sendable {
        case milliseconds(Int)
        /// Steps of the loop: the user acts in the middle of whatever goes on.
        case steps(Int)
    }
    package let wait: Wait
    package let step: UserStep
    /// Whether the host's task is cancelled before it begins.
    package var isCancelled = false

    /// One line for people.
    package var name: String {
        switch wait {
        case .milliseconds(let time): "after \(time) ms, \(step.name)" + (isCancelled ? ", cancelled" : "")
        case .steps(let count): "after \(count) steps of the loop, \(step.name)" + (isCancelled ? ", cancelled" : "")
        }
    }
}

/// The world and the user of one seed.
package struct Scenario: Sendable {
    package enum Mood: String, Sendable, CaseIterable {
        /// Nothing goes wrong: what should be ready in time is.
        case calm
        case usual
        case rough
    }
    package let seed: UInt64
    package let mood: Mood
    package let pageCount: Int
    package let clips: [Int]
    package let engineLimit: Int
    package let cacheCapacity: Int64
    package let diskCapacity: Int64
    package let roundTrip: Duration
    package let bytesPerSecond: Int
    package let preload: PreloadConfiguration
    package let preRenders: Bool
    package let preRender: PreRenderConfiguration
    package let network: NetworkWeather
    package let disk: DiskWeather
    package let engines: EngineWeather
    /// Clips that the servers don't have.
    package let deadClips: Set<Int>
    package let steps: [TimedStep]

    package init(seed: UInt64) {
        var random = SplitMix64(seed: seed &* 0x9E37_79B9_7F4A_7C15 &+ 1)
        self.seed = seed
        let mood: Mood = [.calm, .usual, .usual, .rough][Int.random(in: 0..<4, using: &random)]
        self.mood = mood
        pageCount = [1, 2, 2, 3, 3, 4, 6, 8][Int.random(in: 0..<8, using: &random)]
        let library = ClipLibrary.shared.clips.indices.shuffled(using: &random)
        clips = Array(library.prefix(Int.random(in: 4...9, using: &random)))
        engineLimit = mood == .calm ? 4 : Int.random(in: 2...4, using: &random)
        cacheCapacity = mood == .calm ? 64 << 20 : [300_000, 1 << 20, 8 << 20].randomElement(using: &random)!
        diskCapacity = mood == .rough && chance(0.3, &random) ? 700_000 : .max
        roundTrip = .milliseconds(Int.random(in: 2...120, using: &random))
        bytesPerSecond = Int.random(in: 80_000...2_000_000, using: &random) * (mood == .calm ? 4 : 1)
        // Far apart and near together; with little asked for, a gate is open when a stall comes.
        let limits = [(1.0, 0.2), (1.0, 0.2), (3.0, 0.2), (6.0, 2.0), (15.0, 2.0)]
            .randomElement(using: &random)!
        var preload = PreloadConfiguration(
            count: Int.random(in: 0...4, using: &random),
            size: [0, 20_000, 100_000, 800 * 1024].randomElement(using: &random)!,
            startBufferLimit: limits.0,
            stopBufferLimit: limits.1,
            behind: [0, 0, 1, 2].randomElement(using: &random)!)
        preload.isAutomatic = chance(0.4, &random)
        self.preload = preload
        preRenders = chance(0.85, &random)
        preRender = PreRenderConfiguration(
            ahead: chance(0.8, &random) ? 1 : Int.random(in: 0...2, using: &random),
            behind: chance(0.2, &random) ? 1 : 0)
        var network = NetworkWeather()
        if mood != .calm {
            network.faultRate = mood == .rough ? Double.random(in: 0.05...0.4, using: &random) : 0.03
            network.faults = NetworkFault.allCases.shuffled(using: &random)
                .prefix(mood == .rough ? Int.random(in: 2...12, using: &random) : 6).map { $0 }
            network.jitter = .milliseconds(Int.random(in: 0...200, using: &random))
            network.lossRate = mood == .rough ? 0.05 : 0.01
        }
        self.network = network
        var disk = DiskWeather()
        if mood == .rough, chance(0.5, &random) { disk.errorRate = Double.random(in: 0.01...0.3, using: &random) }
        self.disk = disk
        var engines = EngineWeather()
        engines.openTime = .milliseconds(Int.random(in: 1...30, using: &random))
        engines.openJitter = .milliseconds(mood == .calm ? 5 : Int.random(in: 0...300, using: &random))
        engines.longestBegin = .milliseconds([0, 0, 3].randomElement(using: &random)!)
        engines.longestStop = .milliseconds([0, 5, 60].randomElement(using: &random)!)
        engines.failureRate = mood == .rough ? 0.08 : mood == .usual ? 0.01 : 0
        engines.headBytes = [2_000, 16_000, 64_000].randomElement(using: &random)!
        self.engines = engines
        deadClips = mood == .calm ? [] : Set(clips.filter { _ in chance(0.05, &random) })
        steps = Self.steps(mood: mood, pages: pageCount, clips: clips, &random)
    }

    /// Some of the steps.
    package func steps(numbered numbers: [Int]) -> [TimedStep] {
        numbers.filter(steps.indices.contains).map { steps[$0] }
    }

    // MARK: The user

    private static func steps(
        mood: Mood, pages: Int, clips: [Int], _ random: inout SplitMix64
    ) -> [TimedStep] {
        var steps: [TimedStep] = []
        // Most sessions begin as a host would; others with whatever comes.
        if chance(0.9, &random) {
            steps.append(TimedStep(wait: .milliseconds(0), step: .enter(.number(0), .clear, carryingPlay: false)))
            steps.append(TimedStep(wait: .milliseconds(100), step: .setSources(.number(0), clips)))
            if mood == .calm || chance(0.5, &random) {
                steps.append(TimedStep(wait: .milliseconds(300), step: .play(.number(0), at: 0)))
            }
        }
        for _ in 0..<Int.random(in: 10...34, using: &random) {
            let step = draw(mood, pages, clips, &random)
            steps.append(TimedStep(wait: wait(&random), step: step, isCancelled: chance(0.03, &random)))
            if case .willSelect(let page, let place) = step, chance(0.4, &random) {
                // Announced, opened and taken, and then perhaps not played.
                steps.append(
                    TimedStep(wait: .milliseconds(50), step: .take(page, at: place, milliseconds: 3_000)))
            }
            if case .pause(let page) = step, chance(0.6, &random) { steps += away(from: page, pages, &random) }
            if case .rest(let time) = step, mood == .calm {
                steps.append(TimedStep(wait: .milliseconds(time + 100), step: .askStatistics))  // and nothing before it
            }
            if case .overlay(_, .standingStill) = step, chance(0.7, &random) { steps += stillness }
        }
        return steps
    }

    /// A while without a call, in which what should stand still does.
    private static let stillness = [
        TimedStep(wait: .milliseconds(100), step: .rest(milliseconds: 2_500)),
        TimedStep(wait: .milliseconds(2_600), step: .askStatistics),
    ]

    /// Away from a page and back, and then a while without a call: what was paused has to be so still.
    private static func away(from page: UserStep.Page, _ pages: Int, _ random: inout SplitMix64) -> [TimedStep] {
        let other = UserStep.Page.number(Int.random(in: 0..<pages, using: &random))
        let steps: [UserStep] =
            chance(0.5, &random)
            ? [.enter(other, .replaceSources, carryingPlay: false), .leave(other)]
            : [.suspend(keepingEngines: true), .resume]
        return steps.map { TimedStep(wait: .milliseconds(Int.random(in: 1...400, using: &random)), step: $0) }
            + stillness
    }

    private static func wait(_ random: inout SplitMix64) -> TimedStep.Wait {
        switch Int.random(in: 0..<16, using: &random) {
        case 0..<7: .steps(Int.random(in: 0...30, using: &random))
        case 7..<9: .steps(Int.random(in: 30...300, using: &random))
        case 9..<12: .milliseconds(Int.random(in: 0...60, using: &random))
        case 12..<15: .milliseconds(Int.random(in: 60...1_500, using: &random))
        case _: .milliseconds(Int.random(in: 1_500...6_000, using: &random))
        }
    }

    private static func draw(
        _ mood: Mood, _ pages: Int, _ clips: [Int], _ random: inout SplitMix64
    ) -> UserStep {
        let page: UserStep.Page = chance(0.75, &random) ? .owner : .number(Int.random(in: 0..<pages, using: &random))
        let other = UserStep.Page.number(Int.random(in: 0..<pages, using: &random))
        let clip = clips.randomElement(using: &random)!
        let place = Int.random(in: 0..<max(2, clips.count + 1), using: &random)
        // Lists of real services hold an entry twice now and then.
        let some =
            (chance(0.2, &random) ? [clip, clip] : [])
            + Array(clips.shuffled(using: &random).prefix(Int.random(in: 0...clips.count, using: &random)))
        switch Int.random(in: 0..<100, using: &random) {
        case 0..<24: return .swipe(page)
        case 24..<28: return .swipeBack(page)
        case 28..<33: return .fling(page, Int.random(in: 2...5, using: &random))
        case 33..<38: return .play(page, at: place)
        case 38..<42: return .willSelect(page, at: place)
        case 42..<46:
            return .take(page, at: nil, milliseconds: [0, 0, 50, 2_000, 1 << 60].randomElement(using: &random)!)
        case 46..<56:
            return .enter(
                other, chance(0.5, &random) ? .clear : .replaceSources, carryingPlay: chance(0.3, &random))
        case 56..<60: return .leave(chance(0.7, &random) ? page : other)
        case 60..<62: return .clear(chance(0.6, &random) ? page : other)
        case 62..<63: return .enable(other)
        case 63..<64: return .clearAll
        case 64..<69: return .setSources(page, some)
        case 69..<71: return .addSources(page, (chance(0.5, &random) ? [clip, clip] : []) + some)
        case 71..<73: return .insert(page, clip: clip, at: place)
        case 73..<75: return .remove(page, at: place)
        case 75..<76: return .move(page, from: place, to: Int.random(in: 0..<8, using: &random))
        case 76..<77: return .update(page, at: place, clip: clip)
        case 77..<79: return .pause(page)
        case 79: return .seek(page, milliseconds: Int.random(in: -500...11_000, using: &random))
        case 80..<82: return .goOn(page)
        case 82 where chance(0.4, &random):
            return .overlay(page, [nil, nil, .standingStill, .playingOn].randomElement(using: &random)!)
        case 83 where chance(0.3, &random): return .browse(page, at: place)
        case 82..<84: return .suspend(keepingEngines: chance(0.6, &random))
        case 84..<87: return .resume
        case 87..<90: return .cancelNewest
        case 90..<91: return .read(clip: clip, offset: place * 7_000, count: Int.random(in: 0...90_000, using: &random))
        case 91..<93: return .rest(milliseconds: mood == .calm ? 8_000 : 3_000)
        case 93..<94: return .askStatistics
        case _: return mood == .calm ? .rest(milliseconds: 12_000) : drawTrouble(other, clip, &random)
        }
    }

    private static func drawTrouble(_ page: UserStep.Page, _ clip: Int, _ random: inout SplitMix64) -> UserStep {
        switch Int.random(in: 0..<12, using: &random) {
        case 0..<3: .loseNetwork(milliseconds: Int.random(in: 100...20_000, using: &random))
        case 3..<6: .replaceOnServer(clip: clip)
        case 6: .clearCache
        case 6 where chance(0.7, &random), 7 where chance(0.5, &random):
            chance(0.5, &random)
                ? .network([.unmetered, .metered, .none].randomElement(using: &random)!)
                : .limit(
                    NetworkLimits(
                        bytesPerSecond: [nil, 30_000].randomElement(using: &random)!,
                        byteBudget: [nil, nil, 0, 100_000].randomElement(using: &random)!))
        case 7: .forget(page)
        case 8: .kill
        case 9: .cutPower
        case 10: .shutdown
        case _: .rest(milliseconds: 20_000)
        }
    }
}

private func chance(_ rate: Double, _ random: inout SplitMix64) -> Bool {
    Double.random(in: 0..<1, using: &random) < rate
}
