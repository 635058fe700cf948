import FeedVocabulary

/// Decides which waiting transfer may begin: the most urgent first, within limits per origin and in all.
struct TransferAdmission: Hashable, Sendable {
    private struct Waiting: Hashable {
        let id: Int, origin: WebOrigin
        var priority: LoadPriority
    }
    private struct Running: Hashable {
        let origin: WebOrigin
        var priority: LoadPriority
    }
    /// Slots of an origin that only the current entry may fill, so that it never waits behind preloads.
    private static let keptForCurrent = 2

    private var waiting: [Waiting] = []
    private var running: [Int: Running] = [:]

    var runningCount: Int { running.count }

    func isWaiting(_ id: Int) -> Bool { waiting.contains { $0.id == id } }

    mutating func enqueue(_ id: Int, origin: WebOrigin, priority: LoadPriority) {
        waiting.append(Waiting(id: id, origin: origin, priority: priority))
    }

    /// The next transfer to begin; it counts as running from now on.
    mutating func admitNext() -> Int? {
        guard running.count < HTTPLimits.transfers else { return nil }
        var best: Int?
        for index in waiting.indices where isAllowed(waiting[index]) {
            if best.map({ waiting[$0].priority < waiting[index].priority }) ?? true { best = index }
        }
        guard let best else { return nil }
        let chosen = waiting.remove(at: best)
        running[chosen.id] = Running(origin: chosen.origin, priority: chosen.priority)
        return chosen.id
    }

    private func isAllowed(_ candidate: Waiting) -> Bool {
        let sameOrigin = running.values.count { $0.origin == candidate.origin }
        let kept = candidate.priority == .current ? 0 : Self.keptForCurrent
        return sameOrigin < HTTPLimits.transfersPerOrigin - kept
    }

    mutating func setPriority(_ id: Int, _ priority: LoadPriority) {
        running[id]?.priority = priority
        for index in waiting.indices where waiting[index].id == id { waiting[index].priority = priority }
    }

    /// The transfer ended, or was cancelled before it began.
    mutating func finish(_ id: Int) {
        running[id] = nil
        waiting.removeAll { $0.id == id }
    }
}
