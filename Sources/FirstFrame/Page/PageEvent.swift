public import FeedStrategy
public import FeedVocabulary
public import Playback

/// A page's strategies.
public enum Strategy: Hashable, Sendable {
    /// Download the heads of the next entries.
    case preload(PreloadConfiguration)
    /// Open the next entries in spare engines and decode their first frames.
    case preRender(PreRenderConfiguration)

    /// Preloading with the published defaults.
    public static var preload: Strategy { .preload(PreloadConfiguration()) }
    /// Preloading that follows the network, the clips and the viewer's pace; what ``FeedScene/smallVideo`` has.
    public static var automaticPreload: Strategy { .preload(.automatic) }
    /// One spare engine, for the entry that comes next.
    public static var preRender: Strategy { .preRender(PreRenderConfiguration()) }
}

/// The kinds of feeds that there are, each with the strategies that suit it.
///
/// Source: published short-video guidance, whose two scenes these are.
public enum FeedScene: String, Hashable, Sendable, CaseIterable {
    /// A full-screen feed, one clip at a time: the next one is pre-rendered, and heads are preloaded by the automatic
    /// policy.
    case smallVideo
    /// A list of longer clips, of which the viewer picks one: the heads of five are preloaded, nothing is pre-rendered.
    case shortVideo

    /// What the scene enables.
    public var strategies: [Strategy] {
        switch self {
        case .smallVideo: [.automaticPreload, .preRender]
        case .shortVideo: [.preload(PreloadConfiguration(count: 5))]
        }
    }
}

/// What lies above a page for a while, such as comments or a share sheet.
public enum Overlay: Hashable, Sendable {
    /// What plays goes on.
    case playingOn
    /// What plays stands still, silently.
    case standingStill
}

/// What happens on a page, in order.
public enum PageEvent: Sendable {
    /// A preload or pre-render began.
    case started(Work, EntryID, StrategyReason)
    /// It ended, or was cancelled.
    case stopped(Work, EntryID, StrategyReason)
    /// A strategy's work failed; playing is not affected.
    case workFailed(Work, EntryID, String)
    /// An entry's first frame was delivered.
    case firstFrame(PlayMetrics)
    /// An entry's play is over: another one is played, or the page was cleared. Told when its engine has ended, which may
    /// be after the first frame of the next play; ``PlayMetrics/number`` tells them apart. A play that was carried to a
    /// page whose switch came to nothing ends without it.
    case played(PlayMetrics)
    /// An entry could not be played.
    case playFailed(EntryID, String)
    /// The resolution that a source asks for is not offered; the nearest lower one is taken, or the lowest there is.
    case resolutionFellBack(EntryID, asked: Resolution, got: Resolution)
    /// A play takes another file than was prepared for the entry, so that what was fetched ahead is of no use.
    case resolutionMismatch(EntryID, prepared: String, played: String)
    /// Two engines were heard at once: a fault of this package, or of an engine of the host's own.
    case heardTwice(EntryID)
    /// An added entry was there already; nothing changed.
    case duplicateEntry(EntryID)
    /// Bytes could not be stored on disk; they are played from memory. Told once a run.
    case cacheFailed(String)

    /// The kinds of strategy work.
    public enum Work: String, Hashable, Sendable {
        /// Bytes of a head.
        case preload
        /// A spare engine.
        case preRender
        /// The picture that stands for a clip.
        case cover
        /// A subtitle file.
        case subtitles
    }
}

/// How a first frame came to be there.
public enum ServedAs: String, Hashable, Sendable {
    /// Nothing of the entry was there.
    case cold
    /// Bytes of the entry were on disk.
    case preloaded
    /// A spare engine was opening it.
    case inFlight
    /// A spare engine held the decoded frame.
    case preRendered
    /// The page before played it, and its engine goes on.
    case carried
}

/// What one play cost.
public struct PlayMetrics: Sendable {
    /// Where the time to the first frame went. They add up to it.
    public struct Phases: Hashable, Sendable {
        /// Waiting for an engine and for the cache.
        public var resolve = Duration.zero
        /// Name, connection, TLS.
        public var connect = Duration.zero
        /// From the request to the first byte of the answer.
        public var firstByte = Duration.zero
        /// Waiting for the bytes of the first frame.
        public var firstFrameBytes = Duration.zero
        /// Reading the container's head.
        public var open = Duration.zero
        /// Decoding, and converting where asked.
        public var decode = Duration.zero
        /// Handing over.
        public var deliver = Duration.zero
    }
    /// The page.
    public var page: PageID
    /// The entry.
    public var entry: EntryID
    /// Counts the plays of the page: what is told of an older play has a smaller number. An entry may be played again.
    public var number: Int
    /// How the first frame came to be there.
    public var servedAs = ServedAs.cold
    /// From the call that starts playback to the delivery of the first frame.
    public var timeToFirstFrame = Duration.zero
    /// Where that time went.
    public var phases = Phases()
    /// What was found in the file.
    public var media = MediaDescription()
    /// Bytes of the entry that were on disk at the call.
    public var preloadedBytes: Int64 = 0
    /// The resolution and codec of an entry that a service resolved.
    public var variant: String?
    /// Bytes of the entry that have come over the network in this run, for whatever reason; told at the end of the play.
    public var fetchedBytes: Int64 = 0
    /// Of these, bytes that no play has read.
    public var unplayedBytes: Int64 = 0
    /// Whether a connection had to be made for it.
    public var usedNewConnection = false
    /// Times that bytes were missing during the play.
    public var stallCount = 0
    /// How long they were missing in all.
    public var stalledTime = Duration.zero
    /// Frames that were late or not taken.
    public var droppedFrames = 0
    /// Frames that were delivered.
    public var deliveredFrames = 0
    init(page: PageID, entry: EntryID, number: Int) { (self.page, self.entry, self.number) = (page, entry, number) }
}
