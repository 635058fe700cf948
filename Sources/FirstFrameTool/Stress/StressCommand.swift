import EventLoop
import FirstFrame
import FirstFrameFFmpeg
import Foundation
import Origin

/// `firstframe stress`: the real loop, server and engines, and random calls from many tasks at once.
struct StressCommand {
    let console: Console

    func run(_ arguments: Arguments) async throws -> Int32 {
        guard arguments.values.isEmpty else { throw UsageError(text: "stress takes no argument but options") }
        let pages = Int(try arguments.number("pages", in: 1...10_000) ?? 200)
        let tasks = Int(try arguments.number("tasks", in: 1...1_000) ?? 16)
        let seconds = try arguments.number("seconds", in: 0.1...86_400) ?? 30
        let seed = UInt64(try arguments.number("seed", in: 0...0x1p53) ?? 1)
        let folder = arguments["clips"] ?? DemoClips.defaultFolder
        try await DemoClips(console: console).make(in: folder)

        let cache = FileManager.default.temporaryDirectory.appending(path: "firstframe-stress-\(getpid())").path
        defer { try? FileManager.default.removeItem(atPath: cache) }
        let originLoop = try LoopThread()
        defer { originLoop.stop() }
        let shape = NetworkShape(roundTrip: .milliseconds(5), bitsPerSecond: 200_000_000)
        let origin = try await OriginServer.start(folder: folder, shape: shape, on: originLoop)
        let before = ProcessUse.now
        var configuration = RuntimeConfiguration()
        (configuration.cacheDirectory, configuration.engineLimit) = (cache, 4)
        configuration.cacheCapacity = 8 * 1024 * 1024  // small, so that clips push each other out
        let runtime = try await FeedRuntime.start(engines: FFmpegEngines(), configuration: configuration)

        console.say("\(tasks) tasks call \(pages) pages at random for \(seconds) s (seed \(seed))")
        let host = StressHost(runtime: runtime, server: origin.baseURL, pageCount: pages)
        await withTaskGroup { group in
            let end = ContinuousClock.now.advanced(by: .seconds(seconds))
            for task in 0..<tasks {
                group.addTask {
                    await host.callAtRandom(
                        isViewer: task % 4 == 0, until: end, seed: seed &* 1_000 &+ UInt64(task))
                }
            }
            group.addTask { await host.watch(until: end) }
        }
        // In the middle of whatever plays: the end has to be clean from anywhere.
        await runtime.shutdown()
        await host.finish(runtime)
        var report = await host.report
        let after = await ProcessUse.settled(to: before)
        if after.decodeThreads > 0 { report.violations.append("\(after.decodeThreads) decode threads are left") }
        if after.descriptors > before.descriptors {
            report.violations.append("sockets and files: \(before.descriptors) before, \(after.descriptors) after")
        }
        await origin.stop()
        if console.isJSON { try console.json(report) }
        for line in report.lines(seconds: seconds, memory: after.residentBytes) { console.say(line) }
        for violation in report.violations.prefix(20) { console.complain(violation) }
        return report.violations.isEmpty && !Task.isCancelled ? 0 : 1
    }
}

/// What was done, and which promises were not kept.
struct StressReport: Encodable, Sendable {
    var calls: [String: Int] = [:]
    var errors: [String: Int] = [:]
    var frames = 0
    var checks = 0
    var violations: [String] = []

    func lines(seconds: Double, memory: Int) -> [String] {
        let all = calls.values.reduce(0, +)
        return [
            "\(all) calls, \(Int(Double(all) / seconds)) a second: \(calls.listed)",
            "refused or failed, as documented: \(errors.listed)",
            "\(frames) frames; \(checks) looks at all pages at once; \(memory / 1_048_576) MB resident at the end",
            "\(violations.count) violations",
        ]
    }
}
