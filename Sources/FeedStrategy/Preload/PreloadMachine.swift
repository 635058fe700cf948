package import FeedVocabulary

/// Decides which entries' heads are downloaded now: nearest first, few at a time, nothing while the gate is closed.
package struct PreloadMachine: Hashable, Sendable {
    package struct Cancel: Hashable, Sendable {
        package let entry: EntryID, reason: StrategyReason
        package init(entry: EntryID, reason: StrategyReason) { (self.entry, self.reason) = (entry, reason) }
    }
    package struct Action: Hashable, Sendable {
        package var starts: [EntryID] = []
        package var cancels: [Cancel] = []
        package init() {}
    }

    private let count: Int
    private let behind: Int
    private let isOff: Bool
    /// When the viewer went to another entry, the last two times; in the time that the caller counts.
    private var selections: [Duration] = []
    package private(set) var running: [EntryID] = []
    /// Entries of the window that need no further attempt: stored, or failed for good.
    private var settled: Set<EntryID> = []
    /// Entries of the window whose attempt failed for the moment.
    private var postponed: Set<EntryID> = []

    package init(_ configuration: PreloadConfiguration) {
        (count, behind) = (configuration.count, configuration.behind)
        isOff = configuration.count + configuration.behind == 0 || configuration.size == 0
    }

    /// The viewer went to another entry.
    package mutating func selected(at now: Duration) { selections = selections.suffix(1) + [now] }

    /// Entries ahead that are fetched: half of them, rounded up, while the viewer is in a hurry.
    private func window(at now: Duration) -> Int {
        guard selections.count == 2, selections[1] - selections[0] < PreloadConfiguration.hurry,
            now - selections[1] < PreloadConfiguration.hurry
        else { return count }
        return (count + 1) / 2
    }

    /// - Parameters:
    ///   - upcoming: The entries after the current one, nearest first; as many as there are.
    ///   - previous: Those before it, nearest first.
    ///   - current: The entry that plays: its own preload goes on as its fetch.
    package mutating func plan(
        upcoming: some Sequence<EntryID>, previous: some Sequence<EntryID> = EmptyCollection<EntryID>(),
        current: EntryID?, isGateOpen: Bool, now: Duration = .zero
    ) -> Action {
        var action = Action()
        guard !isOff else { return action }
        let window = Array(upcoming.prefix(window(at: now))) + previous.prefix(behind)
        settled.formIntersection(window)
        postponed.formIntersection(window)
        for entry in running {
            if entry == current { continue }
            if !window.contains(entry) {
                action.cancels.append(Cancel(entry: entry, reason: .swipe))
            } else if !isGateOpen {
                action.cancels.append(Cancel(entry: entry, reason: .watermark))
            }
        }
        running.removeAll { entry in action.cancels.contains { $0.entry == entry } }
        guard isGateOpen else { return action }
        for entry in window where running.count < PreloadConfiguration.maximumInFlight {
            guard !running.contains(entry), !settled.contains(entry), !postponed.contains(entry) else { continue }
            running.append(entry)
            action.starts.append(entry)
        }
        return action
    }

    /// A preload ended by itself, well or with an error that is final.
    ///
    /// - Parameter isFinal: Whether another attempt would end in the same way.
    package mutating func ended(_ entry: EntryID, isFinal: Bool = true) {
        guard let index = running.firstIndex(of: entry) else { return }
        running.remove(at: index)
        if isFinal { settled.insert(entry) } else { postponed.insert(entry) }
    }

    /// Time has passed, and what failed for the moment may work.
    package mutating func retry() { postponed = [] }

    /// The entry left the list.
    ///
    /// - Returns: Whether its preload runs and has to be cancelled.
    package mutating func removed(_ entry: EntryID) -> Bool {
        settled.remove(entry)
        postponed.remove(entry)
        guard let index = running.firstIndex(of: entry) else { return false }
        running.remove(at: index)
        return true
    }

    /// - Returns: The preloads that have to be cancelled.
    package mutating func clear() -> [EntryID] {
        defer { (running, settled, postponed) = ([], [], []) }
        return running
    }
}
