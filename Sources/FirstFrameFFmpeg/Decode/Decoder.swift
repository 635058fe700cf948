internal import CFFmpeg
import Glibc

/// One libavcodec decoder. Decode thread only.
final class Decoder {
    private var context: UnsafeMutablePointer<AVCodecContext>?
    private let frame = av_frame_alloc()
    let timeBase: AVRational
    let threads: Int32
    /// Pictures with more samples than this are refused before memory is taken for them.
    private static let maximumSamples: Int64 = 8192 * 4352

    /// - Parameter onDevice: Whether a video device (VAAPI) may decode; without one, or for what it can't do, libavcodec
    ///   does it, as always.
    init(
        _ stream: UnsafeMutablePointer<AVStream>, threads: Int32 = 1, onDevice: Bool = false
    ) throws(FFmpegError) {
        (timeBase, self.threads) = (stream.pointee.time_base, threads)
        guard let codec = avcodec_find_decoder(stream.pointee.codecpar.pointee.codec_id) else {
            throw FFmpegError(code: ff_error_invalid, call: "avcodec_find_decoder")
        }
        context = avcodec_alloc_context3(codec)
        guard let context else { throw FFmpegError.outOfMemory("avcodec_alloc_context3") }
        try check(avcodec_parameters_to_context(context, stream.pointee.codecpar), "avcodec_parameters_to_context")
        context.pointee.pkt_timebase = timeBase
        context.pointee.thread_count = threads
        context.pointee.max_pixels = Self.maximumSamples
        if onDevice {
            // libavcodec's own choice of format takes the device's, where the codec has one.
            av_hwdevice_ctx_create(&context.pointee.hw_device_ctx, AV_HWDEVICE_TYPE_VAAPI, nil, nil, 0)
        }
        try check(avcodec_open2(context, codec, nil), "avcodec_open2")
    }

    /// How many threads help with the pictures of a stream: one, unless there are more samples a second than 1080p has at 30
    /// frames. Each holds frames of its own.
    static func usefulThreads(for stream: UnsafeMutablePointer<AVStream>) -> Int32 {
        let (size, rate) = (stream.pointee.codecpar.pointee, stream.pointee.avg_frame_rate)
        let framesPerSecond = rate.num > 0 && rate.den > 0 ? Double(rate.num) / Double(rate.den) : 30
        let samplesPerSecond = Double(size.width) * Double(size.height) * framesPerSecond
        return samplesPerSecond > samplesForOneThread
            ? min(mostThreads, Int32(clamping: sysconf(Int32(_SC_NPROCESSORS_ONLN)))) : 1
    }
    private static let samplesForOneThread = 1920.0 * 1080 * 31
    private static let mostThreads: Int32 = 4

    deinit {
        avcodec_free_context(&context)
        var frame = frame
        av_frame_free(&frame)
    }

    /// Gives a packet, or `nil` for "no more will come".
    ///
    /// - Returns: Whether it was taken; when not, frames have to be received first. A corrupt packet counts as taken.
    func send(_ packet: UnsafeMutablePointer<AVPacket>?) -> Bool {
        let code = avcodec_send_packet(context, packet)
        if code == ff_error_again { return false }
        if code < 0, code != ff_error_eof { failures += 1 }
        return true
    }
    /// Packets refused since the last frame.
    private var failures = 0
    /// Whether it has refused so many that it seems to be the decoder, and not the packets.
    var isStuck: Bool { failures >= Self.stuck }
    private static let stuck = 16

    /// Lends the next frame to `body`; `nil` when more packets are needed, or after the last frame.
    func receive<Result>(_ body: (UnsafeMutablePointer<AVFrame>) throws -> Result) rethrows -> Result? {
        guard let frame, avcodec_receive_frame(context, frame) >= 0 else { return nil }
        defer { av_frame_unref(frame) }
        failures = 0
        guard frame.pointee.hw_frames_ctx != nil else { return try body(frame) }
        // Hosts get planes of memory.
        var copy = av_frame_alloc()
        defer { av_frame_free(&copy) }
        guard let copy, av_hwframe_transfer_data(copy, frame, 0) >= 0, av_frame_copy_props(copy, frame) >= 0 else {
            failures = Self.stuck  // the device is lost
            return nil
        }
        return try body(copy)
    }

    /// Forgets what was given, to begin at a key frame again.
    func flush() { avcodec_flush_buffers(context) }
}
