import EventLoop
import FirstFrame
import FirstFrameFFmpeg
import Foundation
import Origin
import Playback
import Testing

extension FFmpegSuites {
    @Suite("FFmpeg engine", .serialized) struct EngineTests {
        @Test(
            "every frame is bit-exact with what the ffmpeg command decodes, the first one too",
            arguments: ["first.mp4", "last.mp4", "silent.mp4", "fast.mp4"])
        func bitExact(name: String) async throws {
            try await withPage([name], options: allFrames()) { page, _, folder in
                let wanted = try reference(folder + "/" + name)
                var bytes = Data()
                var times: [Duration] = []
                for await frame in try await page.play(EntryID(name)).frames {
                    bytes.append(contentsOf: frame.packedBytes())
                    times.append(frame.presentationTime)
                }
                #expect(times.count == ["first.mp4": 60, "last.mp4": 50, "silent.mp4": 48, "fast.mp4": 40][name])
                #expect(bytes == wanted)
                #expect(times == times.sorted() && times.first == .zero)
            }
        }

        @Test("a pre-rendered first frame is the same picture, in the format that was asked for") func preRendered()
            async throws
        {
            var options = EngineOptions()
            options.pixelFormat = .rgba
            try await withPage(["first.mp4", "last.mp4"], strategies: [.preload, .preRender], options: options) {
                page, _, folder in
                let engine = try await page.play("first.mp4")
                for await frame in engine.frames where frame.presentationTime > .milliseconds(200) { break }
                let spare = await page.takePreRenderedEngine(for: "last.mp4", waitingAtMost: .seconds(20))
                #expect(spare != nil)
                let taken = try await page.play("last.mp4")
                #expect(taken === spare)
                #expect(await page.currentMetrics?.servedAs == .preRendered)
                let iterator = taken.frames.makeAsyncIterator()
                let first = try #require(await iterator.next())
                #expect(first.pixelFormat == .rgba && first.planes.count == 1)
                let plain = try ffmpeg([
                    "-i", folder + "/last.mp4", "-frames:v", "1", "-vf",
                    "scale=flags=bilinear+accurate_rnd,format=rgba",
                    "-f", "rawvideo", "-",
                ])
                let worst = zip(first.packedBytes(), plain).map { abs(Int($0) - Int($1)) }.max() ?? 255
                #expect(first.packedBytes().count == plain.count && worst <= 3)  // two scalers' roundings
                #expect(try first.png().starts(with: [0x89, 0x50, 0x4e, 0x47]))
            }
        }

        @Test("POOL-6: the frame of a start time is exact to the frame") func startTime() async throws {
            var options = allFrames()
            options.startTime = .milliseconds(1_010)
            try await withPage(["first.mp4"], options: options) { page, _, folder in
                let iterator = try await page.play("first.mp4").frames.makeAsyncIterator()
                let frame = try #require(await iterator.next())
                let index = Int((frame.presentationTime / .seconds(1) * 30).rounded())
                #expect(index == 30)
                let size = 360 * 640 * 3 / 2
                #expect(
                    Data(frame.packedBytes())
                        == (try reference(folder + "/first.mp4"))[index * size..<(index + 1) * size])
            }
        }

        @Test("sound reaches the host as PCM of the right length") func sound() async throws {
            var options = allFrames()
            options.audio = .host
            try await withPage(["sound.m4a"], options: options) { page, _, _ in
                var count = 0
                for await buffer in try await page.play("sound.m4a").audio {
                    #expect(buffer.sampleRate == 44_100 && buffer.channelCount == 1)
                    count += buffer.frameCount
                }
                #expect(abs(count - 88_200) <= 1_024)  // within one codec frame
            }
        }

        @Test("by its clock a clip of 2 s plays 2 s, ends once, and stalls never") func clock() async throws {
            try await withPage(["silent.mp4"]) { page, _, _ in
                let engine = try await page.play("silent.mp4")
                let consumer = Task {
                    var count = 0; for await _ in engine.frames { count += 1 }; return count
                }
                var events: [EngineEvent] = []
                for await event in engine.events { events.append(event) }
                #expect(events == [.firstFrame, .ended])
                let status = await engine.status()
                #expect(await consumer.value + status.droppedFrames == 48)
                #expect(status.isBufferedAheadExact && status.isComplete && status.stallCount == 0)
            }
        }

        @Test("what is no clip gives an error that says so, and the feed goes on") func broken() async throws {
            try await withPage(["text.mp4", "empty.mp4", "stump.mp4", "none.mp4", "first.mp4"]) { page, runtime, _ in
                await #expect(throws: PlaybackError.self) { _ = try await page.play("text.mp4") }
                await #expect(throws: LoadError.self) { _ = try await page.play("empty.mp4") }
                await #expect(throws: PlaybackError.self) { _ = try await page.play("stump.mp4") }
                await #expect(throws: LoadError.self) { _ = try await page.play("none.mp4") }
                _ = try await page.play("first.mp4")
                await page.clear()
                #expect(await runtime.statistics().liveEngines == 0)
            }
        }

        @Test("a truncated clip plays its whole frames and ends") func truncated() async throws {
            try await withPage(["truncated.mp4"], options: allFrames()) { page, _, _ in
                var count = 0
                for await _ in try await page.play("truncated.mp4").frames { count += 1 }
                #expect(count > 5 && count < 60)
            }
        }

        @Test("after shutdown no thread of the runtime remains") func threads() async throws {
            // In a process of its own: others play at the same time.
            await #expect(processExitsWith: .success) {
                let folder = FileManager.default.temporaryDirectory.path + "/ff-threads-\(getpid())"
                try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
                func number(_ value: Int, _ bytes: Int) -> [UInt8] {
                    (0..<bytes).map { UInt8(truncatingIfNeeded: value >> ($0 * 8)) }
                }
                let rate = 8_000
                let format =
                    number(1, 2) + number(1, 2) + number(rate, 4) + number(rate * 2, 4) + number(2, 2) + number(16, 2)
                let head = Array("WAVEfmt ".utf8) + number(16, 4) + format + Array("data".utf8) + number(rate * 8, 4)
                let sound =
                    Array("RIFF".utf8) + number(head.count + rate * 8, 4) + head
                    + [UInt8](repeating: 0, count: rate * 8)
                try Data(sound).write(to: URL(filePath: folder + "/silence.wav"))
                var configuration = RuntimeConfiguration()
                configuration.cacheDirectory = folder + "/cache"
                let runtime = try await FeedRuntime.start(engines: FFmpegEngines(), configuration: configuration)
                let page = try await runtime.makePage("threads", strategies: [.preRender])
                try await runtime.enter(page)
                let source = try FileSource(path: folder + "/silence.wav")
                try await page.setSources([FeedEntry(source, id: "1"), FeedEntry(source, id: "2")])
                _ = try await page.play("1")
                try await Task.sleep(for: .milliseconds(300))
                func decoders() throws -> Int {
                    let tasks = try FileManager.default.contentsOfDirectory(atPath: "/proc/self/task")
                    return tasks.count { task in
                        (try? String(contentsOfFile: "/proc/self/task/\(task)/comm", encoding: .utf8))?
                            .hasPrefix("ff-decode") == true
                    }
                }
                let during = try decoders()
                precondition(during > 0, "nothing was there to remain")
                await runtime.shutdown()
                try FileManager.default.removeItem(atPath: folder)
                let after = try decoders()
                precondition(after == 0, "decode threads are left after the shutdown")
            }
        }

        // MARK: Seeking

        @Test(
            "a seek gives the frame of its time, bit-exact, and those after it", arguments: ["first.mp4", "last.mp4"],
            [0, 700, 1_033, 1_960])
        func seek(name: String, milliseconds: Int) async throws {
            try await withPage([name], options: allFrames()) { page, _, folder in
                let rate = name == "first.mp4" ? 30 : 25
                let wanted = try reference(folder + "/" + name)
                let engine = try await page.play(EntryID(name))
                let frames = engine.frames.makeAsyncIterator()
                let before = await frames.next()
                #expect(before?.presentationTime == .zero)
                try await engine.pause()
                try await engine.seek(to: .milliseconds(milliseconds))
                let number = milliseconds * rate / 1_000
                let first = try #require(await frames.next())  // nothing of the old place comes after the call
                var times = [first.presentationTime]
                try await engine.play()
                while let frame = await frames.next() { times.append(frame.presentationTime) }
                let size = wanted.count / (rate * 2)
                let picture = Data(first.packedBytes())
                #expect(picture == wanted[(number * size)..<((number + 1) * size)], "frame \(number)")
                #expect(times.count == rate * 2 - number)
                #expect(times == times.sorted())
            }
        }

        @Test("a paused engine shows the new place and stays paused; the clock is there") func seekPaused() async throws
        {
            try await withPage(["first.mp4"]) { page, _, _ in
                let engine = try await page.play("first.mp4")
                try await engine.pause()
                try await engine.seek(to: .milliseconds(1_500))
                try await Task.sleep(for: .milliseconds(300))
                #expect(await engine.status().position == .milliseconds(1_500))
                var latest: Duration?
                let frames = engine.frames.makeAsyncIterator()
                while latest != .milliseconds(1_500) { latest = await frames.next()?.presentationTime }
                try await engine.play()
                for await event in engine.events { if event == .ended { break } }
                await #expect(throws: PlaybackError.wrongState(call: "seek", state: "ended")) {
                    try await engine.seek(to: .zero)
                }
            }
        }

        @Test("of seeks in a row the newest is carried out, the others say so; beyond the end is the end") func seeks()
            async throws
        {
            try await withPage(["first.mp4"]) { page, _, _ in
                let engine = try await page.play("first.mp4")
                let consumer = Task { for await _ in engine.frames {} }
                let outcomes = await withTaskGroup(of: String.self) { group in
                    for number in 0..<20 {
                        group.addTask {
                            do {
                                try await engine.seek(to: .milliseconds(number * 90))
                                return "done"
                            } catch { return "\(error)" }
                        }
                    }
                    return await group.reduce(into: [String: Int]()) { $0[$1, default: 0] += 1 }
                }
                #expect((outcomes["done"] ?? 0) >= 1)
                #expect(outcomes.values.reduce(0, +) == 20 && outcomes.count <= 2, "\(outcomes)")
                try await engine.seek(to: .seconds(90))
                for await event in engine.events { if event == .ended { break } }
                await consumer.value
            }
        }

        @Test("PAGE-2: what seeks when its page is left starts nowhere; a stop ends the seek") func leftDuringSeek()
            async throws
        {
            try await withPage(["first.mp4"]) { page, runtime, _ in
                for delay in 0..<12 {
                    try await runtime.enter(page)
                    let engine = try await page.play("first.mp4")
                    let seek = Task { try await engine.seek(to: .milliseconds(1_700)) }
                    try await Task.sleep(for: .microseconds(delay * 150))
                    await runtime.leave(page)
                    switch await seek.result {
                    case .success: break
                    case .failure(let error): #expect(error as? PlaybackError == .stopped)
                    }
                    #expect(await runtime.statistics().liveEngines == 0)
                }
            }
        }

        @Test("seeks of an engine that stands still, one after the other, each give their frame")
        func seeksWhilePaused()
            async throws
        {
            try await withPage(["first.mp4"]) { page, _, _ in
                let engine = try await page.play("first.mp4")
                let frames = engine.frames.makeAsyncIterator()
                _ = await frames.next()
                try await engine.pause()
                try await Task.sleep(for: .milliseconds(100))  // decoded ahead, and nobody takes it
                for milliseconds in [1_500, 300, 1_900, 0, 1_000] {
                    try await engine.seek(to: .milliseconds(milliseconds))
                    let frame = try #require(await frames.next())
                    #expect(frame.presentationTime <= .milliseconds(milliseconds))
                    #expect(frame.presentationTime + frame.duration > .milliseconds(milliseconds))
                    try await Task.sleep(for: .milliseconds(50))
                }
                try await engine.seek(to: .seconds(2))  // the end has a picture, too
                let last = try #require(await frames.next())
                #expect(last.presentationTime > .milliseconds(1_950))
            }
        }

        @Test("a seek to where only sound is left goes on with it") func seekIntoSound() async throws {
            try await withPage(["longsound.mp4"]) { page, _, _ in
                let engine = try await page.play("longsound.mp4")
                let consumer = Task { for await _ in engine.frames {} }
                try await engine.seek(to: .milliseconds(5_500))
                for await event in engine.events { if event == .ended { break } }
                #expect(await engine.status().position >= .milliseconds(5_900))
                await consumer.value
            }
        }

        @Test("a file whose own times begin late begins at zero, and is exact in seeks") func seekInLateFile()
            async throws
        {
            try await withPage(["late.ts"]) { page, _, _ in
                let engine = try await page.play("late.ts")
                let frames = engine.frames.makeAsyncIterator()
                let first = try #require(await frames.next()).presentationTime
                #expect(first == .zero)
                try await engine.pause()
                for offset in [3_000, 1_200, 3_900] {
                    let place = first + .milliseconds(offset)
                    try await engine.seek(to: place)
                    let frame = try #require(await frames.next())
                    #expect(frame.presentationTime <= place && frame.presentationTime > place - .milliseconds(41))
                }
            }
        }

        @Test("PAGE-9: a pause, or a stop, while bytes are missing stays one when they come")
        func pausedWhileBuffering()
            async throws
        {
            let folder = try await Stage.shared.clips()
            let loop = try LoopThread()
            // The first frame comes soon, the rest of the clip in seconds.
            let shape = NetworkShape(roundTrip: .milliseconds(5), bitsPerSecond: 400_000)
            let origin = try await OriginServer.start(folder: folder, shape: shape, on: loop)
            let cache = FileManager.default.temporaryDirectory.path() + "/ff-cache-\(UUID().uuidString)"
            var configuration = RuntimeConfiguration()
            configuration.cacheDirectory = cache
            let runtime = try await FeedRuntime.start(engines: FFmpegEngines(), configuration: configuration)
            let page = try await runtime.makePage("page", strategies: [])
            try await runtime.enter(page)
            try await page.setSources([FeedEntry(try URLSource(url: origin.baseURL + "/first.mp4"), id: "a")])
            let engine = try await page.play("a")
            #expect(await !engine.status().isComplete)
            try await engine.pause()
            let position = await engine.status().position
            while await !engine.status().isComplete { try await Task.sleep(for: .milliseconds(20)) }
            try await Task.sleep(for: .milliseconds(300))
            #expect(await engine.status().position == position)  // the buffer has filled, and it stands still
            await engine.stop()
            try await Task.sleep(for: .milliseconds(100))
            await #expect(throws: PlaybackError.stopped) { try await engine.play() }
            // And near the end, with the middle not fetched, it goes on and ends.
            await runtime.clearAll()
            await runtime.clearCache()
            try await runtime.enter(page)
            let again = try await page.play("a")
            let consumer = Task { for await _ in again.frames {} }
            try await again.seek(to: .milliseconds(1_700))
            #expect(await !again.status().isComplete)
            for await event in again.events { if event == .ended { break } }
            await consumer.value
            await runtime.shutdown()
            await origin.stop()
            loop.stop()
            try? FileManager.default.removeItem(atPath: cache)
        }
    }
}
