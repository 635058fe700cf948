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
            screen.show(frame)  // planes, strides, pixel format, presentation time, rotation
            if viewer.hasSwiped { break }
        }
    }
    await runtime.leave(tab)  // nothing of the page runs any more; bytes on disk stay
    await runtime.shutdown()
}

@Suite("README") struct ReadmeTests {
    @Test("the embedding sample is the one that compiles here") func same() throws {
        let here = URL(filePath: #filePath)
        let root = here.deletingLastPathComponent().deletingLastPathComponent().deletingLastPathComponent()
        func lines(_ text: String) -> [String] {
            text.split(separator: "\n").map { $0.trimmingCharacters(in: .whitespaces) }
        }
        let readme = lines(try String(contentsOf: root.appending(path: "README.md"), encoding: .utf8))
        let code = lines(try String(contentsOf: here, encoding: .utf8))
        let start = try #require(
            readme.firstIndex(of: "let runtime = try await FeedRuntime.start(engines: FFmpegEngines())"))
        let end = try #require(readme.firstIndex(of: "await runtime.shutdown()"))
        let sample = Array(readme[start...end])
        let from = try #require(code.firstIndex(of: sample[0]))
        #expect(Array(code[from..<from + sample.count]) == sample)
    }
}
