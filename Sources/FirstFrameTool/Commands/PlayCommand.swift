import FirstFrame
import FirstFrameFFmpeg
import Foundation

/// `firstframe play URL…`
struct PlayCommand {
    let console: Console

    func run(_ arguments: Arguments) async throws -> Int32 {
        guard !arguments.values.isEmpty else { throw UsageError(text: "play needs at least one URL") }
        let entries = try arguments.values.enumerated().map { index, url in
            do {
                return FeedEntry(try URLSource(url: url), id: EntryID("\(index + 1)"))
            } catch {
                throw UsageError(text: "\(WebOrigin.redacted(url)): \(error)")
            }
        }
        var configuration = RuntimeConfiguration()
        if let directory = arguments["cache"] { configuration.cacheDirectory = directory }
        let runtime = try await FeedRuntime.start(engines: FFmpegEngines(), configuration: configuration)
        let player = FeedPlayer(runtime: runtime, console: console)
        var report = RunReport(name: "play")
        var listener: Task<Void, Never>?
        do {
            let page = try await runtime.makePage("play")
            listener = Task { await ScriptRunner.listen(to: page, player) }
            try await runtime.enter(page)
            try await page.setSources(entries)
            for entry in entries {
                let frame = await player.play(entry.id, on: page, watching: nil, limit: nil)
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
}
