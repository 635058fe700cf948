/// Where the index of a media file is, as far as its first bytes tell.
package enum ContainerHead: Hashable, Sendable {
    /// Not enough bytes yet: the answer needs at least as many from the start of the file.
    case needs(bytes: Int)
    /// An MP4 whose index (`moov`) lies in these bytes, before its media.
    case indexFirst(Range<Int64>)
    /// An MP4 whose media (`mdat`) comes before its index: the index is in the bytes from `offset` on.
    case indexLast(offset: Int64)
    /// No MP4, or one in fragments: there is no index that matters for the first frame.
    case noIndex

    /// More top-level boxes than this before `mdat` or `moov`: reading on is then the way.
    private static let maximumBoxes = 16

    /// Walks the top-level boxes of an MP4 (ISO/IEC 14496-12 §4.2) as far as `head` goes.
    package init(_ head: [UInt8]) {
        self = .noIndex
        var offset: Int64 = 0
        for box in 0..<Self.maximumBoxes {
            guard offset <= Int64(head.count) - 16 else {
                guard let needed = offset.checkedSum(16) else { return }
                self = .needs(bytes: Int(clamping: needed))
                return
            }
            let header = BoxHeader(head[...], at: Int(offset))
            guard box > 0 || Self.firstBoxes.contains(header.type) else { return }
            if header.type == "moof" { return }
            guard header.size >= 8, let end = offset.checkedSum(header.size) else { return }  // 0: to the file's end
            switch header.type {
            case "moov":
                self = .indexFirst(offset..<end)
                return
            case "mdat":
                self = .indexLast(offset: end)
                return
            default: offset = end
            }
        }
    }
    /// Bytes of the box that `bytes` begins with; `nil` for one that is broken or goes to the end of the file.
    package static func sizeOfBox(_ bytes: ArraySlice<UInt8>) -> Int? {
        guard bytes.count >= 16 else { return nil }
        let header = BoxHeader(bytes, at: 0)
        return header.size >= header.headerSize ? Int(clamping: header.size) : nil
    }

    private static let firstBoxes: Set = ["ftyp", "moov", "mdat", "free", "skip", "wide", "styp"]
}

/// The first bytes of a box (ISO/IEC 14496-12 §4.2).
struct BoxHeader {
    let type: String
    /// Bytes of the whole box; 0 stands for "to the end".
    let size: Int64
    /// Bytes before its content.
    let headerSize: Int

    /// - Parameter offset: At least 8 bytes follow it, 16 where a long size is possible.
    init(_ bytes: ArraySlice<UInt8>, at offset: Int) {
        let start = bytes.startIndex + offset
        type = String(decoding: bytes[start + 4..<start + 8], as: UTF8.self)
        let short = bigEndian(bytes[start..<start + 4])
        if short == 1, start + 16 <= bytes.endIndex {
            (size, headerSize) = (bigEndian(bytes[start + 8..<start + 16]), 16)
        } else {
            (size, headerSize) = (short, 8)
        }
    }
}

func bigEndian(_ bytes: ArraySlice<UInt8>) -> Int64 {
    Int64(truncatingIfNeeded: bytes.reduce(UInt64(0)) { $0 << 8 | UInt64($1) })
}

extension Int64 {
    fileprivate func checkedSum(_ other: Int64) -> Int64? {
        let (sum, overflow) = addingReportingOverflow(other)
        return overflow ? nil : sum
    }
}
