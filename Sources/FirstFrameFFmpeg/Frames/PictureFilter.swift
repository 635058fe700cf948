internal import CFFmpeg

/// Filters of libavfilter on one picture.
enum PictureFilter {
    /// Replaces the content of `frame` by what the filters make of it.
    ///
    /// - Parameter filters: As the `ffmpeg` command writes them.
    static func apply(_ filters: String, to frame: UnsafeMutablePointer<AVFrame>) throws(FFmpegError) {
        let format = frame.pointee
        let input = "video_size=\(format.width)x\(format.height):pix_fmt=\(format.format):time_base=1/1"
        let graph = try FilterGraph(.pictures, of: input, filters)
        try graph.send(frame)
        try graph.send(nil)
        av_frame_unref(frame)
        try check(graph.receive(frame), "av_buffersink_get_frame")
        if frame.pointee.linesize.0 < 0 { try copy(frame) }
    }

    /// Flipping only tells that rows lie the other way round, which hosts are spared.
    private static func copy(_ frame: UnsafeMutablePointer<AVFrame>) throws(FFmpegError) {
        var copy = av_frame_alloc()
        defer { av_frame_free(&copy) }
        guard let copy else { throw FFmpegError.outOfMemory("av_frame_alloc") }
        (copy.pointee.format, copy.pointee.width) = (frame.pointee.format, frame.pointee.width)
        copy.pointee.height = frame.pointee.height
        try check(av_frame_get_buffer(copy, 0), "av_frame_get_buffer")
        try check(av_frame_copy(copy, frame), "av_frame_copy")
        try check(av_frame_copy_props(copy, frame), "av_frame_copy_props")
        av_frame_unref(frame)
        av_frame_move_ref(frame, copy)
    }
}
