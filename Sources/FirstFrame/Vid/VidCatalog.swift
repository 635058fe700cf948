import EventLoop
import FeedStrategy
import FeedVocabulary
import ResourceLoading

/// What ids stand for: each asked for once, however many want to know, at most four at a time, and remembered until the
/// URLs expire.
actor VidCatalog {
    nonisolated private let loop: any LoopExecutor
    nonisolated var unownedExecutor: UnownedSerialExecutor { loop.asUnownedSerialExecutor() }

    private struct Flight {
        let source: VidSource
        var isUrgent: Bool
        var task: Task<Void, Never>?
        var waiters: [Int: CheckedContinuation<VidMedia, any Error>] = [:]
        let number: Int
    }
    /// One id and one token; the resolution is chosen from the answer.
    private struct Key: Hashable {
        let vid, token: String
        init(_ source: VidSource) { (vid, token) = (source.vid, source.playAuthToken) }
    }
    /// What is asked for, whatever the token of today is.
    private struct Wish: Hashable {
        let vid: String
        let resolution: Resolution?
        let codec: VideoCodec?
        init(_ source: VidSource) { (vid, resolution, codec) = (source.vid, source.resolution, source.codec) }
    }
    private struct Known {
        let media: VidMedia
        let until: WallTime
    }
    static let mostInFlight = 4
    /// An answer without an expiry is asked for again after this long.
    private static let usualLife = Duration.seconds(3600)
    /// URLs that expire within this time are not begun with.
    private static let margin: Int64 = 60
    private static let capacity = 1024

    private let resolver: any VidResolver
    private let client: WebClient
    private var known = RecentItems<Key, Known>(capacity: capacity)
    private var flights: [Key: Flight] = [:]
    private var count = 0
    /// The variant that was chosen for a source, so that preload, pre-render and play have the same bytes.
    private var choices = RecentItems<Wish, VidMedia.Variant>(capacity: capacity)
    private(set) var startup: StartupResolution

    init(on loop: any LoopExecutor, resolver: any VidResolver, client: WebClient, startup: StartupResolution) {
        (self.loop, self.resolver, self.client, self.startup) = (loop, resolver, client, startup)
    }

    /// Choices from now on go by these rules; those that were made are made anew.
    func setStartup(_ startup: StartupResolution) {
        self.startup = startup
        choices.removeAll()
    }

    var inFlight: Int { flights.values.count { $0.task != nil } }

    // MARK: Resolving

    /// The file to play of a source, chosen once.
    ///
    /// - Parameter isUrgent: Whether a viewer waits; then it goes before the others.
    func variant(
        of source: VidSource, isUrgent: Bool, throughput: Double?, isMetered: Bool
    ) async throws -> (variant: VidMedia.Variant, media: VidMedia) {
        let media = try await media(of: source, isUrgent: isUrgent)
        let wish = Wish(source)
        // The same file, at the URLs of today.
        if let chosen = choices[wish], let today = media.variants.first(where: { $0.isSame(as: chosen) }) {
            return (today, media)
        }
        let offers = media.variants.map {
            StartupResolution.Offer(resolution: $0.resolution, codec: $0.codec, bitrate: $0.bitrate)
        }
        let index = startup.choose(
            from: offers, asked: source.resolution, codec: source.codec, throughput: throughput, isMetered: isMetered)
        guard let index else { throw VidError.noVariant(vid: source.vid) }
        choices[wish] = media.variants[index]
        return (media.variants[index], media)
    }

    func media(of source: VidSource, isUrgent: Bool) async throws -> VidMedia {
        let key = Key(source)
        count += 1
        let number = count
        return try await withTaskCancellationHandler {
            try await withCheckedThrowingContinuation { (waiter: CheckedContinuation<VidMedia, any Error>) in
                if Task.isCancelled { return waiter.resume(throwing: CancellationError()) }
                if let known = known[key], known.until > loop.wallTime { return waiter.resume(returning: known.media) }
                if flights[key] == nil { flights[key] = Flight(source: source, isUrgent: isUrgent, number: number) }
                flights[key]?.waiters[number] = waiter
                if isUrgent { flights[key]?.isUrgent = true }
                startNext()
            }
        } onCancel: {
            loop.post { self.assumeIsolated { $0.giveUp(key, number) } }
        }
    }

    /// A viewer waits for it now.
    func hurry(_ source: VidSource) { flights[Key(source)]?.isUrgent = true }

    /// New URLs are asked for although the old ones have not expired, because a server refuses them.
    func forget(_ source: VidSource) { known[Key(source)] = nil }

    private func giveUp(_ key: Key, _ number: Int) {
        guard let waiter = flights[key]?.waiters.removeValue(forKey: number) else { return }
        waiter.resume(throwing: CancellationError())
        guard flights[key]?.waiters.isEmpty == true else { return }
        if let task = flights[key]?.task { return task.cancel() }  // it ends by itself, and frees its place then
        flights[key] = nil
    }

    private func startNext() {
        while inFlight < Self.mostInFlight {
            let waiting = flights.filter { $0.value.task == nil }
            let next = waiting.min { left, right in
                (left.value.isUrgent ? 0 : 1, left.value.number) < (right.value.isUrgent ? 0 : 1, right.value.number)
            }
            guard let (key, flight) = next else { return }
            flights[key]?.task = loop.spawn { await self.ask(key, flight.source) }
        }
    }

    private func ask(_ key: Key, _ source: VidSource) async {
        let answer: Result<VidMedia, any Error>
        do {
            var media = try await resolver.resolve(source, with: client)
            media.variants.removeAll(where: \.urls.isEmpty)
            if media.vid != source.vid {
                answer = .failure(VidError.otherVid(asked: source.vid, got: media.vid))
            } else {
                answer = media.variants.isEmpty ? .failure(VidError.noVariant(vid: source.vid)) : .success(media)
            }
        } catch is CancellationError where !Task.isCancelled {
            answer = .failure(VidError.network(vid: source.vid, reason: "the resolver gave up"))
        } catch {
            answer = .failure(error)
        }
        if case .success(let media) = answer { remember(media, key) }
        if Task.isCancelled, case .failure = answer, flights[key]?.waiters.isEmpty == false {
            // It was cancelled when nobody waited any more, and somebody came before it had ended.
            flights[key]?.task = nil
            return startNext()
        }
        let waiters = flights.removeValue(forKey: key)?.waiters ?? [:]
        for (_, waiter) in waiters.inOrder { waiter.resume(with: answer) }
        startNext()
    }

    private func remember(_ media: VidMedia, _ key: Key) {
        let until =
            media.expires.map { WallTime(secondsSince1970: $0.secondsSince1970 - Self.margin) }
            ?? loop.wallTime.advanced(by: Self.usualLife)
        known[key] = Known(media: media, until: until)
    }
}
