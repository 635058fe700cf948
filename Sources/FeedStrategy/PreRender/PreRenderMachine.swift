package import FeedVocabulary

/// Decides what the one spare engine does: it holds the decoded first frame of the entry that comes next.
package struct PreRenderMachine: Hashable, Sendable {
    /// One try at opening an entry; the number tells a late answer from the answer to a newer try.
    package struct Attempt: Hashable, Sendable {
        package let entry: EntryID
        package let number: Int
    }
    package enum State: Hashable, Sendable {
        case empty  // → opening, cleared
        case opening(Attempt)  // → ready, empty (failed, plan moved, taken), cleared
        case ready(Attempt)  // first frame held → empty (plan moved, taken), cleared
        case cleared  // terminal: late answers are discarded
    }
    package struct PlanAction: Hashable, Sendable {
        package var cancels: Attempt?
        package var releasesHeld: Attempt?
        package var opens: Attempt?
        package init() {}
    }
    package enum OpenedAction: Hashable, Sendable { case hold, discard }
    package enum TakeAction: Hashable, Sendable {
        case ready(Attempt)
        /// Still opening; the taker waits for it and nobody else gets it.
        case inFlight(Attempt)
        case none
    }

    package private(set) var state = State.empty
    private var attempts = 0
    /// Entries whose last attempt failed for good; not tried again by itself.
    private var failed: Set<EntryID> = []
    /// Entries whose last attempt failed for the moment; tried again after ``retry()``.
    private var postponed: Set<EntryID> = []
    package init() {}

    package var isOpening: Bool { phase == .opening }

    /// The entry that is being opened or is held.
    package var entry: EntryID? {
        switch state {
        case .opening(let attempt), .ready(let attempt): attempt.entry
        case .empty, .cleared: nil
        }
    }

    /// The state without its attempt.
    package enum Phase: String, Hashable, Sendable, CaseIterable { case empty, opening, ready, cleared }
    package var phase: Phase {
        switch state {
        case .empty: .empty
        case .opening: .opening
        case .ready: .ready
        case .cleared: .cleared
        }
    }
    /// The moves between the phases that there are.
    package static let moves: [Phase: Set<Phase>] = [
        .empty: [.opening, .cleared],
        .opening: [.ready, .empty, .cleared],
        .ready: [.empty, .cleared],
        .cleared: [],
    ]

    /// - Parameters:
    ///   - entry: The entry to hold; `nil` when there is none.
    ///   - mayOpen: Whether the gate lets a new attempt begin. A held frame stays, an attempt under way is cancelled.
    package mutating func plan(_ entry: EntryID?, mayOpen: Bool) -> PlanAction {
        var action = PlanAction()
        switch state {
        case .cleared: return action
        case .empty: break
        case .opening(let now):
            if now.entry == entry && mayOpen { return action }
            action.cancels = now
            state = .empty
        case .ready(let now):
            if now.entry == entry { return action }
            action.releasesHeld = now
            state = .empty
        }
        guard let entry, mayOpen, !failed.contains(entry), !postponed.contains(entry) else { return action }
        attempts += 1
        let attempt = Attempt(entry: entry, number: attempts)
        state = .opening(attempt)
        action.opens = attempt
        return action
    }

    /// An answer to an abandoned attempt is normal: the viewer swiped while the engine opened.
    package mutating func engineOpened(_ attempt: Attempt) -> OpenedAction {
        switch state {
        case .opening(attempt):
            state = .ready(attempt)
            return .hold
        case .ready(attempt): preconditionFailure("\(attempt) answered twice")
        case .empty, .opening, .ready, .cleared: return .discard
        }
    }

    /// - Parameter isFinal: Whether the same bytes would fail again.
    /// - Returns: Whether the attempt was still wanted, so that its error is worth reporting.
    package mutating func engineFailed(_ attempt: Attempt, isFinal: Bool) -> Bool {
        guard state == .opening(attempt) else { return false }
        state = .empty
        if isFinal { failed.insert(attempt.entry) } else { postponed.insert(attempt.entry) }
        return true
    }

    /// Time has passed, and what failed for the moment may work.
    package mutating func retry() { postponed = [] }

    /// The entry has another source, or is gone.
    package mutating func forget(_ entry: EntryID) {
        failed.remove(entry)
        postponed.remove(entry)
    }

    /// Gives the engine of an entry away, at most once.
    package mutating func take(_ entry: EntryID) -> TakeAction {
        forget(entry)  // the host asks for it, which is an explicit retry
        switch state {
        case .ready(let attempt) where attempt.entry == entry:
            state = .empty
            return .ready(attempt)
        case .opening(let attempt) where attempt.entry == entry:
            state = .empty
            return .inFlight(attempt)
        case .empty, .opening, .ready, .cleared: return .none
        }
    }

    package mutating func clear() -> PlanAction {
        var action = PlanAction()
        switch state {
        case .opening(let attempt): action.cancels = attempt
        case .ready(let attempt): action.releasesHeld = attempt
        case .empty, .cleared: break
        }
        state = .cleared
        return action
    }
}
