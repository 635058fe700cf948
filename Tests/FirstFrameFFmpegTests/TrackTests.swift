import FeedVocabulary
import FirstFrame
import FirstFrameFFmpeg
import Foundation
import Testing

extension FFmpegSuites {
    @Suite("Tracks and subtitles") struct TrackTests {
        private func playing(
            _ options: EngineOptions = allFrames(), _ body: (any PlayerEngine, MediaDescription) async throws -> Void
        ) async throws {
            try await withPage(["tracks.mkv"], options: options) { page, _, folder in
                guard case .url(let source) = await page.source(of: "tracks.mkv") else { return }
                var entry = FeedEntry(source, id: "clip")
                entry.subtitles = try ["text.vtt", "text.mp4"].map { name in
                    try URLSource(url: source.url.replacing("tracks.mkv", with: name))
                }
                try await page.setSources([entry])
                let engine = try await page.play("clip")
                try await body(engine, try #require(await page.currentMetrics?.media))
            }
        }

        /// Changes of sign a second: twice the frequency.
        private func frequency(_ engine: any PlayerEngine) async -> Double {
            var (changes, count, last) = (0, 0, Float(0))
            for await buffer in engine.audio {
                for sample in stride(from: 0, to: buffer.samples.count, by: buffer.channelCount) {
                    if buffer.samples[sample] * last < 0 { changes += 1 }
                    last = buffer.samples[sample]
                    count += 1
                }
            }
            return Double(changes) / 2 / (Double(count) / 44_100)
        }

        @Test("a clip tells its tracks, those beside it last") func tracks() async throws {
            try await playing { _, media in
                #expect(media.tracks.map(\.kind) == [.video, .audio, .audio, .subtitles, .subtitles, .subtitles])
                #expect(media.tracks.map(\.id) == Array(0..<6))
                #expect(media.tracks.map(\.language) == [nil, "eng", "fre", "ger", nil, nil])
                #expect(media.tracks[2].title == "Other")
            }
        }

        @Test("sound comes in the language that is wanted", arguments: [("", 440.0), ("fr", 880), ("de en", 440)])
        func language(languages: String, hertz: Double) async throws {
            var options = allFrames()
            (options.audio, options.languages) = (.host, languages.split(separator: " ").map(String.init))
            try await playing(options) { engine, _ in
                async let frames = engine.frames.reduce(0) { count, _ in count + 1 }
                #expect(await abs(frequency(engine) - hertz) < 10)
                #expect(await frames == 100)
            }
        }

        @Test("another track of sound is heard from where the play is") func select() async throws {
            var options = EngineOptions()
            options.audio = .host
            try await playing(options) { engine, _ in
                async let frames = engine.frames.reduce(into: [Duration]()) { $0.append($1.presentationTime) }
                try await Task.sleep(for: .milliseconds(700))
                try await engine.select(2, of: .audio)
                #expect(await abs(frequency(engine) - 880) < 60)  // but for what had been delivered
                let times = await frames
                #expect(times == times.sorted() && Set(times).count == times.count)
                await #expect(throws: PlaybackError.noSuchTrack(id: 9)) { try await engine.select(9, of: .audio) }
                await #expect(throws: PlaybackError.noSuchTrack(id: 0)) { try await engine.select(0, of: .audio) }
            }
        }

        private func cues(_ engine: any PlayerEngine) async -> [SubtitleCue] {
            async let frames = engine.frames.reduce(0) { count, _ in count + 1 }
            var cues: [SubtitleCue] = []
            for await event in engine.events { if case .subtitle(let cue) = event { cues.append(cue) } }
            _ = await frames
            return cues
        }

        @Test("subtitles inside and beside the clip are events with their text and times", arguments: [3, 4])
        func subtitles(track: Int) async throws {
            try await playing(EngineOptions()) { engine, _ in
                try await engine.select(track, of: .subtitles)
                let cues = await cues(engine)
                #expect(cues.map(\.text) == (track == 3 ? ["first", "second\nline"] : ["beside"]))
                let wanted = track == 3 ? [0.5, 1.0, 1.2, 3.0] : [0.2, 0.7]
                for (time, second) in zip(cues.flatMap { [$0.start, $0.end] }, wanted) {
                    #expect(abs(time / .seconds(1) - second) < 0.03)
                }
            }
        }

        @Test("a seek into a line of text shows it again; without subtitles none comes") func seekAndOff() async throws
        {
            try await playing(EngineOptions()) { engine, _ in
                try await engine.select(3, of: .subtitles)
                for await event in engine.events { if case .subtitle(let cue) = event, cue.text != "first" { break } }
                try await engine.pause()
                try await engine.seek(to: .seconds(2.5))
                try await engine.play()
                #expect(await cues(engine).map(\.text) == ["second\nline"])
            }
            try await playing(EngineOptions()) { engine, _ in
                try await engine.select(3, of: .subtitles)
                try await engine.select(nil, of: .subtitles)
                #expect(await cues(engine).isEmpty)
            }
        }

        @Test("a file that is no subtitles is refused, and the play goes on") func noSubtitles() async throws {
            try await playing { engine, _ in
                await #expect { try await engine.select(5, of: .subtitles) } throws: {
                    "\($0)".contains("text.mp4 is not a media file")
                }
                #expect(await engine.frames.reduce(0) { count, _ in count + 1 } == 100)
            }
        }

        @Test("a seek to the key frame shows that one, and goes on from there") func keyFrame() async throws {
            try await playing(EngineOptions()) { engine, _ in
                let frames = engine.frames.makeAsyncIterator()
                _ = await frames.next()
                try await engine.pause()
                try await engine.seek(to: .seconds(2.7), accuracy: .keyFrame)
                let frame = try #require(await frames.next())
                #expect(abs(frame.presentationTime / .seconds(1) - 2) < 0.03)
                #expect(await engine.status().position == frame.presentationTime)
                try await engine.play()
                let next = try #require(await frames.next())
                #expect(abs((next.presentationTime - frame.presentationTime) / .seconds(1) - 0.04) < 0.002)
            }
        }

        @Test("pictures follow what is heard, and the clock again when nothing is told") func heard() async throws {
            var options = EngineOptions()
            options.audio = .host
            try await playing(options) { engine, _ in
                let frames = engine.frames.makeAsyncIterator()
                _ = await frames.next()
                #expect(await engine.status().drift == nil)
                let sound = engine.audio.makeAsyncIterator()
                var end = Duration.zero
                while end < .milliseconds(250), let buffer = await sound.next() {
                    end = buffer.presentationTime + buffer.duration
                }
                await engine.heard(end)
                #expect(await engine.status().position >= end)
                #expect(try #require(await engine.status().drift) > .milliseconds(80))
                try await Task.sleep(for: .milliseconds(600))
                #expect(await engine.status().drift == nil)
            }
        }

        @Test("what was heard of a place that was left is not followed") func heardBefore() async throws {
            var options = EngineOptions()
            options.audio = .host
            try await playing(options) { engine, _ in
                let sound = engine.audio.makeAsyncIterator()
                let first = try #require(await sound.next())
                try await engine.seek(to: .seconds(3))
                await engine.heard(first.presentationTime + first.duration)
                #expect(await engine.status().position >= .seconds(3))
                await engine.heard(.seconds(90))  // nor what was never given
                #expect(await engine.status().position < .seconds(4))
                #expect(await engine.status().drift == nil)
            }
        }

        @Test("a machine without a video device plays all the same when one is asked for") func noDevice() async throws
        {
            var options = allFrames()
            options.usesVideoDevice = true
            try await withPage(["silent.mp4"], options: options) { page, _, folder in
                var bytes = Data()
                for await frame in try await page.play("silent.mp4").frames {
                    bytes.append(contentsOf: frame.packedBytes())
                }
                #expect(try bytes == reference(folder + "/silent.mp4"))
            }
        }

        @Test("sound of more than eight channels has them all") func manyChannels() async throws {
            let path = FileManager.default.temporaryDirectory.path + "/ff-channels-\(UUID().uuidString).m4a"
            defer { try? FileManager.default.removeItem(atPath: path) }
            let tones = (1...16).map { "0.05*sin(2*PI*\($0 * 100)*t)" }.joined(separator: "|")
            try ffmpeg(["-f", "lavfi", "-i", "aevalsrc=\(tones):d=0.5:c=hexadecagonal", "-c:a", "aac", path])
            var options = allFrames()
            options.audio = .host
            try await withPage([], options: options) { page, _, _ in
                try await page.setSources([FeedEntry(try FileSource(path: path), id: "clip")])
                var samples: [Float] = []
                for await buffer in try await page.play("clip").audio {
                    #expect(buffer.channelCount == 16)
                    samples += buffer.samples
                }
                let wanted = try ffmpeg(["-i", path, "-f", "f32le", "-"]).withUnsafeBytes {
                    Array($0.bindMemory(to: Float.self))
                }
                #expect(samples.count > 16 * 20_000)
                #expect(samples.prefix(wanted.count).elementsEqual(wanted.prefix(samples.count)))
            }
        }

        @Test("muted sound is silence of the same length, and the volume stays") func muted() async throws {
            var options = allFrames()
            (options.audio, options.isMuted) = (.host, true)
            try await playing(options) { engine, _ in
                async let frames = engine.frames.reduce(0) { count, _ in count + 1 }
                var (silent, loud) = (0, 0)
                for await buffer in engine.audio {
                    if silent >= 20_000 { await engine.setMuted(false) }
                    if buffer.samples.allSatisfy({ $0 == 0 }) { silent += buffer.frameCount } else { loud += 1 }
                }
                #expect(silent >= 20_000 && loud > 10)
                _ = await frames
            }
        }
    }
}
