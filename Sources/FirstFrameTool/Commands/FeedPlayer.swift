import FirstFrame
import Foundation

/// Plays entries of pages as a host app would, and takes down what a viewer would notice.
actor FeedPlayer {
    private let runtime: FeedRuntime
    private let console: Console
    private var plays: [RunReport.Play] = []
    private var problems: [String] = []
    private var consumer: Task<Void, Never>?
    private var ending: AsyncStream<Void>?

    init(runtime: FeedRuntime, console: Console) { (self.runtime, self.console) = (runtime, console) }

    /// Plays an entry and watches it.
    ///
    /// - Parameters:
    ///   - seconds: How long; `nil` to the end.
    ///   - limit: What network and decoder allow for a cold start, given what the play cost.
    /// - Returns: The first frame, if there was one.
    @discardableResult
    func play(
        _ entry: EntryID, on page: FeedPage, watching seconds: Double?, limit: (@Sendable (PlayMetrics) -> Double?)?
    ) async -> VideoFrame? {
        let clock = ContinuousClock()
        let start = clock.now
        do {
            let engine = try await page.play(entry)
            let frames = engine.frames.makeAsyncIterator()
            let first = await frames.next()
            let elapsed = start.duration(to: clock.now)
            guard let metrics = await page.currentMetrics, metrics.entry == entry else { return first }
            // Sound alone has no first frame to wait for; it begins when the play does.
            note(metrics, elapsed: first == nil ? metrics.timeToFirstFrame : elapsed, limit: limit?(metrics))
            // The rest is watched in the background, as a screen would.
            let (ended, end) = AsyncStream.makeStream(of: Void.self)
            ending = ended
            consumer = Task {
                while await frames.next() != nil {}
                end.finish()
            }
            await watch(seconds: seconds)
            return first
        } catch {
            guard !Task.isCancelled else { return nil }
            problems.append("\(page.id)/\(entry): \(error)")
            console.complain("\(page.id)/\(entry): \(error)")
            return nil
        }
    }

    /// Goes on watching what plays: for `seconds`, or to its end.
    func watch(seconds: Double?) async {
        if let seconds {
            try? await Task.sleep(for: .seconds(seconds))
        } else if let ending {
            for await _ in ending {}
        }
    }

    private func note(_ metrics: PlayMetrics, elapsed: Duration, limit: Double?) {
        let milliseconds = elapsed / .milliseconds(1)
        let phases = metrics.phases
        func part(_ duration: Duration) -> Double { duration / .milliseconds(1) }
        plays.append(
            RunReport.Play(
                page: metrics.page.name, entry: metrics.entry.name, ttffMs: milliseconds,
                phasesMs: [
                    "resolve": part(phases.resolve), "connect": part(phases.connect),
                    "firstByte": part(phases.firstByte),
                    "firstFrameBytes": part(phases.firstFrameBytes), "open": part(phases.open),
                    "decode": part(phases.decode), "deliver": part(phases.deliver),
                ], servedAs: metrics.servedAs.rawValue, preloadedBytes: metrics.preloadedBytes, limitMs: limit,
                stalls: 0))
        var line = "  \(metrics.page)  \(metrics.entry.name.padded(14))  \(milliseconds.shown.leftPadded(8)) ms  "
        line += metrics.servedAs.rawValue.padded(12)
        if metrics.servedAs == .preloaded { line += " (\(metrics.preloadedBytes / 1024) KB on disk)" }
        if let limit, metrics.servedAs == .cold {
            line += " \((milliseconds / limit).hundredths) x the network's limit of \(limit.shown) ms"
        }
        console.say(line)
    }

    /// Gives what was noticed to the report; no page sends events any more.
    func finish(_ report: inout RunReport) {
        consumer?.cancel()
        report.plays = plays
        report.problems = problems
    }

    /// A play of the page is over.
    func ended(_ metrics: PlayMetrics) {
        guard let index = plays.lastIndex(where: { $0.page == metrics.page.name && $0.entry == metrics.entry.name })
        else { return }
        plays[index].stalls = metrics.stallCount
        if metrics.stallCount > 0 {
            console.say(
                "     \(metrics.entry.name) stalled \(metrics.stallCount) times, \((metrics.stalledTime / .milliseconds(1)).shown) ms in all"
            )
        }
    }

    func problem(_ text: String) {
        problems.append(text)
        console.complain(text)
    }
}

extension String {
    func padded(_ width: Int) -> String { self + String(repeating: " ", count: max(0, width - count)) }
    func leftPadded(_ width: Int) -> String { String(repeating: " ", count: max(0, width - count)) + self }
}
