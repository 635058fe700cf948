import FeedVocabulary

/// Where each sample of a file lies, copied from the demuxer, so that the loop can tell how much is buffered.
struct MediaIndex: Sendable {
    struct Sample: Sendable {
        let time: Duration
        let range: ByteRange
    }
    /// Samples of each played track in the order of their times; empty where the format has no index.
    var tracks: [[Sample]] = []
    var duration: Duration?
    var length: Int64?

    var isExact: Bool { tracks.contains { !$0.isEmpty } }

    /// Media time from `position` on whose bytes are there.
    ///
    /// - Parameters:
    ///   - readOffset: Where the demuxer reads, for files without an index.
    ///   - contiguousEnd: The end of the run of readable bytes from an offset on.
    func bufferedAhead(
        from position: Duration, readOffset: Int64, contiguousEnd: (Int64) -> Int64
    ) -> Duration {
        if isExact {
            let ends = tracks.filter { !$0.isEmpty }.map { bufferedEnd(of: $0, from: position, contiguousEnd) }
            return max(.zero, (ends.min() ?? position) - position)
        }
        guard let duration, let length, length > 0 else { return .zero }
        let bytes = contiguousEnd(readOffset) - readOffset
        return min(max(.zero, duration - position), duration * (Double(bytes) / Double(length)))
    }

    private func bufferedEnd(of track: [Sample], from position: Duration, _ contiguousEnd: (Int64) -> Int64) -> Duration
    {
        var low = 0, high = track.count
        while low < high {
            let middle = (low + high) / 2
            if track[middle].time <= position { low = middle + 1 } else { high = middle }
        }
        var known = 0..<Int64(0)
        for sample in track[max(0, low - 1)...] {
            if sample.range.lowerBound < known.lowerBound || sample.range.upperBound > known.upperBound {
                known = sample.range.lowerBound..<contiguousEnd(sample.range.lowerBound)
                guard known.upperBound >= sample.range.upperBound else { return sample.time }
            }
        }
        return max(duration ?? .zero, track.last?.time ?? .zero)
    }
}
