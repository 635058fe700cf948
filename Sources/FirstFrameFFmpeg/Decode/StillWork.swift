import Playback
import ResourceLoading

/// Looks for a picture that says something about a clip. Runs on a thread that may block.
struct StillWork: Sendable {
    /// Frames looked at: three seconds of most clips.
    private static let mostFrames = 90
    /// Average brightness, of 255, up to which a picture counts as black; video black is 16.
    private static let black = 24

    private let input: MediaInput
    private let format: PixelFormat?

    init(_ input: MediaInput, format: PixelFormat?) { (self.input, self.format) = (input, format) }

    func run() throws -> VideoFrame {
        do {
            let session = try DecodeSession(input, options: EngineOptions(), takesCover: true)
            guard session.hasVideo else { throw PlaybackError.noPlayableTrack(name: input.name) }
            var first: VideoFrame?
            for _ in 0..<(session.demuxer.isCover ? 1 : Self.mostFrames) {
                guard let frame = try nextFrame(session) else { break }
                if first == nil { first = frame }
                if !Self.isBlack(frame) { return try converted(frame) }
            }
            guard let first else { throw PlaybackError.truncated(name: input.name) }
            return try converted(first)
        } catch {
            throw FFmpegError.told(error, of: input.name)
        }
    }

    private func nextFrame(_ session: DecodeSession) throws -> VideoFrame? {
        while true {
            switch try session.videoStep() {
            case .video(let frame): return frame
            case .videoEnded: return nil
            case .audio, .audioEnded, .progressed: continue
            }
        }
    }

    private func converted(_ frame: VideoFrame) throws -> VideoFrame {
        try format.map { try frame.converted(to: $0) } ?? frame
    }

    /// By a grid of samples of the first plane, which is brightness but in packed formats, where it is close enough.
    private static func isBlack(_ frame: VideoFrame) -> Bool {
        guard let plane = frame.planes.first, plane.rows > 0, plane.rowBytes > 0 else { return false }
        return frame.withPlane(0) { bytes in
            var (sum, count) = (0, 0)
            for row in stride(from: 0, to: plane.rows, by: max(1, plane.rows / 36)) {
                for column in stride(from: 0, to: plane.rowBytes, by: max(1, plane.rowBytes / 64)) {
                    sum += Int(bytes[row * plane.stride + column])
                    count += 1
                }
            }
            let limit = frame.color.isFullRange ? black - 16 : black
            return sum < limit * count
        }
    }
}
