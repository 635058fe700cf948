package import EventLoop
package import FeedVocabulary
import Glibc

/// What a check of one resource found.
package struct CacheFinding: Hashable, Sendable {
    package let key: CacheKey
    /// Bytes that the index promises.
    package let bytes: Int64
    /// Bytes of them that a checksum vouches for.
    package let checked: Int64
    /// Bytes that were not what they should be, and were dropped.
    package let lost: Int64
}

/// What people and hosts do with a cache as a whole.
extension MediaCache {
    // MARK: Files that are not the cache's

    /// A file of this machine, to be read as if all of it were cached.
    ///
    /// - Throws: ``LoopError``, for a directory too.
    package func openLocal(_ path: String) async throws -> (file: any OpenFile, length: Int64) {
        let status = try await files.stat(path)
        guard !status.isDirectory else { throw LoopError(code: -EISDIR, call: "open \(path)") }
        return (try await files.openToRead(path), status.length)
    }

    /// What is stored of a resource, without pinning it.
    package func record(of key: CacheKey) -> CacheRecord? { entries[key]?.record }
    /// Every stored resource, most recently used first.
    package var records: [CacheRecord] {
        entries.values.map(\.record).filter { !$0.ranges.isEmpty }.sorted { $0.lastUse > $1.lastUse }
    }

    /// Removes every resource but the `count` used last; one that is in use goes as soon as it is not.
    package func removeAll(keepingMostRecent count: Int = 0) async {
        for record in records.dropFirst(count) { await remove(record.key) }
    }

    /// Removes the resources of one identity.
    package func removeAll(identity: String) async {
        for record in records where record.identity == identity { await remove(record.key) }
    }

    /// Removes a resource; one that is in use goes as soon as it is not.
    ///
    /// - Returns: Whether there was one.
    @discardableResult
    package func remove(_ key: CacheKey) async -> Bool {
        guard let entry = entries[key], !entry.record.ranges.isEmpty else { return false }
        if entry.pins > 0 {
            entries[key]?.isDoomed = true
        } else {
            await drop(key, id: entry.record.id)
        }
        return true
    }

    /// Writes a resource that is stored as a whole to a file, which appears under its name when it is complete.
    ///
    /// - Parameter moving: Gives the bytes away instead of copying them; the resource is not in the cache afterwards.
    /// - Throws: ``CacheError``: `missing`, `incomplete`, or `write`.
    package func export(_ key: CacheKey, to path: String, moving: Bool = false) async throws {
        guard let entry = entries[key] else { throw CacheError.missing(key) }
        guard entry.record.isComplete else { throw CacheError.incomplete(key) }
        let resource = try await checkOut(key)
        defer { checkIn(resource) }
        guard let length = resource.record.length, resource.record.isComplete else { throw CacheError.incomplete(key) }
        let source = self.path(resource.record.id)
        do {
            try await resource.file.truncate(to: length)
            if moving {
                do {
                    try await files.rename(source, to: path)
                    return await drop(key, id: resource.record.id)
                } catch {
                    // Another file system: copied, and then removed here.
                }
            }
            // Not under its name before it is whole.
            let part = path + ".part"
            do {
                try await files.copy(source, to: part)
                try await files.rename(part, to: path)
            } catch {
                try? await files.unlink(part)
                throw error
            }
            if moving { await drop(key, id: resource.record.id) }
        } catch {
            throw writeError(error)
        }
    }

    /// Compares a resource with its checksums, where there are some, and its file with the index.
    ///
    /// What is not right leaves the index, block by block, and is fetched again when it is wanted.
    @discardableResult
    package func verify(_ key: CacheKey) async throws -> CacheFinding {
        guard let id = entries[key]?.record.id, await claim(key, id: id), let entry = entries[key] else {
            throw CacheError.missing(key)
        }
        defer {
            if entries[key]?.record.id == id { entries[key]?.isUnverified = false }
            release(key, id: id)
        }
        let (file, blocks): (any OpenFile, [BlockChecksum])
        do {
            blocks = try await loop.offload { [index] in try index.checksums(of: id) }
            if let open = entry.file { file = open } else { file = try await files.open(path(id), creating: false) }
        } catch {
            await drop(key, id: id)
            return CacheFinding(key: key, bytes: entry.record.ranges.count, checked: 0, lost: entry.record.ranges.count)
        }
        var bad: [ByteRange] = []
        var checked: Int64 = 0
        for block in blocks where entry.committed.contains(block.range) {
            let bytes = try? await file.read(at: block.range.lowerBound, count: Int(block.range.length))
            checked += block.range.length
            if bytes.map({ Int64($0.count) == block.range.length && CRC32C.checksum($0) == block.checksum }) != true {
                bad.append(block.range)
            }
        }
        guard entries[key]?.record.id == id else { throw CacheError.missing(key) }
        let resource = CachedResource(record: entry.record, file: file)
        for range in bad { lost(range, of: resource) }
        return CacheFinding(
            key: key, bytes: entry.record.ranges.count, checked: checked, lost: bad.reduce(0) { $0 + $1.length })
    }

    /// The MD5 of the first `length` bytes, as 32 lower-case hexadecimal digits.
    package func digest(of resource: CachedResource, length: Int64) async throws -> String {
        var digest = MD5()
        var position: Int64 = 0
        while position < length {
            let bytes = try await resource.file.read(
                at: position, count: Int(min(ByteSize.megabytes(1), length - position)))
            guard !bytes.isEmpty else { throw CacheError.incomplete(resource.record.key) }
            digest = try await loop.offload { [digest] in
                var next = digest
                next.update(bytes)
                return next
            }
            position += Int64(bytes.count)
        }
        return digest.hexDigest()
    }
}
