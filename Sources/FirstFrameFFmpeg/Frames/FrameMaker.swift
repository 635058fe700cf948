internal import CFFmpeg
import Playback

/// Owns one AVFrame whose planes a ``VideoFrame`` shows.
final class FFmpegFrame: FrameStorage, @unchecked Sendable {
    // @unchecked: the frame is written before it is wrapped, and only read afterwards.
    private var frame: UnsafeMutablePointer<AVFrame>?

    /// Takes over the content of `source`.
    init?(moving source: UnsafeMutablePointer<AVFrame>) {
        frame = av_frame_alloc()
        guard let frame else { return nil }
        av_frame_move_ref(frame, source)
    }
    deinit { av_frame_free(&frame) }

    var pointer: UnsafePointer<AVFrame>? { UnsafePointer(frame) }
    func address(ofPlane index: Int) -> UnsafeRawPointer? {
        guard let frame else { return nil }
        return withUnsafePointer(to: &frame.pointee.data) {
            UnsafeRawPointer($0).assumingMemoryBound(to: UnsafeRawPointer?.self)[index]
        }
    }
}

/// Turns decoded AVFrames into the package's frames, converting where asked. One thread at a time.
final class FrameMaker {
    private let target: PixelFormat?
    private var scaler: OpaquePointer?

    init(target: PixelFormat?) { self.target = target }
    deinit { sws_freeContext(scaler) }

    /// - Parameter frame: Its content is taken over.
    func make(
        _ frame: UnsafeMutablePointer<AVFrame>, presentationTime: Duration, duration: Duration,
        orientation: Orientation = .upright, pixelAspect: PixelAspect = .square
    ) throws(FFmpegError) -> VideoFrame {
        let native = PixelFormat(frame.pointee.format)
        let wanted = target ?? native ?? .nearest(to: frame.pointee.format)
        let color = ColorDescription(frame)
        if wanted != native { try convert(frame, to: wanted, color) }
        let planes = Self.planes(of: frame, wanted)
        let (width, height) = (Int(frame.pointee.width), Int(frame.pointee.height))
        guard let storage = FFmpegFrame(moving: frame) else { throw FFmpegError.outOfMemory("av_frame_alloc") }
        return VideoFrame(
            width: width, height: height, pixelFormat: wanted, color: color, presentationTime: presentationTime,
            duration: duration, orientation: orientation, pixelAspect: pixelAspect, planes: planes, storage: storage)
    }

    /// Replaces the frame's picture by one of another format.
    private func convert(
        _ frame: UnsafeMutablePointer<AVFrame>, to format: PixelFormat, _ color: ColorDescription
    ) throws(FFmpegError) {
        let source = AVPixelFormat(rawValue: frame.pointee.format)
        let (width, height) = (frame.pointee.width, frame.pointee.height)
        scaler = sws_getCachedContext(
            scaler, width, height, source, width, height, format.ffmpeg, SWS_BILINEAR | SWS_ACCURATE_RND, nil, nil, nil)
        guard let scaler else { throw FFmpegError(code: ff_error_invalid, call: "sws_getContext") }
        let matrix = sws_getCoefficients(color.matrix.swscale)
        let isRGB = format == .rgba || format == .bgra
        sws_setColorspaceDetails(
            scaler, matrix, color.isFullRange ? 1 : 0, matrix, isRGB || color.isFullRange ? 1 : 0, 0, 1 << 16, 1 << 16)
        var converted = av_frame_alloc()
        defer { av_frame_free(&converted) }
        guard let converted else { throw FFmpegError.outOfMemory("av_frame_alloc") }
        converted.pointee.format = format.ffmpeg.rawValue
        (converted.pointee.width, converted.pointee.height) = (width, height)
        try check(av_frame_get_buffer(converted, 0), "av_frame_get_buffer")
        try check(sws_scale_frame(scaler, converted, frame), "sws_scale_frame")
        av_frame_unref(frame)
        av_frame_move_ref(frame, converted)
    }

    private static func planes(of frame: UnsafeMutablePointer<AVFrame>, _ format: PixelFormat) -> [VideoFrame.Plane] {
        let (width, height) = (Int(frame.pointee.width), Int(frame.pointee.height))
        let (halfWidth, halfHeight) = ((width + 1) / 2, (height + 1) / 2)
        let sizes: [(Int, Int)] =
            switch format {
            case .i420: [(width, height), (halfWidth, halfHeight), (halfWidth, halfHeight)]
            case .i422: [(width, height), (halfWidth, height), (halfWidth, height)]
            case .i444: [(width, height), (width, height), (width, height)]
            case .i420p10: [(width * 2, height), (halfWidth * 2, halfHeight), (halfWidth * 2, halfHeight)]
            case .nv12: [(width, height), (halfWidth * 2, halfHeight)]
            case .rgba, .bgra: [(width * 4, height)]
            }
        let strides = withUnsafePointer(to: &frame.pointee.linesize) {
            UnsafeRawPointer($0).assumingMemoryBound(to: Int32.self)
        }
        return sizes.enumerated().map { VideoFrame.Plane(stride: Int(strides[$0]), rowBytes: $1.0, rows: $1.1) }
    }
}

extension PixelFormat {
    var ffmpeg: AVPixelFormat {
        switch self {
        case .i420: AV_PIX_FMT_YUV420P
        case .i422: AV_PIX_FMT_YUV422P
        case .i444: AV_PIX_FMT_YUV444P
        case .i420p10: AV_PIX_FMT_YUV420P10LE
        case .nv12: AV_PIX_FMT_NV12
        case .rgba: AV_PIX_FMT_RGBA
        case .bgra: AV_PIX_FMT_BGRA
        }
    }

    /// The format of a decoded frame, where it is one of ours. The `J` formats differ only in their range.
    init?(_ format: Int32) {
        switch AVPixelFormat(rawValue: format) {
        case AV_PIX_FMT_YUV420P, AV_PIX_FMT_YUVJ420P: self = .i420
        case AV_PIX_FMT_YUV422P, AV_PIX_FMT_YUVJ422P: self = .i422
        case AV_PIX_FMT_YUV444P, AV_PIX_FMT_YUVJ444P: self = .i444
        case AV_PIX_FMT_YUV420P10LE: self = .i420p10
        case AV_PIX_FMT_NV12: self = .nv12
        case AV_PIX_FMT_RGBA: self = .rgba
        case AV_PIX_FMT_BGRA: self = .bgra
        default: return nil
        }
    }
}

extension PixelFormat {
    /// What keeps most of a picture whose own format is none of ours.
    static func nearest(to format: Int32) -> PixelFormat {
        guard let description = av_pix_fmt_desc_get(AVPixelFormat(rawValue: format)) else { return .i420 }
        let flags = Int32(truncatingIfNeeded: description.pointee.flags)
        if flags & (AV_PIX_FMT_FLAG_RGB | AV_PIX_FMT_FLAG_ALPHA | AV_PIX_FMT_FLAG_PAL) != 0 { return .rgba }
        return description.pointee.comp.0.depth > 8 ? .i420p10 : .i420
    }
}

extension ColorDescription {
    init(_ frame: UnsafeMutablePointer<AVFrame>) {
        let matrix: Matrix =
            switch frame.pointee.colorspace {
            case AVCOL_SPC_BT709: .bt709
            case AVCOL_SPC_BT2020_NCL, AVCOL_SPC_BT2020_CL: .bt2020
            case AVCOL_SPC_BT470BG, AVCOL_SPC_SMPTE170M, AVCOL_SPC_FCC: .bt601
            default: frame.pointee.height >= 720 && frame.pointee.width >= 720 ? .bt709 : .bt601
            }
        let jFormats = [AV_PIX_FMT_YUVJ420P, AV_PIX_FMT_YUVJ422P, AV_PIX_FMT_YUVJ444P]
        let isFull =
            frame.pointee.color_range == AVCOL_RANGE_JPEG
            || jFormats.contains(AVPixelFormat(rawValue: frame.pointee.format))
        let transfer: Transfer =
            switch frame.pointee.color_trc {
            case AVCOL_TRC_SMPTE2084: .pq
            case AVCOL_TRC_ARIB_STD_B67: .hlg
            default: .sdr
            }
        self.init(matrix: matrix, isFullRange: isFull, transfer: transfer)
    }
}

extension ColorDescription.Matrix {
    var swscale: Int32 {
        switch self {
        case .bt601: SWS_CS_ITU601
        case .bt709: SWS_CS_ITU709
        case .bt2020: SWS_CS_BT2020
        }
    }
}
