import EventLoop
import FeedStrategy
import FeedVocabulary
import ResourceLoading

/// How much of an HLS playlist's media is there; the decode thread tells what it opens, the loop asks.
final class PlaylistBuffer: Sendable {
    final class Track: Sendable {
        private struct State {
            /// Of files that are read, or will be.
            var readers: [String: ByteReader] = [:]
            /// Files that were there as a whole when they were closed.
            var whole: Set<String> = []
            var current = 0
        }
        let media: HLSPlaylist.Media
        /// Each file of the parts once, in the order of first use, and when its first part begins.
        let files: [(uri: String, start: Duration)]
        private let state = Lock(State())

        init(_ media: HLSPlaylist.Media) {
            self.media = media
            var seen: Set<String> = []
            files = media.parts.filter { seen.insert($0.place.uri).inserted }.map { ($0.place.uri, $0.start) }
        }

        /// The file that is read, by its place among the files. Any thread.
        var current: Int {
            get { state.withLock { $0.current } }
            set { state.withLock { $0.current = newValue } }
        }
        func reader(of uri: String) -> ByteReader? { state.withLock { $0.readers[uri] } }
        var openFiles: [String] { state.withLock { Array($0.readers.keys) } }
        func opened(_ reader: ByteReader, of uri: String) { state.withLock { $0.readers[uri] = reader } }
        /// - Returns: Its reader, to be closed.
        func closes(_ uri: String) -> ByteReader? {
            state.withLock { state in
                let reader = state.readers.removeValue(forKey: uri)
                if reader?.isComplete == true { state.whole.insert(uri) }
                return reader
            }
        }

        /// The end of the media that is there without a gap from `position` on; within a file by its share of bytes.
        func bufferedEnd(from position: Duration) -> Duration {
            let (readers, whole) = state.withLock { ($0.readers, $0.whole) }
            for part in media.parts[media.parts.partitioningIndex { $0.start + $0.duration > position }...] {
                let share: Double =
                    if let reader = readers[part.place.uri] {
                        Self.share(of: part.place, in: reader)
                    } else { whole.contains(part.place.uri) ? 1 : 0 }
                if share < 1 { return part.start + part.duration * share }
            }
            return media.duration
        }

        /// Whether all of it from `position` on is there.
        func isComplete(from position: Duration) -> Bool { bufferedEnd(from: position) >= media.duration }

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
