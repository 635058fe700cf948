public import EventLoop
public import FeedStrategy
public import FeedVocabulary

/// One decision of a strategy, and why.
public struct Decision: Hashable, Sendable {
    /// What became of the work.
    public enum Kind: String, Hashable, Sendable {
        /// It began.
        case started
        /// It ended, or was cancelled.
        case stopped
    }
    /// When, by the runtime's own clock.
    public let time: LoopInstant
    /// For which entry.
    public let entry: EntryID
    /// Preload or pre-render.
    public let work: PageEvent.Work
    /// Whether it began or ended.
    public let kind: Kind
    /// Why.
    public let reason: StrategyReason
    /// What the decision went by: how much, and what was known of network, clip and viewer. Empty for an end.
    public let detail: String
}

/// What a page's plays and strategies have cost since it was made.
public struct PageMetrics: Hashable, Sendable {
    /// First frames, by how they came to be there.
    public var plays: [ServedAs: Int] = [:]
    /// Of the last 256 plays, in order.
    public var timesToFirstFrame: [Duration] = []
    /// Times that bytes were missing while something played.
    public var stallCount = 0
    /// How long they were missing in all.
    public var stalledTime = Duration.zero
    /// Bytes that came over the network for the page's entries, of the last 512 that strategies worked for.
    public var fetchedBytes: Int64 = 0
    /// Of these, bytes that a play has read.
    public var playedBytes: Int64 = 0
    /// Of these, bytes that no play has read yet, by the end of the last strategy's work on their entry: `finished` stands
    /// for entries that have not been played, or not to where they were fetched.
    public var unplayedBytes: [StrategyReason: Int64] = [:]

    /// The middle one of ``timesToFirstFrame``.
    public var medianTimeToFirstFrame: Duration? { timesToFirstFrame.median }
    /// Share of the plays whose first frame was held by a spare engine, 0 to 1.
    public var preRenderedShare: Double {
        let all = plays.values.reduce(0, +)
        return all == 0 ? 0 : Double(plays[.preRendered] ?? 0) / Double(all)
    }
}

/// What a page remembers of its own events.
struct PageRecord {
    private static let decisionsKept = 256
    private static let keysKept = 512
    private(set) var decisions: [Decision] = []
    private(set) var metrics = PageMetrics()
    /// How the last work on each entry's bytes ended, in the order of that end.
    private(set) var endings: [(key: CacheKey, reason: StrategyReason)] = []
    private var keys: [EntryID: CacheKey] = [:]
    /// What the next decision goes by.
    var detail = ""

    mutating func note(_ event: PageEvent, at now: LoopInstant) {
        switch event {
        case .started(let work, let entry, let reason):
            add(Decision(time: now, entry: entry, work: work, kind: .started, reason: reason, detail: detail))
            detail = ""
        case .stopped(let work, let entry, let reason):
            add(Decision(time: now, entry: entry, work: work, kind: .stopped, reason: reason, detail: ""))
            if let key = keys[entry] { end(key, reason) }
        case .firstFrame(let play):
            metrics.plays[play.servedAs, default: 0] += 1
            metrics.timesToFirstFrame = metrics.timesToFirstFrame.suffix(255) + [play.timeToFirstFrame]
        case .played(let play):
            metrics.stallCount += play.stallCount
            metrics.stalledTime += play.stalledTime
        case .workFailed, .playFailed, .resolutionFellBack, .resolutionMismatch, .heardTwice, .duplicateEntry,
            .cacheFailed:
            break
        }
    }

    private mutating func add(_ decision: Decision) {
        decisions = decisions.suffix(Self.decisionsKept - 1) + [decision]
    }

    /// The bytes that a strategy works on for an entry.
    mutating func works(on key: CacheKey, for entry: EntryID) {
        if keys.count >= Self.keysKept { keys = [:] }
        keys[entry] = key
        end(key, .upcoming)
    }
    private mutating func end(_ key: CacheKey, _ reason: StrategyReason) {
        endings.removeAll { $0.key == key }
        endings = endings.suffix(Self.keysKept - 1) + [(key, reason)]
    }
}

/// What goes along with an entry.
struct EntryExtras: Hashable, Sendable {
    let cover: URLSource?
    let subtitles: [URLSource]
    /// `nil` when there is nothing.
    init?(_ entry: FeedEntry) {
        guard entry.cover != nil || !entry.subtitles.isEmpty else { return nil }
        (cover, subtitles) = (entry.cover, entry.subtitles)
    }
}

/// The file that was prepared for an entry.
struct PreparedFile: Hashable, Sendable {
    let vid: String?
    let key: CacheKey
    /// Resolution and codec.
    let variant: String
}

extension FeedPage {
    /// The last 256 decisions of the page's strategies, in order.
    public var decisions: [Decision] { record.decisions }

    /// What the page's plays and strategies have cost since it was made.
    public func metrics() async -> PageMetrics {
        var metrics = record.metrics
        for (key, reason) in record.endings {
            let traffic = await runtime.loaders.traffic(of: key)
            metrics.fetchedBytes += traffic.fetched
            metrics.playedBytes += traffic.fetched - traffic.unplayed
            if traffic.unplayed > 0 { metrics.unplayedBytes[reason, default: 0] += traffic.unplayed }
        }
        return metrics
    }
}
