internal import CFFmpeg

/// Filters of libavfilter on one picture.
enum PictureFilter {
    /// Replaces the content of `frame` by what the filters make of it.
    ///
    /// - Parameter filters: As the `ffmpeg` command writes them.
    static func apply(_ filters: String, to frame: UnsafeMutablePointer<AVFrame>) throws(FFmpegError) {
        var graph = avfilter_graph_alloc()
        defer { avfilter_graph_free(&graph) }
        guard let graph else { throw FFmpegError(code: -12, call: "avfilter_graph_alloc") }
        graph.pointee.nb_threads = 1
        let format = frame.pointee
        let input = "video_size=\(format.width)x\(format.height):pix_fmt=\(format.format):time_base=1/1"
        var (source, sink): (UnsafeMutablePointer<AVFilterContext>?, UnsafeMutablePointer<AVFilterContext>?)
        try check(
            avfilter_graph_create_filter(&source, avfilter_get_by_name("buffer"), "in", input, nil, graph), "buffer")
        try check(
            avfilter_graph_create_filter(&sink, avfilter_get_by_name("buffersink"), "out", nil, nil, graph),
            "buffersink")
        var (outputs, inputs) = (avfilter_inout_alloc(), avfilter_inout_alloc())
        defer {
            avfilter_inout_free(&outputs)
            avfilter_inout_free(&inputs)
        }
        guard outputs != nil, inputs != nil else { throw FFmpegError(code: -12, call: "avfilter_inout_alloc") }
        (outputs!.pointee.name, outputs!.pointee.filter_ctx) = (av_strdup("in"), source)
        (inputs!.pointee.name, inputs!.pointee.filter_ctx) = (av_strdup("out"), sink)
        try check(avfilter_graph_parse_ptr(graph, filters, &inputs, &outputs, nil), "avfilter_graph_parse")
        try check(avfilter_graph_config(graph, nil), "avfilter_graph_config")
        try check(av_buffersrc_add_frame(source, frame), "av_buffersrc_add_frame")
        try check(av_buffersrc_add_frame(source, nil), "av_buffersrc_add_frame")
        av_frame_unref(frame)
        try check(av_buffersink_get_frame(sink, frame), "av_buffersink_get_frame")
        if frame.pointee.linesize.0 < 0 { try copy(frame) }
    }

    /// Flipping only tells that rows lie the other way round, which hosts are spared.
    private static func copy(_ frame: UnsafeMutablePointer<AVFrame>) throws(FFmpegError) {
        var copy = av_frame_alloc()
        defer { av_frame_free(&copy) }
        guard let copy else { throw FFmpegError(code: -12, call: "av_frame_alloc") }
        (copy.pointee.format, copy.pointee.width) = (frame.pointee.format, frame.pointee.width)
        copy.pointee.height = frame.pointee.height
        try check(av_frame_get_buffer(copy, 0), "av_frame_get_buffer")
        try check(av_frame_copy(copy, frame), "av_frame_copy")
        try check(av_frame_copy_props(copy, frame), "av_frame_copy_props")
        av_frame_unref(frame)
        av_frame_move_ref(frame, copy)
    }
}
