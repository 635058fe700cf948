internal import CFFmpeg
import Glibc
import Playback

/// Sound played faster or slower at the same pitch, by libavfilter's `atempo`. Decode thread only.
final class TempoFilter {
    private var graph: UnsafeMutablePointer<AVFilterGraph>?
    private var source: UnsafeMutablePointer<AVFilterContext>?
    private var sink: UnsafeMutablePointer<AVFilterContext>?
    private let frame = av_frame_alloc()
    private let rate: Double
    private let sampleRate: Int32
    private let channelCount: Int32
    /// Where the next sound that comes out is, in media time.
    private var place: Duration?
    private var isFinished = false

    init(_ first: AudioBuffer, rate: Double) throws(FFmpegError) {
        (self.rate, sampleRate, channelCount) = (rate, Int32(first.sampleRate), Int32(first.channelCount))
        graph = avfilter_graph_alloc()
        guard let graph else { throw FFmpegError(code: -12, call: "avfilter_graph_alloc") }
        graph.pointee.nb_threads = 1
        let input = "sample_rate=\(sampleRate):sample_fmt=flt:channel_layout=\(channelCount)c:time_base=1/\(sampleRate)"
        try check(create(&source, "abuffer", input), "abuffer")
        try check(create(&sink, "abuffersink", nil), "abuffersink")
        var last = source
        // One filter does half to a hundred times; a quarter is half of a half.
        for factor in rate < 0.5 ? [0.5, rate / 0.5] : [rate] {
            var tempo: UnsafeMutablePointer<AVFilterContext>?
            try check(create(&tempo, "atempo", "\(factor)"), "atempo")
            try check(avfilter_link(last, 0, tempo, 0), "avfilter_link")
            last = tempo
        }
        var format: UnsafeMutablePointer<AVFilterContext>?
        try check(create(&format, "aformat", "sample_fmts=flt"), "aformat")
        try check(avfilter_link(last, 0, format, 0), "avfilter_link")
        try check(avfilter_link(format, 0, sink, 0), "avfilter_link")
        try check(avfilter_graph_config(graph, nil), "avfilter_graph_config")
    }

    deinit {
        avfilter_graph_free(&graph)
        var frame = frame
        av_frame_free(&frame)
    }

    private func create(
        _ context: inout UnsafeMutablePointer<AVFilterContext>?, _ name: String, _ arguments: String?
    ) -> Int32 {
        avfilter_graph_create_filter(&context, avfilter_get_by_name(name), nil, arguments, nil, graph)
    }

    /// Whether the sound of a buffer fits.
    func fits(_ buffer: AudioBuffer) -> Bool {
        buffer.sampleRate == Int(sampleRate) && buffer.channelCount == Int(channelCount)
    }

    /// No more sound comes: what is left comes out.
    func finish() throws(FFmpegError) {
        guard !isFinished else { return }
        isFinished = true
        try check(av_buffersrc_add_frame(source, nil), "av_buffersrc_add_frame")
    }

    /// Gives sound to be played at the filter's rate.
    func send(_ buffer: AudioBuffer) throws(FFmpegError) {
        if place == nil { place = buffer.presentationTime }
        var input = av_frame_alloc()
        defer { av_frame_free(&input) }
        guard let input else { throw FFmpegError(code: -12, call: "av_frame_alloc") }
        input.pointee.format = AV_SAMPLE_FMT_FLT.rawValue
        input.pointee.sample_rate = sampleRate
        input.pointee.nb_samples = Int32(buffer.frameCount)
        av_channel_layout_default(&input.pointee.ch_layout, channelCount)
        try check(av_frame_get_buffer(input, 0), "av_frame_get_buffer")
        buffer.samples.withUnsafeBytes { bytes in
            if let target = input.pointee.data.0, let start = bytes.baseAddress { memcpy(target, start, bytes.count) }
        }
        try check(av_buffersrc_add_frame(source, input), "av_buffersrc_add_frame")
    }

    /// The next sound that is ready.
    func receive() -> AudioBuffer? {
        guard let frame, av_buffersink_get_frame(sink, frame) >= 0 else { return nil }
        defer { av_frame_unref(frame) }
        let count = Int(frame.pointee.nb_samples) * Int(channelCount)
        let samples = [Float](unsafeUninitializedCapacity: count) { target, initialized in
            guard let data = frame.pointee.data.0, let start = target.baseAddress else { return }
            memcpy(start, data, count * MemoryLayout<Float>.stride)
            initialized = count
        }
        let start = place ?? .zero
        let buffer = AudioBuffer(
            samples: samples, channelCount: Int(channelCount), sampleRate: Int(sampleRate), presentationTime: start,
            rate: rate)
        place = start + buffer.duration
        return buffer
    }
}
