import EventLoop
import FeedStrategy
import FeedVocabulary
import Testing

@Suite("Watermark gate") struct WatermarkGateTests {
    private func playing(_ ahead: Double, complete: Bool = false, shown: Bool = true, stalled: Bool = false)
        -> WatermarkGate.Playing
    {
        .init(bufferedAhead: .seconds(ahead), isComplete: complete, isFirstFrameShown: shown, isStalled: stalled)
    }

    @Test("PRELOAD-1: opens at the start limit, closes below the stop limit, holds between") func hysteresis() {
        var gate = WatermarkGate(start: .seconds(15), stop: .seconds(5))
        #expect(gate.isOpen)  // nothing plays
        gate.currentChanged()
        for (ahead, isOpen) in [
            (14.9, false), (15, true), (10, true), (5, true), (4.9, false), (14, false), (15, true),
        ] {
            gate.update(playing(ahead))
            #expect(gate.isOpen == isOpen, "\(ahead) s buffered")
        }
    }
    @Test("a complete clip opens it however short; a stall and a missing first frame close it") func completeness() {
        var gate = WatermarkGate(start: .seconds(15), stop: .seconds(5))
        gate.currentChanged()
        gate.update(playing(2, complete: true, shown: false))
        #expect(!gate.isOpen)
        gate.update(playing(2, complete: true))
        #expect(gate.isOpen)
        gate.update(playing(20, stalled: true))
        #expect(!gate.isOpen)
        gate.nothingPlays()
        #expect(gate.isOpen)
    }
}

@Suite("Preload machine") struct PreloadMachineTests {
    private let window: [EntryID] = ["1", "2", "3", "4", "5"]

    @Test("two in flight, nearest first, none beyond the window") func order() {
        var machine = PreloadMachine(PreloadConfiguration(count: 3))
        let answer1 = machine.plan(upcoming: window, current: "0", isGateOpen: true)
        #expect(answer1.starts == ["1", "2"])
        machine.ended("1")
        let answer2 = machine.plan(upcoming: window, current: "0", isGateOpen: true)
        #expect(answer2.starts == ["3"])
        machine.ended("2")
        machine.ended("3")
        let answer3 = machine.plan(upcoming: window, current: "0", isGateOpen: true)
        #expect(answer3.starts == [])
    }
    @Test("entries behind come after those ahead, nearest first") func behind() {
        var machine = PreloadMachine(PreloadConfiguration(count: 1, behind: 2))
        let first = machine.plan(upcoming: window, previous: ["-1", "-2", "-3"], current: "0", isGateOpen: true)
        #expect(first.starts == ["1", "-1"])
        machine.ended("1")
        machine.ended("-1")
        let second = machine.plan(upcoming: window, previous: ["-1", "-2", "-3"], current: "0", isGateOpen: true)
        #expect(second.starts == ["-2"])
        // A swipe forward: what was ahead is behind now, and needs no second attempt.
        let third = machine.plan(upcoming: window.dropFirst(), previous: ["0", "-1"], current: "1", isGateOpen: true)
        #expect(third.cancels == [.init(entry: "-2", reason: .swipe)] && third.starts == ["2", "0"])
    }
    @Test("two selections within two seconds halve what is fetched ahead, until two seconds have passed without one")
    func hurry() {
        var machine = PreloadMachine(PreloadConfiguration(count: 4))
        func starts(_ machine: inout PreloadMachine, _ now: Double) -> [EntryID] {
            var all: [EntryID] = []
            while true {
                let action = machine.plan(upcoming: window, current: "0", isGateOpen: true, now: .seconds(now))
                if action.starts.isEmpty { return all }
                all += action.starts
                for entry in action.starts { machine.ended(entry) }
            }
        }
        machine.selected(at: .seconds(10))
        machine.selected(at: .seconds(11.5))
        let hurried = starts(&machine, 11.6)
        #expect(hurried == ["1", "2"])
        let still = starts(&machine, 13.4)
        #expect(still == [])
        let calm = starts(&machine, 13.5)
        #expect(calm == ["3", "4"])
    }
    @Test("a closed gate cancels, a swipe cancels what left the window, the new current's own goes on") func cancels() {
        var machine = PreloadMachine(PreloadConfiguration(count: 2))
        _ = machine.plan(upcoming: window, current: "0", isGateOpen: true)
        var action = machine.plan(upcoming: window.dropFirst(), current: "1", isGateOpen: false)
        #expect(action.cancels == [.init(entry: "2", reason: .watermark)])
        #expect(machine.running == ["1"])
        action = machine.plan(upcoming: window.dropFirst(4), current: "4", isGateOpen: true)
        #expect(action.cancels == [.init(entry: "1", reason: .swipe)])
        #expect(action.starts == ["5"])
    }
    @Test(
        "PRELOAD-7: count 0 and size 0 mean nothing to do",
        arguments: [PreloadConfiguration(count: 0), PreloadConfiguration(size: 0)])
    func off(configuration: PreloadConfiguration) throws {
        try configuration.validate()
        var machine = PreloadMachine(configuration)
        let answer4 = machine.plan(upcoming: window, current: nil, isGateOpen: true)
        #expect(answer4 == .init())
    }
    @Test(
        "INPUT-9: nonsense is refused by the name of the field",
        arguments: [
            (PreloadConfiguration(count: -1), "count"), (PreloadConfiguration(count: 1_000_000), "count"),
            (PreloadConfiguration(size: -1), "size"),
            (PreloadConfiguration(startBufferLimit: 5, stopBufferLimit: 5), "startBufferLimit"),
            (PreloadConfiguration(startBufferLimit: .nan), "startBufferLimit"),
            (PreloadConfiguration(stopBufferLimit: .infinity), "stopBufferLimit"),
        ]) func validation(configuration: PreloadConfiguration, field: String)
    {
        do {
            try configuration.validate()
            Issue.record("accepted")
        } catch {
            guard case .outOfRange(field, _) = error else {
                Issue.record("\(error)")
                return
            }
        }
    }
    @Test("never more than the limits, never outside the window, never with a closed gate", arguments: UInt64(0)..<200)
    func property(seed: UInt64) {
        var random = SplitMix64(seed: seed)
        let count = Int.random(in: 0...10, using: &random)
        var machine = PreloadMachine(PreloadConfiguration(count: count))
        let list = (0..<30).map { EntryID("\($0)") }
        for _ in 0..<500 {
            let current = Int.random(in: 0..<30, using: &random)
            let isOpen = Bool.random(using: &random)
            let upcoming = list.dropFirst(current + 1)
            let action = machine.plan(upcoming: upcoming, current: list[current], isGateOpen: isOpen)
            #expect(action.starts.isEmpty || isOpen)
            #expect(machine.running.count(where: { $0 != list[current] }) <= 2)
            #expect(machine.running.allSatisfy { upcoming.prefix(count).contains($0) || $0 == list[current] })
            if let done = machine.running.randomElement(using: &random) { machine.ended(done) }
        }
        _ = machine.clear()
        #expect(machine.running.isEmpty)
    }
}

@Suite("Pre-render machine") struct PreRenderMachineTests {
    @Test("an engine that opens after the plan moved on is discarded") func late() throws {
        var slot = PreRenderMachine()
        let first = try #require(slot.plan("1", mayOpen: true).opens)
        let second = try #require(slot.plan("2", mayOpen: true).opens)
        let third = try #require(slot.plan("1", mayOpen: true).opens)
        let answer5 = slot.engineOpened(first)
        #expect(answer5 == .discard)
        let answer6 = slot.engineOpened(second)
        #expect(answer6 == .discard)
        let answer7 = slot.engineOpened(third)
        #expect(answer7 == .hold)
    }
    @Test("POOL-8: given out once, and only for its own entry") func once() throws {
        var slot = PreRenderMachine()
        let attempt = try #require(slot.plan("1", mayOpen: true).opens)
        let answer8 = slot.take("2")
        #expect(answer8 == .none)
        let answer9 = slot.engineOpened(attempt)
        #expect(answer9 == .hold)
        let answer10 = slot.take("1")
        #expect(answer10 == .ready(attempt))
        let answer11 = slot.take("1")
        #expect(answer11 == .none)
    }
    @Test("POOL-9: a failure is remembered until the host asks for the entry") func failure() throws {
        var slot = PreRenderMachine()
        let attempt = try #require(slot.plan("1", mayOpen: true).opens)
        let answer12 = slot.engineFailed(attempt, isFinal: true)
        #expect(answer12)
        let answer13 = slot.plan("1", mayOpen: true)
        #expect(answer13.opens == nil)
        _ = slot.take("1")
        let answer14 = slot.plan("1", mayOpen: true)
        #expect(answer14.opens != nil)
    }
    @Test("a closed gate cancels an opening and keeps a held frame") func gate() throws {
        var slot = PreRenderMachine()
        let attempt = try #require(slot.plan("1", mayOpen: true).opens)
        let answer15 = slot.plan("1", mayOpen: false)
        #expect(answer15.cancels == attempt)
        let again = try #require(slot.plan("1", mayOpen: true).opens)
        _ = slot.engineOpened(again)
        let answer16 = slot.plan("1", mayOpen: false)
        #expect(answer16 == .init())
        let answer17 = slot.clear()
        #expect(answer17.releasesHeld == again)
        let answer18 = slot.plan("1", mayOpen: true)
        #expect(answer18 == .init())
    }
}

@Suite("Page list") struct PageListTests {
    @Test("PAGE-7: position follows the identity through inserts and removals") func identity() {
        var list = PageList()
        _ = list.set(["a", "b", "c", "d"])
        list.play("c")
        list.remove("a")
        let answer19 = list.insert(["x", "b", "y"], at: 0)
        #expect(answer19 == ["b"])
        #expect(list.entries == ["x", "y", "b", "c", "d"])
        #expect(list.current == "c" && Array(list.upcoming) == ["d"])
        list.remove("c")
        #expect(list.current == nil && Array(list.upcoming) == ["d"])
    }
    @Test("a page that rests goes on at the entry that played") func rest() {
        var list = PageList()
        _ = list.set(["a", "b", "c"])
        list.play("b")
        list.rest()
        #expect(Array(list.upcoming) == ["b", "c"])
        let answer20 = list.set(["b", "c", "d"])
        #expect(answer20 == ["a"])
        #expect(Array(list.upcoming) == ["b", "c", "d"])
    }
    @Test("PAGE-7: a refresh of a list that rests keeps the place at its entry, or at the next one that stayed")
    func refreshAtRest() {
        var list = PageList()
        _ = list.set(["a", "b", "c", "d"])
        list.play("b")
        list.rest()
        _ = list.set(["x", "y", "a", "b", "c"])
        #expect(list.upcoming.first == "b")
        _ = list.set(["x", "d", "c"])
        #expect(list.upcoming.first == "c")
        list.play("c")
        _ = list.set(["x", "y"])  // what plays is gone, and so is all after it
        #expect(list.current == nil && list.upcoming.isEmpty)
        _ = list.set(["x", "y", "z"])
        #expect(list.upcoming.first == "z")
    }
    @Test("moving entries keeps the place of a list that rests") func moveAtRest() {
        var list = PageList()
        _ = list.set(["a", "b", "c", "d"])
        list.play("c")
        list.rest()
        list.move("a", to: 3)
        #expect(list.entries == ["b", "c", "d", "a"] && list.upcoming.first == "c")
        list.move("c", to: 0)
        #expect(list.entries == ["c", "b", "d", "a"] && list.upcoming.first == "c")
    }
}

@Suite("Work that fails for the moment") struct PostponedTests {
    @Test("PRELOAD-6, POOL-9: it is tried again later, what fails for good is not, a new source is tried at once")
    func postponed() throws {
        var preload = PreloadMachine(PreloadConfiguration(count: 2))
        _ = preload.plan(upcoming: ["1", "2"], current: nil, isGateOpen: true)
        preload.ended("1", isFinal: false)
        preload.ended("2", isFinal: true)
        let waiting = preload.plan(upcoming: ["1", "2"], current: nil, isGateOpen: true)
        #expect(waiting.starts == [])
        preload.retry()
        let again = preload.plan(upcoming: ["1", "2"], current: nil, isGateOpen: true)
        #expect(again.starts == ["1"])

        var slot = PreRenderMachine()
        let attempt1 = slot.open("1")
        let first = try #require(attempt1)
        _ = slot.engineFailed(first, isFinal: false)
        let none1 = slot.open("1")
        #expect(none1 == nil)
        slot.retry()
        let attempt2 = slot.open("1")
        let second = try #require(attempt2)
        _ = slot.engineFailed(second, isFinal: true)
        slot.retry()
        let none2 = slot.open("1")
        #expect(none2 == nil)
        slot.forget("1")  // it has another source
        let third = slot.open("1")
        #expect(third != nil)
    }
}

extension PreRenderMachine {
    fileprivate mutating func open(_ entry: EntryID) -> Attempt? { plan(entry, mayOpen: true).opens }
}

@Suite("Container head") struct ContainerHeadTests {
    private func box(_ type: String, _ size: UInt32) -> [UInt8] {
        [UInt8(size >> 24), UInt8(size >> 16 & 255), UInt8(size >> 8 & 255), UInt8(size & 255)] + Array(type.utf8)
    }
    @Test("the index is found before or after the media") func places() {
        let first =
            box("ftyp", 16) + [UInt8](repeating: 0, count: 8) + box("moov", 5_000) + [UInt8](repeating: 0, count: 32)
        #expect(ContainerHead(first) == .indexFirst)
        let last =
            box("ftyp", 16) + [UInt8](repeating: 0, count: 8) + box("mdat", 9_000) + [UInt8](repeating: 0, count: 32)
        #expect(ContainerHead(last) == .indexLast(offset: 9_016))
        #expect(ContainerHead(Array(first.prefix(20))) == .needs(bytes: 32))
    }
    @Test("hostile and foreign bytes count as index first") func hostile() {
        #expect(ContainerHead([UInt8](repeating: 0xff, count: 64)) == .indexFirst)
        #expect(ContainerHead(box("ftyp", 0) + [UInt8](repeating: 0, count: 64)) == .indexFirst)
        let huge: [UInt8] =
            [0, 0, 0, 1] + Array("mdat".utf8) + [UInt8](repeating: 0xff, count: 8) + [UInt8](repeating: 0, count: 32)
        #expect(ContainerHead(huge) == .indexFirst)
    }
}
