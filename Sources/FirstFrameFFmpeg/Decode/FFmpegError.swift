internal import CFFmpeg
import Playback

/// A call of FFmpeg that failed; `code` is its negative AVERROR.
struct FFmpegError: Error, Hashable, CustomStringConvertible {
    let code: Int32, call: String
    var description: String {
        var text = [CChar](repeating: 0, count: 128)
        av_strerror(code, &text, text.count)
        let length = text.firstIndex(of: 0) ?? text.count
        return "\(String(decoding: text[..<length].map(UInt8.init(bitPattern:)), as: UTF8.self)) (\(call))"
    }

    /// Of a call that gives memory, and had none.
    static func outOfMemory(_ call: String) -> FFmpegError { FFmpegError(code: ff_error_no_memory, call: call) }

    /// An error of any kind as the host knows it.
    static func told(_ error: any Error, of name: String) -> any Error {
        (error as? FFmpegError).map { PlaybackError.decoding(name: name, reason: $0.description) } ?? error
    }
}

@discardableResult func check(_ code: Int32, _ call: String) throws(FFmpegError) -> Int32 {
    guard code >= 0 else { throw FFmpegError(code: code, call: call) }
    return code
}

/// Media time from FFmpeg's fractions, exact to the nanosecond.
func duration(_ value: Int64, _ base: AVRational) -> Duration {
    .nanoseconds(av_rescale_q(value, base, AVRational(num: 1, den: 1_000_000_000)))
}
