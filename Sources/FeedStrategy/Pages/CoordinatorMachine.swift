package import FeedVocabulary

/// Decides which page owns the strategies: at most one, one switch at a time, and of those that wait the newest.
///
/// Nested pages lie on a stack. The page on top owns the strategies; those below it are covered.
package struct CoordinatorMachine: Hashable, Sendable {
    package enum Goal: Hashable, Sendable {
        case enter(PageID, TransitionPolicy)
        /// The page on top of the stack comes back, because the one above it was left.
        case restore(PageID)
        /// The page on top stands still while the app is in the background, or goes on afterwards.
        case settle

        var page: PageID? {
            switch self {
            case .enter(let page, _), .restore(let page): page
            case .settle: nil
            }
        }
    }
    package struct Ticket: Hashable, Sendable {
        package let goal: Goal
        package let number: Int
    }
    package enum Request: Hashable, Sendable {
        /// The switch begins now.
        case begins
        /// It waits for the one that runs; `supersedes` waited before and is refused now.
        case waits(supersedes: Ticket?)
    }
    /// What a switch does before its page is enabled.
    package struct Departure: Hashable, Sendable {
        /// Pages to clear, from the top.
        package var clears: [PageID] = []
        /// The page to cover.
        package var covers: PageID?
        /// A page deeper in the stack that gives up the play it has kept: one covered page keeps one.
        package var dropsPlay: PageID?
    }
    package enum Arrival: Hashable, Sendable {
        case enables
        /// The page was covered.
        case uncovers
        /// It owns the strategies already.
        case stays
        /// A newer switch waits, or the page was left meanwhile: the old owner is gone all the same.
        case superseded
    }
    package enum Phase: String, Hashable, Sendable, CaseIterable {
        case unowned  // → owned (a page enables by itself), switching, stopped
        case owned  // → unowned (cleared), switching, stopped
        case suspended  // the app is in the background → unowned, switching, stopped
        case switching  // → unowned, owned, suspended, stopped
        case stopped  // terminal
    }

    /// Pages from the bottom to the top.
    package private(set) var stack: [PageID] = []
    /// The page on top of the stack, while it is enabled.
    package private(set) var owner: PageID?
    package private(set) var isStopped = false
    /// Whether the owner stands still, as `wantsSuspension` has it after the next settling.
    package private(set) var isSuspended = false
    private var wantsSuspension = false
    /// A page was left: the one that it covered comes back, unless another switch makes a page the owner first.
    private var wantsRestore = false
    private var running: Ticket?
    private var waiting: Ticket?
    private var isWithdrawn = false
    private var tickets = 0
    package init() {}

    package var phase: Phase {
        if isStopped { return .stopped }
        if running != nil { return .switching }
        guard owner != nil else { return .unowned }
        return isSuspended ? .suspended : .owned
    }

    // MARK: Switches

    package mutating func request(_ goal: Goal) -> (ticket: Ticket, request: Request) {
        let ticket = newTicket(goal)
        guard running != nil else {
            begin(ticket)
            return (ticket, .begins)
        }
        defer { waiting = ticket }
        return (ticket, .waits(supersedes: waiting))
    }

    private mutating func begin(_ ticket: Ticket?) { (running, isWithdrawn) = (ticket, false) }

    /// A waiting switch is given up by who asked for it.
    package mutating func withdraw(_ ticket: Ticket) -> Bool {
        guard waiting == ticket else { return false }
        waiting = nil
        return true
    }

    /// What has to be done before the page of the running switch is enabled.
    package mutating func depart(_ ticket: Ticket) -> Departure {
        precondition(running == ticket, "\(ticket) departs without running")
        var departure = Departure()
        switch ticket.goal {
        case .settle, .restore: break
        case .enter(let page, let policy):
            if let index = stack.firstIndex(of: page) {
                departure.clears = stack[(index + 1)...].reversed()
            } else if policy == .clear {
                departure.clears = stack.reversed()
            } else if let top = stack.last {
                departure.covers = top
                departure.dropsPlay = stack.dropLast().last
            }
        }
        return departure
    }

    /// The pages of the departure are cleared or covered: whether the switch goes on.
    package mutating func arrive(_ ticket: Ticket) -> Arrival {
        precondition(running == ticket, "\(ticket) arrives without running")
        guard !isStopped, !isWithdrawn, let page = ticket.goal.page else { return .superseded }
        if owner == page { return .stays }
        switch ticket.goal {
        case .enter: if waiting != nil { return .superseded }
        case .restore: if owner != nil { return .superseded }  // it has enabled by itself
        case .settle: preconditionFailure("settling has no page to arrive at")
        }
        precondition(owner == nil, "\(page) arrives while \(String(describing: owner)) owns")
        if stack.last == page {
            owner = page
            return .uncovers
        }
        // The page that a restore was for is gone.
        if case .restore = ticket.goal { return .superseded }
        stack.append(page)
        owner = page
        return .enables
    }

    /// The running switch is over.
    ///
    /// - Returns: The one that begins now.
    package mutating func finished(_ ticket: Ticket) -> Ticket? {
        precondition(running == ticket, "\(ticket) ended without running")
        // The page that was to come back is gone: the one below it does.
        if case .restore(let page) = ticket.goal, owner == nil, !stack.contains(page) { wantsRestore = true }
        begin(waiting.take())
        return running ?? beginChore()
    }

    /// What the coordinator itself has to do when no host's switch runs or waits.
    private mutating func beginChore() -> Ticket? {
        guard running == nil, !isStopped else { return nil }
        if wantsRestore {
            wantsRestore = false
            if owner == nil, let top = stack.last { begin(newTicket(.restore(top))) }
        }
        if running == nil, wantsSuspension != isSuspended { begin(newTicket(.settle)) }
        return running
    }

    private mutating func newTicket(_ goal: Goal) -> Ticket {
        tickets += 1
        return Ticket(goal: goal, number: tickets)
    }

    // MARK: Pages

    /// A page wants to enable its strategies by itself.
    ///
    /// - Returns: The page that owns them, or is about to; then this one may not.
    package mutating func claim(_ page: PageID) -> PageID? {
        if owner == page { return nil }
        if let other = owner ?? running?.goal.page, other != page { return other }
        stack.removeAll { $0 == page }
        stack.append(page)
        owner = page
        return nil
    }

    /// The page is covered: it owns nothing until it is restored.
    package mutating func covered(_ page: PageID) { if owner == page { owner = nil } }

    /// The page is cleared, or gone: it is on no stack.
    package mutating func cleared(_ page: PageID) {
        if owner == page { owner = nil }
        stack.removeAll { $0 == page }
    }

    /// The host leaves a page: switches to it are given up.
    ///
    /// - Returns: Its switch that waited and is refused now.
    package mutating func leaves(_ page: PageID) -> Ticket? {
        if running?.goal.page == page { isWithdrawn = true }
        guard waiting?.goal.page == page else { return nil }
        return waiting.take()
    }

    /// A page was left and is cleared: the one that it covered comes back.
    ///
    /// - Returns: The switch back, when it begins now; else the running one is followed by it.
    package mutating func restore() -> Ticket? {
        wantsRestore = true
        return beginChore()
    }

    // MARK: Background

    /// - Returns: The switch that brings the owner in line, when it begins now; else the running one is followed by it.
    package mutating func suspend(_ wanted: Bool) -> Ticket? {
        wantsSuspension = wanted
        return beginChore()
    }

    /// Takes note of what the owner is brought in line with now.
    ///
    /// - Returns: Whether it stands still from now on.
    package mutating func settle() -> Bool {
        isSuspended = wantsSuspension
        return isSuspended
    }
    /// Whether nothing is left to settle.
    package var isSettled: Bool { isStopped || wantsSuspension == isSuspended && !wantsRestore && !runsChore }
    private var runsChore: Bool {
        switch running?.goal {
        case .settle, .restore: true
        case .enter, nil: false
        }
    }

    package mutating func stop() { isStopped = true }

    /// The moves between the phases that there are.
    package static let moves: [Phase: Set<Phase>] = [
        .unowned: [.owned, .suspended, .switching, .stopped],
        .owned: [.unowned, .switching, .stopped],
        .suspended: [.unowned, .switching, .stopped],
        .switching: [.unowned, .owned, .suspended, .stopped],
        .stopped: [],
    ]
}
