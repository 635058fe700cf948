internal import CFFmpeg
import Playback

/// A file that has nothing but subtitles: WebVTT, SubRip and what else libavformat knows.
enum SubtitleFile {
    private static let mostCues = 100_000

    /// All of its cues. May take milliseconds: off the loop.
    ///
    /// - Throws: ``PlaybackError/notMedia(name:reason:)``.
    static func cues(of bytes: [UInt8], name: String) throws(PlaybackError) -> [SubtitleCue] {
        do throws(FFmpegError) { return try read(bytes) } catch {
            throw .notMedia(name: name, reason: error.description)
        }
    }

    private static func read(_ bytes: [UInt8]) throws(FFmpegError) -> [SubtitleCue] {
        let io = try MediaIO(.memory(bytes)) { _ in }
        var opened: UnsafeMutablePointer<AVFormatContext>? = try io.openMedia()
        defer { avformat_close_input(&opened) }
        guard let context = opened, context.pointee.nb_streams > 0, let stream = context.pointee.streams[0],
            SubtitleDecoder.takes(stream)
        else { throw FFmpegError(code: ff_error_invalid, call: "no text in it") }
        let decoder = try SubtitleDecoder(stream)
        var cues: [SubtitleCue] = []
        let packet = ReusedPacket()
        while let pointer = packet.pointer, cues.count < mostCues, av_read_frame(context, pointer) >= 0 {
            if let cue = decoder.decode(pointer, { duration($0, $1) }) { cues.append(cue) }
            av_packet_unref(pointer)
        }
        withExtendedLifetime(io) {}
        return cues
    }
}
