/// Half-open range of byte offsets in one resource; offsets are 64-bit from end to end.
public typealias ByteRange = Range<Int64>

extension Range where Bound == Int64 {
    /// Bytes in the range.
    package var length: Int64 { upperBound - lowerBound }

    /// `length` bytes from `offset`, cut at the largest offset instead of overflowing; a negative length is empty.
    package init(offset: Int64, saturatingLength length: Int64) {
        let (end, overflow) = offset.addingReportingOverflow(Swift.max(0, length))
        self = offset..<(overflow ? Int64.max : end)
    }
}

/// Bytes in a kilobyte, as this package counts: 1 KB = 1024 bytes, 1 MB = 1024 KB.
public enum ByteSize {
    /// `count` × 1024 bytes.
    public static func kilobytes(_ count: Int64) -> Int64 { count * 1024 }
    /// `count` × 1024 × 1024 bytes.
    public static func megabytes(_ count: Int64) -> Int64 { count * 1024 * 1024 }
}
