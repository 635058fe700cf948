import EventLoop
import FeedStrategy
import FeedVocabulary
import HTTPTransport
import MediaCache

/// The state of one resource that somebody reads; owned by ``ResourceLoaders`` and touched on the loop only.
final class LoadingResource {
    struct Reader {
        var priority: LoadPriority
        /// Where it reads, and how far ahead of that bytes are wanted.
        var position: Int64 = 0
        var readAhead: Int64
        /// The place that its own thread waits for, when it waits. Those who wait by `await` are ``waiters``.
        var asked: ByteRange?
        /// Ranges wanted as a whole, each as one request.
        var wanted: [ByteRange] = []
        var isPlayed = false
        var segments = 0
        /// Spaces reading ahead; what is waited for is fetched at once.
        var pace = RateLimiter()
        /// Nothing is read ahead before.
        var calmUntil = Duration.zero

        /// When a request for what nobody waits for may begin; `nil` for at once.
        func due(at now: Duration) -> Duration? {
            let due = max(calmUntil, pace.due(at: now) ?? .zero)
            return due > now ? due : nil
        }
    }
    struct Fetch {
        var position: Int64
        var end: Int64
        var priority: LoadPriority
        let starter: Int?
        var exchange: (any HTTPExchange)?
        var task: Task<Void, Never>?
        /// The server knows no ranges: this answer goes on to the end, as fast as it is read.
        var isWhole = false
        /// Whether it has ever served what plays, which no budget ends.
        var isExempt = false
        /// Waits until somebody wants what comes next of a whole answer.
        var paused: CheckedContinuation<Void, Never>?
        /// What its request asks for: at least the byte where it is, although the end may have become known since.
        var asked: ByteRange { position..<max(position + 1, end) }
    }
    enum Need {
        case bytes(ByteRange)
        case information
    }
    struct Waiter {
        let reader: Int
        let need: Need
        let continuation: CheckedContinuation<Void, any Error>
    }

    /// As it was opened last: a newer URL or header serves the missing bytes.
    var resource: Resource {
        didSet {
            guard resource.urls != oldValue.urls || resource.headers != oldValue.headers else { return }
            (urls, urlIndex, redirectTarget) = (resource.urls, 0, nil)
        }
    }
    /// The resource's, or those that the refresher gave.
    var urls: [MediaURL]
    let bytes = ResourceBytes()
    var cached: CachedResource?
    var opening: Task<Void, Never>?
    /// Whether the cache had nothing of it when the opening began.
    var isNew = false
    var information: ContentInformation?
    var readers: [Int: Reader] = [:]
    var fetches: [Int: Fetch] = [:]
    var waiters: [Int: Waiter] = [:]
    var retry = RetryPolicy()
    var retryTimer: LoopTimer?
    /// When a request that was held back may begin.
    var paceTimer: LoopTimer?
    var paceDue = Duration.zero
    /// Where the index of the file lies, when that is at its end, as its first bytes told.
    var indexAtEnd: ByteRange?
    /// Whether the first bytes have been looked at.
    var isHeadSeen = false
    /// Bytes of the first request of a file of which nothing is known; see ``FirstRequest``.
    var firstSegment = FirstRequest.usual
    /// Where that request ends, once the file's first bytes are there: what follows is asked for before it has ended.
    var secondRequest: Int64?
    /// Bytes of one request that serves no current entry; see ``BackgroundTraffic``.
    var backgroundSegment: Int64?
    /// The final error of the last attempt; cleared by the next explicit demand.
    var failure: LoadError?
    var urlIndex = 0
    /// Where the current URL led last time, and the URL itself: further ranges go there at once, until it is refused.
    var redirectTarget: String?
    /// Whether new URLs were asked for since the last progress.
    var didRefresh = false
    let refreshing: SharedWork<Result<[MediaURL], LoadError>>
    var wasWhole = false
    /// Bytes went to memory, which holds little: readers read less far ahead.
    var usesMemory = false
    /// Whose account served the origin when the loader began; another one's bytes are others.
    var account: String?
    /// The timing of the first answer, for the phases of a cold start.
    var firstAnswer: HTTPTiming?

    init(_ resource: Resource, on loop: any LoopExecutor) {
        (self.resource, urls, refreshing) = (resource, resource.urls, SharedWork(on: loop))
    }

    var url: MediaURL { urls[urlIndex] }
    /// For error texts and events.
    var urlName: String { WebOrigin.redacted(url.url) }

    /// A reader's second request, then doubling: small enough to leave the connection warm, large enough to fill it.
    private static let smallestSegment = FirstRequest.usual
    private static let usualSegment = ByteSize.megabytes(1)
    private static let largestSegment = ByteSize.megabytes(16)
    /// Between two requests the network is idle for a round trip: what takes two seconds to come hides it.
    var segmentLimit = usualSegment
    func setSegmentLimit(throughput: Double?) {
        let twoSeconds = Int64(min(Double(Self.largestSegment), (throughput ?? 0) * 2))
        segmentLimit = max(Self.usualSegment, twoSeconds)
    }
    /// What a reader that jumps waits for when it has no read-ahead.
    static let smallestDemand = ByteSize.kilobytes(64)

    var demands: [FetchPlanner.Demand] {
        readers.keys.sorted().flatMap { id -> [FetchPlanner.Demand] in
            guard let reader = readers[id] else { return [] }
            var demands: [FetchPlanner.Demand] = []
            let awaited = awaited(by: id)
            let grown =
                isUnknown ? firstSegment : min(segmentLimit, Self.smallestSegment << min(8, Int64(reader.segments)))
            // A server without ranges begins at byte 0 each time: then once.
            let bound =
                information?.supportsRanges == false
                ? nil : reader.priority < .current ? backgroundSegment : awaited.isEmpty ? reader.pace.segment : nil
            let segment = min(grown, bound ?? .max)
            let readAhead = usesMemory ? min(reader.readAhead, Int64(MemoryBytes.capacity / 2)) : reader.readAhead
            let places = awaited.isEmpty && readAhead > 0 ? [reader.position] : awaited
            // Who asked for a part needs little beyond it.
            let least = reader.wanted.isEmpty ? Self.smallestDemand : Self.smallestDemand / 4
            let length = awaited.isEmpty ? readAhead : max(least, readAhead)
            for place in places {
                let window = ByteRange(offset: place, saturatingLength: length)
                demands.append(.init(ranges: [window], priority: reader.priority, segment: segment))
            }
            // Whoever plays from the start asks for the index next: it is fetched while the first bytes come.
            if let indexAtEnd, reader.priority == .current, reader.readAhead > 0 {
                demands.append(.init(ranges: [indexAtEnd], priority: reader.priority, segment: .max))
            }
            if let secondRequest, reader.priority == .current, reader.position < secondRequest {
                let window = ByteRange(offset: reader.position, saturatingLength: readAhead)
                let rest = secondRequest..<max(secondRequest, window.upperBound)
                demands.append(.init(ranges: [rest], priority: reader.priority, segment: grown))
            }
            if !reader.wanted.isEmpty {
                demands.append(.init(ranges: reader.wanted, priority: reader.priority, segment: bound ?? .max))
            }
            // A reader that jumped away lets a short rest come in: ending it would cost the connection.
            let rests = fetches.inOrder.map(\.value).filter {
                $0.starter == id && ($0.isWhole || $0.end - $0.position <= Self.smallestSegment)
            }
            if !rests.isEmpty {
                let ranges = rests.map { $0.position..<max($0.position, $0.end) }.filter { !$0.isEmpty }
                demands.append(.init(ranges: ranges, priority: .preload, segment: .max))
            }
            return demands
        }
    }

    /// Whether nothing of the file is there, nor has been said of it.
    var isUnknown: Bool { information == nil && bytes.state.withLock { $0.readable.isEmpty } }

    /// The places that a reader waits for now.
    private func awaited(by id: Int) -> [Int64] {
        var places = Set<Int64>()
        if let asked = readers[id]?.asked { places.insert(asked.lowerBound) }
        for waiter in waiters.values where waiter.reader == id {
            switch waiter.need {
            case .bytes(let range): places.insert(range.lowerBound)
            case .information: places.insert(0)
            }
        }
        return places.sorted()
    }

    /// Whether a reader waits for the byte at `offset`.
    func isAwaited(_ offset: Int64) -> Bool { readers.keys.contains { awaited(by: $0).contains(offset) } }

    /// Whether a reader wants the byte at `offset` now, rather than some time.
    func isWanted(_ offset: Int64) -> Bool {
        readers.contains { id, reader in
            if awaited(by: id).contains(where: { $0 >= offset }) { return true }
            let ahead = max(reader.readAhead, Self.smallestDemand)
            return offset < ByteRange(offset: reader.position, saturatingLength: ahead).upperBound
                || reader.wanted.contains { $0.upperBound > offset }
        }
    }

    var running: [FetchPlanner.Running] {
        fetches.keys.sorted().compactMap { id in
            fetches[id].map { .init(id: id, position: $0.position, end: $0.end, priority: $0.priority) }
        }
    }

    /// The open reader for whom a range is fetched.
    func starter(of range: ByteRange) -> Int? {
        readers.keys.sorted().first { id in
            guard let reader = readers[id] else { return false }
            return awaited(by: id).contains(range.lowerBound)
                || (reader.readAhead > 0 && reader.position <= range.lowerBound)
        }
    }
}
