import EventLoop
import FeedVocabulary
import HTTPTransport
import MediaCache

extension ResourceLoaders {
    /// What is known of the whole resource has changed, as the answer to one of its fetches told.
    func learn(_ loading: LoadingResource, _ information: ContentInformation, from fetch: Int) async {
        guard loading.information != information else { return }
        loading.information = information
        loading.bytes.state.withLockNotifying { $0.length = information.length }
        for id in loading.fetches.keys.sorted() {
            guard let length = information.length, let other = loading.fetches[id] else { continue }
            loading.fetches[id]?.end = min(other.end, length)
            // Asked beyond the end, before anybody knew where that is.
            if id != fetch, other.position >= length { cancelFetch(loading, id) }
        }
        wake(loading)
        if let cached = loading.cached {
            await cache.describe(
                cached, length: information.length, validator: information.validator,
                contentType: information.contentType)
        }
    }

    /// Stores bytes on disk, or in memory when the disk won't take them; then they can be read.
    ///
    /// What is there already stays as it is: an answer may begin before the byte that was asked for.
    ///
    /// - Returns: Whether any of them was missing.
    func store(_ loading: LoadingResource, _ bytes: [UInt8], at offset: Int64) async throws -> Bool {
        let range = offset..<offset + Int64(bytes.count)
        let holes = loading.bytes.state.withLock { $0.readable.holes(in: range) }
        for hole in holes {
            let part =
                hole == range ? bytes : Array(bytes[Int(hole.lowerBound - offset)..<Int(hole.upperBound - offset)])
            try await storeHole(loading, part, at: hole)
        }
        if !loading.wasWhole, let length = loading.information?.length {
            await noteWhole(loading, length)
        }
        return !holes.isEmpty
    }

    private func storeHole(_ loading: LoadingResource, _ bytes: [UInt8], at hole: ByteRange) async throws {
        let reading =
            loading.readers.inOrder.map(\.value).max { $0.priority < $1.priority }?.position ?? hole.lowerBound
        if let cached = loading.cached {
            do {
                // Out of the readers' sight before they leave the disk: a read that overlaps is done again.
                try await cache.write(bytes, at: hole.lowerBound, to: cached, reader: reading) {
                    [shared = loading.bytes] gone in
                    shared.state.withLock { $0.stored.remove(gone) }
                }
                guard loading.cached?.record.id == cached.record.id else { throw CancellationError() }
                return loading.bytes.state.withLockNotifying { $0.stored.insert(hole) }
            } catch let error as CacheError {
                note(error)
            }
        }
        loading.usesMemory = true
        let isKept = loading.bytes.state.withLockNotifying { state in
            state.memory.write(bytes, at: hole.lowerBound, reader: reading)
            return state.memory.ranges.contains(hole)
        }
        // Fetched again and again it would be, and never all there.
        guard isKept else {
            throw FetchFailure(
                .host(reason: "the cache takes no bytes, and more is wanted at once than fits in memory"),
                isRetryable: false)
        }
    }

    private func noteWhole(_ loading: LoadingResource, _ length: Int64) async {
        guard loading.bytes.state.withLock({ $0.readable.contains(0..<length) }) else { return }
        loading.wasWhole = true
        let isOnDisk = { loading.bytes.isStored(0..<length) }
        if let expected = loading.resource.md5, let cached = loading.cached, isOnDisk(),
            let found = try? await cache.digest(of: cached, length: length), isOnDisk(), found != expected
        {
            return await replace(
                loading,
                because: .unusableAnswer(
                    reason: "the file's MD5 is \(found), the source says \(expected)", url: loading.urlName))
        }
        tell(.loadedWhole(loading.resource.key))
        schemes.loadedWhole(loading)
    }

    /// The server has another resource now: old bytes go before new ones come, and old readers must start anew.
    func replace(_ loading: LoadingResource, because error: LoadError? = nil) async {
        let key = loading.resource.storageKey
        guard resources[key] === loading else { return }
        resources[key] = nil
        for (id, _) in loading.fetches.inOrder { cancelFetch(loading, id) }
        for case let timer? in [loading.retryTimer, loading.paceTimer] { loop.cancel(timer) }
        fail(loading, error ?? .changed(url: loading.urlName))
        loading.bytes.state.withLockNotifying { state in
            for id in state.readers.keys { state.readers[id]?.isInterrupted = true }
        }
        tell(.replaced(loading.resource.key))
        if let cached = loading.cached {
            loading.cached = nil
            await cache.invalidate(cached)
            await cache.checkIn(cached)
        }
    }
}
