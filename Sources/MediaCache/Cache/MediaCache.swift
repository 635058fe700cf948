package import EventLoop
package import FeedVocabulary
import Glibc

/// Where and how much a cache stores.
package struct CacheConfiguration: Sendable {
    package var directory: String
    /// Bytes of media kept at most.
    package var capacity: Int64 = ByteSize.megabytes(300)
    package init(directory: String, capacity: Int64 = ByteSize.megabytes(300)) {
        (self.directory, self.capacity) = (directory, capacity)
    }
}

/// A resource that is pinned, as its user sees it when it begins.
package struct CachedResource: Sendable {
    package let record: CacheRecord
    package let file: any OpenFile
}

/// Byte ranges of media on disk: one sparse file a resource, and an index of what in it is good.
///
/// The order is always: data written, data synced, range committed. After a kill or a power cut the index may know
/// less than was fetched, never more. Bytes can be read as soon as they are written, by this process.
package actor MediaCache {
    nonisolated let loop: any LoopExecutor
    package nonisolated var unownedExecutor: UnownedSerialExecutor { loop.asUnownedSerialExecutor() }

    private struct Entry {
        var record: CacheRecord  // `ranges` are those written, committed or not
        var committed: ByteRangeSet
        var file: (any OpenFile)?
        var pins = 0
        var isCommitting = false
        var isNew: Bool  // its file's name is not yet durable
        var needsSave = false
        var dirtyBytes: Int64 { record.ranges.count - committed.count }
    }

    /// Bytes written but not committed at which a commit starts without waiting.
    private static let commitBytes = ByteSize.megabytes(8)
    /// How long a written range waits for others before it is committed.
    private static let commitDelay = Duration.seconds(1)

    private let configuration: CacheConfiguration
    private let files: any FileSystem
    private let index: CacheIndex
    private var entries: [CacheKey: Entry] = [:]
    private var useCount: Int64 = 0
    private var commitTimer: LoopTimer?
    private var isClosed = false
    /// Those who wait for a commit under way to end.
    private var commitWaiters: [CheckedContinuation<Void, Never>] = []
    /// Bytes of media in the cache.
    package private(set) var used: Int64 = 0

    private init(_ configuration: CacheConfiguration, loop: any LoopExecutor, files: any FileSystem, index: CacheIndex)
    {
        (self.configuration, self.loop, self.files, self.index) = (configuration, loop, files, index)
    }

    /// Opens a directory, and reconciles index and files in time bounded by the number of entries.
    ///
    /// - Parameter indexInMemory: For the simulation, whose disk is not SQLite's.
    package static func open(
        _ configuration: CacheConfiguration, on loop: any LoopExecutor, files: any FileSystem,
        indexInMemory: Bool = false
    ) async throws -> MediaCache {
        let directory = configuration.directory
        do {
            try await files.makeDirectory(directory)
        } catch let error as LoopError {
            throw CacheError.unusable(directory: directory, reason: String(cString: strerror(error.errno)))
        }
        let index = try await loop.offload { try CacheIndex(directory: indexInMemory ? nil : directory) }
        let cache = MediaCache(configuration, loop: loop, files: files, index: index)
        do {
            try await cache.reconcile()
        } catch {
            await cache.close()
            throw error
        }
        return cache
    }

    private func path(_ id: Int64) -> String {
        configuration.directory + "/" + String(UInt64(bitPattern: id), radix: 16) + ".media"
    }

    private func reconcile() async throws {
        let index = index
        var bad: [Int64] = []
        for record in try await loop.offload({ try index.load() }) {
            let end = record.ranges.ranges.last?.upperBound ?? 0
            let status = try? await files.stat(path(record.id))
            guard !record.ranges.isEmpty, let status, status.length >= end, end <= record.length ?? .max else {
                bad.append(record.id)
                continue
            }
            entries[record.key] = Entry(record: record, committed: record.ranges, isNew: false)
            used += record.ranges.count
            useCount = max(useCount, record.lastUse)
        }
        if !bad.isEmpty { try await loop.offload { [bad] in try index.remove(bad) } }
        let known = Set(entries.values.map { path($0.record.id) })
        for name in try await files.list(configuration.directory) where name.hasSuffix(".media") {
            let path = configuration.directory + "/" + name
            if !known.contains(path) { try? await files.unlink(path) }
        }
        try await evict(toFit: 0)
    }

    // MARK: Use

    /// Pins the resource of `key`, making an empty one if there is none, until ``checkIn(_:)``.
    package func checkOut(_ key: CacheKey) async throws -> CachedResource {
        guard !isClosed else { throw CacheError.closed }
        if entries[key] == nil {
            let id = Int64(bitPattern: loop.random())
            let record = CacheRecord(id: id, key: key, lastUse: 0)
            entries[key] = Entry(record: record, committed: ByteRangeSet(), isNew: true)
        }
        guard var entry = entries[key] else { preconditionFailure("the entry was just made") }
        useCount += 1
        entry.record.lastUse = useCount
        entry.needsSave = true
        entry.pins += 1
        entries[key] = entry
        if let file = entry.file { return CachedResource(record: entry.record, file: file) }
        let file: any OpenFile
        do {
            file = try await files.open(path(entry.record.id), creating: entry.isNew)
        } catch {
            if entries[key]?.record.id == entry.record.id { unpin(key) }
            // A file that vanished takes its record with it; the bytes are fetched again.
            if !entry.isNew, let error = error as? LoopError, error.errno == ENOENT {
                await drop(key, id: entry.record.id)
                return try await checkOut(key)
            }
            throw writeError(error)
        }
        guard entries[key]?.record.id == entry.record.id else { throw CacheError.dropped }
        // Two may have opened it at once: the first to come back gives the file, the other's closes itself.
        if let first = entries[key]?.file { return CachedResource(record: entry.record, file: first) }
        entries[key]?.file = file
        return CachedResource(record: entry.record, file: file)
    }

    /// Gives up one pin. What was written is committed; the resource may be evicted from now on.
    package func checkIn(_ resource: CachedResource) {
        let key = resource.record.key
        guard entries[key]?.record.id == resource.record.id else { return }
        unpin(key)
        scheduleCommit()
    }

    private func unpin(_ key: CacheKey) {
        guard var entry = entries[key] else { return }
        precondition(entry.pins > 0, "checked in more often than checked out")
        entry.pins -= 1
        if entry.pins == 0, entry.record.ranges.isEmpty, !entry.isCommitting {
            entries[key] = nil
            if entry.file != nil {
                loop.spawn { [files, path = path(entry.record.id)] in try? await files.unlink(path) }
            }
        } else {
            entries[key] = entry
        }
    }

    /// Notes what the server said of the whole resource.
    package func describe(
        _ resource: CachedResource, length: Int64?, validator: String?, contentType: String?
    ) {
        let key = resource.record.key
        guard entries[key]?.record.id == resource.record.id else { return }
        entries[key]?.record.length = length
        entries[key]?.record.validator = validator
        entries[key]?.record.contentType = contentType
        entries[key]?.needsSave = true
    }

    /// Writes bytes; when it returns they can be read from the file, and soon they survive a power cut.
    ///
    /// - Throws: ``CacheError``: `write` (a full disk), `full`, `dropped` or `closed`. Nothing is stored then.
    package func write(_ bytes: [UInt8], at offset: Int64, to resource: CachedResource) async throws {
        guard !isClosed else { throw CacheError.closed }
        let key = resource.record.key
        let range = ByteRange(offset: offset, saturatingLength: Int64(bytes.count))
        guard let entry = entries[key], entry.record.id == resource.record.id else { throw CacheError.dropped }
        let added = range.length - entry.record.ranges.overlap(with: range)
        try await evict(toFit: added)
        guard used + added <= configuration.capacity else { throw CacheError.full(capacity: configuration.capacity) }
        do {
            try await resource.file.write(bytes, at: offset)
        } catch {
            throw writeError(error)
        }
        guard var entry = entries[key], entry.record.id == resource.record.id else { throw CacheError.dropped }
        used += range.length - entry.record.ranges.overlap(with: range)
        entry.record.ranges.insert(range)
        entry.needsSave = true
        entries[key] = entry
        if entry.dirtyBytes >= Self.commitBytes {
            loop.spawn { await self.commit(key) }
        } else {
            scheduleCommit()
        }
    }

    private func writeError(_ error: any Error) -> CacheError {
        guard let error = error as? LoopError else { return .closed }
        return .write(errno: error.errno, reason: String(cString: strerror(error.errno)))
    }

    // MARK: Commit

    private func scheduleCommit() {
        guard commitTimer == nil, !isClosed else { return }
        commitTimer = loop.schedule(at: loop.now.advanced(by: Self.commitDelay)) { [weak self] in
            guard let self else { return }
            self.loop.spawn { await self.commitDue() }
        }
    }

    private func commitDue() async {
        commitTimer = nil
        for key in entries.filter({ $0.value.needsSave }).map(\.key).sorted(by: { $0.text < $1.text }) {
            await commit(key)
        }
    }

    /// Makes what was written of one resource durable, then says so in the index.
    private func commit(_ key: CacheKey) async {
        guard let entry = entries[key], !entry.isCommitting, entry.needsSave else { return }
        guard !entry.record.ranges.isEmpty else {
            entries[key]?.needsSave = false
            return
        }
        entries[key]?.isCommitting = true
        entries[key]?.needsSave = false
        defer {
            for waiter in commitWaiters { waiter.resume() }
            commitWaiters = []
        }
        var record = entry.record
        record.ranges = entry.committed
        do {
            if entry.dirtyBytes > 0, let file = entry.file {
                try await file.sync()
                if entry.isNew { try await files.syncDirectory(configuration.directory) }
                record.ranges = entry.record.ranges
            }
            // Cleared meanwhile: its id must not come back into the index.
            guard entries[key]?.record.id == record.id else { return }
            try await loop.offload { [index, record] in try index.save([record]) }
            guard entries[key]?.record.id == record.id else {
                try await loop.offload { [index, record] in try index.remove([record.id]) }
                return
            }
            entries[key]?.committed = record.ranges
            entries[key]?.isNew = false
        } catch {
            // Not durable, so not in the index: the bytes stay readable until the end of this process.
            lastCommitFailure = error
        }
        guard entries[key]?.record.id == record.id else { return }
        entries[key]?.isCommitting = false
        closeFileIfIdle(key)
        if entries[key]?.needsSave == true { scheduleCommit() }
    }

    /// The last failure to make bytes durable, if there was one.
    package private(set) var lastCommitFailure: (any Error)?

    private func closeFileIfIdle(_ key: CacheKey) {
        if let entry = entries[key], entry.pins == 0, entry.dirtyBytes == 0 { entries[key]?.file = nil }
    }

    // MARK: Removal

    /// Makes room for `bytes` more, least recently used first; what is pinned stays.
    private func evict(toFit bytes: Int64) async throws {
        while used + bytes > configuration.capacity {
            let candidates = entries.values.filter { $0.pins == 0 && !$0.isCommitting && !$0.record.ranges.isEmpty }
            guard let oldest = candidates.min(by: { $0.record.lastUse < $1.record.lastUse }) else { return }
            await drop(oldest.record.key, id: oldest.record.id)
        }
    }

    /// Forgets a resource: out of the index first, then its file goes.
    private func drop(_ key: CacheKey, id: Int64) async {
        guard let entry = entries[key], entry.record.id == id else { return }
        entries[key] = nil
        used -= entry.record.ranges.count
        let index = index
        try? await loop.offload { try index.remove([id]) }
        try? await files.unlink(path(id))
    }

    /// Drops the bytes of a resource that changed on the server; a new one begins at the next ``checkOut(_:)``.
    package func invalidate(_ resource: CachedResource) async {
        await drop(resource.record.key, id: resource.record.id)
    }

    /// Removes every resource that is not in use.
    package func removeAll() async {
        for entry in entries.values where entry.pins == 0 { await drop(entry.record.key, id: entry.record.id) }
    }

    /// Commits what was written and closes the index. Further calls throw ``CacheError/closed``.
    package func close() async {
        guard !isClosed else { return }
        isClosed = true
        if let commitTimer { loop.cancel(commitTimer) }
        commitTimer = nil
        for key in entries.keys.sorted(by: { $0.text < $1.text }) {
            while entries[key]?.isCommitting == true { await withCheckedContinuation { commitWaiters.append($0) } }
            await commit(key)
        }
        let index = index
        try? await loop.offload { index.close() }
        entries.removeAll()
    }

    /// What is stored of a resource, without pinning it.
    package func record(of key: CacheKey) -> CacheRecord? { entries[key]?.record }
    /// Every stored resource, in no order.
    package var records: [CacheRecord] { entries.values.map(\.record) }
}
