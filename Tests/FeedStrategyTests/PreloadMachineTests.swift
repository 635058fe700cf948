import EventLoop
import FeedStrategy
import FeedVocabulary
import Testing

private typealias Machine = PreloadMachine

extension PreloadMachine {
    /// The entries that begin.
    fileprivate mutating func starts(
        _ window: [EntryID], stages: [Stage] = [.fill], inFlight: Int = 2, current: EntryID? = "0",
        refusal: StrategyReason? = nil
    ) -> [Start] {
        var order = Order(window: window, current: current, refusal: refusal)
        (order.stages, order.inFlight) = (stages, inFlight)
        return plan(order).starts
    }
    /// Ends all that begins until nothing does.
    fileprivate mutating func all(_ window: [EntryID], stages: [Stage]) -> [Start] {
        var all: [Start] = []
        while true {
            let begun = starts(window, stages: stages)
            if begun.isEmpty { return all }
            all += begun
            for start in begun { ended(start.entry) }
        }
    }
}
private func fill(_ entries: EntryID...) -> [Machine.Start] { entries.map { .init(entry: $0, stage: .fill) } }

@Suite("Preload machine") struct PreloadMachineTests {
    private let window: [EntryID] = ["1", "2", "3"]

    @Test("two in flight, nearest first, none beyond the window") func order() {
        var machine = Machine()
        let first = machine.starts(window)
        #expect(first == fill("1", "2"))
        machine.ended("1")
        let second = machine.starts(window)
        #expect(second == fill("3"))
        machine.ended("2")
        machine.ended("3")
        let third = machine.starts(window)
        #expect(third == [])
    }
    @Test("first frames of the whole window come before more of any entry") func stages() {
        var machine = Machine()
        let all = machine.all(window, stages: [.firstFrame, .fill])
        #expect(
            all == window.map { .init(entry: $0, stage: .firstFrame) } + window.map { .init(entry: $0, stage: .fill) })
    }
    @Test("a hurry that ends lets the rest be filled up") func stagesLater() {
        var machine = Machine()
        let hurried = machine.all(window, stages: [.firstFrame])
        #expect(hurried.map(\.stage) == [.firstFrame, .firstFrame, .firstFrame])
        let calm = machine.all(window, stages: [.firstFrame, .fill])
        #expect(calm == fill("1", "2", "3"))
    }
    @Test("a refusal cancels with its reason, a swipe cancels what left the window, the new current's own goes on")
    func cancels() {
        var machine = Machine()
        _ = machine.starts(["1", "2"])
        let closed = machine.plan(.init(window: ["2", "3"], current: "1", refusal: .watermark))
        #expect(closed.cancels == [.init(entry: "2", reason: .watermark)])
        #expect(machine.running.map(\.entry) == ["1"])
        let swiped = machine.plan(.init(window: ["5"], current: "4"))
        #expect(swiped.cancels == [.init(entry: "1", reason: .swipe)])
        #expect(swiped.starts == fill("5"))
    }
    @Test("under an overlay nothing begins, what runs goes on, and a refusal counts as ever") func frozen() {
        var machine = Machine()
        _ = machine.starts(["1"])
        var order = Machine.Order(window: window, current: "0")
        order.isFrozen = true
        let still = machine.plan(order)
        #expect(still == .init())
        order.refusal = .watermark
        let refused = machine.plan(order)
        #expect(refused.cancels == [.init(entry: "1", reason: .watermark)])
    }
    @Test("PRELOAD-6: what fails for the moment is tried again later, what fails for good is not") func postponed() {
        var machine = Machine()
        _ = machine.starts(["1", "2"])
        machine.ended("1", failed: true, isFinal: false)
        machine.ended("2", failed: true)
        let waiting = machine.starts(["1", "2"], stages: [.firstFrame, .fill])
        #expect(waiting == [])
        machine.retry()
        let again = machine.starts(["1", "2"])
        #expect(again == fill("1"))
    }
    @Test("a stalled preload does not block those behind it") func stalled() {
        var machine = Machine()
        _ = machine.starts(window)
        machine.ended("1", failed: true, isFinal: false)
        let next = machine.starts(window)
        #expect(next == fill("3"))
    }
    @Test("what was removed is forgotten, and its work is to be cancelled once") func removed() {
        var machine = Machine()
        _ = machine.starts(["1"])
        let (first, second) = (machine.removed("1"), machine.removed("1"))
        #expect(first && !second)
        let again = machine.starts(["1"])
        #expect(again == fill("1"))
        let cleared = machine.clear()
        #expect(cleared == ["1"] && machine.running.isEmpty)
    }
}

@Suite("Preload configuration") struct PreloadConfigurationTests {
    @Test("the published defaults") func defaults() {
        let defaults = PreloadConfiguration()
        #expect(defaults.count == 3 && defaults.size == 819_200 && defaults.behind == 0 && defaults.seconds == nil)
        #expect(defaults.startBufferLimit == 15 && defaults.stopBufferLimit == 5 && !defaults.isAutomatic)
        #expect(PreloadConfiguration.maximumInFlight == 2)
    }
    @Test(
        "PRELOAD-7: count 0 and size 0 mean nothing to do",
        arguments: [PreloadConfiguration(count: 0), PreloadConfiguration(size: 0)])
    func off(configuration: PreloadConfiguration) throws {
        try configuration.validate()
        #expect(configuration.isOff)
    }
    @Test(
        "INPUT-9: nonsense is refused by the name of the field",
        arguments: [
            (PreloadConfiguration(count: -1), "count"), (PreloadConfiguration(count: 1_000_000), "count"),
            (PreloadConfiguration(size: -1), "size"), (PreloadConfiguration(behind: 4), "behind"),
            (PreloadConfiguration(seconds: 0), "seconds"), (PreloadConfiguration(seconds: .nan), "seconds"),
            (PreloadConfiguration(startBufferLimit: 5, stopBufferLimit: 5), "startBufferLimit"),
            (PreloadConfiguration(startBufferLimit: .nan), "startBufferLimit"),
            (PreloadConfiguration(startBufferLimit: 1e-20, stopBufferLimit: 0), "startBufferLimit"),
            (PreloadConfiguration(stopBufferLimit: .infinity), "stopBufferLimit"),
        ]) func validation(configuration: PreloadConfiguration, field: String)
    {
        #expect(named { () throws(ConfigurationError) in try configuration.validate() } == field)
    }
    @Test(
        "INPUT-9: so is nonsense of the other settings",
        arguments: [-1, 3]) func otherSettings(ahead: Int)
    {
        #expect(
            named { () throws(ConfigurationError) in try PreRenderConfiguration(ahead: ahead).validate() } == "ahead")
        #expect(named { () throws(ConfigurationError) in try PreRenderConfiguration(behind: 2).validate() } == "behind")
        #expect(
            named { () throws(ConfigurationError) in try NetworkLimits(bytesPerSecond: Int64(ahead)).validate() }
                == "bytesPerSecond")
        #expect(named { () throws(ConfigurationError) in try NetworkLimits(byteBudget: -1).validate() } == "byteBudget")
        #expect(
            named { () throws(ConfigurationError) in try StartupResolution(displayRows: 0).validate() } == "displayRows"
        )
    }
    private func named(_ body: () throws(ConfigurationError) -> Void) -> String? {
        do { try body() } catch {
            if case .outOfRange(let field, _) = error { return field }
        }
        return nil
    }
}
