import FeedVocabulary
import ResourceLoading

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
    /// Of a playlist, whose media is in other files.
    var playlist: PlaylistBuffer?

    var isExact: Bool { tracks.contains { !$0.isEmpty } }

    /// Whether every byte from `position` on is there.
    func isComplete(from position: Duration, _ reader: ByteReader) -> Bool {
        playlist.map { $0.tracks.allSatisfy { $0.isComplete(from: position) } } ?? reader.isComplete
    }

    /// Whether the demuxer, which reads at `readOffset`, waits for bytes as far as can be told.
    func isDry(at position: Duration, readOffset: Int64, _ reader: ByteReader) -> Bool {
        if let playlist {
            return !isComplete(from: position, reader) && playlist.bufferedAhead(from: position) == .zero
        }
        if let length = reader.length, readOffset >= length { return false }
        return reader.contiguousEnd(from: readOffset) == readOffset
    }

    /// Media time from `position` on whose bytes are there.
    ///
    /// - Parameter readOffset: Where the demuxer reads, for files without an index.
    func bufferedAhead(from position: Duration, readOffset: Int64, _ reader: ByteReader) -> Duration {
        if let playlist { return playlist.bufferedAhead(from: position) }
        let contiguousEnd = { reader.contiguousEnd(from: $0) }
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
        let next = track.partitioningIndex { $0.time > position }
        var known = 0..<Int64(0)
        for sample in track[max(0, next - 1)...] {
            if sample.range.lowerBound < known.lowerBound || sample.range.upperBound > known.upperBound {
                known = sample.range.lowerBound..<contiguousEnd(sample.range.lowerBound)
                guard known.upperBound >= sample.range.upperBound else { return sample.time }
            }
        }
        return max(duration ?? .zero, track.last?.time ?? .zero)
    }
}
