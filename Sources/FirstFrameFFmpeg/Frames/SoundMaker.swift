internal import CFFmpeg
import Playback

/// Turns decoded audio into interleaved 32-bit float samples. Decode thread only.
final class SoundMaker {
    private var resampler: OpaquePointer?
    private var layout = AVChannelLayout()
    private var format: Int32 = -1
    private var rate: Int32 = 0

    deinit {
        swr_free(&resampler)
        av_channel_layout_uninit(&layout)
    }

    /// `nil` when the frame has no samples.
    func make(_ frame: UnsafeMutablePointer<AVFrame>, presentationTime: Duration) throws(FFmpegError) -> AudioBuffer? {
        let channels = Int(frame.pointee.ch_layout.nb_channels)
        let count = Int(frame.pointee.nb_samples)
        guard channels > 0, count > 0 else { return nil }
        try prepare(for: frame)
        var samples = [Float](repeating: 0, count: channels * count)
        // `data` has eight planes; sound may have more channels.
        let planes = UnsafeMutableRawPointer(frame.pointee.extended_data)
            .assumingMemoryBound(to: UnsafePointer<UInt8>?.self)
        let code = samples.withUnsafeMutableBytes { target -> Int32 in
            var output: UnsafeMutablePointer<UInt8>? = target.baseAddress?.assumingMemoryBound(to: UInt8.self)
            return swr_convert(resampler, &output, Int32(count), planes, Int32(count))
        }
        try check(code, "swr_convert")
        return AudioBuffer(
            samples: samples, channelCount: channels, sampleRate: Int(frame.pointee.sample_rate),
            presentationTime: presentationTime)
    }

    private func prepare(for frame: UnsafeMutablePointer<AVFrame>) throws(FFmpegError) {
        let isSame = av_channel_layout_compare(&layout, &frame.pointee.ch_layout) == 0
        guard resampler == nil || !isSame || format != frame.pointee.format || rate != frame.pointee.sample_rate else {
            return
        }
        try check(av_channel_layout_copy(&layout, &frame.pointee.ch_layout), "av_channel_layout_copy")
        (format, rate) = (frame.pointee.format, frame.pointee.sample_rate)
        swr_free(&resampler)
        let code = withUnsafeMutablePointer(to: &frame.pointee.ch_layout) { layout in
            swr_alloc_set_opts2(
                &resampler, layout, AV_SAMPLE_FMT_FLT, rate, layout, AVSampleFormat(rawValue: format), rate, 0, nil)
        }
        try check(code, "swr_alloc_set_opts2")
        try check(swr_init(resampler), "swr_init")
    }
}
