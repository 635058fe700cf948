internal import CFFmpeg
import Playback

/// Turns packets of a text track into cues. One thread at a time.
final class SubtitleDecoder {
    private var context: UnsafeMutablePointer<AVCodecContext>?
    private let timeBase: AVRational
    /// Cues whose file does not tell their end are shown this long.
    private static let usualLength = Duration.seconds(4)

    /// Whether a stream has text, rather than pictures of it.
    static func takes(_ stream: UnsafeMutablePointer<AVStream>) -> Bool {
        let parameters = stream.pointee.codecpar.pointee
        guard parameters.codec_type == AVMEDIA_TYPE_SUBTITLE, let codec = avcodec_descriptor_get(parameters.codec_id),
            avcodec_find_decoder(parameters.codec_id) != nil
        else { return false }
        return codec.pointee.props & AV_CODEC_PROP_TEXT_SUB != 0
    }

    init(_ stream: UnsafeMutablePointer<AVStream>) throws(FFmpegError) {
        timeBase = stream.pointee.time_base
        let codec = avcodec_find_decoder(stream.pointee.codecpar.pointee.codec_id)
        context = avcodec_alloc_context3(codec)
        guard let context else { throw FFmpegError.outOfMemory("avcodec_alloc_context3") }
        try check(avcodec_parameters_to_context(context, stream.pointee.codecpar), "avcodec_parameters_to_context")
        context.pointee.pkt_timebase = timeBase
        try check(avcodec_open2(context, codec, nil), "avcodec_open2")
    }
    deinit { avcodec_free_context(&context) }

    /// - Parameter time: What a stamp of the stream means as media time.
    func decode(
        _ packet: UnsafeMutablePointer<AVPacket>, _ time: (Int64, AVRational) -> Duration
    ) -> SubtitleCue? {
        var subtitle = AVSubtitle()
        var isThere: Int32 = 0
        guard packet.pointee.pts != ff_no_timestamp,
            avcodec_decode_subtitle2(context, &subtitle, &isThere, packet) >= 0, isThere != 0
        else { return nil }
        defer { avsubtitle_free(&subtitle) }
        var lines: [String] = []
        for index in 0..<Int(subtitle.num_rects) {
            guard let rect = subtitle.rects[index] else { continue }
            if let ass = rect.pointee.ass {
                lines.append(Self.text(ofASS: String(cString: ass)))
            } else if let text = rect.pointee.text {
                lines.append(String(cString: text))
            }
        }
        let text = lines.joined(separator: "\n").split(separator: "\n").joined(separator: "\n")
        guard text.contains(where: { !$0.isWhitespace }) else { return nil }
        let start = time(packet.pointee.pts, timeBase) + .milliseconds(Int64(subtitle.start_display_time))
        let length: Duration =
            if packet.pointee.duration > 0 {
                duration(packet.pointee.duration, timeBase)
            } else if subtitle.end_display_time > 0, subtitle.end_display_time < .max {
                .milliseconds(Int64(subtitle.end_display_time) - Int64(subtitle.start_display_time))
            } else { Self.usualLength }
        return SubtitleCue(start: start, end: start + max(.zero, length), text: text)
    }

    /// The text of a line as libavcodec gives it for every format: eight fields, then the text with `{…}` for styles, `\N`
    /// for a new line and `\h` for a space.
    private static func text(ofASS line: String) -> String {
        let fields = line.split(separator: ",", maxSplits: 8, omittingEmptySubsequences: false)
        var rest = (fields.count == 9 ? fields[8] : line[...])
        var text = ""
        while let character = rest.popFirst() {
            if character == "{", let end = rest.firstIndex(of: "}") {
                rest = rest[rest.index(after: end)...]
            } else if character == "\\", let next = rest.first, "Nnh".contains(next) {
                rest.removeFirst()
                text.append(next == "h" ? " " : "\n")
            } else if character != "\r" {
                text.append(character)
            }
        }
        return text
    }
}
