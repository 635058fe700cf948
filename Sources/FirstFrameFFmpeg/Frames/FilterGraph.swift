internal import CFFmpeg

/// A chain of libavfilter's filters, from one source to one sink. One thread at a time.
final class FilterGraph {
    enum Kind {
        case pictures
        case sound
    }
    private var graph: UnsafeMutablePointer<AVFilterGraph>?
    private var source: UnsafeMutablePointer<AVFilterContext>?
    private var sink: UnsafeMutablePointer<AVFilterContext>?

    /// - Parameters:
    ///   - input: What the source is told of the frames that come.
    ///   - filters: As the `ffmpeg` command writes them.
    init(_ kind: Kind, of input: String, _ filters: String) throws(FFmpegError) {
        graph = avfilter_graph_alloc()
        guard let graph else { throw .outOfMemory("avfilter_graph_alloc") }
        graph.pointee.nb_threads = 1
        let (buffer, bufferSink) = kind == .pictures ? ("buffer", "buffersink") : ("abuffer", "abuffersink")
        try check(
            avfilter_graph_create_filter(&source, avfilter_get_by_name(buffer), "in", input, nil, graph), buffer)
        try check(
            avfilter_graph_create_filter(&sink, avfilter_get_by_name(bufferSink), "out", nil, nil, graph), bufferSink)
        var (outputs, inputs) = (avfilter_inout_alloc(), avfilter_inout_alloc())
        defer {
            avfilter_inout_free(&outputs)
            avfilter_inout_free(&inputs)
        }
        guard outputs != nil, inputs != nil else { throw .outOfMemory("avfilter_inout_alloc") }
        (outputs!.pointee.name, outputs!.pointee.filter_ctx) = (av_strdup("in"), source)
        (inputs!.pointee.name, inputs!.pointee.filter_ctx) = (av_strdup("out"), sink)
        try check(avfilter_graph_parse_ptr(graph, filters, &inputs, &outputs, nil), "avfilter_graph_parse")
        try check(avfilter_graph_config(graph, nil), "avfilter_graph_config")
    }
    deinit { avfilter_graph_free(&graph) }

    /// - Parameter frame: Its content is taken over; `nil` for "no more will come".
    func send(_ frame: UnsafeMutablePointer<AVFrame>?) throws(FFmpegError) {
        try check(av_buffersrc_add_frame(source, frame), "av_buffersrc_add_frame")
    }

    /// The next frame that is ready into `frame`, which is empty.
    ///
    /// - Returns: FFmpeg's code, below 0 where there is none.
    func receive(_ frame: UnsafeMutablePointer<AVFrame>) -> Int32 { av_buffersink_get_frame(sink, frame) }
}
