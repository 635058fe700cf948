import EventLoop
import FeedVocabulary
package import Playback
import ResourceLoading

/// Engines that read real bytes through the loader and decode nothing, in virtual time.
package final class SimulatedEngines: EngineFactory {
    package struct Counts: Hashable, Sendable {
        package var made = 0, opened = 0, failed = 0, stopped = 0, playing = 0
        /// The most that played at one time.
        package var mostPlaying = 0
    }
    /// Bytes that an engine needs for its first frame.
    package static let headBytes = 64 * 1024
    /// Seconds that a simulated clip plays, whatever its length in bytes.
    package static let clipSeconds = 10.0
    private let openTime: Duration
    private let state = Lock(Counts())

    package init(openTime: Duration) { self.openTime = openTime }
    package var counts: Counts { state.withLock { $0 } }
    package func makeEngine(in environment: EngineEnvironment) -> any PlayerEngine {
        count { $0.made += 1 }
        return SimulatedEngine(loop: environment.loop, engines: self, openTime: openTime)
    }
    fileprivate func count(_ change: (inout Counts) -> Void) {
        state.withLock { counts in
            change(&counts)
            counts.mostPlaying = max(counts.mostPlaying, counts.playing)
        }
    }
}

private actor SimulatedEngine: PlayerEngine {
    nonisolated private let loop: any LoopExecutor
    nonisolated var unownedExecutor: UnownedSerialExecutor { loop.asUnownedSerialExecutor() }
    nonisolated let frames = EngineStream<VideoFrame>(EngineChannel(capacity: 1))
    nonisolated let audio = EngineStream<AudioBuffer>(EngineChannel(capacity: 1))
    nonisolated let events = EngineStream<EngineEvent>(EngineChannel(capacity: 64))
    private let engines: SimulatedEngines
    private let openTime: Duration
    private var machine = EngineMachine()
    private var clock = PlaybackClock(at: .zero)
    private var input: MediaInput?

    init(loop: any LoopExecutor, engines: SimulatedEngines, openTime: Duration) {
        (self.loop, self.engines, self.openTime) = (loop, engines, openTime)
    }

    func open(_ input: MediaInput, options: EngineOptions) async throws -> MediaDescription {
        try machine.open()
        self.input = input
        do {
            var offset: Int64 = 0
            while offset < SimulatedEngines.headBytes {
                let bytes = try await input.reader.read(at: offset, count: SimulatedEngines.headBytes - Int(offset))
                if bytes.isEmpty { break }
                offset += Int64(bytes.count)
            }
            guard offset > 0 else { throw PlaybackError.notMedia(name: input.name, reason: "no bytes") }
            try await loop.sleep(for: openTime)
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
    func play() async throws {
        guard try machine.play() else { return }
        engines.count { $0.playing += 1 }
        clock.start(at: loop.now)
        events.channel.send(.firstFrame)
    }
    func setSuspended(_ isSuspended: Bool) async {}
    func pause() async throws {
        guard try machine.pause() else { return }
        engines.count { $0.playing -= 1 }
        clock.stop(at: loop.now)
    }
    func status() async -> EngineStatus {
        var status = EngineStatus()
        status.position = min(clock.position(at: loop.now), .seconds(SimulatedEngines.clipSeconds))
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
        let wasPlaying = machine.state == .playing
        guard machine.stop() else { return }
        if wasPlaying { engines.count { $0.playing -= 1 } }
        frames.channel.finish()
        audio.channel.finish()
        events.channel.finish()
        await input?.reader.close()
        input = nil
        engines.count { $0.stopped += 1 }
    }
}
