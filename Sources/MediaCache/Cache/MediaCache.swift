package import EventLoop
package import FeedVocabulary
import Glibc

/// Where and how much a cache stores.
package struct CacheConfiguration: Sendable {
    package var directory: String
    /// Bytes of media kept at most.
    package var capacity: Int64
    /// An entry that nobody used for this long is removed.
    package var maximumAge = Duration.seconds(14 * 24 * 3600)
    /// Bytes of the disk that the cache leaves to others.
    package var freeDiskGuard = ByteSize.megabytes(100)
    /// Whether each block's checksum is kept, and compared before the first use after a process that did not end well.
    package var keepsChecksums = false
    /// Names the time since the machine was started; what was not synced before counts no longer (proc(5)).
    package var boot = Self.currentBoot

    private static let currentBoot: String = {
        let descriptor = Glibc.open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC)
        guard descriptor >= 0 else { return "unknown since \(getpid())" }
        defer { Glibc.close(descriptor) }
        var bytes = [UInt8](repeating: 0, count: 36)
        let count = max(0, Glibc.read(descriptor, &bytes, bytes.count))
        return String(decoding: bytes[..<count], as: UTF8.self)
    }()
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
/// The order is always: data written, range committed as "fresh", data synced, range committed for good; and the other
/// way round when space is given back. Fresh ranges count for a process that is started after another was killed, not
/// for one after the machine was. So the index may know less than was fetched, never more. Bytes can be read as soon as
/// they are written, by this process.
package actor MediaCache {
    nonisolated let loop: any LoopExecutor
    package nonisolated var unownedExecutor: UnownedSerialExecutor { loop.asUnownedSerialExecutor() }

    struct Entry {
        var record: CacheRecord  // `ranges` are those written, committed or not
        var committed: ByteRangeSet  // in the index
        var synced: ByteRangeSet  // and on the disk, whatever happens to the machine
        var unsyncedSince: LoopInstant?
        var file: (any OpenFile)?
        var pins = 0
        /// Its record is being saved, or its file's space given back; one of these at a time.
        var isBusy = false
        var isNew: Bool  // it has never been saved
        var isNameSynced = false  // its file's name survives a power cut
        var needsSave = false
        /// Writes under way; none begins while space is given back.
        var writes = 0
        var isTrimming = false
        /// Bytes on the disk that no range stands for, because their space could not be given back.
        var lostBytes: Int64 = 0
        /// Removed as soon as nobody uses it.
        var isDoomed = false
        /// Its checksums have to be compared before it is used.
        var isUnverified = false
        var dirtyBytes: Int64 { record.ranges.count - committed.count }
        var unsyncedBytes: Int64 { record.ranges.count - synced.count }
    }

    let configuration: CacheConfiguration
    let files: any FileSystem
    let index: CacheIndex
    var entries: [CacheKey: Entry] = [:]
    /// Keys of files that are open although nobody uses them.
    var idleFiles = RecentItems<CacheKey, CacheKey>(capacity: 16)
    private var useCount: Int64 = 0
    var commitTimer: (timer: LoopTimer, due: LoopInstant)?
    private(set) var isClosed = false
    private var isReconciled = false
    /// Those who wait for an entry that is busy.
    private var busyWaiters: [CheckedContinuation<Void, Never>] = []
    private var writtenSinceDiskCheck = Int64.max
    private var expiredAt: WallTime?
    /// Bytes of media in the cache.
    package var used: Int64 = 0
    /// The last failure to make bytes durable, if there was one.
    package var lastCommitFailure: (any Error)?

    private init(_ configuration: CacheConfiguration, loop: any LoopExecutor, files: any FileSystem, index: CacheIndex)
    {
        (self.configuration, self.loop, self.files, self.index) = (configuration, loop, files, index)
    }

    /// Opens a directory, and reconciles index and files in time bounded by the number of entries.
    ///
    package static func open(
        _ configuration: CacheConfiguration, on loop: any LoopExecutor, files: any FileSystem,
        index place: CacheIndexPlace = .directory
    ) async throws -> MediaCache {
        let directory = configuration.directory
        do {
            try await files.makeDirectory(directory)
        } catch let error as LoopError {
            throw CacheError.unusable(directory: directory, reason: String(cString: strerror(error.errno)))
        }
        let now = loop.wallTime
        let index = try await loop.offload {
            try CacheIndex(directory: directory, place: place, now: now, boot: configuration.boot)
        }
        let cache = MediaCache(configuration, loop: loop, files: files, index: index)
        do {
            try await cache.reconcile()
        } catch {
            await cache.close()
            throw error
        }
        return cache
    }

    package nonisolated func path(_ id: Int64) -> String {
        configuration.directory + "/" + String(UInt64(bitPattern: id), radix: 16) + ".media"
    }

    private func reconcile() async throws {
        let index = index
        var bad: [Int64] = []
        for (record, synced) in index.takeRecords() {
            let end = record.ranges.ranges.last?.upperBound ?? 0
            let status = try? await files.stat(path(record.id))
            guard !record.ranges.isEmpty, let status, status.length >= end, end <= record.length ?? .max else {
                bad.append(record.id)
                continue
            }
            entries[record.key] = Entry(
                record: record, committed: record.ranges, synced: synced,
                unsyncedSince: synced == record.ranges ? nil : loop.now, isNew: false, isNameSynced: !synced.isEmpty,
                isUnverified: configuration.keepsChecksums && !index.wasClosed)
            used += record.ranges.count
            useCount = max(useCount, record.lastUse)
        }
        if !bad.isEmpty { try await loop.offload { [bad] in try index.remove(bad) } }
        let known = Set(entries.values.map { path($0.record.id) })
        for name in try await files.list(configuration.directory) where name.hasSuffix(".media") {
            let path = configuration.directory + "/" + name
            if !known.contains(path) { try? await files.unlink(path) }
        }
        await removeExpired()
        await evict(toFit: 0)
        isReconciled = true
        if entries.values.contains(where: { $0.unsyncedSince != nil }) { scheduleCommit() }
    }

    // MARK: Use

    /// Whether nothing is known of `key`, so that none of its bytes can be here.
    package func isUnknown(_ key: CacheKey) -> Bool { entries[key] == nil }

    /// Pins the resource of `key`, making an empty one if there is none, until ``checkIn(_:)``.
    ///
    /// - Parameter identity: Whose bytes these are, noted when the entry is made.
    package func checkOut(_ key: CacheKey, identity: String? = nil) async throws -> CachedResource {
        guard !isClosed else { throw CacheError.closed }
        if entries[key]?.isUnverified == true { try await verify(key) }
        if entries[key] == nil {
            let id = Int64(bitPattern: loop.random())
            let record = CacheRecord(id: id, key: key, identity: identity, lastUse: 0, lastUsedAt: loop.wallTime)
            entries[key] = Entry(
                record: record, committed: ByteRangeSet(), synced: ByteRangeSet(), isNew: true)
        }
        guard var entry = entries[key] else { preconditionFailure("the entry was just made") }
        useCount += 1
        (entry.record.lastUse, entry.record.lastUsedAt) = (useCount, loop.wallTime)
        entry.needsSave = true
        entry.isDoomed = false
        entry.pins += 1
        entries[key] = entry
        if let file = entry.file { return CachedResource(record: entry.record, file: file) }
        let file: any OpenFile
        do {
            file = try await open(entry)
        } catch {
            if entries[key]?.record.id == entry.record.id { unpin(key) }
            // A file that vanished takes its record with it; the bytes are fetched again.
            if !entry.isNew, let error = error as? LoopError, error.errno == ENOENT {
                await drop(key, id: entry.record.id)
                return try await checkOut(key, identity: identity)
            }
            throw writeError(error)
        }
        guard entries[key]?.record.id == entry.record.id else { throw CacheError.dropped }
        // Two may have opened it at once: the first to come back gives the file, the other's closes itself.
        if let first = entries[key]?.file { return CachedResource(record: entry.record, file: first) }
        entries[key]?.file = file
        return CachedResource(record: entry.record, file: file)
    }

    private func open(_ entry: Entry) async throws -> any OpenFile {
        do {
            return try await files.open(path(entry.record.id), creating: entry.isNew)
        } catch let error as LoopError where error.errno == ENOENT && entry.isNew {
            // Somebody removed the directory: it is made again, and what is written from now on is kept.
            try await files.makeDirectory(configuration.directory)
            return try await files.open(path(entry.record.id), creating: true)
        }
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
        entries[key] = entry
        guard entry.pins == 0 else { return }
        if entry.record.ranges.isEmpty, !entry.isBusy {
            entries[key] = nil
            if entry.file != nil {
                loop.spawn { [files, path = path(entry.record.id)] in try? await files.unlink(path) }
            }
        } else if entry.isDoomed {
            loop.spawn { [id = entry.record.id] in await self.dropIfIdle(key, id: id, onlyDoomed: true) }
        }
        closeFileIfIdle(key)
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
    /// A resource that does not fit gives up what lies behind `reader`, so that any length streams through the cache.
    ///
    /// - Parameter willTrim: Called before bytes of this resource go: from then on they must not be read.
    /// - Throws: ``CacheError``: `write` (a full disk), `full`, `diskLow`, `dropped` or `closed`. Nothing is stored then.
    package func write(
        _ bytes: [UInt8], at offset: Int64, to resource: CachedResource, reader: Int64 = 0,
        willTrim: (ByteRange) -> Void = { _ in }
    ) async throws {
        guard !isClosed else { throw CacheError.closed }
        let key = resource.record.key
        let range = ByteRange(offset: offset, saturatingLength: Int64(bytes.count))
        guard let entry = entries[key], entry.record.id == resource.record.id else { throw CacheError.dropped }
        let added = range.length - entry.record.ranges.overlap(with: range)
        try await guardDisk(adding: added)
        await evict(toFit: added)
        if used + added > configuration.capacity {
            try await trim(resource, toFit: added, keepingFrom: min(reader, offset), willTrim)
        }
        guard used + added <= configuration.capacity else { throw CacheError.full(capacity: configuration.capacity) }
        while entries[key]?.record.id == resource.record.id, entries[key]?.isTrimming == true {
            await waitForChange(while: { $0.entries[key]?.isTrimming == true })
        }
        guard entries[key]?.record.id == resource.record.id else { throw CacheError.dropped }
        entries[key]?.writes += 1
        defer {
            if entries[key]?.record.id == resource.record.id { entries[key]?.writes -= 1 }
            wakeWaiters()
        }
        do {
            try await resource.file.write(bytes, at: offset)
        } catch {
            // A part of it may have reached the disk, which nobody would ever count.
            if let entry = entries[key], entry.record.id == resource.record.id {
                for hole in entry.record.ranges.holes(in: range) { try? await resource.file.punchHole(hole) }
            }
            throw writeError(error)
        }
        guard var entry = entries[key], entry.record.id == resource.record.id else { throw CacheError.dropped }
        used += range.length - entry.record.ranges.overlap(with: range)
        entry.record.ranges.insert(range)
        entry.needsSave = true
        if entry.unsyncedSince == nil { entry.unsyncedSince = loop.now }
        entries[key] = entry
        if entry.dirtyBytes >= Self.commitBytes {
            loop.spawn { await self.commit(key) }
        } else {
            scheduleCommit()
        }
    }

    func writeError(_ error: any Error) -> CacheError {
        guard let error = error as? LoopError else { return error as? CacheError ?? .closed }
        return .write(errno: error.errno, reason: String(cString: strerror(error.errno)))
    }

    /// Bytes written between two looks at the disk's free space.
    private static let diskCheckBytes = ByteSize.megabytes(16)

    private func guardDisk(adding bytes: Int64) async throws {
        guard configuration.freeDiskGuard > 0 else { return }
        let (sum, overflow) = writtenSinceDiskCheck.addingReportingOverflow(bytes)
        writtenSinceDiskCheck = overflow ? .max : sum
        guard writtenSinceDiskCheck > min(Self.diskCheckBytes, configuration.freeDiskGuard / 4) else { return }
        while true {
            guard let free = try? await files.freeBytes(at: configuration.directory) else { return }
            if free - bytes >= configuration.freeDiskGuard {
                writtenSinceDiskCheck = 0
                return
            }
            guard let oldest = evictable() else {
                throw CacheError.diskLow(free: free, guarded: configuration.freeDiskGuard)
            }
            await drop(oldest.key, id: oldest.id)
        }
    }

    /// Bytes that the index promised are not in the file: whoever shortened it, they are fetched again.
    package func lost(_ range: ByteRange, of resource: CachedResource) {
        let key = resource.record.key
        guard var entry = entries[key], entry.record.id == resource.record.id else { return }
        used -= entry.record.ranges.overlap(with: range)
        entry.record.ranges.remove(range)
        entry.committed.remove(range)
        entry.synced.remove(range)
        entry.needsSave = true
        entries[key] = entry
        scheduleCommit()
    }

    // MARK: One thing at a time

    /// Waits until nothing else is done to an entry, and claims it.
    ///
    /// - Returns: Whether the entry is still there.
    func claim(_ key: CacheKey, id: Int64) async -> Bool {
        while entries[key]?.record.id == id, entries[key]?.isBusy == true {
            await waitForChange(while: { $0.entries[key]?.isBusy == true })
        }
        guard entries[key]?.record.id == id else { return false }
        entries[key]?.isBusy = true
        return true
    }

    func release(_ key: CacheKey, id: Int64) {
        if entries[key]?.record.id == id { entries[key]?.isBusy = false }
        wakeWaiters()
    }

    /// Suspends until something was done to some entry.
    func waitForChange(while isWaiting: (isolated MediaCache) -> Bool) async {
        await withCheckedContinuation { waiter in
            // Asked here: a host's task may be suspended on the way into the closure.
            if isWaiting(self) { busyWaiters.append(waiter) } else { waiter.resume() }
        }
    }

    private func wakeWaiters() {
        let waiters = busyWaiters
        busyWaiters = []
        for waiter in waiters { waiter.resume() }
    }

    // MARK: Removal

    /// The resource that goes first: least recently used, and in nobody's hands.
    private func evictable() -> (key: CacheKey, id: Int64)? {
        let candidates = entries.values.filter { $0.pins == 0 && !$0.record.ranges.isEmpty }
        return candidates.min { $0.record.lastUse < $1.record.lastUse }.map { ($0.record.key, $0.record.id) }
    }

    /// Makes room for `bytes` more, least recently used first; what is pinned stays.
    func evict(toFit bytes: Int64) async {
        while used + bytes > configuration.capacity {
            guard let oldest = evictable() else { return }
            await drop(oldest.key, id: oldest.id)
        }
    }

    /// Removes what nobody used for the maximum age; looks once an hour.
    func removeExpired() async {
        let now = loop.wallTime
        if let expiredAt, now < expiredAt.advanced(by: .seconds(3600)), now >= expiredAt { return }
        expiredAt = now
        for entry in entries.values.sorted(by: { $0.record.lastUse < $1.record.lastUse })
        where entry.record.lastUsedAt.duration(to: now) > configuration.maximumAge {
            await dropIfIdle(entry.record.key, id: entry.record.id)
        }
    }

    /// Forgets a resource that nobody uses, asked at this moment: it may have been opened since it was chosen.
    func dropIfIdle(_ key: CacheKey, id: Int64, onlyDoomed: Bool = false) async {
        guard let entry = entries[key], entry.record.id == id, entry.pins == 0, entry.isDoomed || !onlyDoomed else {
            return
        }
        await drop(key, id: id)
    }

    /// Forgets a resource: out of the index first, then its file goes.
    func drop(_ key: CacheKey, id: Int64) async {
        guard let entry = entries[key], entry.record.id == id else { return }
        entries[key] = nil
        used -= entry.record.ranges.count + entry.lostBytes
        let index = index
        if !isClosed { try? await loop.offload { try index.remove([id]) } }
        try? await files.unlink(path(id))
    }

    /// Drops the bytes of a resource that changed on the server; a new one begins at the next ``checkOut(_:identity:)``.
    package func invalidate(_ resource: CachedResource) async {
        await drop(resource.record.key, id: resource.record.id)
    }

    /// Commits what was written and closes the index. Further calls throw ``CacheError/closed``.
    package func close() async {
        guard !isClosed else { return }
        isClosed = true
        if let commitTimer { loop.cancel(commitTimer.timer) }
        commitTimer = nil
        for key in entries.keys.sorted(by: { $0.text < $1.text }) { await commit(key) }
        // Only who checks what an unclean end left may say that all is well again.
        let isClean =
            isReconciled && (index.wasClosed || configuration.keepsChecksums)
            && entries.values.allSatisfy { $0.unsyncedBytes == 0 && !$0.isUnverified }
        let index = index
        try? await loop.offload { index.close(cleanly: isClean) }
        entries.removeAll()
    }
}
