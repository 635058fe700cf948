import EventLoop
import FeedVocabulary

extension MediaCache {
    /// Bytes written but not committed at which a commit starts without waiting.
    static var commitBytes: Int64 { ByteSize.megabytes(8) }
    /// How long a written range waits for others before it is committed.
    private static var commitDelay: Duration { .seconds(1) }

    func scheduleCommit() {
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
        if !isClosed { await removeExpired() }
    }

    /// Makes what was written of one resource durable, then says so in the index.
    func commit(_ key: CacheKey) async {
        guard let id = entries[key]?.record.id, entries[key]?.needsSave == true, await claim(key, id: id) else { return }
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
        do {
            var changed: [ByteRange] = []
            if entry.dirtyBytes > 0, let file = entry.file {
                try await file.sync()
                if entry.isNew { try await files.syncDirectory(configuration.directory) }
                if configuration.keepsChecksums {
                    changed = record.ranges.ranges.flatMap { entry.committed.holes(in: $0) }
                }
            } else if entry.dirtyBytes > 0 {
                record.ranges = entry.committed
            }
            // Dropped meanwhile: its id must not come back into the index.
            guard let now = entries[key], now.record.id == id else { return }
            // What was trimmed or lost during the sync must not be promised.
            for range in record.ranges.ranges {
                for hole in now.record.ranges.holes(in: range) { record.ranges.remove(hole) }
            }
            try await save(record, changed: changed, file: entry.file)
            guard entries[key]?.record.id == id else {
                try await loop.offload { [index] in try index.remove([id]) }
                return
            }
            entries[key]?.committed = record.ranges
            entries[key]?.isNew = false
        } catch {
            // Not durable, so not in the index: the bytes stay readable until the end of this process.
            lastCommitFailure = error
        }
    }

    /// - Parameter changed: What is new since the last time; its blocks get new checksums.
    private func save(_ record: CacheRecord, changed: [ByteRange], file: (any OpenFile)?) async throws {
        var checksums: [BlockChecksum] = []
        if let file {
            for piece in BlockChecksum.pieces(of: record.ranges, touching: changed) {
                let bytes = try await file.read(at: piece.lowerBound, count: Int(piece.length))
                checksums.append(BlockChecksum(range: piece, checksum: CRC32C.checksum(bytes)))
            }
        }
        let blocks = BlockChecksum.blocks(touching: changed)
        try await loop.offload { [index, checksums] in try index.save(record, checksums: checksums, of: blocks) }
    }

    private func closeFileIfIdle(_ key: CacheKey) {
        if let entry = entries[key], entry.pins == 0, entry.dirtyBytes == 0, !entry.isBusy { entries[key]?.file = nil }
    }

    /// Gives up bytes of a resource that is larger than what the cache has room for: those behind the reader, oldest
    /// place first. They leave the index before they leave the disk.
    func trim(
        _ resource: CachedResource, toFit bytes: Int64, keepingFrom reader: Int64, _ willTrim: (ByteRange) -> Void
    ) async throws {
        let (key, id) = (resource.record.key, resource.record.id)
        guard await claim(key, id: id) else { throw CacheError.dropped }
        defer { release(key, id: id) }
        guard var entry = entries[key] else { throw CacheError.dropped }
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
        }
        let mustSave = saved.ranges != entry.committed
        entry.committed = saved.ranges
        entries[key] = entry
        if mustSave { try await save(saved, changed: configuration.keepsChecksums ? trimmed : [], file: entry.file) }
        for part in trimmed {
            // With what is missing around it, or each time a disk block that two parts share would stay.
            try await resource.file.punchHole(entry.record.ranges.hole(around: part))
            used -= part.length
        }
    }
}
