import EventLoop
import FeedVocabulary
import Glibc

extension MediaCache {
    /// Bytes written but not committed at which a commit starts without waiting.
    static var commitBytes: Int64 { ByteSize.megabytes(64) }
    /// How long a written range waits for others before it is committed, and so may be lost by a killed process.
    private static var commitDelay: Duration { .milliseconds(250) }

    /// How long what waits for its sync, or failed, is left alone.
    private static var recheckDelay: Duration { .seconds(5) }

    func scheduleCommit() { scheduleCommit(after: Self.commitDelay) }

    private func scheduleCommit(after delay: Duration) {
        guard !isClosed else { return }
        let due = loop.now.advanced(by: delay)
        if let (timer, dueBefore) = commitTimer {
            guard due < dueBefore else { return }
            loop.cancel(timer)
        }
        let timer = loop.schedule(at: due) { [weak self] in
            guard let self else { return }
            self.loop.spawn { await self.commitDue() }
        }
        commitTimer = (timer, due)
    }

    private func commitDue() async {
        commitTimer = nil
        for key in entries.filter({ needsCommit($0.value) }).map(\.key).sorted(by: { $0.text < $1.text }) {
            await commit(key)
        }
        if entries.values.contains(where: { $0.unsyncedSince != nil }) { scheduleCommit(after: Self.recheckDelay) }
        if !isClosed { await removeExpired() }
    }

    /// Says in the index what was written of one resource, and makes it durable when it is time.
    func commit(_ key: CacheKey) async {
        guard let entry = entries[key], needsCommit(entry), await claim(key, id: entry.record.id) else { return }
        let id = entry.record.id
        defer {
            release(key, id: id)
            closeFileIfIdle(key)
            if entries[key]?.needsSave == true { scheduleCommit() }
        }
        guard let entry = entries[key] else { return }
        entries[key]?.needsSave = false
        // A record without bytes would be no use, but one that was saved must not keep those that it had.
        guard !entry.record.ranges.isEmpty || !entry.isNew else { return }
        var record = entry.record
        let changed = configuration.keepsChecksums ? record.ranges.subtracting(entry.committed).ranges : []
        do {
            let isSync = entry.unsyncedBytes > 0 && isSyncDue(entry)
            // Not open any more when nobody uses the resource, so that many of them don't use up the descriptors.
            var file = entry.file
            if file == nil, isSync || !changed.isEmpty { file = try await files.open(path(id), creating: false) }
            if isSync, let file {
                try await file.sync()
                if !entry.isNameSynced { try await files.syncDirectory(configuration.directory) }
            }
            // Dropped meanwhile: its id must not come back into the index.
            guard let now = entries[key], now.record.id == id else { return }
            // What was lost during the sync must not be promised.
            record.ranges = record.ranges.intersection(now.record.ranges)
            let synced = isSync ? record.ranges : now.synced
            try await save(record, synced: synced, durably: isSync, changed: changed, file: file)
            guard let now = entries[key], now.record.id == id else {
                return try await loop.offload { [index] in try index.remove([id]) }
            }
            entries[key]?.committed = record.ranges
            if isSync {
                entries[key]?.synced = synced
                entries[key]?.isNew = false
                entries[key]?.isNameSynced = true
                let isBehind = now.record.ranges.count > synced.count
                entries[key]?.unsyncedSince = isBehind ? loop.now : nil
            }
        } catch {
            // Not durable, so not in the index: the bytes stay readable until the end of this process.
            lastCommitFailure = error
            // Gone with the directory that somebody removed: there is nothing left to make durable.
            if let error = error as? LoopError, error.errno == ENOENT { await dropIfIdle(key, id: id) }
        }
    }

    /// How long bytes of a resource in use stay fresh. The system writes them out by itself after the same time, so
    /// that a sync then finds little left to do.
    private static var syncDelay: Duration { .seconds(30) }

    private func needsCommit(_ entry: Entry) -> Bool {
        entry.needsSave || (entry.unsyncedSince != nil && isSyncDue(entry))
    }

    private func isSyncDue(_ entry: Entry) -> Bool {
        entry.pins == 0 || isClosed || entry.unsyncedSince.map { $0.duration(to: loop.now) >= Self.syncDelay } ?? true
    }

    /// - Parameter changed: What is new since the last time; its blocks get new checksums.
    private func save(
        _ record: CacheRecord, synced: ByteRangeSet, durably: Bool, changed: [ByteRange], file: (any OpenFile)?
    ) async throws {
        var checksums: [BlockChecksum] = []
        if let file {
            for piece in BlockChecksum.pieces(of: record.ranges, touching: changed) {
                let bytes = try await file.read(at: piece.lowerBound, count: Int(piece.length))
                checksums.append(BlockChecksum(range: piece, checksum: CRC32C.checksum(bytes)))
            }
        }
        let blocks = BlockChecksum.blocks(touching: changed)
        try await loop.offload { [index, checksums] in
            try index.save(record, synced: synced, durably: durably, checksums: checksums, of: blocks)
        }
    }

    /// The files of some that were used last stay open: what was just preloaded is played next, and opening takes a
    /// round through another thread.
    func closeFileIfIdle(_ key: CacheKey) {
        guard isIdle(key), let oldest = idleFiles.update(key, default: key, { _ in }), isIdle(oldest) else { return }
        entries[oldest]?.file = nil
    }
    private func isIdle(_ key: CacheKey) -> Bool {
        entries[key].map { $0.pins == 0 && !$0.isBusy && $0.file != nil } ?? false
    }

    /// Gives up bytes of a resource that is larger than what the cache has room for: those behind the reader, oldest
    /// place first. They leave the index before they leave the disk.
    func trim(
        _ resource: CachedResource, toFit bytes: Int64, keepingFrom reader: Int64, _ willTrim: (ByteRange) -> Void
    ) async throws {
        let (key, id) = (resource.record.key, resource.record.id)
        guard await claim(key, id: id) else { throw CacheError.dropped }
        defer {
            if entries[key]?.record.id == id { entries[key]?.isTrimming = false }
            release(key, id: id)
        }
        // No other write may be under way in the space that is given back.
        entries[key]?.isTrimming = true
        while entries[key]?.record.id == id, entries[key]?.writes ?? 0 > 0 {
            await waitForChange(while: { $0.entries[key]?.writes ?? 0 > 0 })
        }
        guard var entry = entries[key], entry.record.id == id else { throw CacheError.dropped }
        // A short way back stays, for demuxers that look around; and an eighth goes at once, as each time is a commit.
        let end = reader - configuration.capacity / 8
        var wanted = max(used + bytes - configuration.capacity, configuration.capacity / 8)
        var trimmed: [ByteRange] = []
        for range in entry.record.ranges.ranges where range.lowerBound < end && wanted > 0 {
            let part = ByteRange(offset: range.lowerBound, saturatingLength: min(wanted, range.length))
                .clamped(to: range.lowerBound..<end)
            wanted -= part.length
            trimmed.append(part)
        }
        guard !trimmed.isEmpty else { return }
        var saved = entry.record
        saved.ranges = entry.committed
        for part in trimmed {
            willTrim(part)
            entry.record.ranges.remove(part)
            saved.ranges.remove(part)
            entry.synced.remove(part)
        }
        let mustSave = saved.ranges != entry.committed
        entry.committed = saved.ranges
        entries[key] = entry
        do {
            if mustSave {
                let changed = configuration.keepsChecksums ? trimmed : []
                try await save(saved, synced: entry.synced, durably: true, changed: changed, file: entry.file)
            }
            while let part = trimmed.last {
                // With what is missing around it, or each time a disk block that two parts share would stay.
                try await resource.file.punchHole(entry.record.ranges.hole(around: part))
                trimmed.removeLast()
                used -= part.length
            }
        } catch {
            // Still on the disk, and so still counted: the whole resource goes when it is put down.
            if entries[key]?.record.id == id {
                entries[key]?.lostBytes += trimmed.reduce(0) { $0 + $1.length }
                entries[key]?.isDoomed = true
            } else {
                used -= trimmed.reduce(0) { $0 + $1.length }
            }
            throw writeError(error)
        }
    }
}
