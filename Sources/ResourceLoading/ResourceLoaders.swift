package import EventLoop
import FeedStrategy
package import FeedVocabulary
package import HTTPTransport
package import MediaCache

/// All resources that somebody reads: one loader a cache key, answered from disk, with each hole fetched once.
///
/// One actor for all of them, so that the last reader's end and a new reader's begin can't cross.
package actor ResourceLoaders {
    nonisolated let loop: any LoopExecutor
    package nonisolated var unownedExecutor: UnownedSerialExecutor { loop.asUnownedSerialExecutor() }
    let cache: MediaCache
    let transport: any Transport
    var resources: [CacheKey: LoadingResource] = [:]
    var nextID = 0
    package internal(set) var traffic = TrafficLedger()
    /// The first failure to store bytes since it was last taken; what was asked for is delivered all the same.
    package internal(set) var cacheFailure: CacheError?
    let vault: CredentialVault
    let schemes: SchemeRegistry
    var backoff = HostBackoff()
    var freshURLs = FreshURLs()
    /// What all transfers together bring.
    var meter = TransferMeter()
    var background = BackgroundTraffic()
    private(set) var firstRequest = FirstRequest()
    /// Told when the budget of strategies is used up.
    var onBudgetSpent: (@Sendable () -> Void)?
    private var listeners: [Int: AsyncStream<LoadEvent>.Continuation] = [:]
    private var isClosed = false

    package init(on loop: any LoopExecutor, cache: MediaCache, transport: any Transport) {
        (self.loop, self.cache, self.transport) = (loop, cache, transport)
        vault = CredentialVault(loop: loop)
        schemes = SchemeRegistry(loop: loop)
    }

    // MARK: Hosts, credentials, events

    /// What gives credentials for `origin`, and may send them to `further` origins too; `nil` takes them away.
    ///
    /// - Parameter identity: Whose account it is; what one account fetched is not served to another.
    package func setCredentials(
        _ provider: (any CredentialProvider)?, for origin: WebOrigin, further: Set<WebOrigin> = [],
        identity: String? = nil
    ) {
        vault.set(provider, for: origin, further: further, identity: identity)
    }

    /// Routes URLs of a scheme of the host's own to a delegate; `nil` ends that for requests to come.
    package func register(_ delegate: (any ResourceLoaderDelegate)?, scheme: String) throws(SchemeError) {
        try schemes.register(delegate, scheme: scheme)
    }

    /// What happens from now on. A listener that does not read loses the oldest.
    package func events() -> AsyncStream<LoadEvent> {
        let (stream, continuation) = AsyncStream<LoadEvent>.makeStream(bufferingPolicy: .bufferingNewest(256))
        guard !isClosed else {
            continuation.finish()
            return stream
        }
        nextID += 1
        let id = nextID
        listeners[id] = continuation
        continuation.onTermination = { [weak self] _ in self?.stopListening(id) }
        return stream
    }
    private nonisolated func stopListening(_ id: Int) { loop.post { self.assumeIsolated { $0.listeners[id] = nil } } }

    func tell(_ event: LoadEvent) { for (_, listener) in listeners.inOrder { listener.yield(event) } }

    /// Resources that are open; 0 when nobody reads.
    package var openCount: Int { resources.count }
    /// What open resources have pinned in the cache.
    package var recordsInUse: [CacheRecord] {
        resources.values.compactMap { $0.cached?.record }.sorted { $0.key.text < $1.key.text }
    }
    /// The most requests that one resource has under way, of those that are allowed.
    package var fetchesOfOne: (most: Int, allowed: Int) {
        (resources.values.map(\.fetches.count).max() ?? 0, FetchPlanner.maximumRequests)
    }
    /// Requests under way.
    package var fetchCount: Int { resources.values.reduce(0) { $0 + $1.fetches.count } }

    /// Bytes of a resource that came over the network, and those of them that no play has read; what is being played
    /// counts as read.
    package func traffic(of key: CacheKey) -> (fetched: Int64, unplayed: Int64) {
        guard let loading = resources[key] else { return traffic.account(of: key, reading: ByteRangeSet()) }
        let playing = loading.readers.filter(\.value.isPlayed).keys
        let consumed = loading.bytes.state.withLock { state in
            ByteRangeSet(playing.flatMap { state.readers[$0]?.consumed.ranges ?? [] })
        }
        return traffic.account(of: key, reading: consumed)
    }

    /// The first frame of a clip ended at this byte; others will be alike.
    package func learned(firstFrameEnd: Int64) { firstRequest.learned(firstFrameEnd: firstFrameEnd) }

    package func takeCacheFailure() -> CacheError? { cacheFailure.take() }

    // MARK: Readers

    /// A new reader of a resource. Nothing is fetched before it reads or wants something, unless it reads ahead.
    ///
    /// - Parameters:
    ///   - readAhead: Bytes wanted ahead of the place of reading.
    ///   - isReferred: Whether another resource named it: what the host said of it then counts.
    package func open(
        _ resource: Resource, priority: LoadPriority, readAhead: Int64, isReferred: Bool = false
    ) async throws -> ByteReader {
        guard !isClosed else { throw LoadError.closed }
        let resource = named(resource)
        nextID += 1
        let id = nextID
        let loading = resources[resource.storageKey] ?? begin(resource)
        if !isReferred, loading.resource != resource { loading.resource = resource }
        loading.readers[id] = LoadingResource.Reader(priority: priority, readAhead: readAhead)
        loading.bytes.state.withLock { $0.readers[id] = ResourceBytes.ReaderState() }
        let reader = ByteReader(key: resource.storageKey, id: id, bytes: loading.bytes, loaders: self)
        // What the cache has never heard of is asked for while it makes the file.
        keepCalm(loading, id)
        demandChanged(resource.storageKey)
        if let opening = loading.opening {
            await opening.value
            keepCalm(loading, id)
            if resources[resource.storageKey] === loading { pump(loading) }
        }
        if Task.isCancelled {
            close(resource.storageKey, id)
            throw CancellationError()
        }
        if resource.path != nil, let failure = loading.failure {
            close(resource.storageKey, id)
            throw failure
        }
        return reader
    }

    /// A first frame whose bytes are there is decoded while nothing is read ahead: storing what a fast network brings would
    /// take the cores from it (measured on two cores: 0.9 instead of 1.2 x what a program takes that only decodes).
    private func keepCalm(_ loading: LoadingResource, _ id: Int) {
        guard let reader = loading.readers[id], reader.priority == .current,
            loading.bytes.state.withLock({ $0.readable.contiguousEnd(from: reader.position) - reader.position })
                >= firstRequest.firstFrame
        else { return }
        loading.readers[id]?.calmUntil = loop.now.advanced(by: Self.calm).offset
    }
    private static let calm = Duration.milliseconds(50)

    /// The name of a resource's bytes in the cache.
    package func storageKey(of resource: Resource) -> CacheKey { named(resource).storageKey }

    /// The resource as the account of its server sees it.
    private func named(_ resource: Resource) -> Resource {
        guard resource.identity == nil, let identity = vault.identity(for: resource.urls[0].url) else {
            return resource
        }
        var named = resource
        named.identity = identity
        return named
    }

    private func begin(_ resource: Resource) -> LoadingResource {
        let loading = LoadingResource(resource, on: loop)
        loading.account = vault.identity(for: resource.urls[0].url)
        if let urls = freshURLs.urls(for: resource) { loading.urls = urls }
        resources[resource.storageKey] = loading
        loading.isNew = resource.path == nil && cache.assumeIsolated { $0.isUnknown(resource.storageKey) }
        loading.opening = loop.spawn { await self.checkOut(resource.storageKey) }
        return loading
    }

    private func checkOut(_ key: CacheKey) async {
        guard let loading = resources[key] else { return }
        if let path = loading.resource.path { return await openFile(path, loading) }
        do {
            var cached = try await cache.checkOut(key, identity: loading.resource.identity)
            if let expected = loading.resource.length, let length = cached.record.length, length != expected {
                // The host knows the file better: what is on disk is an older one.
                await cache.invalidate(cached)
                await cache.checkIn(cached)
                cached = try await cache.checkOut(key, identity: loading.resource.identity)
            }
            loading.opening = nil
            guard resources[key] === loading, !loading.readers.isEmpty else { return await cache.checkIn(cached) }
            loading.cached = cached
            loading.wasWhole = cached.record.isComplete
            let record = cached.record
            if record.length != nil || !record.ranges.isEmpty {
                loading.information = ContentInformation(
                    length: record.length, contentType: record.contentType, supportsRanges: true,
                    validator: record.validator)
            }
            loading.bytes.state.withLockNotifying { state in
                state.file = cached.file
                state.stored = record.ranges
                state.length = record.length
            }
        } catch {
            loading.opening = nil
            note(error)
        }
    }

    /// Everything of a file of this machine is there from the start.
    private func openFile(_ path: String, _ loading: LoadingResource) async {
        defer { loading.opening = nil }
        do {
            let (file, length) = try await cache.openLocal(path)
            loading.wasWhole = true
            loading.information = ContentInformation(length: length, supportsRanges: true)
            loading.bytes.state.withLockNotifying { state in
                (state.file, state.stored, state.length) = (file, ByteRangeSet([0..<length]), length)
            }
            guard length > 0 else { return fail(loading, .empty(url: path)) }
        } catch {
            let reason = (error as? LoopError)?.description ?? "\(error)"
            fail(loading, .file(path: path, reason: reason))
        }
    }

    /// The cache can't take part: the bytes go through memory, and the host learns of it.
    func note(_ error: any Error) {
        // A cache that is full of what is in use is no fault.
        if case .some(.full) = error as? CacheError { return }
        let failure = error as? CacheError ?? .closed
        if cacheFailure == nil { cacheFailure = failure }
        tell(.cacheFailed("\(failure)"))
    }

    nonisolated func moved(_ key: CacheKey, _ id: Int, to offset: Int64) {
        loop.post { self.assumeIsolated { $0.reading(key, id, at: offset) } }
    }
    nonisolated func forget(_ key: CacheKey, _ id: Int) { loop.post { self.assumeIsolated { $0.close(key, id) } } }

    private func reading(_ key: CacheKey, _ id: Int, at offset: Int64) {
        guard let loading = resources[key], loading.readers[id] != nil else { return }
        loading.readers[id]?.position = offset
        let isThere = loading.bytes.state.withLock { state in
            state.readable.contiguousEnd(from: offset) > offset || state.length.map { offset >= $0 } ?? false
        }
        loading.readers[id]?.asked =
            isThere ? nil : ByteRange(offset: offset, saturatingLength: LoadingResource.smallestDemand)
        demandChanged(key)
    }

    /// An explicit demand: a former failure no longer stands in the way.
    private func demandChanged(_ key: CacheKey) {
        guard let loading = resources[key] else { return }
        forgive(loading)
        pump(loading)
    }

    private func forgive(_ loading: LoadingResource) {
        guard loading.failure != nil else { return }
        (loading.failure, loading.didRefresh, loading.urlIndex) = (nil, false, 0)
    }

    func want(_ key: CacheKey, _ id: Int, _ ranges: [ByteRange]) {
        resources[key]?.readers[id]?.wanted = ranges
        demandChanged(key)
    }

    func setReadAhead(_ key: CacheKey, _ id: Int, _ bytes: Int64) {
        guard resources[key]?.readers[id] != nil, resources[key]?.readers[id]?.readAhead != bytes else { return }
        resources[key]?.readers[id]?.readAhead = bytes
        demandChanged(key)
    }

    func setPriority(_ key: CacheKey, _ id: Int, _ priority: LoadPriority) {
        guard resources[key]?.readers[id] != nil else { return }
        resources[key]?.readers[id]?.priority = priority
        demandChanged(key)
    }

    /// Spaces the requests of a reader's reading ahead, so that they ask for this many bytes a second; `nil` ends that.
    package func setPace(of reader: ByteReader, _ bytesPerSecond: Int64?) {
        setPace(reader.key, reader.id, bytesPerSecond)
        for related in reader.relatedReaders { setPace(related.key, related.id, bytesPerSecond) }
    }
    func setPace(_ key: CacheKey, _ id: Int, _ bytesPerSecond: Int64?) {
        guard let loading = resources[key], loading.readers[id] != nil,
            loading.readers[id]?.pace.bytesPerSecond != bytesPerSecond
        else { return }
        loading.readers[id]?.pace.setRate(bytesPerSecond, at: loop.now.offset)
        pump(loading)
    }

    func markPlayed(_ key: CacheKey, _ id: Int) { resources[key]?.readers[id]?.isPlayed = true }

    /// Timing of the first answer of an open resource, `nil` when all came from disk so far.
    package func firstAnswer(of key: CacheKey) -> HTTPTiming? { resources[key]?.firstAnswer }

    func close(_ key: CacheKey, _ id: Int) {
        guard let loading = resources[key], let reader = loading.readers.removeValue(forKey: id) else { return }
        let consumed = loading.bytes.state.withLockNotifying { state in
            state.readers.removeValue(forKey: id)?.consumed ?? ByteRangeSet()
        }
        if reader.isPlayed { traffic.played(consumed, of: key) }
        for (number, waiter) in loading.waiters.inOrder where waiter.reader == id {
            loading.waiters[number] = nil
            waiter.continuation.resume(throwing: LoadError.closed)
        }
        guard loading.readers.isEmpty else { return pump(loading) }
        resources[key] = nil
        end(loading)
    }

    private func end(_ loading: LoadingResource) {
        for (id, _) in loading.fetches.inOrder { cancelFetch(loading, id) }
        for case let timer? in [loading.retryTimer, loading.paceTimer] { loop.cancel(timer) }
        if let cached = loading.cached { loop.spawn { [cache] in await cache.checkIn(cached) } }
        loading.cached = nil
    }

    /// Ends every reader and every fetch; further calls throw ``LoadError/closed``.
    package func shutdown() async {
        isClosed = true
        for listener in listeners.values { listener.finish() }
        listeners.removeAll()
        for (key, loading) in resources.sorted(by: { $0.key.text < $1.key.text }) {
            await loading.opening?.value
            for id in loading.readers.keys.sorted() {
                loading.bytes.state.withLockNotifying { $0.readers[id]?.isInterrupted = true }
                close(key, id)
            }
        }
    }

    // MARK: Reading

    func contentInformation(_ key: CacheKey, _ id: Int) async throws -> ContentInformation {
        guard let loading = resources[key], loading.readers[id] != nil else { throw LoadError.closed }
        if loading.information == nil {
            try await suspend(loading, id, until: .information, isRetrying: true)
        }
        guard let information = loading.information else { throw LoadError.closed }
        return information
    }

    func read(_ key: CacheKey, _ id: Int, at offset: Int64, count: Int) async throws -> [UInt8] {
        precondition(offset >= 0 && count >= 0, "a read has no negative offset or count")
        while true {
            guard let loading = resources[key], loading.readers[id] != nil else { throw LoadError.closed }
            if count == 0 || offset == .max { return [] }
            if let length = loading.information?.length, offset >= length { return [] }
            if let piece = loading.bytes.piece(at: offset, count: count, reader: id) {
                loading.readers[id]?.position = offset + Int64(piece.count)
                if let bytes = piece.bytes { return bytes }
                if let file = piece.file {
                    pump(loading)
                    let bytes = try await file.read(at: offset, count: piece.count)
                    if bytes.isEmpty { loading.bytes.lose(offset..<offset + Int64(piece.count)) }
                    let range = offset..<offset + Int64(bytes.count)
                    if !bytes.isEmpty, loading.bytes.isStored(range) { return bytes }
                    continue
                }
            }
            loading.readers[id]?.position = offset
            try await suspend(loading, id, until: .bytes(offset..<offset + 1), isRetrying: true)
        }
    }

    func wait(_ key: CacheKey, _ id: Int, for range: ByteRange) async throws {
        guard let loading = resources[key], loading.readers[id] != nil else { throw LoadError.closed }
        if isMet(loading, .bytes(range)) { return }
        try await suspend(loading, id, until: .bytes(range), isRetrying: false)
    }

    private func isMet(_ loading: LoadingResource, _ need: LoadingResource.Need) -> Bool {
        switch need {
        case .information: loading.information != nil
        case .bytes(let range):
            loading.bytes.state.withLock { state in
                let end = state.length ?? .max
                return state.readable.contains(min(range.lowerBound, end)..<min(range.upperBound, end))
            }
        }
    }

    /// - Parameter isRetrying: Whether a former failure, which its reader has been told, is to be tried again.
    private func suspend(
        _ loading: LoadingResource, _ id: Int, until need: LoadingResource.Need, isRetrying: Bool
    ) async throws {
        nextID += 1
        let number = nextID
        let key = loading.resource.storageKey
        try await withTaskCancellationHandler {
            try await withCheckedThrowingContinuation { (continuation: CheckedContinuation<Void, any Error>) in
                if Task.isCancelled { return continuation.resume(throwing: CancellationError()) }
                // Closed since: a host's task may be suspended on the way into the closure.
                guard resources[key] === loading, loading.readers[id] != nil else {
                    return continuation.resume(throwing: LoadError.closed)
                }
                if isMet(loading, need) { return continuation.resume() }
                if let failure = loading.bytes.takeFailure(id) { return continuation.resume(throwing: failure) }
                if isRetrying { forgive(loading) }
                if let failure = loading.failure { return continuation.resume(throwing: failure) }
                loading.waiters[number] = .init(reader: id, need: need, continuation: continuation)
                pump(loading)
            }
        } onCancel: {
            loop.post {
                self.assumeIsolated { loaders in
                    loaders.resources[key]?.waiters.removeValue(forKey: number)?
                        .continuation.resume(throwing: CancellationError())
                }
            }
        }
    }

    /// Bytes came, or the length became known: those whose need is met go on.
    func wake(_ loading: LoadingResource) {
        for (number, waiter) in loading.waiters.inOrder where isMet(loading, waiter.need) {
            loading.waiters[number] = nil
            waiter.continuation.resume()
        }
        for id in loading.readers.keys {
            if let asked = loading.readers[id]?.asked, isMet(loading, .bytes(asked.lowerBound..<asked.lowerBound + 1)) {
                loading.readers[id]?.asked = nil
            }
        }
    }

    /// A failure reaches everybody who depends on it.
    func fail(_ loading: LoadingResource, _ error: LoadError) {
        loading.failure = error
        tell(.failed(loading.resource.key, error))
        schemes.failed(loading, error)
        let told = Set(loading.waiters.values.map(\.reader))
        for (_, waiter) in loading.waiters.inOrder { waiter.continuation.resume(throwing: error) }
        loading.waiters.removeAll()
        loading.bytes.state.withLockNotifying { state in
            for id in state.readers.keys where !told.contains(id) { state.readers[id]?.failure = error }
        }
        for id in loading.readers.keys { loading.readers[id]?.asked = nil }
    }
}
