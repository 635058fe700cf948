import FeedStrategy
import FeedVocabulary
import Testing

@Suite("Coordinator machine") struct CoordinatorMachineTests {
    private let a = PageID("A"), b = PageID("B"), c = PageID("C")

    /// A switch that nothing disturbs.
    private func enter(_ page: PageID, _ policy: TransitionPolicy, _ machine: inout CoordinatorMachine) {
        let (ticket, request) = machine.request(.enter(page, policy))
        #expect(request == .begins)
        let departure = machine.depart(ticket)
        for old in departure.clears { machine.cleared(old) }
        if let old = departure.covers { machine.covered(old) }
        let arrival = machine.arrive(ticket)
        #expect(arrival != .superseded)
        let next = machine.finished(ticket)
        #expect(next == nil && machine.owner == page)
    }

    @Test("of the switches that wait only the newest is carried out") func newest() {
        var machine = CoordinatorMachine()
        let (first, _) = machine.request(.enter(a, .clear))
        let (second, waitsB) = machine.request(.enter(b, .clear))
        let (third, waitsC) = machine.request(.enter(c, .clear))
        #expect(waitsB == .waits(supersedes: nil) && waitsC == .waits(supersedes: second))
        _ = machine.depart(first)
        let arrival = machine.arrive(first)
        #expect(arrival == .superseded)  // PAGE-4: the page before the last one is not even enabled
        let next = machine.finished(first)
        #expect(next == third)
        let last = machine.finished(third)
        #expect(last == nil)
    }

    @Test("there is one owner, and it must be cleared before another") func owner() {
        var machine = CoordinatorMachine()
        let free = machine.claim(a)
        #expect(free == nil && machine.phase == .owned)
        let other = machine.claim(b)
        #expect(other == a)
        machine.cleared(b)
        #expect(machine.owner == a)  // PAGE-5: another page's late clear touches nothing
        machine.cleared(a)
        let freed = machine.claim(b)
        #expect(freed == nil && machine.stack == [b])
    }

    @Test("a page enables by itself only while no switch to another one is under way") func claimDuringSwitch() {
        var machine = CoordinatorMachine()
        let (ticket, _) = machine.request(.enter(a, .clear))
        let refused = machine.claim(b)
        #expect(refused == a)
        _ = machine.depart(ticket)
        let claimed = machine.claim(a)
        #expect(claimed == nil)
        let arrival = machine.arrive(ticket)
        #expect(arrival == .stays)
    }

    @Test("nested pages lie on a stack, and the one below comes back when the one above is left") func stack() throws {
        var machine = CoordinatorMachine()
        enter(a, .clear, &machine)
        enter(b, .replaceSources, &machine)
        enter(c, .replaceSources, &machine)
        #expect(machine.stack == [a, b, c])
        _ = machine.leaves(c)
        machine.cleared(c)
        let restoring = machine.restore()
        let ticket = try #require(restoring)
        #expect(ticket.goal == .restore(b) && !machine.isSettled)
        let arrival = machine.arrive(ticket)
        #expect(arrival == .uncovers && machine.owner == b && machine.stack == [a, b])
        let next = machine.finished(ticket)
        #expect(next == nil && machine.isSettled)
    }

    @Test("one covered page keeps its play: the one right below the top") func keptPlay() {
        var machine = CoordinatorMachine()
        enter(a, .clear, &machine)
        enter(b, .replaceSources, &machine)
        let (ticket, _) = machine.request(.enter(c, .replaceSources))
        let departure = machine.depart(ticket)
        #expect(departure.covers == b && departure.dropsPlay == a && departure.clears.isEmpty)
    }

    @Test("entering a covered page clears those above it; a tab clears the whole stack") func back() {
        var machine = CoordinatorMachine()
        enter(a, .clear, &machine)
        enter(b, .replaceSources, &machine)
        enter(c, .replaceSources, &machine)
        let (down, _) = machine.request(.enter(a, .replaceSources))
        let first = machine.depart(down)
        #expect(first.clears == [c, b] && first.covers == nil)
        machine.cleared(c)
        machine.cleared(b)
        let arrival = machine.arrive(down)
        #expect(arrival == .uncovers)
        _ = machine.finished(down)
        enter(b, .replaceSources, &machine)
        let (tab, _) = machine.request(.enter(c, .clear))
        let second = machine.depart(tab)
        #expect(second.clears == [b, a])
    }

    @Test(
        "a page that is left while it is entered is not enabled, and the one it was to cover comes back",
        arguments: [false, true])
    func withdrawn(isCovered: Bool) throws {
        var machine = CoordinatorMachine()
        enter(a, .clear, &machine)
        let (ticket, _) = machine.request(.enter(b, .replaceSources))
        _ = machine.depart(ticket)
        if isCovered { machine.covered(a) }
        let waiting = machine.leaves(b)
        #expect(waiting == nil)
        let now = machine.restore()
        #expect(now == nil && !machine.isSettled)  // after the switch, whenever A is covered
        if !isCovered { machine.covered(a) }
        let arrival = machine.arrive(ticket)
        #expect(arrival == .superseded && machine.owner == nil)
        let next = machine.finished(ticket)
        let restore = try #require(next)
        #expect(restore.goal == .restore(a))
        let restored = machine.arrive(restore)
        #expect(restored == .uncovers && machine.owner == a)
    }

    @Test("a switch to a third page makes restoring needless, unless it comes to nothing", arguments: [false, true])
    func noRestore(isDone: Bool) {
        var machine = CoordinatorMachine()
        enter(a, .clear, &machine)
        enter(b, .replaceSources, &machine)
        let (ticket, _) = machine.request(.enter(c, .replaceSources))
        _ = machine.depart(ticket)
        machine.covered(b)
        _ = machine.leaves(b)
        machine.cleared(b)
        let now = machine.restore()
        #expect(now == nil)
        if isDone {
            let arrival = machine.arrive(ticket)
            #expect(arrival == .enables && machine.stack == [a, c])
        }
        let next = machine.finished(ticket)
        #expect(next?.goal == (isDone ? nil : .restore(a)))
    }

    @Test("what was left in the background is restored before the app is back") func restoreInBackground() {
        var machine = CoordinatorMachine()
        enter(a, .clear, &machine)
        enter(b, .replaceSources, &machine)
        let settling = machine.suspend(true)
        _ = machine.settle()
        _ = machine.leaves(b)
        machine.cleared(b)
        let now = machine.restore()
        #expect(now == nil)
        if let settling {
            let next = machine.finished(settling)
            #expect(next?.goal == .restore(a))
        }
    }

    @Test("in the background the owner stands still; a switch that runs is settled after it") func background() {
        var machine = CoordinatorMachine()
        enter(a, .clear, &machine)
        let (ticket, _) = machine.request(.enter(b, .clear))
        let early = machine.suspend(true)
        #expect(early == nil && !machine.isSettled)
        let departure = machine.depart(ticket)
        for old in departure.clears { machine.cleared(old) }
        _ = machine.arrive(ticket)
        let settling = machine.finished(ticket)
        #expect(settling?.goal == .settle)
        let stands = machine.settle()
        #expect(stands && !machine.isSettled)
        if let settling { _ = machine.finished(settling) }
        #expect(machine.isSettled && machine.phase == .suspended && machine.owner == b)
        let resumed = machine.suspend(false)
        #expect(resumed != nil)
        let again = machine.suspend(true)  // the app went back before it had come
        #expect(again == nil)
    }

    @Test("after the stop nothing arrives") func stopped() {
        var machine = CoordinatorMachine()
        let (ticket, _) = machine.request(.enter(a, .clear))
        machine.stop()
        let arrival = machine.arrive(ticket)
        #expect(arrival == .superseded && machine.owner == nil && machine.phase == .stopped)
    }
}
