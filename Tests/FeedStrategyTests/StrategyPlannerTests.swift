import EventLoop
import FeedStrategy
import FeedVocabulary
import Testing

/// A page and its viewer, drawn at random, and what was promised about every plan.
private struct PlannerRun {
    var random: SplitMix64
    var planner: StrategyPlanner
    var list = PageList()
    var surroundings: StrategyPlanner.Surroundings
    let preloads: PreloadConfiguration
    let preRenders: PreRenderConfiguration
    var opening: Set<PreRenderMachine.Attempt> = []
    var broken: [String] = []
    private var nextEntry = 0

    init(seed: UInt64) {
        random = SplitMix64(seed: seed &* 0x9E37_79B9_7F4A_7C15 &+ 5)
        var configuration = PreloadConfiguration(
            count: Int.random(in: 0...10, using: &random),
            size: Bool.random(using: &random) ? 100_000 : 0, behind: Int.random(in: 0...3, using: &random))
        configuration.isAutomatic = Bool.random(using: &random)
        preloads = configuration
        preRenders = PreRenderConfiguration(
            ahead: Int.random(in: 0...2, using: &random), behind: Int.random(in: 0...1, using: &random))
        planner = StrategyPlanner(preloads: preloads, preRenders: preRenders)
        surroundings = StrategyPlanner.Surroundings(now: .zero)
        surroundings.engineLimit = Int.random(in: 2...5, using: &random)
    }

    private mutating func entries(_ count: Int) -> [EntryID] {
        (0..<count).map { _ in
            nextEntry += 1
            return EntryID("\(nextEntry)")
        }
    }

    mutating func step() {
        surroundings.now += .milliseconds(Int.random(in: 0...1_500, using: &random))
        switch Int.random(in: 0..<16, using: &random) {
        case 0:
            let kept = list.entries.filter { _ in Bool.random(using: &random) }
            drop(list.set(kept + entries(Int.random(in: 0...12, using: &random))))
        case 1: _ = list.insert(entries(3), at: Int.random(in: 0...list.entries.count, using: &random))
        case 2:
            if let entry = list.entries.randomElement(using: &random) {
                list.remove(entry)
                drop([entry])
            }
        case 3..<7: select(list.upcoming.first)
        case 7: select(list.previous.first)
        case 8: select(list.entries.randomElement(using: &random))
        case 9: planner.announced = list.entries.randomElement(using: &random).flatMap { $0 == list.current ? nil : $0 }
        case 10: planner.browsed = Bool.random(using: &random) ? list.entries.randomElement(using: &random) : nil
        case 11: surroundings.isOffline.toggle()
        case 12: surroundings.isBudgetSpent.toggle()
        case 13: (surroundings.throughput, surroundings.mediaRate) = (.random(in: 1...1e7, using: &random), 2e5)
        case 14: surroundings.isFrozen.toggle()
        case _: watch()
        }
        finishSome()
        check()
    }

    private mutating func drop(_ entries: [EntryID]) {
        for entry in entries {
            _ = planner.dropWork(of: entry)
            planner.left(entry)
        }
        planner.listChanged(place: list.place)
    }
    private mutating func select(_ entry: EntryID?) {
        guard let entry else { return }
        list.play(entry)
        planner.selected(place: list.place, at: surroundings.now)
        _ = planner.take(entry)
        (surroundings.hasPlay, surroundings.isPlaying) = (true, Bool.random(using: &random))
    }
    private mutating func watch() {
        guard list.current != nil else { return }
        let playing = WatermarkGate.Playing(
            bufferedAhead: .seconds(.random(in: 0...20, using: &random)), isComplete: Bool.random(using: &random),
            isFirstFrameShown: true, isStalled: Int.random(in: 0..<4, using: &random) == 0)
        planner.update(playing, surroundings)
    }
    private mutating func finishSome() {
        if let done = planner.preload.running.randomElement(using: &random), Bool.random(using: &random) {
            planner.preloadEnded(done.entry, failed: Bool.random(using: &random), isFinal: Bool.random(using: &random))
        }
        if let attempt = opening.sorted(by: { $0.number < $1.number }).randomElement(using: &random) {
            opening.remove(attempt)
            if Bool.random(using: &random) {
                _ = planner.engineOpened(attempt)
            } else {
                _ = planner.engineFailed(attempt, isFinal: Bool.random(using: &random))
            }
        }
        if Int.random(in: 0..<8, using: &random) == 0 { planner.retry() }
    }

    private mutating func check() {
        let before = Set(planner.preload.running.map(\.entry) + planner.preRender.entries)
        let plan = planner.plan(list, surroundings)
        if let attempt = plan.preRender.opens { opening.insert(attempt) }
        let running = planner.preload.running.map(\.entry)
        let (opened, held) = (plan.preRender.opens?.entry, planner.preRender.entries)
        let count = preloads.isAutomatic ? planner.choice?.count ?? 0 : preloads.count
        let window = PreloadWindow(count: count, behind: preloads.behind)
            .entries(of: list, direction: planner.motion.direction, browsing: planner.browsed)
        func expect(_ holds: Bool, _ text: String) { if !holds { broken.append(text) } }
        expect(running.count <= PreloadConfiguration.maximumInFlight, "more preloads than allowed")
        expect(Set(running).count == running.count, "one entry is preloaded twice")
        expect(running.allSatisfy { window.contains($0) || $0 == list.current }, "a preload outside the window")
        expect(!plan.preload.starts.contains { $0.entry == list.current }, "a preload of what plays")
        expect(
            !preloads.isOff || plan.preload.starts.isEmpty, "a preload though count or size is zero")
        expect(held.count <= surroundings.engineLimit - 1, "more spare engines than there are")
        expect(Set(held).count == held.count, "one entry has two spare engines")
        expect(held.allSatisfy { list.contains($0) && $0 != list.current }, "a spare engine for nothing in the list")
        let isAllowed = planner.gate.isOpen && !surroundings.isOffline && !surroundings.isBudgetSpent
        if !isAllowed {
            expect(plan.preload.starts.isEmpty, "a preload begins though it may not")
            expect(running.allSatisfy { $0 == list.current }, "a preload goes on though it may not")
            expect(opened == nil || opened == planner.announced, "an engine opens though it may not")
        }
        if surroundings.isFrozen {
            expect(plan.preload.starts.isEmpty && opened == nil, "something begins under an overlay")
        }
        for cancel in plan.preload.cancels { expect(before.contains(cancel.entry), "a cancel of nothing") }
    }

    mutating func clear() {
        _ = planner.clear(because: .pageLeft)
        let plan = planner.plan(list, surroundings)
        if !planner.preRender.entries.isEmpty || plan.preRender.opens != nil { broken.append("work after the clear") }
        if planner.announced != nil { broken.append("an announcement after the clear") }
    }
}

@Suite("Strategy planner") struct StrategyPlannerTests {
    @Test(
        "100,000 random lists, states and events: limits, window, gate, the current entry first, nothing after a clear")
    func property() {
        var broken: [String: UInt64] = [:]
        for seed in 0..<UInt64(2_000) {
            var run = PlannerRun(seed: seed)
            for _ in 0..<50 { run.step() }
            run.clear()
            for text in run.broken where broken[text] == nil { broken[text] = seed }
        }
        #expect(broken == [:])
    }

    private func planner(_ preloads: PreloadConfiguration = .init(), ahead: Int = 1, behind: Int = 0) -> StrategyPlanner
    {
        StrategyPlanner(preloads: preloads, preRenders: PreRenderConfiguration(ahead: ahead, behind: behind))
    }
    private func list(playing entry: EntryID) -> PageList {
        var list = PageList()
        _ = list.set(["a", "b", "c", "d", "e"])
        list.play(entry)
        return list
    }
    private func playing(at now: Double) -> StrategyPlanner.Surroundings {
        var surroundings = StrategyPlanner.Surroundings(now: .seconds(now))
        (surroundings.hasPlay, surroundings.isPlaying) = (true, true)
        return surroundings
    }
    private let whole = WatermarkGate.Playing(
        bufferedAhead: .seconds(1), isComplete: true, isFirstFrameShown: true, isStalled: false)

    @Test("a swipe back has the entry before pre-rendered") func backward() {
        var planner = planner()
        planner.selected(place: 3, at: .seconds(1))
        planner.selected(place: 2, at: .seconds(10))
        let surroundings = playing(at: 11)
        planner.update(whole, surroundings)
        let plan = planner.plan(list(playing: "c"), surroundings)
        #expect(plan.preRender.opens?.entry == "b")
        #expect(plan.preload.starts.map(\.entry) == ["b", "a"])
    }
    @Test("during a fling nothing is begun, whatever the gate says; 0.3 s after it all is") func fling() {
        var planner = planner()
        planner.selected(place: 0, at: .seconds(1))
        planner.selected(place: 1, at: .seconds(1.2))
        planner.update(whole, playing(at: 1.3))
        let during = planner.plan(list(playing: "b"), playing(at: 1.4))
        #expect(during.preload.starts.isEmpty && during.preRender.opens == nil)
        let after = planner.plan(list(playing: "b"), playing(at: 1.5))
        #expect(after.preRender.opens?.entry == "c" && after.preload.starts.map(\.entry) == ["c", "d"])
        #expect(planner.headOfFling(at: .seconds(1.4)) == AutomaticPolicy.usualFirstFrame)
        #expect(planner.headOfFling(at: .seconds(1.5)) == nil)
    }
    @Test("one engine is for what plays, and those ahead come before those behind") func engines() {
        let planner = planner(ahead: 2, behind: 1)
        var surroundings = playing(at: 1)
        surroundings.engineLimit = 3
        #expect(planner.spareEntries(list(playing: "c"), surroundings) == ["d", "e"])
        surroundings.engineLimit = 4
        #expect(planner.spareEntries(list(playing: "c"), surroundings) == ["d", "e", "b"])
        surroundings.taken = ["d"]
        #expect(planner.spareEntries(list(playing: "c"), surroundings) == ["e", "b"])
    }
    @Test("seconds of media become bytes where the source tells its bit rate, within ten times the size") func seconds()
    {
        let planner = planner(PreloadConfiguration(size: 100_000, seconds: 4))
        let start = PreloadMachine.Start(entry: "a", stage: .fill)
        #expect(
            planner.amount(of: start, bitrate: 800_000)
                == .seconds(4, fallback: 400_000, largest: 1_000_000))
        #expect(planner.amount(of: start, bitrate: nil) == .seconds(4, fallback: 100_000, largest: 1_000_000))
        #expect(
            planner.amount(of: start, bitrate: .max) == .seconds(4, fallback: 1_000_000, largest: 1_000_000))
    }
    @Test("the gate's limits follow the automatic choice") func limits() {
        var planner = planner(.automatic)
        planner.selected(place: 0, at: .zero)
        var surroundings = playing(at: 5)
        (surroundings.throughput, surroundings.mediaRate) = (1_000_000, 187_500)
        let look = WatermarkGate.Playing(
            bufferedAhead: .seconds(4), isComplete: false, isFirstFrameShown: true, isStalled: false)
        planner.update(look, surroundings)
        #expect(planner.gate.isOpen && planner.gate.start == .seconds(3))
    }
}
