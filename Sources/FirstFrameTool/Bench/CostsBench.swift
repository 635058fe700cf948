import EventLoop
import FeedVocabulary
import FirstFrame
import FirstFrameFFmpeg
import Foundation
import Origin
import Playback
import ResourceLoading

/// What the runtime itself costs: a download beside curl's, a hop to its loop, an engine that plays, and one that holds its
/// first frame.
struct CostsBench {
    let console: Console

    struct Report: Encodable {
        /// Megabytes a second, of runs in turn, from the same server to the same disk: over loopback, where the two cores
        /// are the limit, and on a network of 1 Gbit/s.
        struct Download: Encodable {
            var loaderMegabytes: Spread
            var curlMegabytes: Spread
            var loaderToCurl: Spread
        }
        var downloads: [String: Download] = [:]
        /// Microseconds of a call to an actor: on the loop from another thread, one after the other and many at once, and
        /// to a plain actor.
        var hopMicroseconds = Spread([])
        var crowdMicroseconds = Spread([])
        var plainHopMicroseconds = Spread([])
        /// Share of one core that an engine takes that plays, or holds a frame of 720 x 1280.
        var playingShare = 0.0
        var heldShare = 0.0
        /// Memory that an engine takes which holds its first frame, beyond the frame.
        var heldMegabytes = 0.0
        /// How much faster than in real time a clip was played over and over, for how many seconds of media, and how much
        /// memory that took in the end more than after its first tenth.
        var tirelessSpeed = 0.0
        var tirelessSeconds = 0.0
        var growthMegabytes = 0.0
    }
    private static let downloadBytes = 256 * 1024 * 1024
    private static let downloadRounds = 5
    private static let heldEngines = 10

    func run() async throws -> Report {
        var report = Report()
        let folder = try TemporaryFolder()
        defer { folder.remove() }
        try await download(folder.path, &report)
        try await hops(&report)
        try await engines(folder.path, &report)
        return report
    }

    // MARK: Bytes

    private func download(_ folder: String, _ report: inout Report) async throws {
        let data = Data((0..<1024 * 1024).map { UInt8(truncatingIfNeeded: $0 &* 31 >> 3) })
        guard FileManager.default.createFile(atPath: folder + "/large.bin", contents: nil),
            let file = FileHandle(forWritingAtPath: folder + "/large.bin")
        else { throw DemoError(text: "\(folder) can't be written") }
        for _ in 0..<Self.downloadBytes / data.count { try file.write(contentsOf: data) }
        try file.close()
        let loop = try LoopThread()
        defer { loop.stop() }
        let gigabit = NetworkShape(roundTrip: .milliseconds(2), bitsPerSecond: 1_000_000_000)
        for (name, shape) in [("loopback", NetworkShape()), ("1 Gbit/s", gigabit)] {
            report.downloads[name] = try await download(folder, name, shape, loop)
        }
    }

    private func download(
        _ folder: String, _ name: String, _ shape: NetworkShape, _ loop: LoopThread
    ) async throws -> Report.Download {
        let origin = try await OriginServer.start(folder: folder, shape: shape, on: loop)
        var (ours, theirs, ratios): ([Double], [Double], [Double]) = ([], [], [])
        for round in 0..<Self.downloadRounds {
            try Task.checkCancellation()
            let curl = try curlTime(origin.baseURL + "/large.bin", to: folder + "/curl.bin")
            let loader = try await loaderTime(origin.baseURL + "/large.bin", round)
            theirs.append(curl)
            ours.append(loader)
            ratios.append(curl / loader)
        }
        await origin.stop()
        let megabytes = Double(Self.downloadBytes) / 1024 / 1024
        let result = Report.Download(
            loaderMegabytes: Spread(ours.map { megabytes / $0 }), curlMegabytes: Spread(theirs.map { megabytes / $0 }),
            loaderToCurl: Spread(ratios))
        console.say(
            "a download of \(Int(megabytes)) MB, \(name): \(Int(result.loaderMegabytes.median)) MB/s into the cache, curl "
                + "\(Int(result.curlMegabytes.median)) MB/s into a file: \(result.loaderToCurl.shown) x curl's speed")
        return result
    }

    private func curlTime(_ url: String, to path: String) throws -> Double {
        let start = ContinuousClock.now
        let (status, text) = try ChildCommand.run("curl", ["-s", "-S", "-o", path, url], reading: .errors)
        let time = start.duration(to: .now) / .seconds(1)
        guard status == 0 else { throw DemoError(text: "curl is needed to compare with, and failed: \(text)") }
        try FileManager.default.removeItem(atPath: path)
        return time
    }

    private func loaderTime(_ url: String, _ round: Int) async throws -> Double {
        let cache = try TemporaryFolder()
        defer { cache.remove() }
        var configuration = RuntimeConfiguration()
        (configuration.cacheDirectory, configuration.cacheCapacity) = (cache.path, 2 << 30)
        let runtime = try await FeedRuntime.start(engines: FFmpegEngines(), configuration: configuration)
        do {
            let start = ContinuousClock.now
            let resource = try URLSource(url: "\(url)?round=\(round)").resource
            let reader = try await runtime.loaders.open(resource, priority: .current, readAhead: .max)
            try await reader.wait(for: 0..<Int64(Self.downloadBytes))
            let time = start.duration(to: .now) / .seconds(1)
            let count = reader.available(in: 0..<Int64.max)
            await reader.close()
            await runtime.shutdown()
            guard count == Self.downloadBytes else { throw DemoError(text: "\(count) bytes came") }
            return time
        } catch {
            await runtime.shutdown()
            throw error
        }
    }

    // MARK: Hops

    private actor OnLoop {
        nonisolated private let loop: any LoopExecutor
        nonisolated var unownedExecutor: UnownedSerialExecutor { loop.asUnownedSerialExecutor() }
        var count = 0
        init(_ loop: any LoopExecutor) { self.loop = loop }
        func call() { count += 1 }
    }
    private actor Plain {
        var count = 0
        func call() { count += 1 }
    }

    private func hops(_ report: inout Report) async throws {
        let loop = try LoopThread()
        defer { loop.stop() }
        let (actor, plain, calls) = (OnLoop(loop), Plain(), 50_000)
        var (serial, plains, crowd): ([Double], [Double], [Double]) = ([], [], [])
        for _ in 0..<5 {
            var start = ContinuousClock.now
            for _ in 0..<calls { await actor.call() }
            serial.append(start.duration(to: .now) / .microseconds(1) / Double(calls))
            start = .now
            for _ in 0..<calls { await plain.call() }
            plains.append(start.duration(to: .now) / .microseconds(1) / Double(calls))
            start = .now
            await withTaskGroup(of: Void.self) { group in
                for _ in 0..<calls { group.addTask { await actor.call() } }
            }
            crowd.append(start.duration(to: .now) / .microseconds(1) / Double(calls))
        }
        report.hopMicroseconds = Spread(serial)
        report.plainHopMicroseconds = Spread(plains)
        report.crowdMicroseconds = Spread(crowd)
        console.say(
            "a call to an actor on the loop: \(report.hopMicroseconds.shown) us from another thread, one after the other; "
                + "\(report.crowdMicroseconds.shown) us of \(calls) tasks at once; a plain actor's: "
                + "\(report.plainHopMicroseconds.shown) us")
    }

    // MARK: Engines

    private func engines(_ folder: String, _ report: inout Report) async throws {
        let path = folder + "/portrait.mp4"
        let arguments = [
            "-hide_banner", "-loglevel", "error", "-nostdin", "-f", "lavfi", "-i",
            "testsrc2=size=720x1280:rate=30:duration=8", "-f", "lavfi", "-i", "sine=duration=8",
            "-c:v", "libx264", "-preset", "veryfast", "-pix_fmt", "yuv420p", "-b:v", "2M", "-c:a", "aac", "-movflags",
            "+faststart", path,
        ]
        try DemoClips.ffmpeg(arguments, making: "a clip of 720 x 1280")
        let cache = try TemporaryFolder()
        defer { cache.remove() }
        var configuration = RuntimeConfiguration()
        configuration.cacheDirectory = cache.path
        let runtime = try await FeedRuntime.start(engines: FFmpegEngines(), configuration: configuration)
        let source = try FileSource(path: path)
        do {
            let first = try await open(source, runtime)  // what only the first one costs
            let before = ProcessUse.now.residentBytes
            var held: [any PlayerEngine] = []
            for _ in 0..<Self.heldEngines { held.append(try await open(source, runtime)) }
            let frame = 720 * 1280 * 3 / 2
            report.heldMegabytes =
                (Double(ProcessUse.now.residentBytes - before) / Double(Self.heldEngines) - Double(frame)) / 1024 / 1024
            report.heldShare = try await share(.seconds(3)) / Double(Self.heldEngines)
            for engine in held { await engine.stop() }
            try await first.play()
            let shown = Task { for await _ in first.frames {} }
            report.playingShare = try await share(.seconds(6))
            await first.stop()
            await shown.value
            try await playOn(source, runtime, &report)
            await runtime.shutdown()
        } catch {
            await runtime.shutdown()
            throw error
        }
        console.say(
            "an engine of 720 x 1280 that plays: \((report.playingShare * 100).hundredths) % of a core; that holds its first frame: "
                + "\((report.heldShare * 100).hundredths) % and \(report.heldMegabytes.hundredths) MB beyond the frame")
    }

    /// As fast as frames are decoded and taken, in a loop.
    private func playOn(_ source: FileSource, _ runtime: FeedRuntime, _ report: inout Report) async throws {
        var options = EngineOptions()
        (options.pacing, options.loops) = (.none, true)
        let engine = try await open(source, runtime, options)
        try await engine.play()
        let start = ContinuousClock.now
        var early: Int?
        for await frame in engine.frames {
            let passed = start.duration(to: .now)
            if early == nil, passed > Self.tireless / 10 { early = ProcessUse.now.residentBytes }
            if passed > Self.tireless {
                report.tirelessSeconds = frame.presentationTime / .seconds(1)
                report.tirelessSpeed = frame.presentationTime / passed
                break
            }
        }
        report.growthMegabytes = Double(ProcessUse.now.residentBytes - (early ?? 0)) / 1024 / 1024
        await engine.stop()
        console.say(
            "\(Int(report.tirelessSeconds)) s of media at \(report.tirelessSpeed.hundredths) x real time: memory grew by "
                + "\(report.growthMegabytes.hundredths) MB")
    }
    private static let tireless = Duration.seconds(75)

    private func open(
        _ source: FileSource, _ runtime: FeedRuntime, _ options: EngineOptions = EngineOptions()
    ) async throws -> any PlayerEngine {
        let reader = try await runtime.loaders.open(source.resource, priority: .current, readAhead: 0)
        let engine = FFmpegEngines().makeEngine(in: EngineEnvironment(loop: runtime.loop))
        _ = try await engine.open(MediaInput(reader: reader, name: source.path), options: options)
        return engine
    }

    /// Of one core, that this process takes.
    private func share(_ time: Duration) async throws -> Double {
        func used() -> Double {
            var use = timespec()
            clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &use)
            return Double(use.tv_sec) + Double(use.tv_nsec) / 1e9
        }
        let (start, before) = (ContinuousClock.now, used())
        try await Task.sleep(for: time)
        return (used() - before) / (start.duration(to: .now) / .seconds(1))
    }
}
