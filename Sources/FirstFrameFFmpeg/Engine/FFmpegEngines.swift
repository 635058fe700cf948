internal import CFFmpeg
import EventLoop
public import Playback
import ResourceLoading

/// Makes engines on libavformat and libavcodec, which read through the runtime's loader.
public struct FFmpegEngines: EngineFactory {
    /// - Parameter logsToStandardError: Whether FFmpeg may write its own warnings to standard error. The setting is
    ///   FFmpeg's and holds for the process.
    public init(logsToStandardError: Bool = false) {
        av_log_set_level(logsToStandardError ? AV_LOG_WARNING : AV_LOG_QUIET)
    }

    /// A new engine, without a thread until it opens something.
    public func makeEngine(in environment: EngineEnvironment) -> any PlayerEngine { FFmpegEngine(environment) }

    /// The first picture that is not black, of a clip or of a picture file.
    public func still(
        of input: MediaInput, format: PixelFormat?, in environment: EngineEnvironment
    ) async throws -> VideoFrame {
        let work = StillWork(input, format: format)
        return try await withTaskCancellationHandler {
            try await environment.loop.offload { try work.run() }
        } onCancel: {
            input.reader.interrupt()
        }
    }
}
