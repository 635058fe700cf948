import FirstFrame
import FirstFrameFFmpeg
import Foundation

/// Pages of clips, one of them on screen.
@MainActor final class Feed {
    private let runtime: FeedRuntime
    private let screen: Screen
    private let speaker = Speaker()
    private var pages: [FeedPage] = []
    private var index = 0
    private var engine: (any PlayerEngine)?
    private var delivery: Task<Void, Never>?
    private var isPaused = false
    private var isMuted = false

    init(_ lists: [[String]], on screen: Screen) async throws {
        self.screen = screen
        runtime = try await FeedRuntime.start(engines: FFmpegEngines())
        var options = EngineOptions()
        (options.pixelFormat, options.audio, options.loops) = (.i420, .host, true)
        for (number, list) in lists.enumerated() {
            let page = try await runtime.makePage("page \(number + 1)")
            await page.setEngineOptions(options)
            try await runtime.enter(page)
            try await page.setSources(
                try list.enumerated().map { place, text in FeedEntry(try Self.source(text), id: EntryID("\(place + 1)"))
                })
            pages.append(page)
        }
    }

    private static func source(_ text: String) throws -> MediaSource {
        if text.contains("://") { return .url(try URLSource(url: text)) }
        return .file(try FileSource(path: URL(filePath: text).standardizedFileURL.path(percentEncoded: false)))
    }

    private var page: FeedPage { pages[index] }

    /// Shows the page where it was left, or from its start.
    func enter() async throws {
        try await runtime.enter(page)
        if let place = await page.position { await play(place) }
    }

    /// The next page: what plays on this one ends.
    func switchPage() async throws {
        index = (index + 1) % pages.count
        try await enter()
    }

    /// Up or down in the list.
    func swipe(by step: Int) async {
        let entries = await page.entries
        guard let place = await page.position, let number = entries.firstIndex(of: place),
            entries.indices.contains(number + step)
        else { return }
        await play(entries[number + step])
    }

    private func play(_ entry: EntryID) async {
        do {
            let engine = try await page.play(entry)
            delivery?.cancel()
            await speaker.flush()
            (self.engine, isPaused) = (engine, false)
            await speaker.setPaused(false)
            await engine.setMuted(isMuted)
            delivery = Task { [screen, speaker] in await engine.deliver(to: screen, speaker) }
            if let metrics = await page.currentMetrics {
                let time = metrics.timeToFirstFrame / .milliseconds(1)
                screen.setTitle("\(page.id) \(entry): \(metrics.servedAs.rawValue), \(Int(time.rounded())) ms")
            }
        } catch FeedError.superseded {
            return  // the viewer swiped on
        } catch {
            screen.setTitle("\(page.id) \(entry): \(error)")
            FileHandle.standardError.write(Data("\(error)\n".utf8))
        }
    }

    func togglePause() async {
        guard let engine else { return }
        isPaused.toggle()
        await speaker.setPaused(isPaused)
        if isPaused { try? await engine.pause() } else { try? await engine.play() }
    }
    func toggleMute() async {
        isMuted.toggle()
        await engine?.setMuted(isMuted)
    }
    func seek(by seconds: Double) async {
        guard let engine else { return }
        await speaker.flush()
        try? await engine.seek(to: await engine.status().position + .seconds(seconds), accuracy: .keyFrame)
    }

    func close() async {
        delivery?.cancel()
        await runtime.shutdown()
        await speaker.close()
    }
}
