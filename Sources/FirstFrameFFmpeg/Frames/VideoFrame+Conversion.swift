internal import CFFmpeg
public import Playback

extension VideoFrame {
    /// The same picture in another format, with its colour matrix and range kept.
    ///
    /// - Returns: The frame itself when it has that format already.
    /// - Throws: ``PlaybackError/decoding(name:reason:)`` when libswscale refuses.
    public func converted(to format: PixelFormat) throws(PlaybackError) -> VideoFrame {
        if format == pixelFormat { return self }
        do throws(FFmpegError) {
            var copy = try avFrame()
            defer { av_frame_free(&copy) }
            guard let copy else { return self }
            return try FrameMaker(target: format).make(
                copy, presentationTime: presentationTime, duration: duration, orientation: orientation,
                pixelAspect: pixelAspect)
        } catch {
            throw .decoding(name: "the frame", reason: error.description)
        }
    }

    /// The same picture as it is seen: flipped and turned as its ``orientation`` says. Its samples keep their shape.
    ///
    /// - Returns: The frame itself when nothing is to be turned.
    /// - Throws: ``PlaybackError/decoding(name:reason:)`` when libavfilter refuses.
    public func turnedUpright() throws(PlaybackError) -> VideoFrame {
        let turn =
            switch orientation.rotation {
            case 90: ["transpose=clock"]
            case 180: ["hflip", "vflip"]
            case 270: ["transpose=cclock"]
            default: [String]()
            }
        let filters = (orientation.isFlipped ? ["vflip"] : []) + turn
        if filters.isEmpty { return self }
        let aspect =
            orientation.isSideways
            ? PixelAspect(width: pixelAspect.height, height: pixelAspect.width) : pixelAspect
        return try filtered(filters.joined(separator: ","), pixelFormat, pixelAspect: aspect, .upright)
    }

    /// The same picture for screens of standard dynamic range: BT.709, in limited range. ``ColorDescription/isHDR`` tells
    /// whether there is a need.
    ///
    /// - Returns: The frame itself, converted, when it has standard dynamic range already.
    /// - Throws: ``PlaybackError/decoding(name:reason:)`` when libavfilter has no zscale (libzimg).
    public func toneMapped(to format: PixelFormat = .i420) throws(PlaybackError) -> VideoFrame {
        guard color.isHDR else { return try converted(to: format) }
        let linear = "zscale=transferin=\(color.transfer == .pq ? "smpte2084" : "arib-std-b67"):transfer=linear:npl=203"
        let mapped = "format=gbrpf32le,zscale=primariesin=bt2020:primaries=bt709,tonemap=mobius:desat=0"
        let video = "zscale=transfer=bt709:matrix=bt709:range=limited,format=yuv420p"
        let frame = try filtered("\(linear),\(mapped),\(video)", .i420, pixelAspect: pixelAspect, orientation)
        return try frame.converted(to: format)
    }

    private func filtered(
        _ filters: String, _ format: PixelFormat, pixelAspect: PixelAspect, _ orientation: Orientation
    ) throws(PlaybackError) -> VideoFrame {
        do throws(FFmpegError) {
            var frame = try avFrame()
            defer { av_frame_free(&frame) }
            guard let frame else { return self }
            try PictureFilter.apply(filters, to: frame)
            return try FrameMaker(target: format).make(
                frame, presentationTime: presentationTime, duration: duration, orientation: orientation,
                pixelAspect: pixelAspect)
        } catch {
            throw .decoding(name: "the frame", reason: error.description)
        }
    }

    /// The picture as a PNG file, as it is seen but for the shape of its samples.
    ///
    /// - Throws: ``PlaybackError/decoding(name:reason:)`` when libavcodec has no PNG encoder.
    public func png() throws(PlaybackError) -> [UInt8] {
        let rgba = try turnedUpright().toneMapped(to: .rgba)
        do throws(FFmpegError) { return try rgba.encodedPNG() } catch {
            throw .decoding(name: "the frame", reason: error.description)
        }
    }

    /// An AVFrame with a reference to the same memory, or a copy of it; the caller frees it.
    private func avFrame() throws(FFmpegError) -> UnsafeMutablePointer<AVFrame>? {
        if let storage = storage as? FFmpegFrame, let pointer = storage.pointer { return av_frame_clone(pointer) }
        var frame = av_frame_alloc()
        guard let target = frame else { throw FFmpegError.outOfMemory("av_frame_alloc") }
        target.pointee.format = pixelFormat.ffmpeg.rawValue
        (target.pointee.width, target.pointee.height) = (Int32(width), Int32(height))
        do throws(FFmpegError) {
            try check(av_frame_get_buffer(target, 0), "av_frame_get_buffer")
        } catch {
            av_frame_free(&frame)
            throw error
        }
        for (index, plane) in planes.enumerated() {
            withPlane(index) { source in
                let row = withUnsafePointer(to: &target.pointee.data) {
                    UnsafeRawPointer($0).assumingMemoryBound(to: UnsafeMutablePointer<UInt8>?.self)[index]
                }
                let stride = withUnsafePointer(to: &target.pointee.linesize) {
                    UnsafeRawPointer($0).assumingMemoryBound(to: Int32.self)[index]
                }
                guard let row else { return }
                for line in 0..<plane.rows {
                    UnsafeMutableRawPointer(row + line * Int(stride))
                        .copyMemory(from: source.baseAddress! + line * plane.stride, byteCount: plane.rowBytes)
                }
            }
        }
        return frame
    }

    private func encodedPNG() throws(FFmpegError) -> [UInt8] {
        guard let codec = avcodec_find_encoder(AV_CODEC_ID_PNG) else {
            throw FFmpegError(code: ff_error_invalid, call: "avcodec_find_encoder")
        }
        var context = avcodec_alloc_context3(codec)
        defer { avcodec_free_context(&context) }
        guard let context else { throw FFmpegError.outOfMemory("avcodec_alloc_context3") }
        (context.pointee.width, context.pointee.height) = (Int32(width), Int32(height))
        context.pointee.pix_fmt = AV_PIX_FMT_RGBA
        context.pointee.time_base = AVRational(num: 1, den: 1)
        try check(avcodec_open2(context, codec, nil), "avcodec_open2")
        var frame = try avFrame()
        defer { av_frame_free(&frame) }
        try check(avcodec_send_frame(context, frame), "avcodec_send_frame")
        var packet = av_packet_alloc()
        defer { av_packet_free(&packet) }
        guard let packet else { throw FFmpegError.outOfMemory("av_packet_alloc") }
        try check(avcodec_receive_packet(context, packet), "avcodec_receive_packet")
        return Array(UnsafeBufferPointer(start: packet.pointee.data, count: Int(packet.pointee.size)))
    }
}
