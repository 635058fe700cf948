import FeedStrategy
import FeedVocabulary
import Testing

@Suite("Throughput estimate") struct ThroughputEstimateTests {
    @Test("a drop is believed at once, a rise only when it lasts") func lower() throws {
        var estimate = ThroughputEstimate()
        #expect(estimate.bytesPerSecond == nil)
        for _ in 0..<400 { estimate.add(bytes: 500_000, over: .milliseconds(500)) }
        let steady = try #require(estimate.bytesPerSecond)
        #expect(abs(steady - 1_000_000) < 1)
        var dropped = estimate
        for _ in 0..<6 { dropped.add(bytes: 50_000, over: .milliseconds(500)) }  // 3 s at a tenth
        let low = try #require(dropped.bytesPerSecond)
        #expect(abs(low - 550_000) < 1, "the quick average's half life is 3 s")
        var risen = estimate
        for _ in 0..<18 { risen.add(bytes: 5_000_000, over: .milliseconds(500)) }  // 9 s at ten times
        let high = try #require(risen.bytesPerSecond)
        #expect(abs(high - 5_500_000) < 100, "the slow average's half life is 9 s")
    }
    @Test("tiny transfers tell nothing") func tiny() {
        var estimate = ThroughputEstimate()
        estimate.add(bytes: 16 * 1024 - 1, over: .milliseconds(1))
        #expect(estimate.bytesPerSecond == nil)
    }
    @Test("transfers together are measured while one of them runs, and idle time counts for nothing") func meter()
        throws
    {
        var meter = TransferMeter()
        meter.begin(at: .zero)
        meter.begin(at: .milliseconds(100))
        meter.received(40_000, at: .milliseconds(200))
        meter.received(60_000, at: .milliseconds(400))
        meter.end(at: .milliseconds(400))
        #expect(meter.estimate.bytesPerSecond == nil)
        meter.end(at: .milliseconds(400))
        let first = try #require(meter.estimate.bytesPerSecond)
        #expect(abs(first - 250_000) < 1)
        meter.begin(at: .seconds(60))
        meter.received(100_000, at: .seconds(60.4))
        meter.end(at: .seconds(60.4))
        let second = try #require(meter.estimate.bytesPerSecond)
        #expect(abs(second - 250_000) < 1)
    }
}

@Suite("Rate limiter") struct RateLimiterTests {
    @Test("in the long run exactly the rate, one request at a time") func rate() {
        var limiter = RateLimiter(bytesPerSecond: 100_000)
        var (now, bytes) = (Duration.zero, Int64(0))
        while bytes < 1_000_000 {
            now = limiter.due(at: now) ?? now
            limiter.began(32_768, at: now)
            bytes += 32_768
        }
        // The last request has begun, and its bytes still have their time.
        let last = limiter.due(at: now)
        #expect(abs((last ?? .zero) / .seconds(1) - Double(bytes) / 100_000) < 0.001)
    }
    @Test("another rate counts for what was asked for before it") func change() {
        var limiter = RateLimiter(bytesPerSecond: 1_000)
        limiter.began(32_000, at: .zero)
        #expect(limiter.due(at: .zero) == .seconds(32))
        limiter.setRate(16_000, at: .zero)
        #expect(limiter.due(at: .zero) == .seconds(2))
        limiter.setRate(nil, at: .seconds(1))
        #expect(limiter.due(at: .seconds(1)) == nil)
    }
    @Test("idle time is not saved up") func noBurst() {
        var limiter = RateLimiter(bytesPerSecond: 100_000)
        limiter.began(50_000, at: .seconds(100))
        #expect(limiter.due(at: .seconds(100)) == .seconds(100.5))
        #expect(limiter.due(at: .seconds(101)) == nil)
    }
    @Test("a tenth of a second a request, within 32 KB and 256 KB") func segments() {
        #expect(RateLimiter(bytesPerSecond: 1_000).segment == 32_768)
        #expect(RateLimiter(bytesPerSecond: 1_000_000).segment == 100_000)
        #expect(RateLimiter(bytesPerSecond: 100_000_000).segment == 262_144)
        #expect(RateLimiter().segment == nil && RateLimiter().due(at: .zero) == nil)
    }
}

@Suite("Pacing") struct PacingPolicyTests {
    @Test("three quarters of the network together, half again as fast as the clip plays") func shares() {
        let rates = PacingPolicy.rates(
            isComfortable: true, mediaRate: 200_000, isComplete: false, throughput: 1_000_000)
        #expect(rates == .init(readAhead: 300_000, background: 450_000))
        let whole = PacingPolicy.rates(isComfortable: true, mediaRate: nil, isComplete: true, throughput: 1_000_000)
        #expect(whole == .init(readAhead: nil, background: 750_000))
    }
    @Test("a network that is hardly faster than the clip gives strategies what is left, and a little at least")
    func narrow() {
        for (media, background) in [(600_000.0, Int64(340_000)), (990_000, 125_000)] {
            let rates = PacingPolicy.rates(
                isComfortable: true, mediaRate: media, isComplete: false, throughput: 1_000_000)
            #expect(rates.readAhead == nil && abs((rates.background ?? 0) - background) <= 1)
        }
    }
    @Test("a clip that needs its bytes gets them all") func uncomfortable() {
        let cases: [(Bool, Double?, Double)] = [(false, 200_000, 1e6), (false, 600_000, 1e6), (true, nil, 1e6)]
        for (comfortable, media, network) in cases {
            let rates = PacingPolicy.rates(
                isComfortable: comfortable, mediaRate: media, isComplete: false, throughput: network)
            #expect(rates == .init())
        }
        #expect(
            PacingPolicy.rates(isComfortable: true, mediaRate: 1, isComplete: true, throughput: nil) == .init())
    }
}

@Suite("Automatic policy") struct AutomaticPolicyTests {
    private func choice(_ change: (inout AutomaticPolicy.Sight) -> Void) -> AutomaticPolicy.Choice {
        var sight = AutomaticPolicy.Sight()
        (sight.throughput, sight.mediaRate) = (1_000_000, 187_500)  // 8 and 1.5 Mbit/s
        (sight.firstFrame, sight.dwell) = (80_000, .seconds(5))
        change(&sight)
        return AutomaticPolicy.choose(sight, within: .automatic)
    }
    @Test("a network five times as fast as the clip needs three seconds buffered, not fifteen") func headroom() {
        let fast = choice { _ in }
        #expect(fast.start == 3 && fast.stop == 1.5 && fast.inFlight == 2)
        let narrow = choice { $0.throughput = 187_500 * 1.25 }
        #expect(narrow.start == 12 && narrow.stop == 5 && narrow.inFlight == 1)
        let slow = choice { $0.throughput = 100_000 }
        #expect(slow.start == 15 && slow.stop == 5)
    }
    @Test("what nobody has measured gets the published limits") func unknown() {
        let choice = AutomaticPolicy.choose(AutomaticPolicy.Sight(), within: .automatic)
        #expect(choice.start == 15 && choice.stop == 5 && choice.count == 3)
        #expect(choice.firstFrame == AutomaticPolicy.usualFirstFrame)
    }
    @Test("the faster the viewer, the more entries; as many first frames as the network brings in four seconds")
    func count() {
        #expect(choice { $0.dwell = .seconds(10) }.count == 2)
        #expect(choice { $0.dwell = .seconds(3) }.count == 5)
        #expect(choice { $0.dwell = .seconds(1) }.count == 10)
        #expect(choice { ($0.dwell, $0.throughput) = (.seconds(1), 60_000) }.count == 3)
        #expect(choice { ($0.dwell, $0.throughput) = (.seconds(1), 1_000) }.count == 1)
        #expect(choice { ($0.dwell, $0.isMetered) = (.seconds(1), true) }.count == 2)
    }
    @Test("a hurry has half of them, and first frames only") func hurry() {
        let hurried = choice { ($0.dwell, $0.isHurried) = (.seconds(1), true) }
        #expect(hurried.count == 5 && !hurried.fills)
    }
    @Test("an entry has its first frame and what plays until the network has caught up") func size() {
        #expect(choice { _ in }.size == 80_000 + 187_500)
        #expect(choice { $0.throughput = 400_000 }.size == 80_000 + 2 * 187_500)
        #expect(choice { $0.throughput = 200_000 }.size == 80_000 + 4 * 187_500)
        #expect(choice { ($0.throughput, $0.dwell) = (200_000, .seconds(1)) }.size == 80_000 + 187_500)
    }
    @Test("absurd numbers of servers and clocks are no trap") func absurd() {
        for (rate, throughput) in [(1e300, nil), (1e300, 1.0), (0, 1e300), (-1, .infinity)] as [(Double, Double?)] {
            let absurd = choice { ($0.mediaRate, $0.throughput, $0.dwell) = (rate, throughput, .zero) }
            #expect((1...10).contains(absurd.count) && absurd.size > 0 && absurd.stop < absurd.start)
        }
        var none = PreloadConfiguration.automatic
        (none.count, none.behind) = (0, 2)
        var sight = AutomaticPolicy.Sight()
        sight.isHurried = true
        #expect(AutomaticPolicy.choose(sight, within: none).count == 0)
    }
    @Test("the configuration's own fields bound the choice") func bounds() {
        var most = PreloadConfiguration.automatic
        (most.count, most.size, most.startBufferLimit, most.stopBufferLimit) = (1, 50_000, 2, 1)
        var sight = AutomaticPolicy.Sight()
        sight.dwell = .seconds(1)
        let choice = AutomaticPolicy.choose(sight, within: most)
        #expect(choice.count == 1 && choice.size == 50_000 && choice.start == 2 && choice.stop == 1)
    }
}

@Suite("Startup resolution") struct StartupResolutionTests {
    private let offers: [StartupResolution.Offer] = [
        .init(resolution: .p360, codec: .h264, bitrate: 500_000),
        .init(resolution: .p480, codec: .h264, bitrate: 900_000),
        .init(resolution: .p720, codec: .h264, bitrate: 1_800_000),
        .init(resolution: .p720, codec: .hevc, bitrate: 1_200_000),
        .init(resolution: .p1080, codec: .h264, bitrate: 4_000_000),
    ]
    private func chosen(
        _ startup: StartupResolution = StartupResolution(), asked: Resolution? = nil, codec: VideoCodec? = nil,
        throughput: Double? = 10_000_000, isMetered: Bool = false
    ) -> String? {
        startup.choose(from: offers, asked: asked, codec: codec, throughput: throughput, isMetered: isMetered)
            .map { "\(offers[$0].resolution) \(offers[$0].codec)" }
    }
    @Test("what is asked for wins, and falls to the nearest lower one, or the lowest") func asked() {
        #expect(chosen(asked: .p720, throughput: 1) == "720p h264")
        #expect(chosen(asked: .p540) == "480p h264")
        #expect(chosen(asked: .p2160) == "1080p h264")
        #expect(chosen(asked: .p240) == "360p h264")
        var startup = StartupResolution()
        startup.selected = .p480
        #expect(chosen(startup) == "480p h264")
        #expect(chosen(startup, asked: .p720) == "720p h264")
    }
    @Test("no more rows than the view has, the caps allow, and the network brings with a reserve") func rules() {
        #expect(chosen() == "1080p h264")
        #expect(chosen(StartupResolution(displayRows: 700)) == "720p h264")
        #expect(chosen(StartupResolution(cap: .p480)) == "480p h264")
        #expect(chosen(isMetered: true) == "480p h264")
        #expect(chosen(throughput: 1_800_001 / 8 / 0.7) == "720p h264")
        #expect(chosen(throughput: 1_700_000 / 8 / 0.7) == "480p h264")
        #expect(chosen(throughput: 1) == "360p h264", "something has to play")
        #expect(chosen(throughput: nil) == "720p h264", "nobody has measured the network")
    }
    @Test("the codec is taken where it is offered") func codec() {
        #expect(chosen(asked: .p720, codec: .hevc) == "720p hevc")
        #expect(chosen(asked: .p1080, codec: .av1) == "1080p h264")
    }
    @Test("nothing is chosen from nothing") func nothing() {
        #expect(
            StartupResolution().choose(from: [], asked: .p720, codec: nil, throughput: nil, isMetered: false) == nil)
    }
}
