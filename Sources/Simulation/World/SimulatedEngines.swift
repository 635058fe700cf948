import EventLoop
import FeedVocabulary
package import Playback
import ResourceLoading

/// How engines open and fail: each seed has its own.
package struct EngineWeather: Sendable {
    package var openTime = Duration.milliseconds(10)
    /// Added to the time of one opening, at most.
    package var openJitter = Duration.zero
    /// How long an engine takes to stop, at most: its thread ends a frame first.
    package var longestStop = Duration.zero
    /// How long an engine takes to begin, at most: a host's own may have a device to wait for.
    package var longestBegin = Duration.zero
    /// Of openings, 0 to 1, that the decoder refuses.
    package var failureRate = 0.0
    /// Bytes that an engine needs for its first frame.
    package var headBytes = 64 * 1024
    package init() {}
}

/// Engines that read real bytes through the loader and decode nothing, in virtual time.
package final class SimulatedEngines: EngineFactory {
    package struct Counts: Hashable, Sendable {
        package var made = 0, opened = 0, failed = 0, stopped = 0
        /// Of those that failed: refused by the decoder, and not cancelled or without bytes.
        package var refused = 0
        /// Engines whose clock runs, and which are heard therefore.
        package var playing = 0
        /// The most that played at one time.
        package var mostPlaying = 0
        package var stalls = 0, ends = 0
        package var live: Int { made - stopped }
    }
    /// Seconds that a simulated clip plays, whatever its length in bytes.
    package static let clipSeconds = 10.0
    private struct State {
        var counts = Counts()
        var random: SplitMix64
        var moves: Set<[EngineMachine.State]> = []
        var wrongBytes: [String] = []
    }
    fileprivate let weather: EngineWeather
    private let library: ClipLibrary?
    private let state: Lock<State>

    /// - Parameter library: What the bytes of each clip are; every byte that an engine reads is compared.
    package init(_ weather: EngineWeather, seed: UInt64 = 0, library: ClipLibrary? = nil) {
        (self.weather, self.library) = (weather, library)
        state = Lock(State(random: SplitMix64(seed: seed)))
    }
    package convenience init(openTime: Duration) {
        var weather = EngineWeather()
        weather.openTime = openTime
        self.init(weather)
    }
    package var counts: Counts { state.withLock { $0.counts } }
    /// The moves that engines have made, each as the two states.
    package var moves: Set<[EngineMachine.State]> { state.withLock { $0.moves } }
    /// What was read and is of no version of its clip.
    package var wrongBytes: [String] { state.withLock { $0.wrongBytes } }

    package func makeEngine(in environment: EngineEnvironment) -> any PlayerEngine {
        count { $0.made += 1 }
        return SimulatedEngine(loop: environment.loop, engines: self)
    }
    fileprivate func count(_ change: (inout Counts) -> Void) {
        state.withLock { state in
            change(&state.counts)
            state.counts.mostPlaying = max(state.counts.mostPlaying, state.counts.playing)
        }
    }
    fileprivate func moved(_ from: EngineMachine.State, _ to: EngineMachine.State) {
        if from != to { state.withLock { _ = $0.moves.insert([from, to]) } }
    }
    fileprivate func drawOpening() -> (time: Duration, fails: Bool) {
        state.withLock { state in
            let most = Int(weather.openJitter.milliseconds)
            let jitter = most > 0 ? Int.random(in: 0...most, using: &state.random) : 0
            let fails =
                weather.failureRate > 0 && Double.random(in: 0..<1, using: &state.random) < weather.failureRate
            return (weather.openTime + .milliseconds(jitter), fails)
        }
    }
    fileprivate func drawStop() -> Duration { draw(weather.longestStop) }
    fileprivate func drawBegin() -> Duration { draw(weather.longestBegin) }
    private func draw(_ longest: Duration) -> Duration {
        let most = Int(longest.milliseconds)
        return most > 0 ? .milliseconds(state.withLock { Int.random(in: 0...most, using: &$0.random) }) : .zero
    }
    /// Compares what was read; narrows the versions that it may be of.
    fileprivate func check(_ name: String, _ bytes: [UInt8], at offset: Int64, _ versions: inout Set<Int>?) {
        guard let clip = library?.clip(at: name) else { return }
        let matching = (versions ?? Set(clip.versions.indices)).filter { clip.has(bytes[...], at: offset, version: $0) }
        if matching.isEmpty {
            state.withLock {
                $0.wrongBytes.append("\(name): \(bytes.count) bytes at \(offset) are of no one version of it")
            }
        }
        versions = matching
    }
}

private actor SimulatedEngine: PlayerEngine {
    nonisolated private let loop: any LoopExecutor
    nonisolated var unownedExecutor: UnownedSerialExecutor { loop.asUnownedSerialExecutor() }
    nonisolated let frames = EngineStream<VideoFrame>(EngineChannel(capacity: 1))
    nonisolated let audio = EngineStream<AudioBuffer>(EngineChannel(capacity: 1))
    nonisolated let events = EngineStream<EngineEvent>(EngineChannel(capacity: 64))
    private let engines: SimulatedEngines
    private var machine = EngineMachine() {
        didSet { engines.moved(oldValue.state, machine.state) }
    }
    private var clock = PlaybackClock(at: .zero)
    private var input: MediaInput?
    private var isSuspended = false
    private var isHeard = false
    private var feeding: Task<Void, Never>?
    private var versions: Set<Int>?
    private var readOffset: Int64 = 0
    private var seeks = 0
    private var stallStart: LoopInstant?
    private var stallCount = 0
    private var stalledTime = Duration.zero

    init(loop: any LoopExecutor, engines: SimulatedEngines) { (self.loop, self.engines) = (loop, engines) }

    func open(_ input: MediaInput, options: EngineOptions) async throws -> MediaDescription {
        try machine.open()
        self.input = input
        do {
            while readOffset < engines.weather.headBytes {
                if try await read(engines.weather.headBytes - Int(readOffset)) == 0 { break }
            }
            guard readOffset > 0 else { throw PlaybackError.notMedia(name: input.name, reason: "no bytes") }
            let (time, fails) = engines.drawOpening()
            // A decoder does not stop in the middle of a frame, whatever the task was told.
            await loop.spawn { [loop] in try? await loop.sleep(for: time) }.value
            if fails {
                engines.count { $0.refused += 1 }
                throw PlaybackError.decoding(name: input.name, reason: "simulated")
            }
            guard machine.opened() else { throw PlaybackError.stopped }
        } catch {
            engines.count { $0.failed += 1 }
            await stop()
            throw error
        }
        engines.count { $0.opened += 1 }
        var description = MediaDescription()
        description.duration = .seconds(SimulatedEngines.clipSeconds)
        return description
    }

    /// - Returns: How many bytes came; 0 at the end.
    private func read(_ count: Int) async throws -> Int {
        guard let input else { throw PlaybackError.stopped }
        let (place, number) = (readOffset, seeks)
        let bytes = try await input.reader.read(at: place, count: count)
        engines.check(input.name, bytes, at: place, &versions)
        if seeks == number { readOffset += Int64(bytes.count) }
        return bytes.count
    }

    func play() async throws {
        guard try machine.play() else { return }
        let time = engines.drawBegin()
        if time > .zero { try await loop.sleep(for: time) }  // it need not notice that it was stopped meanwhile
        events.channel.send(.firstFrame)
        changed()
    }
    func pause() async throws { if try machine.pause() { changed() } }
    func seek(to time: Duration) async throws {
        try machine.seek()
        guard let input else { throw PlaybackError.stopped }
        let share = min(max(0, time / .seconds(SimulatedEngines.clipSeconds)), 1)
        readOffset = Int64(share * Double(input.reader.length ?? 0))
        clock.freeze(at: .seconds(share * SimulatedEngines.clipSeconds))
        goOn()
        if isHeard { clock.start(at: loop.now) }
        seeks += 1
        let number = seeks
        let place = readOffset
        let bytes = try await input.reader.read(at: place, count: 4_096)
        engines.check(input.name, bytes, at: place, &versions)
        if machine.state == .stopped { throw PlaybackError.stopped }
        if seeks != number { throw PlaybackError.superseded }
    }
    func setSuspended(_ isSuspended: Bool) async {
        self.isSuspended = isSuspended
        changed()
    }

    /// Clock and sound follow the state.
    private func changed() {
        let runs = machine.state == .playing && !isSuspended
        if runs != isHeard { engines.count { $0.playing += runs ? 1 : -1 } }
        isHeard = runs
        if runs, stallStart == nil { clock.start(at: loop.now) }
        if !runs { clock.stop(at: loop.now) }
        if runs, feeding == nil { feeding = loop.spawn { await self.feed() } }
    }

    /// Reads what is played, as it is played; stands still when it isn't there.
    private func feed() async {
        defer { feeding = nil }
        do {
            while isHeard, let input {
                let length = max(1, input.reader.length ?? 1 << 20)
                let time = Duration.seconds(SimulatedEngines.clipSeconds * Double(readOffset) / Double(length))
                if clock.position(at: loop.now) + .seconds(2) < time {
                    try await loop.sleep(for: .milliseconds(250))
                    continue
                }
                if input.reader.contiguousEnd(from: readOffset) == readOffset, !input.reader.isComplete { stall() }
                let count = try await read(max(1, Int(length / 20)))
                goOn()
                if count == 0, try await finish() { return }
            }
        } catch is CancellationError {
        } catch {
            goOn()
            events.channel.send(.failed("\(error)"))
        }
    }
    private func stall() {
        guard stallStart == nil else { return }
        stallStart = loop.now
        stallCount += 1
        engines.count { $0.stalls += 1 }
        clock.stop(at: loop.now)
    }
    private func goOn() {
        guard let start = stallStart.take() else { return }
        stalledTime += start.duration(to: loop.now)
        if isHeard { clock.start(at: loop.now) }
    }
    /// - Returns: Whether the clip is over; it goes on after a seek.
    private func finish() async throws -> Bool {
        let number = seeks
        while isHeard, seeks == number, clock.position(at: loop.now) < .seconds(SimulatedEngines.clipSeconds) {
            try await loop.sleep(for: .milliseconds(250))
        }
        guard isHeard, seeks == number else { return !isHeard }
        machine.end()
        engines.count { $0.ends += 1 }
        events.channel.send(.ended)
        changed()
        return true
    }

    func status() async -> EngineStatus {
        var status = EngineStatus()
        status.position = min(clock.position(at: loop.now), .seconds(SimulatedEngines.clipSeconds))
        (status.isStalled, status.stallCount, status.stalledTime) = (stallStart != nil, stallCount, stalledTime)
        guard let reader = input?.reader, machine.state != .stopped else { return status }
        status.isComplete = reader.isComplete
        status.deliveredFrames = 1
        if let length = reader.length, length > 0 {
            let played = status.position / .seconds(SimulatedEngines.clipSeconds)
            let share = Double(reader.contiguousEnd(from: Int64(played * Double(length)))) / Double(length)
            status.bufferedAhead = .seconds(max(0, share - played) * SimulatedEngines.clipSeconds)
        }
        return status
    }
    func stop() async {
        guard machine.stop() else { return }
        changed()
        frames.channel.finish()
        audio.channel.finish()
        events.channel.finish()
        feeding?.cancel()
        await input?.reader.close()
        await feeding?.value
        let time = engines.drawStop()
        if time > .zero { await loop.spawn { [loop] in try? await loop.sleep(for: time) }.value }
        input = nil
        engines.count { $0.stopped += 1 }
    }
}
