import EventLoop
import FirstFrame
import FirstFrameFFmpeg
import Foundation
import Playback
import Testing

extension FFmpegSuites {
    @Suite("Loops and volume", .serialized) struct LoopTests {
        @Test(
            "PRELOAD-8: a list of one loops without a gap, its strategies on; the next pass begins where the last one ends"
        )
        func loop() async throws {
            var options = allFrames()
            options.loops = true
            try await withPage(["first.mp4"], strategies: FeedScene.smallVideo.strategies, options: options) {
                page, _, _ in
                let engine = try await page.play("first.mp4")
                var frames: [VideoFrame] = []
                for await frame in engine.frames {
                    frames.append(frame)
                    if frames.count == 150 { break }
                }
                let times = frames.map(\.presentationTime)
                #expect(times == times.sorted() && Set(times).count == 150)
                // 60 frames a pass; the sound is a little longer than the pictures, and nothing of it is cut off.
                for pass in 1...2 {
                    let (last, first) = (frames[60 * pass - 1], frames[60 * pass])
                    let gap = first.presentationTime - (last.presentationTime + last.duration)
                    #expect(gap >= .zero && gap < .milliseconds(100))
                    let isSame = frames[0].packedBytes() == first.packedBytes()
                    #expect(isSame)
                }
                #expect((0...2).contains(await engine.status().completedLoops))
                await engine.setLooping(false)
                var rest = 0
                for await _ in engine.frames { rest += 1 }
                #expect(rest <= 90, "it ends with the pass that has begun")
            }
        }
        @Test("with a clock, positions are those in the media, and the passes are counted") func positions()
            async throws
        {
            var options = EngineOptions()
            options.loops = true
            try await withPage(["silent.mp4"], options: options) { page, _, _ in
                let engine = try await page.play("silent.mp4")
                while await engine.status().completedLoops < 1 { try await Task.sleep(for: .milliseconds(20)) }
                #expect(await engine.status().position < .seconds(1))
                try await engine.seek(to: .seconds(1))
                #expect(await engine.status().position >= .seconds(1))
                try await engine.pause()
            }
        }
        @Test("a pass whose sound goes on after its pictures is heard to its end, after a seek into it too") func tail()
            async throws
        {
            var options = EngineOptions()
            (options.loops, options.rate) = (true, 4)
            try await withPage(["longsound.mp4"], options: options) { page, _, _ in
                let engine = try await page.play("longsound.mp4")
                try await engine.seek(to: .seconds(3))
                while await engine.status().completedLoops < 1 { try await Task.sleep(for: .milliseconds(20)) }
                #expect(await engine.status().position < .seconds(3))
                #expect(await engine.status().position >= .zero)
                await engine.setLooping(false)
                for await event in engine.events where event == .ended { break }
            }
        }
        @Test("sound is as loud as it is set, and silent at 0") func volume() async throws {
            var options = allFrames()
            options.audio = .host
            func loudest(_ volume: Float) async throws -> Float {
                var options = options
                options.volume = volume
                let found = Lock(Float(0))
                try await withPage(["sound.m4a"], options: options) { page, _, _ in
                    let engine = try await page.play("sound.m4a")
                    for await buffer in engine.audio {
                        let loudest = buffer.samples.map { abs($0) }.max() ?? 0
                        found.withLock { $0 = max($0, loudest) }
                    }
                }
                return found.withLock { $0 }
            }
            let (whole, half, none) = (try await loudest(1), try await loudest(0.5), try await loudest(0))
            #expect(whole > 0.05 && abs(half - whole / 2) < 0.001 && none == 0)
        }
    }
}

extension FFmpegSuites {
    @Suite("Rate", .serialized) struct RateTests {
        /// Crossings of zero from below, a second of sound: twice as many is an octave higher.
        private func pitch(_ samples: [Float], channels: Int, rate: Int) -> Double {
            let first = stride(from: 0, to: samples.count, by: channels).map { samples[$0] }
            let crossings = zip(first, first.dropFirst()).count { $0 < 0 && $1 >= 0 }
            return Double(crossings) / (Double(first.count) / Double(rate))
        }
        @Test(
            "sound takes its time divided by the rate, at the same pitch, and times are those of the media",
            arguments: [0.25, 0.5, 2, 4])
        func sound(rate: Double) async throws {
            var options = allFrames()
            (options.audio, options.rate) = (.host, rate)
            try await withPage(["sound.m4a"], options: options) { page, _, _ in
                var (samples, end, channels, sampleRate) = ([Float](), Duration.zero, 1, 1)
                for await buffer in try await page.play("sound.m4a").audio {
                    samples += buffer.samples
                    #expect(abs((buffer.presentationTime - end) / .milliseconds(1)) < 30)
                    end = buffer.presentationTime + buffer.duration
                    (channels, sampleRate) = (buffer.channelCount, buffer.sampleRate)
                }
                let seconds = Double(samples.count / channels) / Double(sampleRate)
                #expect(abs(seconds - 2 / rate) < 0.15, "\(seconds) s")
                #expect(abs(end / .seconds(1) - 2) < 0.3)
                #expect(abs(pitch(samples, channels: channels, rate: sampleRate) - 440) < 15)
            }
        }
        @Test("a change of the rate leaves the host's seek alone, and shows no picture twice") func seekAndRate()
            async throws
        {
            var options = EngineOptions()
            options.audio = .host
            try await withPage(["first.mp4"], options: options) { page, _, _ in
                let engine = try await page.play("first.mp4")
                try await engine.pause()
                async let seek: Void = engine.seek(to: .seconds(1))
                await engine.setRate(2)
                try await seek
                #expect(await engine.status().position == .seconds(1))
                let before = await engine.status().deliveredFrames
                await engine.setRate(0.5)
                try await Task.sleep(for: .milliseconds(300))
                #expect(await engine.status().deliveredFrames == before)
                #expect(await engine.status().position == .seconds(1))
            }
        }
        @Test("a start time in a file that begins with its pictures' first fragment is counted from there")
        func fragments()
            async throws
        {
            var options = EngineOptions()
            (options.pacing, options.startTime) = (.none, .seconds(1.5))
            try await withPage(["fragments.mp4"], options: options) { page, _, _ in
                let first = await (try await page.play("fragments.mp4")).frames.first { _ in true }
                let time = try #require(first?.presentationTime)
                #expect(time <= .seconds(1.5) && time > .seconds(1.4))
            }
        }
        @Test("a rate outside its range is clamped, and one that changes goes on from where it is") func change()
            async throws
        {
            var options = EngineOptions()
            (options.rate, options.audio) = (.infinity, .host)
            try await withPage(["first.mp4"], options: options) { page, _, _ in
                let engine = try await page.play("first.mp4")
                await engine.setRate(0.1)  // 0.25
                let start = await engine.status().position
                try await Task.sleep(for: .milliseconds(400))
                let moved = await engine.status().position - start
                #expect(moved < .milliseconds(400), "it is slower than usual")
                await engine.setRate(9)  // 4
                for await event in engine.events where event == .ended { break }
                #expect(await engine.status().position > .seconds(1.5))
            }
        }
    }
}

extension FFmpegSuites {
    @Suite("Playback clock") struct PlaybackClockTests {
        @Test("a rate counts from when it is set, and nothing jumps") func rates() {
            func at(_ milliseconds: Int) -> LoopInstant { LoopInstant(offset: .milliseconds(milliseconds)) }
            var clock = PlaybackClock(at: .seconds(1), rate: 2)
            clock.start(at: at(0))
            #expect(clock.position(at: at(1_000)) == .seconds(3))
            #expect(clock.instant(of: .seconds(5)) == at(2_000))
            clock.setRate(0.5, at: at(1_000))
            #expect(clock.position(at: at(1_000)) == .seconds(3))
            #expect(clock.position(at: at(2_000)) == .seconds(3.5))
            #expect(clock.instant(of: .seconds(4)) == at(3_000))
            clock.stop(at: at(2_000))
            clock.setRate(4, at: at(9_000))
            #expect(clock.position(at: at(9_000)) == .seconds(3.5) && clock.instant(of: .seconds(4)) == nil)
        }
    }
}
