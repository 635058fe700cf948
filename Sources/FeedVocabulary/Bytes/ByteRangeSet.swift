/// A set of byte offsets, kept as sorted, disjoint, non-touching ranges.
///
/// Finding a range is a binary search; inserting merges neighbours, so a resource read in order has one range.
package struct ByteRangeSet: Hashable, Sendable {
    /// In ascending order, with at least one missing byte between two of them.
    package private(set) var ranges: [ByteRange] = []

    package init() {}
    package init(_ ranges: some Sequence<ByteRange>) { for range in ranges { insert(range) } }

    package var isEmpty: Bool { ranges.isEmpty }
    /// Bytes in the set.
    package var count: Int64 { ranges.reduce(0) { $0 + $1.length } }

    /// Its ranges, leaving it empty.
    package mutating func take() -> ByteRangeSet {
        defer { ranges = [] }
        return self
    }

    /// Index of the first range that ends after `offset`.
    private func indexOfRange(endingAfter offset: Int64) -> Int {
        var low = 0, high = ranges.count
        while low < high {
            let middle = (low + high) / 2
            if ranges[middle].upperBound > offset { high = middle } else { low = middle + 1 }
        }
        return low
    }

    package mutating func insert(_ range: ByteRange) {
        guard !range.isEmpty else { return }
        // Touching neighbours merge too, hence the byte before.
        let first = indexOfRange(endingAfter: range.lowerBound == .min ? .min : range.lowerBound - 1)
        var last = first
        var merged = range
        while last < ranges.count, ranges[last].lowerBound <= range.upperBound {
            merged = min(merged.lowerBound, ranges[last].lowerBound)..<max(merged.upperBound, ranges[last].upperBound)
            last += 1
        }
        ranges.replaceSubrange(first..<last, with: CollectionOfOne(merged))
    }

    package mutating func remove(_ range: ByteRange) {
        guard !range.isEmpty else { return }
        let first = indexOfRange(endingAfter: range.lowerBound)
        var last = first
        var left: [ByteRange] = []
        while last < ranges.count, ranges[last].lowerBound < range.upperBound {
            let old = ranges[last]
            if old.lowerBound < range.lowerBound { left.append(old.lowerBound..<range.lowerBound) }
            if old.upperBound > range.upperBound { left.append(range.upperBound..<old.upperBound) }
            last += 1
        }
        ranges.replaceSubrange(first..<last, with: left)
    }

    /// The end of the run of bytes in the set that starts at `offset`; `offset` itself when that byte is missing.
    package func contiguousEnd(from offset: Int64) -> Int64 {
        let index = indexOfRange(endingAfter: offset)
        guard index < ranges.count, ranges[index].lowerBound <= offset else { return offset }
        return ranges[index].upperBound
    }

    package func contains(_ range: ByteRange) -> Bool {
        range.isEmpty || contiguousEnd(from: range.lowerBound) >= range.upperBound
    }

    /// What of `range` is missing, in ascending order.
    package func holes(in range: ByteRange) -> [ByteRange] {
        var holes: [ByteRange] = []
        var offset = range.lowerBound
        var index = indexOfRange(endingAfter: offset)
        while offset < range.upperBound {
            guard index < ranges.count, ranges[index].lowerBound < range.upperBound else {
                holes.append(offset..<range.upperBound)
                break
            }
            if ranges[index].lowerBound > offset { holes.append(offset..<ranges[index].lowerBound) }
            offset = max(offset, ranges[index].upperBound)
            index += 1
        }
        return holes
    }

    /// The whole gap that `missing`, of which nothing is in the set, is part of.
    package func hole(around missing: ByteRange) -> ByteRange {
        let next = indexOfRange(endingAfter: missing.lowerBound)
        let end = next < ranges.count ? max(ranges[next].lowerBound, missing.upperBound) : missing.upperBound
        return (next > 0 ? min(ranges[next - 1].upperBound, missing.lowerBound) : 0)..<end
    }

    /// What is in this set and not in `other`.
    package func subtracting(_ other: ByteRangeSet) -> ByteRangeSet {
        var rest = ByteRangeSet()
        rest.ranges = ranges.flatMap { other.holes(in: $0) }
        return rest
    }

    /// What is in both sets.
    package func intersection(_ other: ByteRangeSet) -> ByteRangeSet { subtracting(subtracting(other)) }

    /// How much of `range` is in the set, in bytes.
    package func overlap(with range: ByteRange) -> Int64 {
        range.length - holes(in: range).reduce(0) { $0 + $1.length }
    }
}
