public import FeedVocabulary

/// Why a call of a page or of the runtime was refused.
public enum FeedError: Error, Hashable, CustomStringConvertible, Sendable {
    /// Another call has to come first.
    case wrongOrder(call: String, needs: String)
    /// The list has no such entry.
    case unknownEntry(EntryID)
    /// A newer call of the same kind took its place: a swipe went on, or another page was entered.
    case superseded
    /// Another page owns the strategies.
    case ownedByOther(PageID)
    /// There is a page of that name.
    case pageExists(PageID)
    /// The page belongs to another runtime.
    case foreignPage(PageID)
    /// The runtime was shut down.
    case stopped
    /// The runtime can't start or store.
    case cache(String)

    /// One sentence that says what to change.
    public var description: String {
        switch self {
        case .wrongOrder(let call, let needs): "\(call) was called too early: call \(needs) first"
        case .unknownEntry(let entry): "the page's list has no entry \"\(entry)\""
        case .superseded: "a newer call took the place of this one"
        case .ownedByOther(let page): "page \"\(page)\" is enabled; clear it first, or switch with enter(_:)"
        case .pageExists(let page): "there is a page \"\(page)\" already; give each page a name of its own"
        case .foreignPage(let page): "page \"\(page)\" belongs to another runtime"
        case .stopped: "the runtime was shut down"
        case .cache(let text): text
        }
    }
}
