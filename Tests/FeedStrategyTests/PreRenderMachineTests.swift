import FeedStrategy
import FeedVocabulary
import Testing

extension PreRenderMachine {
    /// Plans with a gate that is open or closed for all.
    fileprivate mutating func plan(_ wanted: EntryID..., refusal: StrategyReason? = nil) -> PlanAction {
        plan(wanted) { _ in refusal }
    }
    /// Opens and holds each in turn.
    fileprivate mutating func hold(_ wanted: EntryID...) {
        for _ in wanted {
            if let attempt = plan(wanted, refusal: { _ in nil }).opens { _ = engineOpened(attempt) }
        }
    }
}

@Suite("Pre-render machine") struct PreRenderMachineTests {
    @Test("an engine that opens after the plan moved on is discarded") func late() throws {
        var machine = PreRenderMachine()
        let first = try #require(machine.plan("1").opens)
        let second = try #require(machine.plan("2").opens)
        let third = try #require(machine.plan("1").opens)
        let answers = [first, second, third].map { machine.engineOpened($0) }
        #expect(answers == [.discard, .discard, .hold])
    }
    @Test("POOL-8: given out once, and only for its own entry") func once() throws {
        var machine = PreRenderMachine()
        let attempt = try #require(machine.plan("1").opens)
        let other = machine.take("2")
        #expect(other == .none)
        _ = machine.engineOpened(attempt)
        let (first, second) = (machine.take("1"), machine.take("1"))
        #expect(first == .ready(attempt) && second == .none)
    }
    @Test("POOL-9: a failure is remembered until the host asks for the entry") func failure() throws {
        var machine = PreRenderMachine()
        let attempt = try #require(machine.plan("1").opens)
        let wasWanted = machine.engineFailed(attempt, isFinal: true)
        #expect(wasWanted)
        let none = machine.plan("1")
        #expect(none.opens == nil)
        _ = machine.take("1")
        let again = machine.plan("1")
        #expect(again.opens != nil)
    }
    @Test("POOL-9: what fails for the moment is tried again later; a new source is tried at once") func postponed()
        throws
    {
        var machine = PreRenderMachine()
        let first = try #require(machine.plan("1").opens)
        _ = machine.engineFailed(first, isFinal: false)
        let waiting = machine.plan("1")
        #expect(waiting.opens == nil)
        machine.retry()
        let second = try #require(machine.plan("1").opens)
        _ = machine.engineFailed(second, isFinal: true)
        machine.retry()
        let final = machine.plan("1")
        #expect(final.opens == nil)
        _ = machine.forget("1")
        let third = machine.plan("1")
        #expect(third.opens != nil)
    }
    @Test("a refusal cancels an opening with its reason and keeps a held frame") func gate() throws {
        var machine = PreRenderMachine()
        let attempt = try #require(machine.plan("1").opens)
        let closed = machine.plan("1", refusal: .watermark)
        #expect(closed.cancels.map(\.attempt) == [attempt] && closed.cancels.map(\.reason) == [.watermark])
        machine.hold("1")
        let kept = machine.plan("1", refusal: .watermark)
        #expect(kept == .init())
        let cleared = machine.clear(because: .pageLeft)
        #expect(cleared.releases.map(\.reason) == [.pageLeft])
        let after = machine.plan("1")
        #expect(after == .init() && machine.phase == .cleared)
    }
    @Test("two are opened one after the other, the most wanted first; what is held stays while it is wanted") func two()
    {
        var machine = PreRenderMachine()
        machine.hold("1", "2")
        #expect(machine.ready == ["1", "2"])
        let swiped = machine.plan("2", "3")
        #expect(swiped.releases.map(\.attempt.entry) == ["1"] && swiped.opens?.entry == "3")
        let busy = machine.plan("2", "3", "4")
        #expect(busy == .init(), "one is opened at a time")
    }
    @Test("what is wanted more takes the place of an opening") func superseded() {
        var machine = PreRenderMachine()
        _ = machine.plan("1")
        let action = machine.plan("9", "1")
        #expect(action.cancels.map(\.reason) == [.superseded] && action.opens?.entry == "9")
    }
    @Test("under an overlay nothing begins and what runs goes on") func frozen() {
        var machine = PreRenderMachine()
        machine.hold("1")
        let action = machine.plan(["1", "2"], isFrozen: true) { _ in nil }
        #expect(action == .init())
    }
}
