package import FeedVocabulary

/// Decides which entries' heads are downloaded now: nearest first, few at a time, nothing while it is not allowed.
package struct PreloadMachine: Hashable, Sendable {
    /// What is fetched of an entry. With both, the first frames of the whole window come before more of any of it.
    package enum Stage: Int, Comparable, Hashable, Sendable {
        case firstFrame, fill
        package static func < (left: Stage, right: Stage) -> Bool { left.rawValue < right.rawValue }
    }
    package struct Order: Hashable, Sendable {
        /// The entries to have, most wanted first; see ``PreloadWindow``.
        package var window: [EntryID]
        /// What to have of each, in this order.
        package var stages: [Stage] = [.fill]
        package var inFlight = PreloadConfiguration.maximumInFlight
        /// The entry that plays: its own preload goes on as its fetch.
        package var current: EntryID?
        /// Why nothing may run now; `nil` when it may.
        package var refusal: StrategyReason?
        /// Whether what runs goes on and nothing is begun.
        package var isFrozen = false
        package init(window: [EntryID], current: EntryID?, refusal: StrategyReason? = nil) {
            (self.window, self.current, self.refusal) = (window, current, refusal)
        }
    }
    package struct Start: Hashable, Sendable {
        package let entry: EntryID, stage: Stage
        package init(entry: EntryID, stage: Stage) { (self.entry, self.stage) = (entry, stage) }
    }
    package struct Cancel: Hashable, Sendable {
        package let entry: EntryID, reason: StrategyReason
        package init(entry: EntryID, reason: StrategyReason) { (self.entry, self.reason) = (entry, reason) }
    }
    package struct Action: Hashable, Sendable {
        package var starts: [Start] = []
        package var cancels: [Cancel] = []
        package init() {}
    }

    package private(set) var running: [Start] = []
    /// Entries of the window and the last stage of them that needs no further attempt: stored, or failed for good.
    private var settled: [EntryID: Stage] = [:]
    /// Entries of the window whose attempt failed for the moment.
    private var postponed: Set<EntryID> = []

    package init() {}

    package mutating func plan(_ order: Order) -> Action {
        var action = Action()
        settled = settled.filter { order.window.contains($0.key) }
        postponed.formIntersection(order.window)
        for task in running where task.entry != order.current {
            if !order.window.contains(task.entry) {
                action.cancels.append(Cancel(entry: task.entry, reason: .swipe))
            } else if let refusal = order.refusal {
                action.cancels.append(Cancel(entry: task.entry, reason: refusal))
            }
        }
        running.removeAll { task in action.cancels.contains { $0.entry == task.entry } }
        guard order.refusal == nil, !order.isFrozen else { return action }
        let limit = min(order.inFlight, PreloadConfiguration.maximumInFlight)
        for stage in order.stages {
            for entry in order.window where running.count < limit {
                guard entry != order.current, !postponed.contains(entry), settled[entry].map({ $0 < stage }) ?? true,
                    !running.contains(where: { $0.entry == entry })
                else { continue }
                let start = Start(entry: entry, stage: stage)
                running.append(start)
                action.starts.append(start)
            }
        }
        return action
    }

    /// A preload ended by itself, well or with an error that is final.
    ///
    /// - Parameter isFinal: Whether another attempt would end in the same way.
    package mutating func ended(_ entry: EntryID, failed: Bool = false, isFinal: Bool = true) {
        guard let index = running.firstIndex(where: { $0.entry == entry }) else { return }
        let task = running.remove(at: index)
        if isFinal { settled[entry] = failed ? .fill : task.stage } else { postponed.insert(entry) }
    }

    /// Time has passed, and what failed for the moment may work.
    package mutating func retry() { postponed = [] }

    /// The entry left the list, or has another source.
    ///
    /// - Returns: Whether its preload runs and has to be cancelled.
    package mutating func removed(_ entry: EntryID) -> Bool {
        settled[entry] = nil
        postponed.remove(entry)
        guard let index = running.firstIndex(where: { $0.entry == entry }) else { return false }
        running.remove(at: index)
        return true
    }

    /// - Returns: The preloads that have to be cancelled.
    package mutating func clear() -> [EntryID] {
        defer { (running, settled, postponed) = ([], [:], []) }
        return running.map(\.entry)
    }
}
