import EventLoop
import Playback
import ResourceLoading

/// One clip on FFmpeg: a decode thread makes frames, this actor hands them out at their time.
actor FFmpegEngine: PlayerEngine {
    nonisolated private let loop: any LoopExecutor
    nonisolated var unownedExecutor: UnownedSerialExecutor { loop.asUnownedSerialExecutor() }
    nonisolated let frames: EngineStream<VideoFrame>
    nonisolated let audio: EngineStream<AudioBuffer>
    nonisolated let events: EngineStream<EngineEvent>

    /// Frames waiting for the host; more than this and the host is too slow, so the oldest goes.
    private static let framesWaiting = 4
    private static let soundsWaiting = 64
    private static let eventsWaiting = 64
    /// How long the next frames wait after the first was delivered: less than any frame lasts.
    private static let grace = Duration.milliseconds(4)
    private static let stallPoll = Duration.milliseconds(20)

    private var machine = EngineMachine()
    private var clock = PlaybackClock(at: .zero)
    private var options = EngineOptions()
    private var input: MediaInput?
    private var worker: DecodeWorker?
    private var supply = Supply()
    private var heldVideo: VideoFrame?
    private var opening: CheckedContinuation<DecodeWorker.Opened, any Error>?
    private var timer: LoopTimer?
    private var isSuspended = false
    private var seeks = SeekLine()
    private var stalls = Stalls()
    /// Whether the clock waits for its first bytes.
    private var isStarting = false
    private var deliveredFrames = 0
    private var lateFrames = 0
    /// Where what was delivered so far ends.
    private var deliveredUntil = Duration.zero
    private var stopping: Task<Void, Never>?
    private var hearing = Hearing()
    private var tracks: [MediaTrack] = []
    private var subtitles = SubtitleShow()
    /// Of a file beside the clip, on its way.
    private var subtitleLoad: Task<[SubtitleCue], any Error>?

    init(_ environment: EngineEnvironment) {
        loop = environment.loop
        frames = EngineStream(EngineChannel(capacity: Self.framesWaiting))
        audio = EngineStream(EngineChannel(capacity: Self.soundsWaiting))
        events = EngineStream(EngineChannel(capacity: Self.eventsWaiting))
    }

    // MARK: Opening

    func open(_ input: MediaInput, options: EngineOptions) async throws -> MediaDescription {
        try machine.open()
        (self.input, supply.reader, self.options) = (input, input.reader, options)
        self.options.rate = Self.allowed(options.rate)
        self.options.volume = min(max(0, options.volume), 1)
        let worker = DecodeWorker(input, options: self.options, loop: loop)
        self.worker = worker
        do {
            let opened = try await withTaskCancellationHandler {
                try await withCheckedThrowingContinuation {
                    (continuation: CheckedContinuation<DecodeWorker.Opened, any Error>) in
                    guard machine.state != .stopped else {
                        return continuation.resume(throwing: PlaybackError.stopped)
                    }
                    opening = continuation
                    do throws(LoopError) {
                        try worker.start { result in
                            self.assumeIsolated { $0.finishOpening(result) }
                        } decoded: {
                            self.assumeIsolated { $0.pump() }
                        }
                    } catch {
                        finishOpening(.failure(error))
                    }
                }
            } onCancel: {
                worker.interrupt()
            }
            try Task.checkCancellation()
            guard machine.opened() else { throw PlaybackError.stopped }
            (supply.index, heldVideo) = (opened.index, opened.firstFrame)
            clock = PlaybackClock(at: opened.startPosition, rate: self.options.rate)
            deliveredUntil = opened.startPosition
            var description = opened.description
            let first = (description.tracks.map(\.id).max() ?? -1) + 1
            description.tracks += input.subtitles.enumerated().map { number, file in
                MediaTrack(id: first + number, kind: .subtitles, codec: nil, language: nil, title: file.name)
            }
            tracks = description.tracks
            return description
        } catch {
            let wasStopped = machine.state == .stopped
            await stop()
            if Task.isCancelled { throw CancellationError() }
            throw wasStopped ? PlaybackError.stopped : FFmpegError.told(error, of: input.name)
        }
    }

    private func finishOpening(_ result: Result<DecodeWorker.Opened, any Error>) {
        opening.take()?.resume(with: result)
    }

    // MARK: Control

    func play() async throws { if try machine.play() { run() } }

    func pause() async throws { if try machine.pause() { stand() } }

    func setSuspended(_ isSuspended: Bool) async {
        guard isSuspended != self.isSuspended else { return }
        self.isSuspended = isSuspended
        guard machine.state == .playing else { return }
        isSuspended ? stand() : run()
    }

    func seek(to time: Duration) async throws { try await seek(to: time, accuracy: .exact) }

    func seek(to time: Duration, accuracy: SeekAccuracy) async throws {
        try machine.seek()
        guard let worker else { throw PlaybackError.stopped }
        let place = min(max(.zero, time), supply.index.duration ?? time)
        let number = seeks.begin(.moving(accuracy))
        _ = worker.pass(at: clock.position(at: loop.now))  // those before it are over
        stand()
        clock.freeze(at: place)
        (heldVideo, deliveredUntil) = (nil, place)
        frames.channel.discard()
        audio.channel.discard()
        forgetPlace()
        worker.seek(to: place, accuracy)
        try await awaitSeek(number)
    }

    /// - Parameter number: The seek's: a host's task may be suspended on its way here.
    private func awaitSeek(_ number: Int) async throws {
        try await withTaskCancellationHandler {
            try await withCheckedThrowingContinuation { (waiter: CheckedContinuation<Void, any Error>) in
                seeks.wait(for: number, isStopped: machine.state == .stopped, waiter)
            }
        } onCancel: {
            loop.post { self.assumeIsolated { $0.seeks.giveUp(number) } }
        }
    }

    /// Shows the frame of the new place, and goes on from there.
    private func finishSeek(_ worker: DecodeWorker) {
        let front = worker.front()
        guard !front.isSeeking else { return }
        supply.readOffset = front.readOffset
        if let failure = front.failure {
            seeks.end(.failure(FFmpegError.told(failure, of: input?.name ?? "")))
        } else {
            if let frame = worker.takeVideo() { show(frame, of: seeks.purpose) }
            seeks.end(.success(()))
        }
        if machine.state == .playing { run() }
    }

    /// The frame of a seek: held before the first play, delivered otherwise.
    private func show(_ frame: VideoFrame, of purpose: SeekLine.Purpose?) {
        switch purpose {
        case .remakingSound: return
        case .moving(.keyFrame):
            clock.freeze(at: frame.presentationTime)
            deliveredUntil = frame.presentationTime
        case .moving, .remakingPicture, nil: break
        }
        let end = frame.presentationTime + frame.duration
        // Beyond an end that nobody knew: the clock is where the media is.
        if supply.index.duration == nil, end < clock.position(at: loop.now) { clock.freeze(at: end) }
        if machine.state == .held { heldVideo = frame } else { deliver(frame) }
    }

    /// Lets the clock run, as soon as there is something to show.
    private func run() {
        guard !isSuspended, seeks.isEmpty else { return }
        if let first = heldVideo.take() { deliver(first) }
        // The host's thread shows the frame first; decoding the next ones, not due yet, would take its core.
        loop.schedule(at: loop.now.advanced(by: options.pacing == .clock ? Self.grace : .zero)) { [weak self] in
            self?.assumeIsolated { $0.decodeOn() }
        }
        if options.pacing == .none {
            frames.channel.onRoom { [weak self] in self?.pumpSoon() }
            audio.channel.onRoom { [weak self] in self?.pumpSoon() }
        }
        if options.pacing == .clock, !supply.isEnough(at: mediaPosition) {
            // The first frame stands until there is enough to move on; that is part of starting, not a stall.
            isStarting = true
            scheduleStallCheck()
        } else {
            clock.start(at: loop.now)
            pump()
        }
    }

    private func decodeOn() { if machine.state == .playing, !isSuspended { worker?.play() } }

    private nonisolated func pumpSoon() { loop.post { self.assumeIsolated { $0.pump() } } }

    private func stand() {
        if let timer { loop.cancel(timer) }
        timer = nil
        // Whoever was told of the stall learns that it is over; what begins anew begins like a start.
        endStall()
        isStarting = false
        clock.stop(at: loop.now)
    }

    func setLooping(_ loops: Bool) async {
        options.loops = loops
        worker?.setLooping(loops)
        pump()  // it may be over now
    }
    func setRate(_ rate: Double) async {
        let rate = Self.allowed(rate)
        guard rate != options.rate else { return }
        options.rate = rate
        clock.setRate(rate, at: loop.now)
        worker?.setRate(rate)
        let isMade = machine.state == .playing || machine.state == .paused || machine.state == .held && seeks.count > 0
        guard options.audio == .host, isMade, let worker else { return pump() }
        // Sound that was made for the old rate is made anew.
        remake(worker)
    }

    /// Decodes anew from where the play is; the picture stays.
    ///
    /// - Parameter kind: Of what is another one now; the picture is shown anew when it is.
    private func remake(_ worker: DecodeWorker, _ kind: MediaTrack.Kind = .audio) {
        let place = mediaPosition
        if seeks.isEmpty { _ = seeks.begin(.remakingSound) }
        if kind == .video { seeks.addPicture() }
        stand()
        clock.freeze(at: place)
        deliveredUntil = place
        audio.channel.discard()
        forgetPlace()
        worker.seek(to: place)
    }

    func select(_ track: MediaTrack.ID?, of kind: MediaTrack.Kind) async throws {
        guard machine.state != .stopped, let worker, let input else { throw PlaybackError.stopped }
        if kind == .subtitles { subtitleLoad.take()?.cancel() }
        if let track {
            guard tracks.contains(where: { $0.id == track && $0.kind == kind }) else {
                throw PlaybackError.noSuchTrack(id: track)
            }
        } else if kind != .subtitles {
            throw PlaybackError.wrongState(call: "select(nil, of: .\(kind))", state: machine.state.rawValue)
        }
        if kind == .subtitles {
            subtitles.choose(.none)
            worker.select(nil, of: .subtitles)
            guard let track else { return }
            let files = tracks.suffix(input.subtitles.count)
            if let number = files.firstIndex(where: { $0.id == track }) {
                return try await useSubtitles(input.subtitles[number - files.startIndex])
            }
            subtitles.choose(.track)
        }
        worker.select(track, of: kind)
        if machine.state != .ended { remake(worker, kind) }
    }

    private func useSubtitles(_ file: SubtitleInput) async throws {
        let loop = loop
        let load = Task(executorPreference: loop) {
            let bytes = try await file.load()
            return try await loop.offload { try SubtitleFile.cues(of: bytes, name: file.name) }
        }
        subtitleLoad = load
        let result = await withTaskCancellationHandler {
            await load.result
        } onCancel: {
            load.cancel()
        }
        if machine.state == .stopped { throw PlaybackError.stopped }
        guard subtitleLoad == load else { throw PlaybackError.superseded }  // another choice was made
        subtitleLoad = nil
        subtitles.choose(.file(try result.get()))
        pump()
    }

    /// The place changes: what was told of the one before holds no longer.
    private func forgetPlace() {
        hearing = Hearing()
        subtitles.moved(to: clock.position(at: loop.now))
    }

    /// - Returns: When the next line of text is to be shown.
    private func gatherSubtitles(_ worker: DecodeWorker, at position: Duration) -> Duration? {
        guard subtitles.isOn else { return nil }
        subtitles.gather(worker.takeCues(), at: position, in: worker.pass(at: position).start)
        return subtitles.next
    }

    private func tellSubtitles(at position: Duration) {
        for cue in subtitles.take(at: position) { events.channel.send(.subtitle(cue)) }
    }

    func heard(_ time: Duration) async { hearing.heard(time, &clock, at: loop.now) }

    private static func allowed(_ rate: Double) -> Double { rate.isFinite ? min(max(rate, 0.25), 4) : 1 }

    func setVolume(_ volume: Float) async { options.volume = min(max(0, volume), 1) }
    func setMuted(_ isMuted: Bool) async { options.isMuted = isMuted }

    func heldFrame() async -> VideoFrame? { heldVideo }

    func status() async -> EngineStatus {
        var status = EngineStatus()
        let pass = worker?.pass(at: clock.position(at: loop.now))
        status.position = min(
            clock.position(at: loop.now) - (pass?.start ?? .zero), supply.index.duration ?? .seconds(Int64.max / 2))
        status.completedLoops = pass?.completed ?? 0
        status.isBufferedAheadExact = supply.index.isExact
        status.drift = hearing.drift(at: loop.now)
        (status.isStalled, status.stallCount) = (stalls.isStalled, stalls.count)
        status.stalledTime = stalls.time(at: loop.now)
        status.droppedFrames = lateFrames + frames.channel.droppedCount
        status.deliveredFrames = deliveredFrames
        if machine.state != .stopped {
            status.isComplete = supply.isComplete(from: status.position)
            status.bufferedAhead = supply.bufferedAhead(from: status.position)
        }
        return status
    }

    /// Where the clock is in the media, whatever pass it is.
    private var mediaPosition: Duration {
        let position = clock.position(at: loop.now)
        return position - (worker?.pass(at: position).start ?? .zero)
    }

    func stop() async {
        if machine.stop() {
            if let timer { loop.cancel(timer) }
            frames.channel.finish()
            audio.channel.finish()
            events.channel.finish()
            finishOpening(.failure(PlaybackError.stopped))
            seeks.end(.failure(PlaybackError.stopped))
            subtitleLoad?.cancel()
            heldVideo = nil
            stopping = loop.spawn { await self.release() }
        }
        await stopping?.value
    }

    private func release() async {
        if let worker {
            worker.interrupt()
            try? await loop.offload { worker.join() }
        }
        worker = nil
        await input?.reader.close()
        (input, supply.reader) = (nil, nil)
    }

    // MARK: Delivery

    private func deliver(_ frame: VideoFrame) {
        deliveredFrames += 1
        deliveredUntil = max(deliveredUntil, frame.presentationTime + frame.duration)
        frames.channel.send(frame)
        if deliveredFrames == 1 { events.channel.send(.firstFrame) }
    }

    private func deliver(_ buffer: AudioBuffer) {
        let end = buffer.presentationTime + buffer.duration
        deliveredUntil = max(deliveredUntil, end)
        hearing.gave(from: buffer.presentationTime, to: end)
        // The null output has played it.
        if options.audio == .host { audio.channel.send(buffer.shifted(volume: options.isMuted ? 0 : options.volume)) }
    }

    /// Hands out what is due and sets the timer for what is next.
    private func pump() {
        guard let worker else { return }
        if !seeks.isEmpty { return finishSeek(worker) }
        guard machine.state == .playing, !isSuspended else { return }
        if let timer { loop.cancel(timer) }
        timer = nil
        options.pacing == .clock ? pumpByClock(worker) : pumpByDemand(worker)
    }

    private func pumpByDemand(_ worker: DecodeWorker) {
        while true {
            let front = worker.front()
            supply.readOffset = front.readOffset
            var isBusy = false
            if front.next.video != nil, frames.channel.hasRoom, let frame = worker.takeVideo() {
                deliver(frame)
                isBusy = true
            }
            if front.next.audio != nil, options.audio == .null || audio.channel.hasRoom, let buffer = worker.takeAudio()
            {
                deliver(buffer)
                isBusy = true
            }
            _ = gatherSubtitles(worker, at: deliveredUntil)
            tellSubtitles(at: deliveredUntil)
            if front.next.isDone { return finish(front.failure) }
            if !isBusy { return }
        }
    }

    private func pumpByClock(_ worker: DecodeWorker) {
        if isStarting || stalls.isStalled { return checkSupply(worker) }
        while true {
            var front = worker.front()
            let position = clock.position(at: loop.now)
            supply.readOffset = front.readOffset
            front.next.subtitle = gatherSubtitles(worker, at: position)
            let step = FramePacer.step(front.next, at: position, deliveredUntil: deliveredUntil) { isStarving(front) }
            switch step {
            case .giveSound: if let buffer = worker.takeAudio() { deliver(buffer) }
            case .giveSubtitle: tellSubtitles(at: position)
            case .showFrame: if let frame = worker.takeVideo() { deliver(frame) }
            case .dropFrame: if worker.takeVideo() != nil { lateFrames += 1 }
            case .finish: return finish(front.failure)
            case .stall: return stall(at: deliveredUntil)
            case .wait(let time):
                if let time, let due = clock.instant(of: time) {
                    timer = loop.schedule(at: due) { [weak self] in self?.assumeIsolated { $0.pump() } }
                }
                return
            }
        }
    }

    /// Whether nothing is left to show because bytes are missing, not because decoding is slow.
    private func isStarving(_ front: DecodeWorker.Front) -> Bool {
        // The next pass of a loop begins with bytes that may be gone.
        if front.isVideoDry, front.isAudioDry { return true }
        guard front.next.video == nil && front.next.audio == nil || front.queuedFrames == 0 && !front.isVideoDry
        else { return false }
        return supply.isDry(at: mediaPosition)
    }

    private func stall(at position: Duration) {
        clock.freeze(at: position)
        stalls.begin(at: loop.now)
        events.channel.send(.stalled)
        scheduleStallCheck()
    }

    private func endStall() {
        if let time = stalls.end(at: loop.now) { events.channel.send(.resumed(after: time)) }
    }

    private func scheduleStallCheck() {
        timer = loop.schedule(at: loop.now.advanced(by: Self.stallPoll)) { [weak self] in
            self?.assumeIsolated { $0.pump() }
        }
    }

    private func checkSupply(_ worker: DecodeWorker) {
        let front = worker.front()
        supply.readOffset = front.readOffset
        let hasSomething = front.next.video != nil || (front.isVideoDry && front.next.audio != nil)
        guard front.next.isDone || (hasSomething && (supply.isEnough(at: mediaPosition) || front.isDecoded)) else {
            return scheduleStallCheck()
        }
        endStall()
        isStarting = false
        clock.start(at: loop.now)
        pumpByClock(worker)
    }

    private func finish(_ failure: (any Error)?) {
        machine.end()
        clock.stop(at: loop.now)
        _ = stalls.end(at: loop.now)
        events.channel.send(failure.map { .failed("\($0)") } ?? .ended)
        frames.channel.finish()
        audio.channel.finish()
        events.channel.finish()
    }
}
