import EventLoop
import Playback
import ResourceLoading

/// The thread of one engine: it may block on bytes and on decoding, and hands what it made to the loop.
final class DecodeWorker: Sendable {
    struct Opened: Sendable {
        let description: MediaDescription
        let index: MediaIndex
        let firstFrame: VideoFrame?
        let startPosition: Duration
    }
    private struct Shared {
        var isStopping = false
        var isPlaying = false
        var video: [VideoFrame] = []
        var audio: [AudioBuffer] = []
        var audioAhead = Duration.zero
        var cues: [SubtitleCue] = []
        var isVideoDone = false
        var isAudioDone = false
        var failure: (any Error)?
        var readOffset: Int64 = 0
        var isNoticeDue = true
        /// Whether frames are being decoded up to the limit; they are taken up again when half of them are gone, so that
        /// the thread wakes seldom and not in step with every frame.
        var isFilling = true
        /// Where to go on, instead of where the thread is.
        var seek: (time: Duration, accuracy: SeekAccuracy)?
        /// Tracks to play instead of others.
        var selections: [(kind: MediaTrack.Kind, track: Int?)] = []
        /// The place of the last seek has given nothing yet: it is decoded whether the engine plays or not.
        var isSeeking = false
        var loops: Bool
        var rate: Double
        /// When the passes over the media began, from the one that is heard on; and how many there were before the last.
        var passes: [Duration] = [.zero]
        var completedLoops = 0

        /// Whether nothing more will come.
        var isOver: Bool { isVideoDone && isAudioDone && (!loops || failure != nil) }
    }

    /// Frames decoded ahead: enough to ride over one slow frame, few enough to stay small (8 MB of 720p).
    private static let framesAhead = 6
    private static let soundAhead = Duration.seconds(1)

    private let shared: Lock<Shared>
    private let input: MediaInput
    private let options: EngineOptions
    private let loop: any LoopExecutor
    private let thread = Lock<LongWork?>(nil)

    init(_ input: MediaInput, options: EngineOptions, loop: any LoopExecutor) {
        (self.input, self.options, self.loop) = (input, options, loop)
        shared = Lock(Shared(loops: options.loops, rate: options.rate))
    }

    /// Starts the thread.
    ///
    /// - Parameters:
    ///   - opened: Told once, on the loop, when the first frame is there or nothing will come.
    ///   - decoded: Told, on the loop, when there is something new to take.
    func start(
        opened: @escaping @Sendable (Result<Opened, any Error>) -> Void, decoded: @escaping @Sendable () -> Void
    ) throws(LoopError) {
        let worker = try loop.startWork(named: "ff-decode") { self.run(opened, decoded) }
        thread.withLock { $0 = worker }
    }

    /// Makes the thread end soon, wherever it waits. Any thread.
    func interrupt() {
        shared.withLockNotifying { $0.isStopping = true }
        input.reader.interrupt()
    }

    /// Blocks until the thread has ended; off the loop.
    func join() { thread.withLock { $0.take() }?.wait() }

    func play() { shared.withLockNotifying { $0.isPlaying = true } }
    func setRate(_ rate: Double) { shared.withLock { $0.rate = rate } }
    func setLooping(_ loops: Bool) { shared.withLockNotifying { $0.loops = loops } }

    /// When the pass began in which `time` lies, and how many were before it.
    func pass(at time: Duration) -> (start: Duration, completed: Int) {
        shared.withLock { shared in
            shared.passes.removeFirst(shared.passes.lastIndex { $0 <= time } ?? 0)
            return (shared.passes[0], max(0, shared.completedLoops - (shared.passes.count - 1)))
        }
    }

    /// What was decoded is gone when it returns; what comes is of the new place. A newer seek takes the place of this one.
    func seek(to time: Duration, _ accuracy: SeekAccuracy = .exact) {
        shared.withLockNotifying { shared in
            (shared.video, shared.audio, shared.audioAhead, shared.cues) = ([], [], .zero, [])
            (shared.isVideoDone, shared.isAudioDone, shared.failure) = (false, false, nil)
            // Passes that were only decoded have not been.
            shared.completedLoops = max(0, shared.completedLoops - (shared.passes.count - 1))
            shared.passes = [.zero]
            (shared.seek, shared.isSeeking) = ((time, accuracy), true)
            shared.isNoticeDue = true  // the last one may have come while nobody looked
            input.reader.nudge()  // it may wait for bytes of the old place
        }
    }

    /// Plays another track: subtitles from what is read next, others from the next seek on.
    func select(_ track: Int?, of kind: MediaTrack.Kind) {
        shared.withLockNotifying { shared in
            shared.selections.append((kind, track))
            if kind == .subtitles { shared.cues = [] }
        }
    }

    // MARK: What the loop takes

    struct Front {
        /// But for subtitles, which are not taken one by one.
        var next: FramePacer.Front
        /// Whether the present pass has nothing more of it.
        var isVideoDry: Bool
        var isAudioDry: Bool
        var failure: (any Error)?
        var readOffset: Int64
        var queuedFrames: Int
        var isSeeking: Bool
        /// Whether all there is has been decoded, taken or not.
        var isDecoded: Bool
    }

    /// What can be taken now; a notice comes when that changes.
    func front() -> Front {
        shared.withLock { shared in
            shared.isNoticeDue = true
            let isVideoDry = shared.isVideoDone && shared.video.isEmpty
            let isAudioDry = shared.isAudioDone && shared.audio.isEmpty
            var next = FramePacer.Front()
            next.video = shared.video.first?.presentationTime
            next.nextVideo = shared.video.dropFirst().first?.presentationTime
            next.audio = shared.audio.first?.presentationTime
            next.isDone = isVideoDry && isAudioDry && shared.isOver
            return Front(
                next: next, isVideoDry: isVideoDry, isAudioDry: isAudioDry, failure: shared.failure,
                readOffset: shared.readOffset, queuedFrames: shared.video.count, isSeeking: shared.isSeeking,
                isDecoded: shared.isOver)
        }
    }
    func takeVideo() -> VideoFrame? {
        shared.withLockNotifying { $0.video.isEmpty ? nil : $0.video.removeFirst() }
    }
    func takeAudio() -> AudioBuffer? {
        shared.withLockNotifying { shared in
            guard !shared.audio.isEmpty else { return nil }
            let buffer = shared.audio.removeFirst()
            shared.audioAhead -= buffer.duration
            return buffer
        }
    }

    func takeCues() -> [SubtitleCue] {
        shared.withLock { shared in
            defer { shared.cues = [] }
            return shared.cues
        }
    }

    // MARK: The thread

    private func run(
        _ opened: @escaping @Sendable (Result<Opened, any Error>) -> Void, _ decoded: @escaping @Sendable () -> Void
    ) {
        do {
            let start = loop.now
            let session = try DecodeSession(input, options: options)
            let openTime = start.duration(to: loop.now)
            let openWait = input.reader.waitedTime
            let first = try session.firstFrame()
            var description = session.demuxer.description
            description.waitTime = input.reader.waitedTime
            description.openTime = openTime - openWait
            description.decodeTime = start.duration(to: loop.now) - openTime - (description.waitTime - openWait)
            if let first { (description.width, description.height) = (first.width, first.height) }
            let times = [first?.presentationTime, session.firstSoundTime].compactMap { $0 }
            let result = Opened(
                description: description, index: session.demuxer.index(), firstFrame: first,
                startPosition: options.startTime > .zero ? options.startTime : times.min() ?? .zero)
            loop.post { opened(.success(result)) }
            decode(session, decoded)
        } catch {
            loop.post { opened(.failure(error)) }
        }
    }

    private enum Job {
        case stop
        case select(MediaTrack.Kind, Int?)
        case seek(Duration, SeekAccuracy)
        case beginAgain
        case work(video: Bool, audio: Bool)
    }

    private func decode(_ session: DecodeSession, _ decoded: @escaping @Sendable () -> Void) {
        shared.withLock { shared in
            shared.isVideoDone = !session.hasVideo
            shared.isAudioDone = !session.hasAudio
        }
        while true {
            let job = shared.waitWithLock { shared -> Job? in
                if shared.isStopping { return .stop }
                if !shared.selections.isEmpty {
                    let (kind, track) = shared.selections.removeFirst()
                    return .select(kind, track)
                }
                if let place = shared.seek.take() {
                    (shared.isVideoDone, shared.isAudioDone) = (!session.hasVideo, !session.hasAudio)
                    input.reader.calm()
                    return .seek(place.time, place.accuracy)
                }
                if shared.isVideoDone, shared.isAudioDone {
                    return shared.loops && shared.failure == nil && shared.isPlaying ? .beginAgain : nil
                }
                guard shared.isPlaying || shared.isSeeking else { return nil }
                if shared.video.count >= Self.framesAhead { shared.isFilling = false }
                if shared.video.count <= Self.framesAhead / 2 { shared.isFilling = true }
                let video = !shared.isVideoDone && shared.isFilling
                let audio = !shared.isAudioDone && shared.audioAhead < Self.soundAhead
                return video || audio ? .work(video: video, audio: audio) : nil
            }
            do {
                switch job {
                case .stop: return
                case .select(let kind, let track): try session.select(track, of: kind)
                case .seek(let place, let accuracy): try session.seek(to: place, accuracy)
                case .beginAgain: try beginAgain(session, decoded)
                case .work(let video, let audio):
                    if video { accept(try session.videoStep(), session, decoded) }
                    let rate = shared.withLock { $0.rate }
                    if audio { accept(try session.audioStep(rate: rate), session, decoded) }
                }
            } catch {
                let isFailure = shared.withLock { shared -> Bool in
                    guard shared.seek == nil else { return false }  // the seek made it, and goes on elsewhere
                    shared.failure = error
                    (shared.isVideoDone, shared.isAudioDone, shared.isSeeking) = (true, true, false)
                    return true
                }
                if isFailure { loop.post(decoded) }
            }
        }
    }

    private func beginAgain(_ session: DecodeSession, _ decoded: @escaping @Sendable () -> Void) throws {
        let isThere = try session.beginAgain()
        shared.withLock { shared in
            guard shared.seek == nil else { return }
            // Nothing came of the whole pass, or it was the last one.
            guard isThere, shared.loops else { return shared.loops = false }
            (shared.isVideoDone, shared.isAudioDone) = (!session.hasVideo, !session.hasAudio)
            shared.passes.append(session.passStart)
            shared.completedLoops += 1
        }
        loop.post(decoded)
    }

    private func accept(_ step: DecodeSession.Step, _ session: DecodeSession, _ decoded: @escaping @Sendable () -> Void)
    {
        let offset = session.demuxer.readOffset
        let cues = session.takeCues()
        let mustTell = shared.withLock { shared -> Bool in
            guard shared.seek == nil else { return false }  // of the place before
            shared.readOffset = offset
            shared.cues += cues
            switch step {
            case .progressed: return false
            case .video(let frame):
                shared.video.append(frame)
                shared.isSeeking = false
            case .audio(let buffer):
                shared.audio.append(buffer)
                shared.audioAhead += buffer.duration
            case .videoEnded: shared.isVideoDone = true
            case .audioEnded: shared.isAudioDone = true
            }
            if shared.isVideoDone, shared.isAudioDone, shared.failure == nil { shared.failure = session.failure }
            // Sound may go on where there are no pictures any more.
            if shared.isVideoDone, shared.isAudioDone || !shared.audio.isEmpty { shared.isSeeking = false }
            defer { shared.isNoticeDue = false }
            return shared.isNoticeDue
        }
        if mustTell { loop.post(decoded) }
    }
}
