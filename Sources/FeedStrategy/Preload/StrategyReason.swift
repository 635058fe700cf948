/// Why a strategy started or ended a piece of work.
public enum StrategyReason: String, Hashable, Sendable, CaseIterable {
    /// The entry is among the next ones.
    case upcoming
    /// The host announced the entry.
    case announced
    /// The work is done.
    case finished
    /// The current entry needs the network.
    case watermark
    /// The viewer moved on and the entry is no longer among the next ones.
    case swipe
    /// The viewer flings through the list and looks at nothing.
    case hurry
    /// The entry was removed from the list.
    case removed
    /// The page was cleared.
    case pageLeft
    /// Another page covers this one, or the app is in the background.
    case covered
    /// The network's byte budget is used up.
    case budget
    /// There is no network.
    case network
    /// A more urgent entry took its place.
    case superseded
    /// No byte came for a while; those behind it go first.
    case stalled
    /// The work failed; the event before says how.
    case failed
}
