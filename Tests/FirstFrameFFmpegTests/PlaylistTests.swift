import EventLoop
import FeedVocabulary
import FirstFrame
import FirstFrameFFmpeg
import Foundation
import Origin
import Testing

private let kinds = ["ts", "mp4", "one", "key", "apart"].map { "hls/\($0)/index.m3u8" }

extension FFmpegSuites {
    @Suite("HLS") struct PlaylistTests {
        private func options() -> EngineOptions {
            var options = allFrames()
            options.audio = .host
            return options
        }

        @Test("pictures, times and sound of a playlist as the ffmpeg command gives them", arguments: kinds)
        func whole(name: String) async throws {
            try await withPage([name], options: options()) { page, _, folder in
                let engine = try await page.play(EntryID(name))
                let sound = Task { await engine.audio.reduce(0) { $0 + $1.frameCount } }
                var (pictures, times) = (Data(), [Duration]())
                for await frame in engine.frames {
                    pictures.append(contentsOf: frame.packedBytes())
                    times.append(frame.presentationTime)
                }
                #expect(try pictures == reference("\(folder)/\(name)", ["-allowed_extensions", "ALL"]))
                for (index, time) in times.enumerated() {
                    #expect(abs((time - times[0]) / .milliseconds(1) - Double(index) * 40) < 1)
                }
                let wanted =
                    try ffmpeg(
                        ["-allowed_extensions", "ALL", "-i", "\(folder)/\(name)", "-map", "0:a:0", "-f", "f32le", "-"]
                    ).count / 4
                #expect(await abs(sound.value - wanted) <= 2_048)
                let media = try #require(await page.currentMetrics?.media)
                #expect(abs((media.duration ?? .zero) / .seconds(1) - 4) < 0.1)
            }
        }

        @Test("a seek in a playlist is exact to the frame", arguments: kinds)
        func seek(name: String) async throws {
            var silent = EngineOptions()
            silent.audio = .null
            try await withPage([name], options: silent) { page, _, _ in
                let engine = try await page.play(EntryID(name))
                let frames = engine.frames.makeAsyncIterator()
                let first = try #require(await frames.next()).presentationTime
                try await engine.pause()
                for place in [3.1, 0.5, 2.0] {
                    try await engine.seek(to: .seconds(place) + first)
                    let shown = try #require(await frames.next())
                    let distance = place - (shown.presentationTime - first) / .seconds(1)
                    #expect(distance > -0.001 && distance < 0.04, "\(distance) s before \(place) s")
                }
            }
        }

        @Test("of many seeks at once the newest is carried out, and the play goes on", arguments: ["ts", "mp4"])
        func manySeeks(kind: String) async throws {
            let name = "hls/\(kind)/index.m3u8"
            try await withPage([name]) { page, _, _ in
                let engine = try await page.play(EntryID(name))
                let frames = engine.frames.makeAsyncIterator()
                let first = try #require(await frames.next()).presentationTime
                for round in 0..<5 {
                    await withTaskGroup(of: Void.self) { group in
                        for number in 0..<8 {
                            let place = Double((number * 7 + round) % 38) / 10
                            group.addTask { try? await engine.seek(to: .seconds(place) + first) }
                        }
                    }
                    try await engine.seek(to: .seconds(2) + first)
                    var shown = try #require(await frames.next())
                    // What the others had shown may still be on its way.
                    for _ in 0..<4 where abs((shown.presentationTime - first) / .seconds(1) - 2) > 0.5 {
                        shown = try #require(await frames.next())
                    }
                    #expect(abs((shown.presentationTime - first) / .seconds(1) - 2) < 0.5)
                }
            }
        }

        @Test("a playlist that names itself is neither played nor preloaded without end") func ouroboros() async throws
        {
            let folder = try await Stage.shared.clips()
            let name = "hls/ts/self.m3u8"
            try "#EXTM3U\n#EXT-X-STREAM-INF:BANDWIDTH=1\nself.m3u8\n".write(
                toFile: "\(folder)/\(name)", atomically: true, encoding: .utf8)
            let preload = PreloadConfiguration(count: 1, startBufferLimit: 0.1, stopBufferLimit: 0)
            try await withPage(["first.mp4", name], strategies: [.preload(preload)]) { page, _, _ in
                _ = try await page.play("first.mp4")
                for await event in page.events {
                    if case .stopped(.preload, EntryID(name), .finished) = event { break }
                }
                await #expect { try await page.play(EntryID(name)) } throws: { "\($0)".contains("not understood") }
            }
        }

        @Test("a part that can't be had ends the play by its name; what follows is not played in its place")
        func missingPart() async throws {
            let folder = try await Stage.shared.clips()
            let text = try String(contentsOfFile: folder + "/hls/ts/index.m3u8", encoding: .utf8)
            try text.replacing("index2.ts", with: "gone.ts").write(
                toFile: folder + "/hls/ts/gap.m3u8", atomically: true, encoding: .utf8)
            try await withPage(["hls/ts/gap.m3u8"], options: allFrames()) { page, _, _ in
                let engine = try await page.play("hls/ts/gap.m3u8")
                let count = await engine.frames.reduce(0) { count, _ in count + 1 }
                #expect((45...50).contains(count), "\(count) frames of the two parts before it")
                var last: EngineEvent?
                for await event in engine.events { last = event }
                guard case .failed(let reason) = last else {
                    Issue.record("\(String(describing: last))")
                    return
                }
                #expect(reason.contains("gone.ts answered 404"))
            }
        }

        @Test(
            "a playlist can't make the player open what its server may not name",
            arguments: [
                ("file:///etc/hostname", "can't be fetched"),
                ("http://169.254.169.254/latest/meta-data", "private network"),
                ("http://localhost:1/x.ts", "private network"), ("hostile.m3u8", "not a media file"),
                ("concat:a.ts|b.ts", "can't be fetched"), ("http://a b/", "no URL"),
            ])
        func hostile(reference: String, reason: String) async throws {
            let folder = try await Stage.shared.clips()
            let name = "hls/ts/hostile.m3u8"
            try "#EXTM3U\n#EXTINF:1,\n\(reference)\n#EXT-X-ENDLIST\n".write(
                toFile: "\(folder)/\(name)", atomically: true, encoding: .utf8)
            try await withPage([name], options: allFrames()) { page, _, _ in
                do {
                    _ = try await page.play(EntryID(name))
                    Issue.record("it plays")
                } catch {
                    #expect("\(error)".contains(reason), "\(error)")
                }
            }
        }

        @Test("a playlist file can't name a file outside of its folder")
        func hostileFile() async throws {
            let folder = try await Stage.shared.clips()
            let path = folder + "/hls/ts/outside.m3u8"
            try "#EXTM3U\n#EXTINF:1,\n../../first.mp4\n#EXT-X-ENDLIST\n".write(
                toFile: path, atomically: true, encoding: .utf8)
            try await withPage([]) { page, _, _ in
                try await page.setSources([FeedEntry(try FileSource(path: path), id: "file")])
                await #expect { try await page.play("file") } throws: { "\($0)".contains("outside of its folder") }
            }
        }

        @Test("a preloaded playlist has its first frame without a request", arguments: kinds)
        func preloaded(name: String) async throws {
            try await withPage(
                ["first.mp4", name],
                strategies: [.preload(PreloadConfiguration(count: 1, startBufferLimit: 0.1, stopBufferLimit: 0))]
            ) { page, _, _ in
                _ = try await page.play("first.mp4")
                for await event in page.events {
                    if case .stopped(.preload, EntryID(name), .finished) = event { break }
                }
                await page.setEngineOptions(allFrames())
                let engine = try await page.play(EntryID(name))
                let frames = engine.frames.makeAsyncIterator()
                #expect(await frames.next() != nil)
                #expect(await page.currentMetrics?.servedAs == .preloaded)
                #expect(await page.currentMetrics?.phases.firstByte == .zero)
            }
        }
    }
}
