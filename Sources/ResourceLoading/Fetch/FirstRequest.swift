import FeedStrategy
import FeedVocabulary
import HTTPTransport

/// How much the first request asks for of a file that plays from its start.
///
/// Where the index lies is not known yet. When it is at the end, its bytes wait behind those of the first request in the
/// network's queue; so that asks for what a first frame needs, and what follows is asked for on another connection as soon
/// as the first bytes are there.
struct FirstRequest: Hashable {
    private var firstFrames = RecentSizes()

    /// When it is not known what first frames need, or whether another connection is open.
    static let usual = ByteSize.kilobytes(256)
    private static let step = ByteSize.kilobytes(16)

    /// The first frame of a clip ended at this byte.
    mutating func learned(firstFrameEnd: Int64) { firstFrames.add(firstFrameEnd) }

    /// What a first frame needs at most, as far as that is known.
    var firstFrame: Int64 { firstFrames.largest ?? Self.usual }

    /// - Parameter throughput: Bytes a second.
    func size(path: ServerPath?, throughput: Double?) -> Int64 {
        guard let path, path.connections > 1, let throughput, let firstFrame = firstFrames.largest else {
            return Self.usual
        }
        // Less than a round trip brings would leave the network idle before the second answer.
        let least = max(firstFrame, Int64(min(Double(Self.usual), throughput * (path.roundTrip / .seconds(1)))))
        return min(Self.usual, (least + Self.step - 1) / Self.step * Self.step)
    }
}
