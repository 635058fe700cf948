import EventLoop
package import FeedVocabulary

/// One reader of one resource: an engine, a preload, the host. Close it, or its demand goes on.
///
/// It has the readers of what its resource refers to, such as the parts of a playlist: what is said to it is said to them.
package final class ByteReader: Sendable {
    package let key: CacheKey
    let id: Int
    let bytes: ResourceBytes
    let loaders: ResourceLoaders
    let related = Lock(RelatedReaders())

    init(key: CacheKey, id: Int, bytes: ResourceBytes, loaders: ResourceLoaders) {
        (self.key, self.id, self.bytes, self.loaders) = (key, id, bytes, loaders)
    }
    deinit { loaders.forget(key, id) }

    // MARK: From a thread of one's own

    /// Reads at most `target.count` bytes at `offset`, blocking until at least one is there; 0 at the end.
    ///
    /// - Throws: ``LoadError``; `closed` after ``interrupt()``.
    package func readBlocking(at offset: Int64, into target: UnsafeMutableRawBufferPointer) throws(LoadError) -> Int {
        try bytes.read(at: offset, into: target, reader: id, clock: loaders.loop) { offset in
            loaders.moved(key, id, to: offset)
        }
    }

    /// All of `count` bytes at `offset`, as far as the resource goes; blocks until they are there.
    ///
    /// - Throws: As ``readBlocking(at:into:)``.
    package func readAllBlocking(at offset: Int64 = 0, count: Int) throws(LoadError) -> [UInt8] {
        var bytes: [UInt8] = []
        var piece = [UInt8](repeating: 0, count: min(Self.piece, count))
        while bytes.count < count {
            let (place, rest) = (offset + Int64(bytes.count), count - bytes.count)
            let got = try piece.withUnsafeMutableBytes { target in
                Result { () throws(LoadError) in
                    try readBlocking(at: place, into: UnsafeMutableRawBufferPointer(rebasing: target.prefix(rest)))
                }
            }.get()
            if got == 0 { break }
            bytes += piece[..<got]
        }
        return bytes
    }
    private static let piece = 64 * 1024

    /// Makes blocking reads fail from now on. Any thread.
    package func interrupt() {
        bytes.state.withLockNotifying { $0.readers[id]?.isInterrupted = true }
        for reader in related.withLockNotifying({ $0.interrupt() }) { reader.interrupt() }
    }

    /// Makes blocking reads fail until ``calm()``, because their thread has to do something else first. Any thread.
    package func nudge() {
        bytes.state.withLockNotifying { $0.readers[id]?.isNudged = true }
        for reader in related.withLock({ $0.nudge(true) }) { reader.nudge() }
    }
    /// Ends that. A failure from before is forgotten: what is read next is asked for anew.
    package func calm() {
        bytes.state.withLock { state in
            state.readers[id]?.isNudged = false
            if state.readers[id]?.isInterrupted == false { state.readers[id]?.failure = nil }
        }
        for reader in related.withLock({ $0.nudge(false) }) { reader.calm() }
    }

    /// Time that blocking reads have waited for bytes. Any thread.
    package var waitedTime: Duration {
        let own = bytes.state.withLock { $0.readers[id]?.waited ?? .zero }
        let (past, readers) = related.withLock { ($0.waited, Array($0.readers.values)) }
        return readers.reduce(own + past) { $0 + $1.waitedTime }
    }

    /// Length in bytes, `nil` while unknown. Any thread.
    package var length: Int64? { bytes.state.withLock { $0.length } }

    /// Whether the whole resource can be read without the network. Any thread.
    package var isComplete: Bool {
        bytes.state.withLock { state in state.length.map { state.readable.contains(0..<$0) } ?? false }
    }

    /// The end of the run of readable bytes from `offset` on. Any thread.
    package func contiguousEnd(from offset: Int64) -> Int64 {
        bytes.state.withLock { $0.readable.contiguousEnd(from: offset) }
    }

    /// Readable bytes of `range`. Any thread.
    package func available(in range: ByteRange) -> Int64 { bytes.state.withLock { $0.readable.overlap(with: range) } }

    /// The same of all that its resource refers to as well, from the first byte on.
    var availableInAll: Int64 { relatedReaders.reduce(available(in: 0..<Int64.max)) { $0 + $1.availableInAll } }

    // MARK: From the loop

    /// What is known of the resource, asked of the server if need be.
    package func contentInformation() async throws -> ContentInformation {
        try await telling { try await loaders.contentInformation(key, id) }
    }

    /// Up to `count` bytes at `offset`; none at the end of the resource.
    ///
    /// - Throws: ``LoadError``, or `CancellationError`.
    package func read(at offset: Int64, count: Int) async throws -> [UInt8] {
        try await telling { try await loaders.read(key, id, at: offset, count: count) }
    }

    /// A reader that was ended because the resource changed learns that, and not only that it is closed.
    private func telling<Answer>(_ body: () async throws -> Answer) async throws -> Answer {
        do {
            return try await body()
        } catch LoadError.closed {
            throw bytes.takeFailure(id) ?? LoadError.closed
        }
    }

    /// All of `count` bytes at `offset`, as far as the resource goes.
    package func readAll(at offset: Int64 = 0, count: Int) async throws -> [UInt8] {
        var bytes: [UInt8] = []
        while bytes.count < count {
            let piece = try await read(at: offset + Int64(bytes.count), count: min(Self.piece, count - bytes.count))
            if piece.isEmpty { break }
            bytes += piece
        }
        return bytes
    }

    /// Suspends until all of `range` (as far as the resource reaches) can be read.
    package func wait(for range: ByteRange) async throws {
        try await telling { try await loaders.wait(key, id, for: range) }
    }

    /// Asks for ranges, most wanted first, each as one request.
    package func want(_ ranges: [ByteRange]) async { await loaders.want(key, id, ranges) }

    /// How far ahead of the last read bytes are fetched, in bytes.
    package func setReadAhead(_ bytes: Int64) async {
        await loaders.setReadAhead(key, id, bytes)
        for reader in relatedReaders { await reader.setReadAhead(bytes) }
    }

    package func setPriority(_ priority: LoadPriority) async {
        await loaders.setPriority(key, id, priority)
        for reader in relatedReaders { await reader.setPriority(priority) }
    }

    /// Counts what this reader reads, and has read, as played.
    package func markPlayed() async {
        await loaders.markPlayed(key, id)
        for reader in relatedReaders { await reader.markPlayed() }
    }

    /// Ends the demand. Fetches that nobody else wants are cancelled before it returns. Idempotent.
    package func close() async {
        for reader in related.withLockNotifying({ $0.interrupt() }) { await reader.close() }
        await loaders.close(key, id)
    }

    var relatedReaders: [ByteReader] { related.withLock { Array($0.readers.values) } }
}
