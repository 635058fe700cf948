import FirstFrame
import FirstFrameFFmpeg
import Foundation

/// `firstframe play URL…`
struct PlayCommand {
    let console: Console
    /// How often the status line is written anew.
    private static let statusInterval = Duration.milliseconds(250)

    func run(_ arguments: Arguments) async throws -> Int32 {
        guard !arguments.values.isEmpty else { throw UsageError(text: "play needs at least one URL or file") }
        let entries = try arguments.values.enumerated().map { index, text in
            FeedEntry(try Self.source(text), id: EntryID("\(index + 1)"))
        }
        let (options, loops) = try Self.options(arguments)
        var configuration = RuntimeConfiguration()
        if let directory = arguments["cache"] { configuration.cacheDirectory = directory }
        let runtime = try await FeedRuntime.start(engines: FFmpegEngines(), configuration: configuration)
        let player = FeedPlayer(runtime: runtime, console: console)
        var report = RunReport(name: "play")
        var listener: Task<Void, Never>?
        do {
            let page = try await runtime.makePage("play")
            listener = Task { await ScriptRunner.listen(to: page, player) }
            await page.setEngineOptions(options)
            try await runtime.enter(page)
            try await page.setSources(entries)
            for entry in entries {
                let status = Task { await follow(page, loops: loops) }
                let frame = await player.play(entry.id, on: page, watching: nil, limit: nil)
                status.cancel()
                await status.value
                if let file = arguments["snapshot"], entry == entries.last, let frame {
                    try Data(try frame.png()).write(to: URL(filePath: file))
                }
                try Task.checkCancellation()
            }
            await page.clear()
            let statistics = await runtime.statistics()
            (report.bytesFetched, report.bytesNeverPlayed) = (statistics.bytesFetched, statistics.bytesNeverPlayed)
        } catch {
            await runtime.shutdown()
            await listener?.value
            throw error
        }
        await runtime.shutdown()
        await listener?.value
        await player.finish(&report)
        if console.isJSON { try console.json(Report(runs: [report])) }
        return report.problems.isEmpty ? 0 : 1
    }

    /// A URL, or the path of a file.
    private static func source(_ text: String) throws -> MediaSource {
        do {
            if text.contains("://") { return .url(try URLSource(url: text)) }
            guard FileManager.default.fileExists(atPath: text) else {
                throw UsageError(text: "there is no file \(text); a URL begins with http:// or https://")
            }
            return .file(try FileSource(path: URL(filePath: text).standardizedFileURL.path(percentEncoded: false)))
        } catch let error as UsageError {
            throw error
        } catch {
            throw UsageError(text: "\(WebOrigin.redacted(text)): \(error)")
        }
    }

    private static func options(_ arguments: Arguments) throws -> (EngineOptions, loops: Int) {
        var options = EngineOptions()
        if let text = arguments["start"] {
            guard let seconds = Double(text), seconds >= 0, seconds < 1e6 else {
                throw UsageError(text: "--start takes seconds, 0 and more, not \"\(text)\"")
            }
            options.startTime = .seconds(seconds)
        }
        if let text = arguments["rate"] {
            guard let rate = Double(text), (0.25...4).contains(rate) else {
                throw UsageError(text: "--rate takes 0.25 to 4, not \"\(text)\"")
            }
            options.rate = rate
        }
        guard let text = arguments["loop"] else { return (options, 0) }
        guard let count = Int(text), (1...1_000_000).contains(count) else {
            throw UsageError(text: "--loop takes how many times more, 1 to 1000000, not \"\(text)\"")
        }
        options.loops = true
        return (options, count)
    }

    /// Ends a loop after its passes, and writes the status line, on a terminal.
    private func follow(_ page: FeedPage, loops: Int) async {
        let isTerminal = isatty(STDERR_FILENO) == 1
        var written = false
        while (try? await Task.sleep(for: Self.statusInterval)) != nil {
            guard let engine = await page.currentEngine, let metrics = await page.currentMetrics else { continue }
            let status = await engine.status()
            if loops > 0, status.completedLoops >= loops { await engine.setLooping(false) }
            guard isTerminal else { continue }
            console.progress(Self.line(status, metrics))
            written = true
        }
        if written { console.progress("") }
    }

    private static func line(_ status: EngineStatus, _ metrics: PlayMetrics) -> String {
        func time(_ duration: Duration) -> String { String(format: "%.1f s", duration / .seconds(1)) }
        let length = metrics.media.duration.map { " of \(time($0))" } ?? ""
        let buffered = status.isComplete ? "all here" : "\(time(status.bufferedAhead)) buffered"
        return "\(time(status.position))\(length), \(buffered), \(status.droppedFrames) dropped, "
            + "\(status.isStalled ? "waiting, " : "")\(metrics.servedAs.rawValue)"
    }
}
