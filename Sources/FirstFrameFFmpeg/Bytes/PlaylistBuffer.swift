import EventLoop
import FeedStrategy
import FeedVocabulary
import ResourceLoading

/// How much of an HLS playlist's media is there; the decode thread tells what it opens, the loop asks.
final class PlaylistBuffer: Sendable {
    final class Track: Sendable {
        private struct State {
            var readers: [String: ByteReader] = [:]
            /// Files that were there as a whole when they were closed.
            var whole: Set<String> = []
            var current = 0
        }
        private let parts: [HLSPlaylist.Part]
        private let state = Lock(State())

        init(_ parts: [HLSPlaylist.Part]) { self.parts = parts }

        /// The file that is read, by its place among the files. Any thread.
        var current: Int {
            get { state.withLock { $0.current } }
            set { state.withLock { $0.current = newValue } }
        }
        func opened(_ reader: ByteReader, of uri: String) { state.withLock { $0.readers[uri] = reader } }
        func closes(_ uri: String) {
            state.withLock { state in
                if state.readers.removeValue(forKey: uri)?.isComplete == true { state.whole.insert(uri) }
            }
        }

        /// Media time between the begins of two files.
        func time(from first: String, to second: String) -> Duration {
            let starts = [first, second].map { uri in parts.first { $0.place.uri == uri }?.start ?? .zero }
            return starts[1] - starts[0]
        }

        /// The end of the media that is there without a gap from `position` on; within a file by its share of bytes.
        func bufferedEnd(from position: Duration) -> Duration {
            let (readers, whole) = state.withLock { ($0.readers, $0.whole) }
            var index = parts.partitioningIndex { $0.start + $0.duration > position }
            while index < parts.count {
                let part = parts[index]
                let share: Double =
                    if let reader = readers[part.place.uri] {
                        Self.share(of: part.place, in: reader)
                    } else { whole.contains(part.place.uri) ? 1 : 0 }
                if share < 1 { return part.start + part.duration * share }
                index += 1
            }
            return parts.last.map { $0.start + $0.duration } ?? .zero
        }

        /// Whether all of it from `position` on is there.
        func isComplete(from position: Duration) -> Bool {
            bufferedEnd(from: position) >= (parts.last.map { $0.start + $0.duration } ?? .zero)
        }

        private static func share(of place: HLSPlaylist.Place, in reader: ByteReader) -> Double {
            if reader.isComplete { return 1 }
            guard let range = place.range ?? reader.length.map({ 0..<$0 }), range.length > 0 else { return 0 }
            return Double(reader.contiguousEnd(from: range.lowerBound) - range.lowerBound) / Double(range.length)
        }
    }
    let tracks: [Track]
    init(_ tracks: [Track]) { self.tracks = tracks }

    /// Media time from `position` on whose bytes are there.
    func bufferedAhead(from position: Duration) -> Duration {
        max(.zero, (tracks.map { $0.bufferedEnd(from: position) }.min() ?? position) - position)
    }
}
