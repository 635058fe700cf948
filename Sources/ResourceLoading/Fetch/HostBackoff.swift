import EventLoop
import FeedVocabulary

/// Hosts that asked to be left alone, and until when.
struct HostBackoff {
    private struct Rest {
        var until: LoopInstant
        /// Whether one has been allowed to ask, and the others wait for what it is answered.
        var isAsked = false
    }
    private var rests: [WebOrigin: Rest] = [:]
    private static let timeToAnswer = Duration.milliseconds(300)

    mutating func note(_ origin: WebOrigin, until due: LoopInstant, now: LoopInstant) {
        rests = rests.filter { $0.value.until > now }
        rests[origin] = Rest(until: max(rests[origin]?.until ?? due, due))
    }

    /// When the origin may be asked again, `nil` when at once. The first who may is alone for a moment: what the host
    /// answers to that holds for all.
    mutating func due(_ origin: WebOrigin, now: LoopInstant) -> LoopInstant? {
        guard let rest = rests[origin] else { return nil }
        if rest.until > now { return rest.until }
        rests[origin] = rest.isAsked ? nil : Rest(until: now.advanced(by: Self.timeToAnswer), isAsked: true)
        return nil
    }
}
