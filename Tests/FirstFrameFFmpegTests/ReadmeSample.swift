import FirstFrame
import FirstFrameFFmpeg
import Foundation
import Testing

private struct Screen { func show(_ frame: VideoFrame) {} }
private struct Viewer { var hasSwiped: Bool }

/// The README's sample, compiled; the test below compares the two.
private func sample(urls: [String], screen: Screen, viewer: Viewer) async throws {
    let runtime = try await FeedRuntime.start(engines: FFmpegEngines())
    let tab = try await runtime.makePage("tab A")
    try await runtime.enter(tab)  // the page that was on screen before is cleared first
    try await tab.setSources(urls.map { FeedEntry(try URLSource(url: $0)) })

    for id in await tab.entries {
        let engine = try await tab.play(id)  // pre-rendered: its first frame is there already
        for await frame in engine.frames {
            screen.show(frame)  // planes, strides, pixel format, presentation time, orientation
            if viewer.hasSwiped { break }
        }
    }
    await runtime.leave(tab)  // nothing of the page runs any more; bytes on disk stay
    await runtime.shutdown()
}

private struct Parser { func feed(_ bytes: [UInt8]) {} }
private struct Service { func urls(of key: CacheKey) async throws -> [MediaURL] { [] } }
private func log(_ text: String) {}

/// The second sample.
private func pages(runtime: FeedRuntime, other: FeedPage, detail: FeedPage) async throws {
    try await runtime.enter(other)  // another tab: the old one is cleared first, and remembers its list and position
    try await runtime.enter(detail, by: .replaceSources, carryingPlay: true)  // over the tab, with what plays there
    let same = try await detail.play("clip42")  // the same clip goes on, on the same engine
    await runtime.leave(detail)  // the tab below owns the strategies again, at its place
    await runtime.suspend()  // the app goes to the background: silent, nothing fetched
    await runtime.resume()  // goes on, unless the viewer had paused
    _ = same
}

/// The third sample.
private func strategies(runtime: FeedRuntime, token: String) async throws {
    let page = try await runtime.makePage(
        "tab", strategies: [.preload(PreloadConfiguration(count: 3, size: 800 * 1024)), .preRender])
    try await page.willSelect("clip43")  // the finger lifts: open it before the scroll has settled
    try await page.browse(at: "clip60")  // nothing plays: heads on both sides of what is in view
    try await page.setOverlay(.standingStill)  // comments above the clip: keep what is ready, begin nothing
    let picture = try await page.coverImage(for: "clip44")  // its cover, or its first frame that is not black

    await runtime.setNetwork(.metered)
    try await runtime.setLimits(NetworkLimits(bytesPerSecond: 100_000, byteBudget: 50_000_000), for: .metered)

    // Ids instead of URLs: asked for once, the resolution chosen once for preload, pre-render and play.
    let clip = FeedEntry(try VidSource(vid: "v0d00", playAuthToken: token, resolution: .p720))
    let local = FeedEntry(try FileSource(path: "/media/usb/holiday.mp4"))

    for decision in await page.decisions { log("\(decision.entry): \(decision.reason) \(decision.detail)") }
    _ = (picture, clip, local)
}

/// The fourth sample.
private func bytes(
    runtime: FeedRuntime, name: String, word: String, signed: String, backup: String, service: Service, parser: Parser,
    driveDelegate: any ResourceLoaderDelegate
) async throws {
    // One account a server; asked again when the server refuses, and a minute before a known expiry.
    try await runtime.setCredentials(.login(user: name, password: word), for: "https://cloud.example/")
    let song = try URLSource.webDAV(folder: "https://cloud.example/music", path: "Björk/Jóga.flac")

    // URLs that expire: several, with their expiry, and what gives new ones. The bytes on disk stay.
    let clip = try URLSource(
        urls: [MediaURL(signed, expires: WallTime(secondsSince1970: 1_800_000_000)), MediaURL(backup)],
        cacheKey: "clip42", refresher: URLRefresher { key in try await service.urls(of: key) })

    // Direct reads, through the same loader and cache as the player's.
    let reader = try await runtime.open(song)
    for try await bytes in reader.read(0..<65_536) { parser.feed(bytes) }
    await reader.close()

    // A scheme of your own: answer with bytes, or with an HTTP request that the loader carries out.
    try await runtime.register(driveDelegate, scheme: "drive")

    for await event in await runtime.loadEvents() { log("\(event)") }  // never holds a secret
    _ = clip
}

@Suite("README") struct ReadmeTests {
    @Test("its samples are the ones that compile here") func same() throws {
        let here = URL(filePath: #filePath)
        let root = here.deletingLastPathComponent().deletingLastPathComponent().deletingLastPathComponent()
        func lines(_ text: some StringProtocol) -> [String] {
            text.split(separator: "\n").map { $0.trimmingCharacters(in: .whitespaces) }
        }
        let readme = try String(contentsOf: root.appending(path: "README.md"), encoding: .utf8)
        let code = lines(try String(contentsOf: here, encoding: .utf8))
        let samples = readme.components(separatedBy: "```swift\n").dropFirst().map {
            lines($0.components(separatedBy: "```")[0])
        }
        #expect(samples.count == 4)
        for sample in samples {
            let body = sample.filter { !$0.hasPrefix("import ") }
            let from = try #require(code.firstIndex(of: body[0]))
            #expect(Array(code[from..<from + body.count]) == body)
        }
    }
}
