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
            var clip: String
            /// What a bare program takes to open the same bytes and decode the first picture, and what we take for them when
            /// they are on disk: medians of runs in turn.
            var bareMs: Spread?
            var preloadedMs: Spread?
            var preloadedToBare: Spread?
            /// Where ours goes: medians by phase.
            var phasesMs: [String: Double] = [:]
            var preRenderedMs: Spread?
            /// By network.
            var cold: [String: Cold] = [:]
        }
        struct Cold: Encodable {
            var coldMs: Spread
            var limitMs: Double
            var toLimit: Double { coldMs.median / limitMs }
            /// The first start of all, on a connection that has to be made.
            var newConnectionMs: Spread?
            var newConnectionLimitMs: Double?
        }
        var clips: [Clip] = []
        /// Medians over the clips, by network: cold to the network's limit, on a warm and on a new connection.
        var coldToLimit: [String: Double] = [:]
        var newConnectionToLimit: [String: Double] = [:]
        /// Medians over the clips, but for the worst.
        var preloadedToBare = 0.0
        var preRenderedMs = 0.0
        var preRenderedWorstMs = 0.0
        var preRenderedStarts = 0
    }
    static let networks: [(name: String, shape: NetworkShape)] = [(20, 4), (20, 20), (80, 4), (80, 20)].map {
        (
            "\($0.0) ms, \($0.1) Mbit/s",
            NetworkShape(roundTrip: .milliseconds($0.0), bitsPerSecond: Int64($0.1) * 1_000_000)
        )
    }
    /// Cold starts of one clip; the middle one counts.
    private static let coldRounds = 3
    private static let readyRounds = 15
    /// How long everything is quiet before a start of bytes on disk; the strategies look every 200 ms.
    private static let idle = Duration.milliseconds(300)
    /// Pre-rendered starts of all clips together.
    private static let preRenderedStarts = 200

    func run() async throws -> Report {
        var report = Report()
        console.say("first frames of bytes on disk, beside a bare program on libavformat; pre-rendered first frames:")
        for clip in names {
            try Task.checkCancellation()
            var row = Report.Clip(clip: clip)
            try await measurePreloaded(clip, &row)
            try await measurePreRendered(clip, &row, &report)
            let phases = row.phasesMs.sorted { $0.key < $1.key }.map { "\($0.key) \(shown($0.value))" }
            console.say(
                "  \(clip.padded(24)) preloaded \(shown(row.preloadedMs)) ms: \(shown(row.preloadedToBare)) x "
                    + "\(shown(row.bareMs)) (\(phases.joined(separator: ", "))); pre-rendered \(shown(row.preRenderedMs)) ms"
            )
            report.clips.append(row)
        }
        let limits = try await ClipLimits(of: names, in: folder)
        for (name, shape) in Self.networks {
            console.say("cold at \(name):")
            for index in report.clips.indices {
                try Task.checkCancellation()
                report.clips[index].cold[name] = try await cold(report.clips[index], shape, limits)
            }
            let colds = report.clips.compactMap { $0.cold[name] }
            report.coldToLimit[name] = colds.map(\.toLimit).median
            report.newConnectionToLimit[name] =
                colds.compactMap { cold in
                    guard let time = cold.newConnectionMs, let limit = cold.newConnectionLimitMs else { return nil }
                    return time.median / limit
                }.median
        }
        report.preloadedToBare = report.clips.compactMap(\.preloadedToBare?.median).median ?? 0
        report.preRenderedMs = report.clips.compactMap(\.preRenderedMs?.median).median ?? 0
        report.preRenderedWorstMs = report.clips.compactMap(\.preRenderedMs?.max).max() ?? 0
        for (name, _) in Self.networks {
            console.say(
                "cold at \(name): \(shown(report.coldToLimit[name])) x the network's limit on a warm connection, "
                    + "\(shown(report.newConnectionToLimit[name])) x on a new one (medians of the clips)")
        }
        console.say(
            "preloaded: \(shown(report.preloadedToBare)) x the bare program; pre-rendered: "
                + "\(shown(report.preRenderedMs)) ms, slowest of \(report.preRenderedStarts) "
                + "\(shown(report.preRenderedWorstMs)) ms")
        return report
    }

    private func shown(_ value: Spread?) -> String { value?.shown ?? "-" }
    private func shown(_ value: Double?) -> String { value?.hundredths ?? "-" }

    // MARK: The bare program

    private func bareTime(of name: String) throws -> Double? {
        let path = URL(filePath: CommandLine.arguments[0]).resolvingSymlinksInPath().deletingLastPathComponent()
            .appending(path: "bare-start").path
        guard FileManager.default.isExecutableFile(atPath: path) else {
            throw DemoError(text: "bare-start is not beside this command; build it with: swift build -c release")
        }
        let pause = Int(Self.idle / .milliseconds(1))
        let text = try ChildCommand.run(path, ["\(folder)/\(name)", "3", "\(pause)"], reading: .output).text
        return text.split(separator: "\n").compactMap { Double($0) }.median
    }

    // MARK: Ours

    /// Ours and the bare program in turn, each on the same bytes of the disk.
    private func measurePreloaded(_ name: String, _ row: inout Report.Clip) async throws {
        let rounds = (0..<Self.readyRounds).map { EntryID("\($0)") }
        var (ours, bare, ratios): ([Double], [Double], [Double]) = ([], [], [])
        var phases: [String: [Double]] = [:]
        let preload = Strategy.preload(PreloadConfiguration(count: 1))
        try await TemporaryFeed(folder: folder, strategies: [preload]).run(
            (["warm"] + rounds.map(\.name)).map { (id: $0, clip: name) }
        ) { page, runtime in
            _ = try await page.play("warm")
            for round in rounds {
                try await settle(runtime, quiet: Self.idle)
                try await page.currentEngine?.pause()  // what plays has no part in it
                guard let other = try bareTime(of: name) else { continue }
                try await Task.sleep(for: Self.idle)
                guard let time = try await time(of: round, page), let metrics = await page.currentMetrics,
                    metrics.servedAs == .preloaded
                else { continue }
                ours.append(time)
                bare.append(other)
                ratios.append(time / other)
                phases["resolve", default: []].append(metrics.phases.resolve / .milliseconds(1))
                phases["open", default: []].append(metrics.phases.open / .milliseconds(1))
                phases["decode", default: []].append(metrics.phases.decode / .milliseconds(1))
                phases["deliver", default: []].append(metrics.phases.deliver / .milliseconds(1))
            }
        }
        (row.preloadedMs, row.bareMs, row.preloadedToBare) = (ours.spread, bare.spread, ratios.spread)
        row.phasesMs = phases.compactMapValues(\.median)
    }

    private func measurePreRendered(_ name: String, _ row: inout Report.Clip, _ report: inout Report) async throws {
        let count = (Self.preRenderedStarts + names.count - 1) / names.count
        let strategies: [Strategy] = [.preload(PreloadConfiguration(count: 1)), .preRender]
        var times: [Double] = []
        try await TemporaryFeed(folder: folder, strategies: strategies).run(
            (0...count).map { (id: "\($0)", clip: name) }
        ) { page, runtime in
            _ = try await page.play("0")
            for number in 1...count {
                try await settle(runtime)
                for _ in 0..<200 where await page.peekPreRenderedEngine(for: EntryID("\(number)")) != .ready {
                    try await Task.sleep(for: .milliseconds(10))
                }
                guard let time = try await time(of: EntryID("\(number)"), page),
                    await page.currentMetrics?.servedAs == .preRendered
                else { continue }
                times.append(time)
            }
        }
        row.preRenderedMs = times.spread
        report.preRenderedStarts += times.count
    }

    private func cold(
        _ row: Report.Clip, _ shape: NetworkShape, _ limits: ClipLimits
    ) async throws -> Report.Cold? {
        var (warm, new): ([Double], [Double]) = ([], [])
        for _ in 0..<Self.coldRounds {
            let (first, second) = try await coldOnce(row.clip, shape)
            if let first { new.append(first) }
            if let second { warm.append(second) }
        }
        guard let time = warm.spread, let bare = row.bareMs?.median,
            let limit = limits.networkLimit(of: row.clip, on: shape, isNewConnection: false),
            let newLimit = limits.networkLimit(of: row.clip, on: shape, isNewConnection: true)
        else { return nil }
        let cold = Report.Cold(
            coldMs: time, limitMs: limit + bare, newConnectionMs: new.spread, newConnectionLimitMs: newLimit + bare)
        console.say(
            "  \(row.clip.padded(24)) warm connection \(shown(time)) ms, \(shown(cold.toLimit)) x \(shown(cold.limitMs)); "
                + "new connection \(shown(cold.newConnectionMs)) ms (limit \(shown(cold.newConnectionLimitMs)))")
        return cold
    }

    /// The first start of all, on a connection that has to be made; then one on a connection that is warm. Nothing else is
    /// on its way.
    private func coldOnce(_ name: String, _ shape: NetworkShape) async throws -> (new: Double?, warm: Double?) {
        // Strategies that keep connections warm and fetch next to nothing.
        let strategies: [Strategy] = [.preload(PreloadConfiguration(count: 1, size: 1024))]
        let ids = ["first", "next"] + (0..<12).map { "between\($0)" } + ["other"]
        return try await TemporaryFeed(folder: folder, shape: shape, strategies: strategies).run(
            ids.map { (id: $0, clip: name) }
        ) { page, runtime in
            let first = try await time(of: "first", page)
            try await settle(runtime, quiet: .milliseconds(300))
            return (first, try await time(of: "other", page))
        }
    }

    private func time(of entry: EntryID, _ page: FeedPage) async throws -> Double? {
        do { _ = try await page.play(entry) } catch let error as PlaybackError {
            console.say("  \(error)")
            return nil
        }
        return await page.currentMetrics.map { $0.timeToFirstFrame / .milliseconds(1) }
    }

    /// Until nothing is on its way any more: what follows has machine and network to itself.
    private func settle(_ runtime: FeedRuntime, quiet: Duration = .milliseconds(60)) async throws {
        let step = Duration.milliseconds(20)
        var passed = Duration.zero
        for _ in 0..<1_000 where passed < quiet {
            try await Task.sleep(for: step)
            passed = await runtime.statistics().runningFetches == 0 ? passed + step : .zero
        }
    }
}
