/// Why a strategy started or ended a piece of work.
public enum StrategyReason: String, Hashable, Sendable {
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
    /// The entry was removed from the list.
    case removed
    /// The page was cleared.
    case pageLeft
    /// Another page covers this one, or the app is in the background.
    case covered
    /// The work failed; the event before says how.
    case failed
}
