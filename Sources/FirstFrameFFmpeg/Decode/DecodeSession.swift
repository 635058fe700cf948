internal import CFFmpeg
import Playback
import ResourceLoading

/// One open file on its decode thread: packets in, frames and sound out. Never leaves that thread.
final class DecodeSession {
    enum Step {
        case video(VideoFrame)
        case audio(AudioBuffer)
        case videoEnded
        case audioEnded
        /// Something was read or fed; ask again.
        case progressed
    }

    /// Packets of one track held while the other one's are looked for; a file that needs more is not interleaved.
    private static let largestBacklog = 64 * 1024 * 1024

    let demuxer: Demuxer
    private let options: EngineOptions
    private let name: String
    private var videoDecoder: Decoder?
    /// Made when sound is first asked for: a first frame does not wait for it.
    private var audioDecoder: Decoder?
    private var subtitleDecoder: SubtitleDecoder?
    /// Subtitles that were read and not yet taken.
    private var cues: [SubtitleCue] = []
    private let frames: FrameMaker
    private let sounds = SoundMaker()
    /// Makes sound faster or slower; `nil` as long as that is not asked for.
    private var tempo: TempoFilter?
    private var tempoRate = 1.0
    private var orientation: Orientation
    private var videoPackets = PacketQueue()
    private var audioPackets = PacketQueue()
    private let packet = ReusedPacket()
    private var isAtEnd = false
    /// Why no more packets come, where that is not the file's end; told once all before it has been given.
    private(set) var failure: (any Error)?
    private var isVideoDecoderNew = true
    /// Whether it was drained for the first frame, or has to begin elsewhere.
    private var mustVideoRestart = false
    private var isVideoDraining = false
    private var isAudioDraining = false
    /// The held frame is decoded again when play begins, and not shown twice.
    private var skipsFrameAt: Duration?
    /// After a seek: what is over by then is decoded and not shown.
    private var discardsUntil: Duration?
    /// The last picture that was over by then: shown when none comes after it.
    private var lastDiscarded: VideoFrame?
    /// When the present pass over the media began, in the time of all passes.
    private(set) var passStart = Duration.zero
    /// Where what the present pass has given ends.
    private var passEnd = Duration.zero

    var hasVideo: Bool { videoDecoder != nil }
    var hasAudio: Bool { demuxer.audio != nil }

    /// - Parameter takesCover: Whether a sound file's picture is wanted, and not its sound.
    init(_ input: MediaInput, options: EngineOptions, takesCover: Bool = false) throws {
        (self.options, name) = (options, input.name)
        demuxer = try Demuxer(input, languages: options.languages, takesCover: takesCover)
        frames = FrameMaker(target: options.pixelFormat)
        orientation = demuxer.video.map { Demuxer.orientation(of: $0) } ?? .upright
        do throws(FFmpegError) {
            videoDecoder = try demuxer.video.map { stream throws(FFmpegError) in
                try Decoder(stream, onDevice: options.usesVideoDevice)
            }
            if videoDecoder == nil { audioDecoder = try makeAudioDecoder() }
        } catch {
            throw PlaybackError.decoding(name: input.name, reason: error.description)
        }
        if options.startTime > .zero { try demuxer.seek(to: options.startTime) }
    }

    private func makeAudioDecoder() throws(FFmpegError) -> Decoder? {
        try demuxer.audio.map { stream throws(FFmpegError) in try Decoder(stream) }
    }

    // MARK: First frame

    /// The frame of the start time, from as few packets as the codec allows; `nil` for media without video.
    func firstFrame() throws -> VideoFrame? {
        guard let videoDecoder else { return nil }
        while videoPackets.isEmpty { guard readPacket() else { throw failure ?? PlaybackError.truncated(name: name) } }
        if options.startTime == .zero, let first = videoPackets.first, isPlainKeyFrame(first) {
            // A key frame alone, then a drain: a codec with reordering would wait for the packets that follow it.
            // Measured to give the same picture; the key frame is decoded once more when play begins.
            if videoDecoder.send(first), videoDecoder.send(nil), let frame = try videoDecoder.receive(makeFrame) {
                (mustVideoRestart, skipsFrameAt) = (true, frame.presentationTime)
                return frame
            }
            videoDecoder.flush()
        }
        while true {
            switch try videoStep() {
            case .video(let frame):
                if frame.presentationTime + max(frame.duration, .microseconds(1)) > options.startTime { return frame }
            case .videoEnded: throw (failure as? LoadError) ?? PlaybackError.truncated(name: name)
            case .audio, .audioEnded, .progressed: continue
            }
        }
    }

    /// Whether the packet gives the first picture by itself. A packet outside the edit list gives none.
    private func isPlainKeyFrame(_ packet: UnsafeMutablePointer<AVPacket>) -> Bool {
        packet.pointee.flags & AV_PKT_FLAG_KEY != 0 && packet.pointee.flags & AV_PKT_FLAG_DISCARD == 0
    }

    /// Presentation time of the first sound that has been read, if any.
    var firstSoundTime: Duration? {
        guard let audio = demuxer.audio, let first = audioPackets.first, first.pointee.pts != ff_no_timestamp else {
            return nil
        }
        return max(.zero, demuxer.time(first.pointee.pts, audio.pointee.time_base))
    }

    private static let shortestPass = Duration.milliseconds(40)

    /// Begins the next pass, whose times follow those of this one.
    ///
    /// - Returns: Whether there is one; media that give nothing would be read for ever.
    func beginAgain() throws -> Bool {
        guard passEnd > passStart else { return false }
        // A pass of nearly nothing would be begun again without end.
        let next = max(passEnd, passStart + Self.shortestPass)
        try seek(to: .zero)
        (passStart, passEnd) = (next, next)
        return true
    }

    /// Plays another track of a kind from the next seek on; `nil` for no subtitles.
    func select(_ track: Int?, of kind: MediaTrack.Kind) throws(FFmpegError) {
        demuxer.select(track, of: kind)
        switch kind {
        case .video:
            guard let stream = demuxer.video else { return }
            (videoDecoder, isVideoDecoderNew) = (try Decoder(stream, onDevice: options.usesVideoDevice), true)
            orientation = Demuxer.orientation(of: stream)
        case .audio: audioDecoder = try makeAudioDecoder()
        case .subtitles:
            subtitleDecoder = try demuxer.subtitles.map { stream throws(FFmpegError) in try SubtitleDecoder(stream) }
        }
    }

    func takeCues() -> [SubtitleCue] {
        defer { cues = [] }
        return cues
    }

    /// Goes to the key frame before `time`, and shows nothing that is over by then; or shows the key frame itself.
    func seek(to time: Duration, _ accuracy: SeekAccuracy = .exact) throws {
        (passStart, passEnd) = (.zero, max(.zero, time))
        mustVideoRestart = true
        audioDecoder?.flush()
        (isVideoDraining, isAudioDraining, skipsFrameAt) = (false, false, nil)
        tempo = nil
        (discardsUntil, lastDiscarded, cues) = (time, nil, [])
        // Formats without an index (MPEG-TS) go somewhere near, and not to a key frame: then from further ahead.
        var margin = Duration.zero
        while true {
            let place = max(.zero, time - margin)
            videoPackets = PacketQueue()
            audioPackets = PacketQueue()
            (isAtEnd, failure) = (false, nil)
            try demuxer.seek(to: place)
            let key = firstKeyTime()
            if let failure { throw failure }
            if let key, key <= time {
                if accuracy == .keyFrame { discardsUntil = key }
                return
            }
            if videoDecoder == nil || place <= .zero { return }
            margin = margin == .zero ? Self.firstMargin : margin * 2
        }
    }
    private static let firstMargin = Duration.seconds(1)

    /// Reads up to the next key frame; what comes before it can't be decoded. `nil` when there is none.
    private func firstKeyTime() -> Duration? {
        guard let video = demuxer.video else { return nil }
        while true {
            while let packet = videoPackets.first {
                if packet.pointee.flags & AV_PKT_FLAG_KEY != 0 {
                    let stamp = packet.pointee.pts != ff_no_timestamp ? packet.pointee.pts : packet.pointee.dts
                    return stamp == ff_no_timestamp ? .zero : demuxer.time(stamp, video.pointee.time_base)
                }
                videoPackets.removeFirst()
            }
            guard readPacket() else { return nil }
        }
    }

    private func isDiscarded(_ time: Duration, _ duration: Duration) -> Bool {
        discardsUntil.map { time + max(duration, .microseconds(1)) <= $0 } ?? false
    }

    // MARK: Steps

    func videoStep() throws -> Step {
        if mustVideoRestart { try restartVideo() }
        guard let videoDecoder else { return .videoEnded }
        if let frame = try videoDecoder.receive(makeFrame) {
            if skipsFrameAt == frame.presentationTime {
                skipsFrameAt = nil
                _ = inPass(frame)  // it was shown
                return .progressed
            }
            if isDiscarded(frame.presentationTime, frame.duration) {
                lastDiscarded = frame
                return .progressed
            }
            lastDiscarded = nil
            return .video(inPass(frame))
        }
        if isVideoDraining {
            if let last = lastDiscarded.take() { return .video(inPass(last)) }
            return .videoEnded
        }
        if let packet = videoPackets.first {
            if isVideoDecoderNew, videoDecoder.isStuck, let video = demuxer.video {
                // Once: what goes wrong again is the file's fault. It begins at the next key frame.
                (self.videoDecoder, isVideoDecoderNew) = (try Decoder(video, threads: videoDecoder.threads), false)
                while let packet = videoPackets.first, packet.pointee.flags & AV_PKT_FLAG_KEY == 0 {
                    videoPackets.removeFirst()
                }
            } else if videoDecoder.send(packet) {
                videoPackets.removeFirst()
            }
        } else if !readPacket() {
            isVideoDraining = true
            _ = videoDecoder.send(nil)
        }
        return .progressed
    }

    /// Lets the decoder begin at a key frame again: with more threads, where pictures are so many and so large that one may
    /// be too slow. Not before the first frame, which would wait until they are made.
    private func restartVideo() throws(FFmpegError) {
        mustVideoRestart = false
        guard let video = demuxer.video, let videoDecoder else { return }
        let threads = options.usesVideoDevice ? 1 : Decoder.usefulThreads(for: video)
        if threads == videoDecoder.threads {
            videoDecoder.flush()
        } else {
            self.videoDecoder = try Decoder(video, threads: threads)
        }
    }

    /// - Parameter rate: How much faster than usual the sound is to be played.
    func audioStep(rate: Double) throws -> Step {
        if audioDecoder == nil { audioDecoder = try makeAudioDecoder() }
        guard let audioDecoder else { return .audioEnded }
        if let buffer = tempo?.receive() { return .audio(inPass(buffer)) }
        let buffer = try audioDecoder.receive { frame -> AudioBuffer? in
            try sounds.make(frame, presentationTime: time(of: frame, audioDecoder))
        }
        if let buffer {
            guard let buffer, !isDiscarded(buffer.presentationTime, buffer.duration) else { return .progressed }
            guard rate != 1, options.audio == .host else { return .audio(inPass(buffer)) }
            if tempo?.fits(buffer) != true || tempoRate != rate {
                (tempo, tempoRate) = (try TempoFilter(buffer, rate: rate), rate)
            }
            try tempo?.send(buffer)
            return .progressed
        }
        if isAudioDraining {
            try tempo?.finish()
            return tempo?.receive().map { .audio(inPass($0)) } ?? .audioEnded
        }
        if let packet = audioPackets.first {
            if audioDecoder.send(packet) { audioPackets.removeFirst() }
        } else if !readPacket() {
            isAudioDraining = true
            _ = audioDecoder.send(nil)
        }
        return .progressed
    }

    private func inPass(_ frame: VideoFrame) -> VideoFrame {
        let frame = frame.shifted(by: passStart)
        passEnd = max(passEnd, frame.presentationTime + frame.duration)
        return frame
    }
    private func inPass(_ buffer: AudioBuffer) -> AudioBuffer {
        let buffer = buffer.shifted(by: passStart)
        passEnd = max(passEnd, buffer.presentationTime + buffer.duration)
        return buffer
    }

    /// Reads one packet into its queue; false when none comes any more.
    private func readPacket() -> Bool {
        guard !isAtEnd else { return false }
        do {
            if try readNext() { return true }
            if demuxer.isCutShort { failure = PlaybackError.cutShort(name: name) }
        } catch {
            failure = error
        }
        isAtEnd = true
        return false
    }

    private func readNext() throws -> Bool {
        guard let packet = packet.pointer, try demuxer.read(packet) else { return false }
        if demuxer.isCutShort(packet) {
            av_packet_unref(packet)
        } else if let video = demuxer.video, packet.pointee.stream_index == video.pointee.index {
            videoPackets.append(moving: packet)
        } else if let audio = demuxer.audio, packet.pointee.stream_index == audio.pointee.index {
            audioPackets.append(moving: packet)
        } else {
            if let subtitles = demuxer.subtitles, packet.pointee.stream_index == subtitles.pointee.index,
                let cue = subtitleDecoder?.decode(packet, { demuxer.time($0, $1) })
            {
                cues.append(cue.shifted(by: passStart))
            }
            av_packet_unref(packet)
        }
        guard videoPackets.bytes + audioPackets.bytes <= Self.largestBacklog else {
            throw PlaybackError.decoding(name: name, reason: "its tracks are not interleaved")
        }
        return true
    }

    private func time(of frame: UnsafeMutablePointer<AVFrame>, _ decoder: Decoder) -> Duration {
        let stamp = frame.pointee.best_effort_timestamp
        return stamp == ff_no_timestamp ? .zero : demuxer.time(stamp, decoder.timeBase)
    }

    private func makeFrame(_ frame: UnsafeMutablePointer<AVFrame>) throws(FFmpegError) -> VideoFrame {
        guard let videoDecoder else { throw FFmpegError(code: ff_error_invalid, call: "receive") }
        return try frames.make(
            frame, presentationTime: time(of: frame, videoDecoder),
            duration: duration(frame.pointee.pkt_duration, videoDecoder.timeBase), orientation: orientation,
            pixelAspect: demuxer.pixelAspect(of: frame))
    }
}
