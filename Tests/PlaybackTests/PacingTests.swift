import EventLoop
import Playback
import Testing

/// A player in virtual time: decoded pictures and sound, a clock, and nothing else.
private struct Player {
    var now = LoopInstant(offset: .zero)
    var clock = PlaybackClock(at: .zero)
    /// By the time from which each is decoded.
    var video: [(time: Duration, decoded: Duration)] = []
    var audio: [(time: Duration, decoded: Duration)] = []
    var deliveredUntil = Duration.zero
    var shown: [(time: Duration, at: Duration)] = []
    var dropped = 0
    var sounds: [(time: Duration, at: Duration)] = []
    var stalls = 0
    /// Whether what is not decoded has not come, rather than being decoded slowly.
    var lacksBytes = true

    /// Runs to the end; a stall lasts until the next picture is decoded.
    mutating func run() {
        clock.start(at: now)
        while true {
            let ready = video.filter { $0.decoded <= now.offset }.prefix(2)
            var front = FramePacer.Front()
            (front.video, front.nextVideo) = (ready.first?.time, ready.dropFirst().first?.time)
            front.audio = audio.first { $0.decoded <= now.offset }?.time
            front.isDone = video.isEmpty && audio.isEmpty
            let position = clock.position(at: now)
            let isDry = front.video == nil && front.audio == nil
            switch FramePacer.step(
                front, at: position, deliveredUntil: deliveredUntil, isStarving: { isDry && lacksBytes })
            {
            case .giveSound:
                let piece = audio.removeFirst()
                sounds.append((piece.time, now.offset))
            case .giveSubtitle: return
            case .showFrame:
                let frame = video.removeFirst()
                shown.append((frame.time, position))
                deliveredUntil = max(deliveredUntil, frame.time + .milliseconds(33))
            case .dropFrame:
                video.removeFirst()
                dropped += 1
            case .finish: return
            case .stall:
                stalls += 1
                clock.freeze(at: deliveredUntil)
                now = LoopInstant(offset: (video + audio).map(\.decoded).min() ?? now.offset)
                clock.start(at: now)
            case .wait(let time):
                let decoded = (video + audio).map(\.decoded).filter { $0 > now.offset }.min()
                let due = time.flatMap { clock.instant(of: $0) }?.offset
                guard let next = [decoded, due].compactMap({ $0 }).min() else { return }
                now = LoopInstant(offset: max(next, now.offset))
            }
        }
    }
}

@Suite("Pacing") struct PacingTests {
    @Test("frames of any rate come at their time, within half a frame, and none is dropped", arguments: 0..<50)
    func onTime(seed: Int) {
        var random = SplitMix64(seed: UInt64(seed))
        var player = Player()
        var time = Duration.zero
        for _ in 0..<500 {
            player.video.append((time, max(.zero, time - .milliseconds(100))))
            time += .microseconds(Int64.random(in: 8_000...120_000, using: &random))
        }
        let times = player.video.map(\.time)
        player.run()
        #expect(player.shown.map(\.time) == times)
        #expect(player.dropped == 0 && player.stalls == 0)
        for (time, at) in player.shown { #expect(at - time >= .zero && at - time <= .milliseconds(4)) }
    }

    @Test("late frames are dropped, sound never, and the last picture is shown", arguments: 0..<50)
    func late(seed: Int) {
        var random = SplitMix64(seed: UInt64(seed))
        var player = Player()
        player.lacksBytes = false
        for number in 0..<300 {
            let time = Duration.milliseconds(33) * number
            // Decoding falls behind at times, and catches up.
            let delay = number % 60 > 40 ? Int64.random(in: 0...400, using: &random) : -100
            player.video.append((time, max(player.video.last?.decoded ?? .zero, time + .milliseconds(delay))))
            player.audio.append((time, max(.zero, time - .milliseconds(500))))
        }
        player.run()
        #expect(player.sounds.count == 300)
        for (time, at) in player.sounds { #expect(at <= max(.zero, time - FramePacer.soundLead)) }
        #expect(player.shown.count + player.dropped == 300)
        #expect(player.shown.last?.time == .milliseconds(33) * 299)
        // A picture that is shown late has no successor that would have been due.
        for (index, frame) in player.shown.enumerated().dropLast() where frame.at - frame.time > .milliseconds(33) {
            #expect(player.shown[index + 1].at >= frame.at)
        }
    }

    @Test("a stall freezes the clock, and what follows comes in step again") func stall() {
        var player = Player()
        for number in 0..<100 {
            let time = Duration.milliseconds(33) * number
            player.video.append((time, number < 50 ? .zero : time + .seconds(2)))
        }
        player.run()
        #expect(player.stalls >= 1)
        #expect(player.dropped == 0)
        for (time, at) in player.shown { #expect(at - time >= .zero && at - time <= .milliseconds(17)) }
    }

    @Test(
        "24 hours of sound on a device that is 100 ppm fast or slow: pictures stay within 10 ms",
        arguments: [1e-4, -1e-4])
    func day(skew: Double) {
        var clock = PlaybackClock(at: .zero)
        var now = LoopInstant(offset: .zero)
        clock.start(at: now)
        var worst = Duration.zero
        let buffer = Duration.microseconds(21_333)  // 1,024 samples at 48 kHz
        var (heard, last) = (Duration.zero, Duration.zero)
        while now.offset < .seconds(86_400) {
            now = now.advanced(by: buffer)
            heard += buffer + .nanoseconds(Int64(21_333_000 * skew))
            guard let drift = clock.follow(heard, at: now) else {
                Issue.record("the clock stands")
                return
            }
            worst = max(worst, max(drift, .zero - drift))
            let position = clock.position(at: now)
            #expect(position > last, "pictures never go back")
            last = position
        }
        #expect(worst < .milliseconds(10))
        #expect(abs((heard - now.offset) / .seconds(1)) > 8)  // by itself the clock would be seconds off
    }

    @Test("24 hours of the clock alone are 24 hours, at any rate", arguments: [0.25, 1, 1.5, 4])
    func alone(rate: Double) {
        var clock = PlaybackClock(at: .zero, rate: rate)
        var now = LoopInstant(offset: .zero)
        clock.start(at: now)
        // Stopped and started every second, as a viewer never would.
        for _ in 0..<86_400 {
            now = now.advanced(by: .seconds(1))
            clock.stop(at: now)
            clock.start(at: now)
        }
        #expect(clock.position(at: now) == .seconds(86_400 * rate))
    }

    @Test("sound that is far away is followed at once, near sound little by little") func follows() {
        var clock = PlaybackClock(at: .zero)
        #expect(clock.follow(.seconds(1), at: LoopInstant(offset: .zero)) == nil, "it stands")
        clock.start(at: LoopInstant(offset: .zero))
        let now = LoopInstant(offset: .seconds(1))
        #expect(clock.follow(.milliseconds(1_040), at: now) == .milliseconds(40))
        #expect(clock.position(at: now) == .milliseconds(1_005))
        #expect(clock.follow(.milliseconds(700), at: now) == .milliseconds(-305))
        #expect(clock.position(at: now) == .milliseconds(700))
    }
}
