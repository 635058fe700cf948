import EventLoop
import FeedVocabulary
import FirstFrame
import Foundation
import Origin

/// Viewers who swipe every three seconds, and viewers who fling through ten clips in two, on the built-in origin.
struct SwipesBench {
    let console: Console
    let folder: String
    let shape: NetworkShape

    struct Report: Encodable {
        /// Share of swipes after three seconds whose first frame was held by a spare engine.
        var preRenderedShare = 0.0
        var swipesMs: [Double] = []
        var stalls = 0
        /// Time to the first frame of the clip on which a fling stops, and of the same clip cold, on warm connections.
        var flingStopMs: [Double] = []
        var coldMs: [Double] = []
        var flingToCold = 0.0
        /// Bytes that the flings fetched, and those of them that nobody saw.
        var flingFetched: Int64 = 0
        var flingUnplayed: Int64 = 0
        var flingWasteShare = 0.0
    }
    private static let swipes = 20
    private static let flings = 5
    private static let flung = 10
    private static let dwell = Duration.seconds(3)
    private static let flingStep = Duration.milliseconds(200)

    func run() async throws -> Report {
        var report = Report()
        console.say("\(Self.swipes) swipes, one every 3 s")
        try await withFeed(FeedScene.smallVideo.strategies) { page, _ in
            for number in 0...Self.swipes {
                try Task.checkCancellation()
                _ = try await page.play(EntryID("\(number)"))
                if number > 0, let metrics = await page.currentMetrics {
                    report.swipesMs.append(metrics.timeToFirstFrame / .milliseconds(1))
                    if metrics.servedAs == .preRendered { report.preRenderedShare += 1 / Double(Self.swipes) }
                }
                try await Task.sleep(for: Self.dwell)
            }
            report.stalls = await page.metrics().stallCount
        }
        console.say(
            "  pre-rendered: \(Int((report.preRenderedShare * 100).rounded())) %, median "
                + "\((report.swipesMs.median ?? 0).shown) ms, slowest \((report.swipesMs.max() ?? 0).shown) ms, "
                + "stalls: \(report.stalls)")
        console.say("\(Self.flings) flings through \(Self.flung) clips in 2 s, and the clip where each stops, cold")
        for fling in 0..<Self.flings {
            try Task.checkCancellation()
            let target = EntryID("\(Self.flung + fling)")
            try await flingOnce(fling, to: target, &report)
            try await coldOnce(target, &report)
        }
        // Of the same clip each: clips are not alike.
        report.flingToCold = zip(report.flingStopMs, report.coldMs).map { $0 / max(0.001, $1) }.median ?? 0
        report.flingWasteShare = Double(report.flingUnplayed) / Double(max(1, report.flingFetched))
        console.say(
            "  where it stops: median \((report.flingStopMs.median ?? 0).shown) ms, cold "
                + "\((report.coldMs.median ?? 0).shown) ms: \(report.flingToCold.hundredths) x; of "
                + "\(report.flingFetched / 1024) KB fetched \(Int((report.flingWasteShare * 100).rounded())) % unseen")
        return report
    }

    private func flingOnce(_ first: Int, to target: EntryID, _ report: inout Report) async throws {
        try await withFeed(FeedScene.smallVideo.strategies) { page, runtime in
            _ = try await page.play(EntryID("\(first)"))
            try await Task.sleep(for: .seconds(2))
            let before = await traffic(page, runtime)
            for number in first + 1..<first + Self.flung {
                Task { _ = try? await page.play(EntryID("\(number)")) }
                try await Task.sleep(for: Self.flingStep)
            }
            _ = try await page.play(target)
            let time = await page.currentMetrics?.timeToFirstFrame ?? .zero
            await page.clear()
            let after = await traffic(page, runtime)
            report.flingStopMs.append(time / .milliseconds(1))
            for (old, new) in zip(before, after) {
                let fetched = new.fetched - old.fetched
                report.flingFetched += fetched
                // A clip is fetched and read from its start on: what came last is what was not read.
                report.flingUnplayed += min(fetched, new.unplayed)
            }
        }
    }

    /// Bytes of each entry that have come, and those of them that nobody saw.
    private func traffic(_ page: FeedPage, _ runtime: FeedRuntime) async -> [(fetched: Int64, unplayed: Int64)] {
        var traffic: [(fetched: Int64, unplayed: Int64)] = []
        for entry in await page.entries {
            guard case .url(let source) = await page.source(of: entry) else { continue }
            traffic.append(await runtime.loaders.traffic(of: source.resource.storageKey))
        }
        return traffic
    }

    private func coldOnce(_ target: EntryID, _ report: inout Report) async throws {
        try await withFeed([]) { page, _ in
            _ = try await page.play("0")
            // Until nothing of it is on its way any more: the target has the network to itself.
            while await page.currentEngine?.status().isComplete == false {
                try await Task.sleep(for: .milliseconds(50))
            }
            _ = try await page.play(target)
            let time = await page.currentMetrics?.timeToFirstFrame ?? .zero
            report.coldMs.append(time / .milliseconds(1))
        }
    }

    /// A page whose entries are the demo's clips over and over, each under a URL of its own; runtime, cache and
    /// connections are new.
    private func withFeed(
        _ strategies: [Strategy], _ body: (FeedPage, FeedRuntime) async throws -> Void
    ) async throws {
        let entries = (0..<Self.swipes + 20).map { (id: "\($0)", clip: DemoClips.name($0 % DemoClips.count + 1)) }
        try await TemporaryFeed(folder: folder, shape: shape, strategies: strategies).run(entries, body)
    }
}
