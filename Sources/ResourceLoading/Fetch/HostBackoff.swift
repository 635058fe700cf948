import EventLoop
import FeedVocabulary

/// Hosts that asked to be left alone, and until when.
struct HostBackoff {
    private var until: [WebOrigin: LoopInstant] = [:]

    mutating func note(_ origin: WebOrigin, until due: LoopInstant, now: LoopInstant) {
        until = until.filter { $0.value > now }
        until[origin] = max(until[origin] ?? due, due)
        asked = asked.filter { until[$0] != nil && $0 != origin }
    }

    /// When the origin may be asked again, `nil` when at once. The first who may is alone for a moment: what the host
    /// answers to that holds for all.
    mutating func due(_ origin: WebOrigin, now: LoopInstant) -> LoopInstant? {
        guard let due = until[origin] else { return nil }
        if due > now { return due }
        until[origin] = asked.insert(origin).inserted ? now.advanced(by: Self.timeToAnswer) : nil
        if until[origin] == nil { asked.remove(origin) }
        return nil
    }
    /// Those of whom one has been allowed to ask.
    private var asked: Set<WebOrigin> = []
    private static let timeToAnswer = Duration.milliseconds(300)
}
