package import EventLoop
package import ResourceLoading

/// Plays one clip: opens it, decodes its first frame and holds it, and delivers frames and sound once told to play.
///
/// An engine has one life: `open`, then `play` and `pause` as often as wanted, then `stop`. Calls may come from any
/// thread. Nothing is delivered before `play`; nothing after `stop` has returned.
public protocol PlayerEngine: AnyObject, Sendable {
    /// Pictures, each at its time. The first comes as soon as `play` is called.
    nonisolated var frames: EngineStream<VideoFrame> { get }
    /// Sound, up to 200 ms before its time; empty unless ``EngineOptions/audio`` is `.host`.
    nonisolated var audio: EngineStream<AudioBuffer> { get }
    /// What happens during the play, in order.
    nonisolated var events: EngineStream<EngineEvent> { get }

    /// Opens the media and decodes its first frame, silently and with the clock stopped.
    ///
    /// - Throws: ``PlaybackError``, ``LoadError``, or `CancellationError`. The engine is stopped then.
    func open(_ input: MediaInput, options: EngineOptions) async throws -> MediaDescription
    /// Starts the clock, or goes on after a pause.
    ///
    /// - Throws: ``PlaybackError/wrongState(call:state:)`` before `open`, ``PlaybackError/stopped`` after `stop`.
    func play() async throws
    /// Stops the clock; the last frame stays valid.
    func pause() async throws
    /// Goes to `time`, exact to the frame; beyond the ends it goes to the ends. Frames and sound of the place before are
    /// given up. The frame of the new place is delivered when this returns, also while paused; before the first `play`
    /// it is held as the first frame. Then the clock goes on, if it ran.
    ///
    /// - Throws: ``PlaybackError/superseded`` when a newer seek takes its place, ``PlaybackError/stopped``,
    ///   ``PlaybackError/wrongState(call:state:)`` before `open` has returned and after the end, ``LoadError``, or
    ///   `CancellationError`, after which the engine goes to `time` all the same.
    func seek(to time: Duration) async throws
    /// The same, or to the key frame before `time`, which is there sooner.
    func seek(to time: Duration, accuracy: SeekAccuracy) async throws
    /// Plays another track of its kind from where the play is; `nil` for no subtitles. ``MediaDescription/tracks`` has them.
    ///
    /// - Throws: ``PlaybackError/noSuchTrack(id:)``, ``PlaybackError/stopped``, or for a file of subtitles ``LoadError`` and
    ///   ``PlaybackError/superseded`` when another choice was made meanwhile.
    func select(_ track: MediaTrack.ID?, of kind: MediaTrack.Kind) async throws
    /// Tells what part of the sound is heard now, as the host's output knows. From the first call on pictures follow the
    /// sound; without calls for half a second they follow the clock again.
    ///
    /// - Parameter time: As sound buffers are timed.
    func heard(_ time: Duration) async
    /// While `true`, clock and sound stand still whatever `play` and `pause` say; what they said last counts
    /// afterwards. The page does it while it is covered or the app is in the background, so that a pause by the viewer
    /// stays one.
    func setSuspended(_ isSuspended: Bool) async
    /// Whether the clip begins again at its end, without a gap between its last frame and its first. While it does, times
    /// of frames and sound go on from pass to pass, and positions are those in the media.
    func setLooping(_ loops: Bool) async
    /// How fast it plays from now on, with the pitch of sound kept.
    ///
    /// - Parameter rate: 0.25 to 4; others are clamped. 1 is as usual.
    func setRate(_ rate: Double) async
    /// How loud sound is delivered from now on: 0 (silent) to 1 (as it is); others are clamped.
    func setVolume(_ volume: Float) async
    /// Whether sound is delivered as silence; the volume is kept.
    func setMuted(_ isMuted: Bool) async
    /// How it stands now.
    func status() async -> EngineStatus
    /// The first frame while it is held, and `nil` from the first `play` on; the frame stays with the engine.
    func heldFrame() async -> VideoFrame?
    /// Ends the life of the engine: thread, memory and reader are gone when it returns. Idempotent.
    func stop() async
}

/// Makes engines; the host chooses the kind when it starts a runtime.
public protocol EngineFactory: Sendable {
    /// A new engine that lives on the loop of `environment`.
    func makeEngine(in environment: EngineEnvironment) -> any PlayerEngine

    /// The first picture of media that is not black, or its first one when all of its beginning is; made without an
    /// engine, off the loop.
    ///
    /// - Parameter format: What the picture is converted to; `nil` leaves it as decoded.
    /// - Throws: ``PlaybackError``, ``LoadError``, or `CancellationError`.
    func still(of input: MediaInput, format: PixelFormat?, in environment: EngineEnvironment) async throws -> VideoFrame
}

extension EngineFactory {
    /// By default there are no pictures.
    public func still(
        of input: MediaInput, format: PixelFormat?, in environment: EngineEnvironment
    ) async throws -> VideoFrame {
        throw PlaybackError.noPlayableTrack(name: input.name)
    }
}

extension PlayerEngine {
    /// By default a clip ends.
    public func setLooping(_ loops: Bool) async {}
    /// By default it plays as usual.
    public func setRate(_ rate: Double) async {}
    /// By default sound is as it is.
    public func setVolume(_ volume: Float) async {}
    /// By default sound is as it is.
    public func setMuted(_ isMuted: Bool) async {}
    /// By default every seek is exact.
    public func seek(to time: Duration, accuracy: SeekAccuracy) async throws { try await seek(to: time) }
    /// By default there is nothing to choose.
    public func select(_ track: MediaTrack.ID?, of kind: MediaTrack.Kind) async throws {
        if let track { throw PlaybackError.noSuchTrack(id: track) }
    }
    /// By default pictures follow the clock.
    public func heard(_ time: Duration) async {}
    /// By default nobody sees it before it is played.
    public func heldFrame() async -> VideoFrame? { nil }
}

/// How near to its time a seek goes.
public enum SeekAccuracy: Hashable, Sendable {
    /// To the frame that is shown at that time.
    case exact
    /// To the key frame at or before it: nothing has to be decoded that is not shown.
    case keyFrame
}

/// Where an engine lives.
public struct EngineEnvironment: Sendable {
    package let loop: any LoopExecutor
    package init(loop: any LoopExecutor) { self.loop = loop }
}

/// The bytes that an engine opens. An engine reads through it and never opens the network or a file itself.
public struct MediaInput: Sendable {
    package let reader: ByteReader
    /// A name for error texts, without secrets.
    public let name: String
    /// Files of subtitles beside it.
    public let subtitles: [SubtitleInput]
    package init(reader: ByteReader, name: String, subtitles: [SubtitleInput] = []) {
        (self.reader, self.name, self.subtitles) = (reader, name, subtitles)
    }
}

/// What the host wants of an engine; can be changed until the engine opens.
public struct EngineOptions: Hashable, Sendable {
    /// Where sound goes.
    public enum Audio: Hashable, Sendable {
        /// To a paced null output.
        case null
        /// To ``PlayerEngine/audio``.
        case host
    }
    /// How frames are timed.
    public enum Pacing: Hashable, Sendable {
        /// At their presentation times; late ones are dropped.
        case clock
        /// As fast as the host takes them; none is dropped.
        case none
    }
    /// Where the first frame is taken; exact to the frame. Zero or more.
    public var startTime = Duration.zero
    /// Format that frames are converted to before they are delivered; `nil` leaves them as decoded.
    public var pixelFormat: PixelFormat?
    /// Where sound goes.
    public var audio = Audio.null
    /// How frames are timed.
    public var pacing = Pacing.clock
    /// Whether a video device (VAAPI) decodes where there is one that can; else, and when it fails, the processor does. Frames
    /// are copied from the device. Not tested on a machine with such a device.
    public var usesVideoDevice = false
    /// Whether the clip begins again at its end, without a gap; see ``PlayerEngine/setLooping(_:)``.
    public var loops = false
    /// How fast it plays; see ``PlayerEngine/setRate(_:)``. Allowed: 0.25 to 4.
    public var rate = 1.0
    /// How loud sound is delivered; see ``PlayerEngine/setVolume(_:)``.
    public var volume: Float = 1
    /// Whether sound is delivered as silence; see ``PlayerEngine/setMuted(_:)``.
    public var isMuted = false
    /// Languages of sound, the most wanted first, as files write them (`eng`, `de`); otherwise the file's own choice.
    public var languages: [String] = []
    /// The defaults.
    public init() {}
}

/// What is known of an opened clip.
public struct MediaDescription: Hashable, Sendable {
    /// Length in time; `nil` when the file doesn't tell.
    public var duration: Duration?
    /// Samples a row; `nil` without video.
    public var width: Int?
    /// Rows; `nil` without video.
    public var height: Int?
    /// How its pictures are to be turned for showing.
    public var orientation = Orientation.upright
    /// What can be chosen of with ``PlayerEngine/select(_:of:)``; files of subtitles beside the clip come last.
    public var tracks: [MediaTrack] = []
    /// FFmpeg's name of the video codec, such as `h264`.
    public var videoCodec: String?
    /// FFmpeg's name of the audio codec, such as `aac`.
    public var audioCodec: String?
    /// Bytes of the file from its start to the end of the first key frame; `nil` when there is no index.
    public var firstFrameEnd: Int64?
    /// Time spent in reading the container's head, without waiting for bytes.
    public var openTime = Duration.zero
    /// Time spent in reading and decoding the first frame, without waiting for bytes.
    public var decodeTime = Duration.zero
    /// Time spent in waiting for bytes until the first frame.
    public var waitTime = Duration.zero
    package init() {}
}

/// How a play stands.
public struct EngineStatus: Hashable, Sendable {
    /// Where the clock is.
    public var position = Duration.zero
    /// Media time from `position` on whose bytes are on disk or in memory.
    public var bufferedAhead = Duration.zero
    /// Whether `bufferedAhead` comes from the file's index, or is estimated from its average bit rate.
    public var isBufferedAheadExact = false
    /// Whether every byte of the clip is on disk or in memory.
    public var isComplete = false
    /// Whether the clock waits for bytes.
    public var isStalled = false
    /// Times that it has waited so far.
    public var stallCount = 0
    /// How long it has waited in all.
    public var stalledTime = Duration.zero
    /// Frames that were late or that nobody took.
    public var droppedFrames = 0
    /// Frames that were delivered.
    public var deliveredFrames = 0
    /// Times that the clip has begun again; see ``PlayerEngine/setLooping(_:)``.
    public var completedLoops = 0
    /// How far the sound that is heard was ahead of the pictures' clock when it was last told; `nil` when the clock goes by
    /// itself. See ``PlayerEngine/heard(_:)``.
    public var drift: Duration?
    package init() {}
}

/// What happens during a play.
public enum EngineEvent: Hashable, Sendable {
    /// The first frame was delivered.
    case firstFrame
    /// A line of text is to be shown, from now until its end. Told again after a seek into it.
    case subtitle(SubtitleCue)
    /// Bytes are missing; the clock waits.
    case stalled
    /// The clock goes on after a stall of this length.
    case resumed(after: Duration)
    /// The last frame was shown for its time, and the sound is over.
    case ended
    /// The play can't go on.
    case failed(String)
}

/// Why a clip can't be opened or played.
public enum PlaybackError: Error, Hashable, CustomStringConvertible, Sendable {
    /// The bytes are no media that FFmpeg knows.
    case notMedia(name: String, reason: String)
    /// Neither a video nor an audio track that can be decoded.
    case noPlayableTrack(name: String)
    /// The file ends before its first frame.
    case truncated(name: String)
    /// The file ends before its index says that it does; what was there has been played.
    case cutShort(name: String)
    /// The codec refused.
    case decoding(name: String, reason: String)
    /// The clip has no such track of that kind.
    case noSuchTrack(id: Int)
    /// The call needs another one first.
    case wrongState(call: String, state: String)
    /// The engine was stopped meanwhile.
    case stopped
    /// A newer seek took its place.
    case superseded

    /// One sentence that says what is wrong.
    public var description: String {
        switch self {
        case .notMedia(let name, let reason): "\(name) is not a media file that can be read: \(reason)"
        case .noPlayableTrack(let name): "\(name) has no video or audio track that can be decoded"
        case .truncated(let name): "\(name) ends before its first frame; the file is truncated"
        case .cutShort(let name): "\(name) is truncated: it ends before its last frame"
        case .decoding(let name, let reason): "\(name) can't be decoded: \(reason)"
        case .noSuchTrack(let id): "there is no track \(id) of that kind; the clip's description lists them"
        case .wrongState(let call, let state): "\(call) can't be called while the engine is \(state)"
        case .stopped: "the engine was stopped"
        case .superseded: "a newer seek took the place of this one"
        }
    }
}
