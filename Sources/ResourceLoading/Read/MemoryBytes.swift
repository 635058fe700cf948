import FeedVocabulary

/// Bytes of one resource that the disk would not take, kept in memory in blocks, at most ``capacity`` of them.
struct MemoryBytes {
    static let capacity = Int(ByteSize.megabytes(16))
    private static let blockSize: Int64 = 64 * 1024
    private var blocks: [Int64: [UInt8]] = [:]
    private(set) var ranges = ByteRangeSet()

    /// - Parameter reader: Where reading is; the blocks farthest before it, then farthest after it, make room.
    mutating func write(_ bytes: [UInt8], at offset: Int64, reader: Int64) {
        var done = 0
        while done < bytes.count {
            let position = offset + Int64(done)
            let block = position / Self.blockSize
            let start = Int(position % Self.blockSize)
            let count = min(bytes.count - done, Int(Self.blockSize) - start)
            blocks[block, default: [UInt8](repeating: 0, count: Int(Self.blockSize))]
                .replaceSubrange(start..<start + count, with: bytes[done..<done + count])
            ranges.insert(ByteRange(offset: position, saturatingLength: Int64(count)))
            done += count
        }
        let current = reader / Self.blockSize
        while blocks.count * Int(Self.blockSize) > Self.capacity {
            let behind = blocks.keys.filter { $0 < current }.min()
            guard let victim = behind ?? blocks.keys.max() else { return }
            blocks[victim] = nil
            ranges.remove(ByteRange(offset: victim * Self.blockSize, saturatingLength: Self.blockSize))
        }
    }

    func copy(from offset: Int64, into target: UnsafeMutableRawBufferPointer) {
        var done = 0
        while done < target.count {
            let position = offset + Int64(done)
            let start = Int(position % Self.blockSize)
            let count = min(target.count - done, Int(Self.blockSize) - start)
            guard let block = blocks[position / Self.blockSize] else { return }
            UnsafeMutableRawBufferPointer(rebasing: target[done..<done + count]).copyBytes(
                from: block[start..<start + count])
            done += count
        }
    }
}
