import EventLoop
import FirstFrame
import FirstFrameFFmpeg
import Foundation
import Testing

extension FFmpegSuites {
    @Suite("Strategies on real media") struct StrategyMediaTests {
        private func entry(_ name: String, of page: FeedPage, cover: String? = nil, base: String) throws -> FeedEntry {
            var entry = FeedEntry(try URLSource(url: base + name), id: EntryID("other " + name))
            if let cover { entry.cover = try URLSource(url: base + cover) }
            return entry
        }
        /// Where the origin of a page's entries is.
        private func base(_ page: FeedPage) async -> String {
            for case .url(let source) in await [page.source(of: "first.mp4")].compactMap({ $0 }) {
                return String(source.url.dropLast("first.mp4".count))
            }
            return ""
        }

        @Test("a clip that begins black is shown by its first picture that is not, without an engine") func dark()
            async throws
        {
            try await withPage(["dark.mp4"]) { page, runtime, folder in
                let picture = try await page.coverImage(for: "dark.mp4")
                #expect(picture.width == 320 && picture.presentationTime == .seconds(1))
                #expect(await runtime.statistics().liveEngines == 0)
                #expect(await runtime.statistics().openResources == 0)
                let rgba = try await page.coverImage(for: "dark.mp4", format: .rgba)
                #expect(rgba.pixelFormat == .rgba)
            }
        }
        @Test("the cover comes first; a cover that can't be had gives way to the clip's own picture") func cover()
            async throws
        {
            try await withPage(["first.mp4"]) { page, runtime, folder in
                let base = await base(page)
                try await page.addSources([
                    try entry("dark.mp4", of: page, cover: "cover.png", base: base),
                    try entry("silent.mp4", of: page, cover: "none.png", base: base),
                    try entry("sound.m4a", of: page, cover: "text.mp4", base: base),
                ])
                let cover = try await page.coverImage(for: "other dark.mp4")
                #expect(cover.width == 64 && cover.height == 48)
                let own = try await page.coverImage(for: "other silent.mp4")
                #expect(own.width == 318 && own.height == 242)
                await #expect(throws: PlaybackError.self) { _ = try await page.coverImage(for: "other sound.m4a") }
                await #expect(throws: FeedError.unknownEntry("none")) { _ = try await page.coverImage(for: "none") }
            }
        }
        @Test("a frame that a spare engine holds can be shown before it is taken, and is the first that is delivered")
        func heldFrame() async throws {
            var options = EngineOptions()
            options.pacing = .none  // nothing is dropped, however busy the machine is
            try await withPage(["first.mp4", "silent.mp4"], strategies: [.preRender], options: options) {
                page, runtime, _ in
                _ = try await page.play("first.mp4")
                while await page.peekPreRenderedEngine(for: "silent.mp4") != .ready {
                    try await Task.sleep(for: .milliseconds(10))
                }
                let held = try #require(await page.preRenderedFrame(for: "silent.mp4"))
                let cover = try await page.coverImage(for: "silent.mp4")
                #expect(await runtime.statistics().liveEngines == 2)
                let engine = try await page.play("silent.mp4")
                let frames = engine.frames.makeAsyncIterator()
                let first = try #require(await frames.next())
                let (isSame, isCover) = (
                    first.packedBytes() == held.packedBytes(), cover.packedBytes() == held.packedBytes()
                )
                #expect(isSame && isCover)
                #expect(await page.preRenderedFrame(for: "silent.mp4") == nil)
            }
        }
        @Test("a file of this machine is played where it lies, preloaded and pre-rendered like any other") func file()
            async throws
        {
            try await withPage(["first.mp4"], strategies: [.preload, .preRender]) { page, runtime, folder in
                try await page.addSources([
                    FeedEntry(try FileSource(path: folder + "/silent.mp4"), id: "file"),
                    FeedEntry(try FileSource(path: folder + "/last.mp4"), id: "file 2"),
                    FeedEntry(try FileSource(path: folder + "/none.mp4"), id: "none"),
                    FeedEntry(try FileSource(path: folder + "/empty.mp4"), id: "empty"),
                    FeedEntry(try FileSource(path: folder), id: "folder"),
                ])
                _ = try await page.play("first.mp4")
                while await page.peekPreRenderedEngine(for: "file") != .ready {
                    try await Task.sleep(for: .milliseconds(10))
                }
                let engine = try await page.play("file")
                #expect(await page.currentMetrics?.servedAs == .preRendered)
                var count = 0
                for await _ in engine.frames { count += 1 }
                #expect(count > 0)
                _ = try await page.play("file 2")
                let path = folder + "/none.mp4"
                await #expect(throws: LoadError.file(path: path, reason: "no such file or directory (stat \(path))")) {
                    _ = try await page.play("none")
                }
                await #expect(throws: LoadError.empty(url: folder + "/empty.mp4")) { _ = try await page.play("empty") }
                await #expect(throws: LoadError.self) { _ = try await page.play("folder") }
                let cached = await runtime.cachedMedia()
                #expect(cached.count == 1, "only what came over the network")
            }
        }
        @Test("CACHE-1: files whose names differ only after a # or a ? are different files") func names() async throws {
            try await withPage(["first.mp4"]) { page, runtime, folder in
                let files = ["Track #1.mp4": "silent.mp4", "Track #2.mp4": "last.mp4", "a?sig=1.mp4": "silent.mp4"]
                for (name, file) in files {
                    try? FileManager.default.copyItem(atPath: "\(folder)/\(file)", toPath: "\(folder)/\(name)")
                    try await page.addSources([FeedEntry(try FileSource(path: "\(folder)/\(name)"), id: EntryID(name))])
                }
                let widths = ["Track #1.mp4": 318, "Track #2.mp4": 320, "a?sig=1.mp4": 318]
                var readers: [MediaReader] = []
                for (name, width) in widths {
                    readers.append(try await runtime.open(.file(try FileSource(path: "\(folder)/\(name)"))))
                    _ = try await page.play(EntryID(name))
                    #expect(await page.currentMetrics?.media.width == width, "\(name)")
                }
                for reader in readers { await reader.close() }
                let keys = try ["/a #1", "/a #2", "/a ?sig=1"].map { try URLSource.dropbox(path: $0).cacheKey }
                #expect(Set(keys).count == 3)
            }
        }
        @Test("the picture of a sound file is its cover, and never its video") func soundCover() async throws {
            try await withPage(["covered.mp3", "plain.mp3"]) { page, _, _ in
                let cover = try await page.coverImage(for: "covered.mp3")
                #expect(cover.width == 64 && cover.height == 48)
                _ = try await page.play("covered.mp3")
                #expect(await page.currentMetrics?.media.videoCodec == nil)
                await #expect(throws: PlaybackError.self) { _ = try await page.coverImage(for: "plain.mp3") }
            }
        }
        @Test("MEDIA-5: a large tag before the sound is jumped over, and changes nothing else") func tag() async throws
        {
            var options = EngineOptions()
            (options.pacing, options.audio) = (.none, .host)
            func sound(of name: String) async throws -> (samples: Int, fetchedAtStart: Int64) {
                let found = Lock((samples: 0, fetchedAtStart: Int64(0)))
                try await withPage([name], options: options) { page, runtime, _ in
                    let engine = try await page.play(EntryID(name))
                    let fetched = await runtime.statistics().bytesFetched
                    var samples = 0
                    for await buffer in engine.audio { samples += buffer.frameCount }
                    let all = samples
                    found.withLock { $0 = (all, fetched) }
                }
                return found.withLock { $0 }
            }
            let (plain, tagged) = (try await sound(of: "plain.mp3"), try await sound(of: "tagged.mp3"))
            #expect(plain.samples == tagged.samples && plain.samples > 80_000)
            #expect(tagged.fetchedAtStart < 1_000_000, "\(tagged.fetchedAtStart) bytes of a file of more than 3 MB")
        }
        private func isPreloaded(_ entry: EntryID, _ page: FeedPage) async -> Bool {
            await page.decisions.contains { $0.entry == entry && $0.kind == .stopped && $0.reason == .finished }
        }
        @Test(
            "the first frame's own bytes are fetched first, with the index wherever it lies",
            arguments: ["first", "last"])
        func firstFrames(name: String) async throws {
            try await withPage(["silent.mp4", "\(name).mp4"], strategies: [.automaticPreload]) {
                page, runtime, folder in
                _ = try await page.play("silent.mp4")
                let entry = EntryID("\(name).mp4")
                while await !isPreloaded(entry, page) { try await Task.sleep(for: .milliseconds(10)) }
                let starts = await page.decisions.filter { $0.entry == entry && $0.kind == .started }
                #expect(starts.contains { $0.detail.hasPrefix("first frame") })
                _ = try await page.play(entry)
                #expect(await page.currentMetrics?.servedAs == .preloaded)
                #expect(await page.currentMetrics?.phases.firstByte == .zero, "no request stood between call and frame")
            }
        }
    }
}
