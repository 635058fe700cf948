package import EventLoop
package import FeedVocabulary

/// What the index says of one resource. Its bytes are in the file named after `id`.
package struct CacheRecord: Hashable, Sendable {
    /// Drawn at random and never used again, so that a lost deletion can't point at another resource's file.
    package let id: Int64
    package let key: CacheKey
    /// Whose bytes these are, where two accounts see different ones.
    package let identity: String?
    package var length: Int64?
    /// Strong validator under which all the bytes were fetched.
    package var validator: String?
    package var contentType: String?
    /// Counts uses, not seconds: the least recently used has the lowest.
    package var lastUse: Int64
    /// When that was, to the second.
    package var lastUsedAt: WallTime
    package var ranges = ByteRangeSet()

    /// Whether the whole resource is stored.
    package var isComplete: Bool { length.map { ranges.contains(0..<$0) } ?? false }
}

/// A piece of a resource's file and the CRC-32C of its bytes.
struct BlockChecksum: Hashable, Sendable {
    /// Pieces begin and end at multiples of this, or at the border of what is stored.
    static let blockSize: Int64 = 256 * 1024
    let range: ByteRange
    let checksum: UInt32

    /// The pieces of `ranges` in all blocks that `changed` touches.
    static func pieces(of ranges: ByteRangeSet, touching changed: [ByteRange]) -> [ByteRange] {
        var pieces: [ByteRange] = []
        for block in blocks(touching: changed) {
            for range in ranges.ranges where range.overlaps(block) { pieces.append(range.clamped(to: block)) }
        }
        return pieces
    }

    /// Whole blocks, each once.
    static func blocks(touching changed: [ByteRange]) -> [ByteRange] {
        var blocks = Set<Int64>()
        for range in changed where !range.isEmpty {
            for block in range.lowerBound / blockSize...(range.upperBound - 1) / blockSize { blocks.insert(block) }
        }
        return blocks.sorted().map { ByteRange(offset: $0 * blockSize, saturatingLength: blockSize) }
    }
}

/// The checksum of iSCSI and ext4 (RFC 3720 appendix B.4): polynomial 0x1EDC6F41, reflected.
enum CRC32C {
    private static let table: [UInt32] = (0..<256).map { byte in
        (0..<8).reduce(UInt32(byte)) { value, _ in value & 1 == 1 ? value >> 1 ^ 0x82f6_3b78 : value >> 1 }
    }

    static func checksum(_ bytes: some Sequence<UInt8>) -> UInt32 {
        var value = ~UInt32(0)
        for byte in bytes { value = table[Int((value ^ UInt32(byte)) & 0xff)] ^ value >> 8 }
        return ~value
    }
}
