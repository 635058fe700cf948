package import FeedVocabulary

/// Decides which page owns the strategies: at most one, one switch at a time, and of those that wait the newest.
package struct CoordinatorMachine: Hashable, Sendable {
    package struct Ticket: Hashable, Sendable {
        package let page: PageID
        package let number: Int
    }
    package enum Request: Hashable, Sendable {
        /// The switch begins now.
        case begins
        /// It waits for the one that runs; `supersedes` waited before and is refused now.
        case waits(supersedes: Ticket?)
    }
    package private(set) var owner: PageID?
    private var running: Ticket?
    private var waiting: Ticket?
    private var tickets = 0
    package init() {}

    package mutating func request(_ page: PageID) -> (ticket: Ticket, request: Request) {
        tickets += 1
        let ticket = Ticket(page: page, number: tickets)
        guard running != nil else {
            running = ticket
            return (ticket, .begins)
        }
        defer { waiting = ticket }
        return (ticket, .waits(supersedes: waiting))
    }

    /// A waiting switch is given up by who asked for it.
    package mutating func withdraw(_ ticket: Ticket) -> Bool {
        guard waiting == ticket else { return false }
        waiting = nil
        return true
    }

    /// The owner's strategies are cleared.
    package mutating func cleared(_ page: PageID) { if owner == page { owner = nil } }

    /// The page may enable its strategies.
    ///
    /// - Returns: The page that has to be cleared first, if there is one.
    package mutating func claim(_ page: PageID) -> PageID? {
        if let owner, owner != page { return owner }
        owner = page
        return nil
    }

    /// The running switch is over.
    ///
    /// - Returns: The one that begins now.
    package mutating func finished(_ ticket: Ticket) -> Ticket? {
        precondition(running == ticket, "\(ticket) ended without running")
        running = waiting.take()
        return running
    }
}
