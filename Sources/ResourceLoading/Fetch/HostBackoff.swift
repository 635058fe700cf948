import EventLoop
import FeedVocabulary

/// Hosts that asked to be left alone, and until when.
struct HostBackoff {
    private var until: [WebOrigin: LoopInstant] = [:]

    mutating func note(_ origin: WebOrigin, until due: LoopInstant, now: LoopInstant) {
        until = until.filter { $0.value > now }
        until[origin] = max(until[origin] ?? due, due)
    }

    /// When the origin may be asked again, `nil` when at once.
    mutating func due(_ origin: WebOrigin, now: LoopInstant) -> LoopInstant? {
        guard let due = until[origin] else { return nil }
        guard due > now else {
            until[origin] = nil
            return nil
        }
        return due
    }
}
