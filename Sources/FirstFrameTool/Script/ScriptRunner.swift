import EventLoop
import FirstFrame
import FirstFrameFFmpeg
import Foundation
import Origin

/// Carries out a script on a runtime of its own, and reports what a viewer would have noticed.
struct ScriptRunner {
    let script: Script
    /// Folder that the script's own paths start from.
    let base: String
    let console: Console

    /// Folder of the built-in origin.
    var folder: String? { script.folder.map { $0.hasPrefix("/") ? $0 : base + "/" + $0 } }

    var shape: NetworkShape {
        NetworkShape(
            roundTrip: .milliseconds(script.network.roundTripMs),
            bitsPerSecond: script.network.megabitsPerSecond.map { Int64($0 * 1_000_000) })
    }

    /// The limits of the script's clips, when the built-in origin serves them.
    func limits() async throws -> ClipLimits? {
        guard let folder else { return nil }
        let added = script.steps.flatMap { step -> [String] in
            switch step.action {
            case .refresh(let names), .loadMore(let names): names
            case .enter, .play, .watch, .swipe, .leave, .suspend, .resume: []
            }
        }
        let names = (script.pages.flatMap(\.sources) + added).filter { !$0.contains("://") }
        return try await ClipLimits(of: names, in: folder)
    }

    /// - Parameters:
    ///   - cache: Directory of the disk cache; `nil` for an empty one that is removed afterwards.
    func run(
        named name: String, strategies: [Strategy], cache: String?, limits: ClipLimits?
    ) async throws -> RunReport {
        let temporary = try cache == nil ? TemporaryFolder() : nil
        defer { temporary?.remove() }
        let originLoop = try LoopThread()
        defer { originLoop.stop() }
        var origin: OriginServer?
        if let folder {
            guard FileManager.default.fileExists(atPath: folder) else {
                throw UsageError(text: "the script's folder \(folder) is not there")
            }
            origin = try await OriginServer.start(folder: folder, shape: shape, on: originLoop)
        }
        do {
            let report = try await run(
                name, strategies, cache: cache ?? temporary?.path ?? "", originURL: origin?.baseURL, limits: limits)
            await origin?.stop()
            return report
        } catch {
            await origin?.stop()
            throw error
        }
    }

    private func run(
        _ name: String, _ strategies: [Strategy], cache: String, originURL: String?, limits: ClipLimits?
    ) async throws -> RunReport {
        var configuration = RuntimeConfiguration()
        configuration.cacheDirectory = cache
        let runtime = try await FeedRuntime.start(engines: FFmpegEngines(), configuration: configuration)
        let player = FeedPlayer(runtime: runtime, console: console)
        var report = RunReport(name: name)
        var pages: [String: OpenPage] = [:]
        var listeners: [Task<Void, Never>] = []
        do {
            for page in script.pages {
                let feedPage = try await runtime.makePage(page.name, strategies: strategies)
                pages[page.name] = OpenPage(page: feedPage, sources: page.sources)
                listeners.append(Task { await Self.listen(to: feedPage, player) })
            }
            try await carryOut(runtime, player, &pages, originURL, limits)
            await runtime.clearAll()
        } catch {
            await runtime.shutdown()
            for listener in listeners { await listener.value }
            throw error
        }
        let statistics = await runtime.statistics()
        await runtime.shutdown()
        for listener in listeners { await listener.value }
        await player.finish(&report)
        report.bytesFetched = statistics.bytesFetched
        report.bytesNeverPlayed = statistics.bytesNeverPlayed
        return report
    }

    /// Takes down what a page tells, until its runtime is shut down.
    static func listen(to page: FeedPage, _ player: FeedPlayer) async {
        for await event in page.events {
            switch event {
            case .played(let metrics): await player.ended(metrics)
            case .cacheFailed(let text): await player.problem(text)
            case .workFailed(let work, let entry, let text):
                await player.problem("\(page.id)/\(entry): \(work.rawValue): \(text)")
            case .heardTwice(let entry): await player.problem("\(page.id)/\(entry): two engines were heard at once")
            case .started, .stopped, .firstFrame, .playFailed, .duplicateEntry, .resolutionFellBack,
                .resolutionMismatch:
                continue
            }
        }
    }

    private struct OpenPage {
        let page: FeedPage
        var sources: [String]
        var isListed = false
        var index = 0
    }

    private func carryOut(
        _ runtime: FeedRuntime, _ player: FeedPlayer, _ pages: inout [String: OpenPage], _ originURL: String?,
        _ limits: ClipLimits?
    ) async throws {
        var open = ""
        func entries(_ sources: [String], _ line: Int) throws -> [FeedEntry] {
            try sources.map { name in
                guard name.contains("://") || originURL != nil else {
                    throw ScriptError(line: line, text: "\"\(name)\" needs the key \"folder\", or a whole URL")
                }
                do {
                    return FeedEntry(
                        try URLSource(url: name.contains("://") ? name : originURL! + "/" + name), id: EntryID(name))
                } catch {
                    throw ScriptError(line: line, text: "\"\(name)\": \(error)")
                }
            }
        }
        func play(_ index: Int, seconds: Double) async throws {
            guard let target = pages[open] else { return }
            let name = target.sources[index]
            pages[open]?.index = index
            await player.play(EntryID(name), on: target.page, watching: seconds) { [shape] metrics in
                limits?.limit(of: name, on: shape, isNewConnection: metrics.usedNewConnection)
            }
            try Task.checkCancellation()
        }
        for step in script.steps {
            try Task.checkCancellation()
            func needsPage() throws -> OpenPage {
                guard let page = pages[open] else { throw ScriptError(line: step.line, text: "enter a page first") }
                return page
            }
            switch step.action {
            case .enter(let name, let policy, let carrying):
                guard let page = pages[name] else { continue }
                open = name
                let way = policy == .clear ? "" : " over the page before"
                console.say("  enter page \(name)\(way)\(carrying ? ", with what plays" : "")")
                try await runtime.enter(page.page, by: policy, carryingPlay: carrying)
                if !page.isListed {
                    try await page.page.setSources(try entries(page.sources, step.line))
                    pages[name]?.isListed = true
                }
            case .play(let index):
                let page = try needsPage()
                let position = await page.page.position.flatMap { page.sources.firstIndex(of: $0.name) }
                guard let index = index ?? position, page.sources.indices.contains(index) else {
                    throw ScriptError(line: step.line, text: "the page has \(page.sources.count) entries")
                }
                try await play(index, seconds: 0)
            case .watch(let seconds):
                _ = try needsPage()
                await player.watch(seconds: seconds)
            case .swipe(let count, let seconds):
                for _ in 0..<abs(count) {
                    let page = try needsPage()
                    let next = page.index + (count > 0 ? 1 : -1)
                    guard page.sources.indices.contains(next) else {
                        throw ScriptError(
                            line: step.line,
                            text: "a swipe goes past the end of the page's \(page.sources.count) entries")
                    }
                    try await play(next, seconds: seconds)
                }
            case .refresh(let names):
                let page = try needsPage()
                try await page.page.setSources(try entries(names, step.line))
                pages[open]?.sources = names
                pages[open]?.index = names.firstIndex(of: page.sources[page.index]) ?? 0
            case .loadMore(let names):
                let page = try needsPage()
                try await page.page.addSources(try entries(names, step.line))
                pages[open]?.sources += names.filter { !page.sources.contains($0) }
            case .leave(let name):
                console.say("  leave page \(name)")
                if let page = pages[name] { await runtime.leave(page.page) }
                open = await runtime.owner?.name ?? ""
                if !open.isEmpty, open != name { console.say("  back on page \(open)") }
            case .suspend(let keeping):
                console.say("  in the background")
                await runtime.suspend(keepingEngines: keeping)
            case .resume:
                console.say("  in the foreground")
                await runtime.resume()
            }
        }
    }
}
