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
