import EventLoop
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
        /// The place it waits for, when it waits.
        var asked: ByteRange?
        /// Ranges wanted as a whole, each as one request.
        var wanted: [ByteRange] = []
        var isPlayed = false
        var segments = 0
    }
    struct Fetch {
        var position: Int64
        var end: Int64
        var priority: LoadPriority
        let starter: Int?
        var exchange: (any HTTPExchange)?
        var task: Task<Void, Never>?
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

    let resource: Resource
    let bytes = ResourceBytes()
    var cached: CachedResource?
    var opening: Task<Void, Never>?
    var information: ContentInformation?
    var readers: [Int: Reader] = [:]
    var fetches: [Int: Fetch] = [:]
    var waiters: [Int: Waiter] = [:]
    var retry = RetryPolicy()
    var retryTimer: LoopTimer?
    /// The final error of the last attempt; cleared by the next explicit demand.
    var failure: LoadError?
    var urlIndex = 0
    /// The timing of the first answer, for the phases of a cold start.
    var firstAnswer: HTTPTiming?

    init(_ resource: Resource) { self.resource = resource }

    /// First request of a reader, then doubling: small enough to leave the connection warm, large enough to fill it.
    static let firstSegment = ByteSize.kilobytes(256)
    static let largestSegment = ByteSize.megabytes(1)
    /// What a reader that jumps waits for when it has no read-ahead.
    static let smallestDemand = ByteSize.kilobytes(64)

    var demands: [FetchPlanner.Demand] {
        readers.keys.sorted().flatMap { id -> [FetchPlanner.Demand] in
            guard let reader = readers[id] else { return [] }
            var demands: [FetchPlanner.Demand] = []
            let segment = min(Self.largestSegment, Self.firstSegment << min(8, Int64(reader.segments)))
            if let asked = reader.asked {
                let window = ByteRange(offset: asked.lowerBound, saturatingLength: max(asked.length, reader.readAhead))
                demands.append(.init(ranges: [window], priority: reader.priority, segment: segment))
            } else if reader.readAhead > 0 {
                let window = ByteRange(offset: reader.position, saturatingLength: reader.readAhead)
                demands.append(.init(ranges: [window], priority: reader.priority, segment: segment))
            }
            if !reader.wanted.isEmpty {
                demands.append(.init(ranges: reader.wanted, priority: reader.priority, segment: .max))
            }
            // A reader that jumped away lets a short rest come in: ending it would cost the connection.
            let rests = fetches.values.filter { $0.starter == id && $0.end - $0.position <= Self.firstSegment }
            if !rests.isEmpty {
                let ranges = rests.map { $0.position..<max($0.position, $0.end) }.filter { !$0.isEmpty }
                demands.append(.init(ranges: ranges, priority: .preload, segment: .max))
            }
            return demands
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
            return reader.asked?.lowerBound == range.lowerBound
                || (reader.readAhead > 0 && reader.position <= range.lowerBound)
        }
    }
}
