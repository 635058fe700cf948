import EventLoop
import FeedVocabulary
import FirstFrame
import Foundation
import Origin

/// How long each clip of a folder takes to its first frame: cold, preloaded and pre-rendered, at four networks, beside what
/// the network allows and what a bare program on libavformat takes for the same bytes on disk.
struct StartBench {
    let console: Console
    let folder: String
    let names: [String]

    struct Report: Encodable {
        /// Milliseconds; `nil` where it could not be measured.
        struct Clip: Encodable {
            var network: String
            var clip: String
            var coldMs: Double?
            var limitMs: Double?
            var coldToLimit: Double?
            var preloadedMs: Double?
            var bareMs: Double?
            var preRenderedMs: Double?
        }
        var clips: [Clip] = []
        /// Medians over the clips, by network: cold to the network's limit.
        var coldToLimit: [String: Double] = [:]
        /// Medians over all: the bare program, preloaded, and their ratio; pre-rendered.
        var bareMs = 0.0
        var preloadedMs = 0.0
        var preloadedToBare = 0.0
        var preRenderedMs = 0.0
        var preRenderedWorstMs = 0.0
    }
    static let networks: [(name: String, shape: NetworkShape)] = [(20, 4), (20, 20), (80, 4), (80, 20)].map {
        (
            "\($0.0) ms, \($0.1) Mbit/s",
            NetworkShape(roundTrip: .milliseconds($0.0), bitsPerSecond: Int64($0.1) * 1_000_000)
        )
    }
    /// Cold starts of one clip; the middle one counts.
    private static let rounds = 3
    private static let bareRounds = 5

    func run() async throws -> Report {
        var report = Report()
        let bare = try names.map { try bareTime(of: $0) }
        for (name, shape) in Self.networks {
            console.say("\(name):")
            let limits = try await ClipLimits(of: names, in: folder, shape: shape)
            for (index, clip) in names.enumerated() {
                try Task.checkCancellation()
                var row = Report.Clip(network: name, clip: clip)
                row.bareMs = bare[index]
                row.coldMs = try await median { try await cold(clip, shape) }
                row.limitMs = limits.limit(of: clip, isNewConnection: false)
                if let cold = row.coldMs, let limit = row.limitMs { row.coldToLimit = cold / limit }
                (row.preloadedMs, row.preRenderedMs) = try await ready(clip, shape)
                console.say(line(row))
                report.clips.append(row)
            }
            report.coldToLimit[name] = report.clips.filter { $0.network == name }.compactMap(\.coldToLimit).median
        }
        report.bareMs = report.clips.compactMap(\.bareMs).median ?? 0
        report.preloadedMs = report.clips.compactMap(\.preloadedMs).median ?? 0
        report.preloadedToBare =
            report.clips.compactMap { row in
                guard let preloaded = row.preloadedMs, let bare = row.bareMs else { return nil }
                return preloaded / bare
            }.median ?? 0
        let preRendered = report.clips.compactMap(\.preRenderedMs)
        (report.preRenderedMs, report.preRenderedWorstMs) = (preRendered.median ?? 0, preRendered.max() ?? 0)
        for (name, _) in Self.networks {
            console.say(
                "cold at \(name): \(shown(report.coldToLimit[name])) x the network's limit (median of the clips)")
        }
        console.say(
            "preloaded: \(shown(report.preloadedMs)) ms, \(shown(report.preloadedToBare)) x the bare program "
                + "(\(shown(report.bareMs)) ms); pre-rendered: \(shown(report.preRenderedMs)) ms, "
                + "slowest \(shown(report.preRenderedWorstMs)) ms")
        return report
    }

    private func line(_ row: Report.Clip) -> String {
        "  \(row.clip.padded(24)) cold \(shown(row.coldMs)) ms (\(shown(row.coldToLimit)) x \(shown(row.limitMs))), preloaded "
            + "\(shown(row.preloadedMs)) ms (bare \(shown(row.bareMs))), pre-rendered \(shown(row.preRenderedMs)) ms"
    }
    private func shown(_ value: Double?) -> String { value.map { String(format: "%.2f", $0) } ?? "-" }

    private func median(_ body: () async throws -> Double?) async throws -> Double? {
        var times: [Double] = []
        for _ in 0..<Self.rounds { if let time = try await body() { times.append(time) } }
        return times.median
    }

    // MARK: The bare program

    private func bareTime(of name: String) throws -> Double? {
        let process = Process()
        process.executableURL = URL(filePath: CommandLine.arguments[0]).resolvingSymlinksInPath()
            .deletingLastPathComponent().appending(path: "bare-start")
        guard let path = process.executableURL?.path, FileManager.default.isExecutableFile(atPath: path) else {
            throw DemoError(text: "bare-start is not beside this command; build it with: swift build -c release")
        }
        process.arguments = ["\(folder)/\(name)", "\(Self.bareRounds)"]
        let output = Pipe()
        process.standardOutput = output
        try process.run()
        let text = String(decoding: output.fileHandleForReading.readDataToEndOfFile(), as: UTF8.self)
        process.waitUntilExit()
        return text.split(separator: "\n").compactMap { Double($0) }.median
    }

    // MARK: Ours

    /// On a connection that is warm, with nothing else on its way.
    private func cold(_ name: String, _ shape: NetworkShape) async throws -> Double? {
        // Strategies that keep connections warm and fetch next to nothing.
        let strategies: [Strategy] = [.preload(PreloadConfiguration(count: 1, size: 1024))]
        return try await withFeed(name, shape, strategies) { page, runtime in
            _ = try await page.play("warm")
            try await settle(page, runtime)
            return try await time(of: "other", page)
        }
    }

    private func ready(_ name: String, _ shape: NetworkShape) async throws -> (preloaded: Double?, preRendered: Double?)
    {
        let preload = Strategy.preload(PreloadConfiguration(count: 1))
        let preloaded = try await withFeed(name, shape, [preload]) { page, runtime in
            _ = try await page.play("warm")
            try await settle(page, runtime)
            return try await time(of: "next", page)
        }
        let preRendered = try await withFeed(name, shape, [preload, .preRender]) { page, runtime in
            _ = try await page.play("warm")
            try await settle(page, runtime)
            guard await page.peekPreRenderedEngine(for: "next") == .ready else { return nil }
            return try await time(of: "next", page)
        }
        return (preloaded, preRendered)
    }

    private func time(of entry: EntryID, _ page: FeedPage) async throws -> Double? {
        do { _ = try await page.play(entry) } catch let error as PlaybackError {
            console.say("  \(error)")
            return nil
        }
        return await page.currentMetrics.map { $0.timeToFirstFrame / .milliseconds(1) }
    }

    /// Until nothing is on its way any more: what follows has the network to itself.
    private func settle(_ page: FeedPage, _ runtime: FeedRuntime) async throws {
        var quiet = 0
        for _ in 0..<400 where quiet < 6 {
            try await Task.sleep(for: .milliseconds(50))
            quiet = await runtime.statistics().runningFetches == 0 ? quiet + 1 : 0
        }
    }

    /// A page whose first entry is a small clip that warms the connection; then the clip to measure, and once more under
    /// another URL far enough down that nothing is fetched of it.
    private func withFeed(
        _ name: String, _ shape: NetworkShape, _ strategies: [Strategy],
        _ body: (FeedPage, FeedRuntime) async throws -> Double?
    ) async throws -> Double? {
        let ids = ["warm", "next"] + (0..<12).map { "between\($0)" } + ["other"]
        return try await TemporaryFeed(folder: folder, shape: shape, strategies: strategies).run(
            ids.map { (id: $0, clip: name) }, body)
    }
}
