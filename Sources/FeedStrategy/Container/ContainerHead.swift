/// Where the index of a media file is, as far as its first bytes tell.
package enum ContainerHead: Hashable, Sendable {
    /// Not enough bytes yet: the answer needs at least as many from the start of the file.
    case needs(bytes: Int)
    /// The index comes before the media, or the format has no index that matters.
    case indexFirst
    /// An MP4 whose media (`mdat`) comes before its index (`moov`): the index is in the bytes from `offset` on.
    case indexLast(offset: Int64)

    /// More top-level boxes than this before `mdat` or `moov` count as "index first": reading on is then the way.
    private static let maximumBoxes = 16

    /// Walks the top-level boxes of an MP4 (ISO/IEC 14496-12 §4.2) as far as `head` goes.
    package init(_ head: [UInt8]) {
        var offset: Int64 = 0
        for box in 0..<Self.maximumBoxes {
            guard offset + 16 <= Int64(head.count) else {
                self = .needs(bytes: Int(offset) + 16)
                return
            }
            let at = Int(offset)
            let type = String(decoding: head[at + 4..<at + 8], as: UTF8.self)
            guard box > 0 || ["ftyp", "moov", "mdat", "free", "skip", "wide", "styp"].contains(type) else { break }
            if type == "moov" || type == "moof" { break }
            var size = Self.number(head[at..<at + 4])
            if size == 1 { size = Self.number(head[at + 8..<at + 16]) }
            guard size >= 8, let end = offset.checkedSum(size) else { break }  // 0 means "to the end of the file"
            if type == "mdat" {
                self = .indexLast(offset: end)
                return
            }
            offset = end
        }
        self = .indexFirst
    }

    private static func number(_ bytes: ArraySlice<UInt8>) -> Int64 {
        Int64(truncatingIfNeeded: bytes.reduce(UInt64(0)) { $0 << 8 | UInt64($1) })
    }
}

extension Int64 {
    fileprivate func checkedSum(_ other: Int64) -> Int64? {
        let (sum, overflow) = addingReportingOverflow(other)
        return overflow ? nil : sum
    }
}
