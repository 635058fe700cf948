internal import CFFmpeg
import Glibc
import Playback

/// Sound played faster or slower at the same pitch, by libavfilter's `atempo`. Decode thread only.
final class TempoFilter {
    private let graph: FilterGraph
    private let frame = av_frame_alloc()
    private let rate: Double
    private let sampleRate: Int32
    private let channelCount: Int32
    /// Where the next sound that comes out is, in media time.
    private var place: Duration?
    private var isFinished = false

    init(_ first: AudioBuffer, rate: Double) throws(FFmpegError) {
        (self.rate, sampleRate, channelCount) = (rate, Int32(first.sampleRate), Int32(first.channelCount))
        let input = "sample_rate=\(sampleRate):sample_fmt=flt:channel_layout=\(channelCount)c:time_base=1/\(sampleRate)"
        // One filter does half to a hundred times; a quarter is half of a half.
        let factors = rate < 0.5 ? [0.5, rate / 0.5] : [rate]
        let filters = factors.map { "atempo=\($0)" } + ["aformat=sample_fmts=flt"]
        graph = try FilterGraph(.sound, of: input, filters.joined(separator: ","))
    }

    deinit {
        var frame = frame
        av_frame_free(&frame)
    }

    /// Whether the sound of a buffer fits.
    func fits(_ buffer: AudioBuffer) -> Bool {
        buffer.sampleRate == Int(sampleRate) && buffer.channelCount == Int(channelCount)
    }

    /// No more sound comes: what is left comes out.
    func finish() throws(FFmpegError) {
        guard !isFinished else { return }
        isFinished = true
        try graph.send(nil)
    }

    /// Gives sound to be played at the filter's rate.
    func send(_ buffer: AudioBuffer) throws(FFmpegError) {
        if place == nil { place = buffer.presentationTime }
        var input = av_frame_alloc()
        defer { av_frame_free(&input) }
        guard let input else { throw FFmpegError.outOfMemory("av_frame_alloc") }
        input.pointee.format = AV_SAMPLE_FMT_FLT.rawValue
        input.pointee.sample_rate = sampleRate
        input.pointee.nb_samples = Int32(buffer.frameCount)
        av_channel_layout_default(&input.pointee.ch_layout, channelCount)
        try check(av_frame_get_buffer(input, 0), "av_frame_get_buffer")
        buffer.samples.withUnsafeBytes { bytes in
            if let target = input.pointee.data.0, let start = bytes.baseAddress { memcpy(target, start, bytes.count) }
        }
        try graph.send(input)
    }

    /// The next sound that is ready.
    func receive() -> AudioBuffer? {
        guard let frame, graph.receive(frame) >= 0 else { return nil }
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
