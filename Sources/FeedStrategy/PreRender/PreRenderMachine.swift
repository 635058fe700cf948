package import FeedVocabulary

/// Decides what the spare engines do: each holds the decoded first frame of one of the entries that come next.
///
/// One is opened at a time, the most wanted first.
package struct PreRenderMachine: Hashable, Sendable {
    /// One try at opening an entry; the number tells a late answer from the answer to a newer try.
    package struct Attempt: Hashable, Sendable {
        package let entry: EntryID
        package let number: Int
    }
    private struct Slot: Hashable, Sendable {
        let attempt: Attempt
        var isReady = false  // opening → ready (first frame held) → gone; opening → gone
    }
    package struct Cancel: Hashable, Sendable {
        package let attempt: Attempt, reason: StrategyReason
    }
    package struct PlanAction: Hashable, Sendable {
        /// Openings that end.
        package var cancels: [Cancel] = []
        /// Engines that hold a frame nobody will want.
        package var releases: [Cancel] = []
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

    private var slots: [Slot] = []
    private var isCleared = false
    private var attempts = 0
    /// Entries whose last attempt failed for good; not tried again by itself.
    private var failed: Set<EntryID> = []
    /// Entries whose last attempt failed for the moment; tried again after ``retry()``.
    private var postponed: Set<EntryID> = []
    package init() {}

    package var isOpening: Bool { slots.contains { !$0.isReady } }
    /// Entries whose first frame is held.
    package var ready: [EntryID] { slots.filter(\.isReady).map(\.attempt.entry) }
    /// The entries that are being opened or are held.
    package var entries: [EntryID] { slots.map(\.attempt.entry) }

    /// What the machine as a whole does.
    package enum Phase: String, Hashable, Sendable, CaseIterable {
        case empty  // → opening, cleared
        case opening  // → ready, empty (failed, plan moved, taken), cleared
        case ready  // every slot holds a frame → empty (plan moved, taken), opening (one more), cleared
        case cleared  // terminal: late answers are discarded
    }
    package var phase: Phase { isCleared ? .cleared : isOpening ? .opening : slots.isEmpty ? .empty : .ready }
    /// The moves between the phases that there are.
    package static let moves: [Phase: Set<Phase>] = [
        .empty: [.opening, .cleared],
        .opening: [.ready, .empty, .cleared],
        .ready: [.empty, .opening, .cleared],
        .cleared: [],
    ]

    /// - Parameters:
    ///   - wanted: The entries to hold, most wanted first.
    ///   - refusal: Why an entry may not be opened now; `nil` when it may. What is held stays whatever it says, an
    ///     opening under way ends.
    ///   - isFrozen: Whether what runs goes on and nothing is begun.
    package mutating func plan(
        _ wanted: [EntryID], isFrozen: Bool = false, refusal: (EntryID) -> StrategyReason?
    ) -> PlanAction {
        var action = PlanAction()
        guard !isCleared else { return action }
        for slot in slots {
            let (attempt, entry) = (slot.attempt, slot.attempt.entry)
            if !wanted.contains(entry) {
                let cancel = Cancel(attempt: attempt, reason: .swipe)
                if slot.isReady { action.releases.append(cancel) } else { action.cancels.append(cancel) }
            } else if !slot.isReady, let refusal = refusal(entry) {
                action.cancels.append(Cancel(attempt: attempt, reason: refusal))
            }
        }
        let ended = Set((action.cancels + action.releases).map(\.attempt))
        slots.removeAll { ended.contains($0.attempt) }
        guard !isFrozen else { return action }
        let next = wanted.first { entry in
            !slots.contains { $0.attempt.entry == entry } && !failed.contains(entry) && !postponed.contains(entry)
                && refusal(entry) == nil
        }
        guard let next, let rank = wanted.firstIndex(of: next) else { return action }
        if let opening = slots.first(where: { !$0.isReady }) {
            guard let other = wanted.firstIndex(of: opening.attempt.entry), other > rank else { return action }
            action.cancels.append(Cancel(attempt: opening.attempt, reason: .superseded))
            slots.removeAll { $0.attempt == opening.attempt }
        }
        attempts += 1
        let attempt = Attempt(entry: next, number: attempts)
        slots.append(Slot(attempt: attempt))
        action.opens = attempt
        return action
    }

    /// An answer to an abandoned attempt is normal: the viewer swiped while the engine opened.
    package mutating func engineOpened(_ attempt: Attempt) -> OpenedAction {
        guard let index = slots.firstIndex(where: { $0.attempt == attempt }) else { return .discard }
        precondition(!slots[index].isReady, "\(attempt) answered twice")
        slots[index].isReady = true
        return .hold
    }

    /// - Parameter isFinal: Whether the same bytes would fail again.
    /// - Returns: Whether the attempt was still wanted, so that its error is worth reporting.
    package mutating func engineFailed(_ attempt: Attempt, isFinal: Bool) -> Bool {
        guard let index = slots.firstIndex(where: { $0.attempt == attempt && !$0.isReady }) else { return false }
        slots.remove(at: index)
        if isFinal { failed.insert(attempt.entry) } else { postponed.insert(attempt.entry) }
        return true
    }

    /// Time has passed, and what failed for the moment may work.
    package mutating func retry() { postponed = [] }

    /// The entry has another source, or is gone: what was known of it is forgotten, its slot is free.
    ///
    /// - Returns: What ends.
    package mutating func forget(_ entry: EntryID) -> PlanAction {
        failed.remove(entry)
        postponed.remove(entry)
        var action = PlanAction()
        guard let index = slots.firstIndex(where: { $0.attempt.entry == entry }) else { return action }
        let slot = slots.remove(at: index)
        let cancel = Cancel(attempt: slot.attempt, reason: .removed)
        if slot.isReady { action.releases = [cancel] } else { action.cancels = [cancel] }
        return action
    }

    /// Gives the engine of an entry away, at most once.
    package mutating func take(_ entry: EntryID) -> TakeAction {
        failed.remove(entry)  // the host asks for it, which is an explicit retry
        postponed.remove(entry)
        guard let index = slots.firstIndex(where: { $0.attempt.entry == entry }) else { return .none }
        let slot = slots.remove(at: index)
        return slot.isReady ? .ready(slot.attempt) : .inFlight(slot.attempt)
    }

    /// A machine that begins anew with what is known of entries that can't be opened.
    package var resumed: PreRenderMachine {
        var machine = PreRenderMachine()
        (machine.attempts, machine.failed) = (attempts, failed)
        return machine
    }

    package mutating func clear(because reason: StrategyReason) -> PlanAction {
        var action = PlanAction()
        for slot in slots {
            let cancel = Cancel(attempt: slot.attempt, reason: reason)
            if slot.isReady { action.releases.append(cancel) } else { action.cancels.append(cancel) }
        }
        (slots, isCleared) = ([], true)
        return action
    }
}
