public import FeedVocabulary
public import ResourceLoading

/// Reads the bytes of a source directly: from disk where they are there, from the server where not, each once however
/// many read. Any thread. ``close()`` it, or let the last reference go.
public final class MediaReader: Sendable {
    /// Bytes of one piece at most, and so of memory for a reader.
    static let pieceBytes = 256 * 1024
    private let reader: ByteReader

    init(_ reader: ByteReader) { self.reader = reader }

    /// What is known of the whole resource; asks the server if need be.
    ///
    /// - Throws: ``LoadError``, or `CancellationError`.
    public func contentInformation() async throws -> ContentInformation { try await reader.contentInformation() }

    /// The bytes of `range`, as far as the resource reaches, in pieces of at most 256 KB.
    ///
    /// A range that begins at or past the end is an empty sequence. Two sequences of one reader share its place of
    /// reading ahead: use a reader each to read two places at once.
    public func read(_ range: ByteRange = 0..<Int64.max) -> MediaBytes { MediaBytes(reader: reader, range: range) }

    /// Up to `count` bytes at `offset`; none at or past the end. One read gives at most 256 KB.
    ///
    /// - Throws: ``LoadError``, or `CancellationError`. A negative offset or count reads nothing.
    public func read(at offset: Int64, count: Int) async throws -> [UInt8] {
        guard offset >= 0, count > 0 else { return [] }
        return try await reader.read(at: offset, count: min(count, Self.pieceBytes))
    }

    /// Ends reads that wait, and the requests that nobody else wants. Idempotent.
    public func close() async { await reader.close() }
}

/// The bytes of a range, piece by piece. What is not asked for is not fetched, but for a megabyte of reading ahead.
public struct MediaBytes: AsyncSequence, Sendable {
    fileprivate let reader: ByteReader
    fileprivate let range: ByteRange

    init(reader: ByteReader, range: ByteRange) {
        (self.reader, self.range) = (reader, Swift.max(0, range.lowerBound)..<Swift.max(0, range.upperBound))
    }
    /// From the beginning of the range.
    public func makeAsyncIterator() -> Iterator { Iterator(bytes: self) }

    /// Where in the range the reading is.
    public struct Iterator: AsyncIteratorProtocol {
        private let reader: ByteReader
        private let end: Int64
        private var position: Int64

        fileprivate init(bytes: MediaBytes) {
            (reader, position, end) = (bytes.reader, bytes.range.lowerBound, bytes.range.upperBound)
        }
        /// The next piece, `nil` after the last.
        ///
        /// - Throws: ``LoadError``, or `CancellationError`.
        public mutating func next() async throws -> [UInt8]? {
            let count = Swift.min(Int64(MediaReader.pieceBytes), end - position)
            guard count > 0 else { return nil }
            let piece = try await reader.read(at: position, count: Int(count))
            position += Int64(piece.count)
            return piece.isEmpty ? nil : piece
        }
    }
}
