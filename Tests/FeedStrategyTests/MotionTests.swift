import FeedStrategy
import FeedVocabulary
import Testing

@Suite("Motion") struct MotionTests {
    @Test("two selections within two seconds are a hurry, until two seconds have passed without one") func hurry() {
        var motion = Motion()
        motion.selected(place: 0, at: .seconds(10))
        #expect(!motion.isHurried(at: .seconds(10)))
        motion.selected(place: 1, at: .seconds(11.5))
        #expect(motion.isHurried(at: .seconds(13.4)))
        #expect(!motion.isHurried(at: .seconds(13.5)))
        motion.selected(place: 2, at: .seconds(14))
        #expect(!motion.isHurried(at: .seconds(14)))
    }
    @Test("two selections within 0.7 s are a fling, which is over 0.3 s after the last") func fling() {
        var motion = Motion()
        motion.selected(place: 0, at: .milliseconds(1_000))
        motion.selected(place: 1, at: .milliseconds(1_600))
        #expect(motion.isFlinging(at: .milliseconds(1_899)))
        #expect(!motion.isFlinging(at: .milliseconds(1_900)))
        motion.selected(place: 2, at: .milliseconds(2_400))
        #expect(!motion.isFlinging(at: .milliseconds(2_400)))
    }
    @Test("the direction is that of the last move; a change of the list is none") func direction() {
        var motion = Motion()
        motion.selected(place: 5, at: .seconds(1))
        #expect(motion.direction == .forward)
        motion.selected(place: 4, at: .seconds(5))
        #expect(motion.direction == .backward)
        motion.moved(to: 9)  // five entries were inserted before it
        motion.selected(place: 9, at: .seconds(9))
        #expect(motion.direction == .backward)
        motion.selected(place: 10, at: .seconds(12))
        #expect(motion.direction == .forward)
    }
    @Test("the usual stay is the median of the last eight") func dwell() {
        var motion = Motion()
        #expect(motion.typicalDwell == nil)
        var now = Duration.zero
        for seconds in [0, 100, 3, 3, 4, 5, 6, 7, 8, 9] {
            now += .seconds(seconds)
            motion.selected(place: 0, at: now)
        }
        #expect(motion.typicalDwell == .seconds(6))
    }
}

@Suite("Preload window") struct PreloadWindowTests {
    private func list(playing entry: EntryID?) -> PageList {
        var list = PageList()
        _ = list.set(["a", "b", "c", "d", "e", "f", "g"])
        if let entry { list.play(entry) }
        return list
    }
    @Test("nearest first, those against the motion last") func directions() {
        let window = PreloadWindow(count: 2, behind: 1)
        #expect(window.entries(of: list(playing: "c"), direction: .forward) == ["d", "e", "b"])
        #expect(window.entries(of: list(playing: "d"), direction: .backward) == ["c", "b", "e"])
    }
    @Test("at the list's begin, a motion backward looks forward") func begin() {
        #expect(
            PreloadWindow(count: 2, behind: 0).entries(of: list(playing: "a"), direction: .backward) == ["b", "c"])
    }
    @Test("half of it, rounded up, for a viewer in a hurry") func half() {
        #expect(PreloadWindow(count: 5, behind: 2).halved == PreloadWindow(count: 3, behind: 2))
        #expect(PreloadWindow(count: 1, behind: 0).halved == PreloadWindow(count: 1, behind: 0))
    }
    @Test("a viewer who browses has both sides, the entry in view first") func browsing() {
        let window = PreloadWindow(count: 4, behind: 0)
        #expect(
            window.entries(of: list(playing: nil), direction: .forward, browsing: "d") == ["d", "e", "c", "f", "b"])
        #expect(
            window.entries(of: list(playing: nil), direction: .forward, browsing: "a") == ["a", "b", "c", "d", "e"])
        #expect(
            window.entries(of: list(playing: "e"), direction: .forward, browsing: "d") == ["d", "c", "f", "b"])
    }
    @Test("PRELOAD-7: an empty list, a list of one, and a count of zero give nothing") func nothing() {
        #expect(PreloadWindow(count: 3, behind: 3).entries(of: PageList(), direction: .forward) == [])
        var one = PageList()
        _ = one.set(["x"])
        one.play("x")
        #expect(PreloadWindow(count: 3, behind: 3).entries(of: one, direction: .backward) == [])
        #expect(PreloadWindow(count: 0, behind: 0).entries(of: list(playing: "a"), direction: .forward) == [])
        #expect(
            PreloadWindow(count: 0, behind: 0).entries(of: list(playing: nil), direction: .forward, browsing: "c")
                == [])
    }
}
