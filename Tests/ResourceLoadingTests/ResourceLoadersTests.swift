import EventLoop
import FeedStrategy
import FeedVocabulary
import HTTPTransport
import MediaCache
import Simulation
import TestSupport
import Testing

@testable import ResourceLoading

/// Loaders on a simulated network and disk.
private struct World {
    let loop: SimulatedLoop
    let network: SimulatedNetwork
    let disk: SimulatedDisk
    let cache: MediaCache
    let loaders: ResourceLoaders
    let resource: Resource
    let content: [UInt8]
    static let url = "http://simulated.test/a.mp4"

    init(seed: UInt64, bytes: Int = 1_000_000, _ change: (inout SimulatedNetwork.Resource) -> Void = { _ in }) throws {
        let loop = SimulatedLoop(seed: seed)
        let disk = SimulatedDisk(loop: loop)
        (self.loop, self.disk) = (loop, disk)
        let network = SimulatedNetwork(loop: loop, roundTrip: .milliseconds(20), bytesPerSecond: 10_000_000)
        self.network = network
        content = (0..<bytes).map { UInt8(truncatingIfNeeded: $0 &* 7 &+ $0 >> 8) }
        var served = SimulatedNetwork.Resource(bytes: content, validator: "\"1\"")
        change(&served)
        let answer = served
        cache = try #require(
            try loop.run { () -> MediaCache in
                await network.serve(Self.url, answer)
                var configuration = CacheConfiguration(directory: "/c")
                configuration.freeDiskGuard = 0
                return try await MediaCache.open(configuration, on: loop, files: disk, index: .memory(nil))
            })
        loaders = ResourceLoaders(on: loop, cache: cache, transport: network)
        resource = Resource(key: try CacheKey("a"), urls: [Self.url])
    }

    func readAll(_ priority: LoadPriority = .current) async throws -> [UInt8] {
        let reader = try await loaders.open(resource, priority: priority, readAhead: 256 * 1024)
        var bytes: [UInt8] = []
        while true {
            let piece = try await reader.read(at: Int64(bytes.count), count: 100_000)
            if piece.isEmpty { break }
            bytes += piece
        }
        await reader.close()
        return bytes
    }
}

@Suite("Resource loaders") struct ResourceLoadersTests {
    @Test("CONC-7: 64 readers of one resource cause one transfer of each byte", arguments: UInt64(0)..<6)
    func singleFlight(seed: UInt64) throws {
        let world = try World(seed: seed)
        let done = Lock(0)
        for _ in 0..<64 {
            world.loop.spawn {
                let bytes = try? await world.readAll()
                #expect(bytes == world.content)
                done.withLock { $0 += 1 }
            }
        }
        world.loop.advance(by: .seconds(60))
        #expect(done.withLock { $0 } == 64)
        let ended: Void? = try world.loop.run {
            #expect(await world.loaders.traffic.bytesFetched == 1_000_000)
            #expect(await world.loaders.openCount == 0)
        }
        #expect(ended != nil, "it hangs")
    }

    @Test("what is on disk is not fetched again, also by a reader that comes later") func fromDisk() throws {
        let world = try World(seed: 1)
        let ended: Void? = try world.loop.run {
            _ = try await world.readAll()
            await world.network.setDown(true)
            let bytes1 = try await world.readAll()
            #expect(bytes1 == world.content)
        }
        #expect(ended != nil, "it hangs")
    }

    @Test("HTTP-5: a broken transfer goes on where the bytes ended") func resumes() throws {
        let world = try World(seed: 2) { $0.breaksAfter = 100_000 }
        let ended: Void? = try world.loop.run {
            let bytes2 = try await world.readAll()
            #expect(bytes2 == world.content)
            let ranges = await world.network.requestedRanges(of: World.url)
            #expect(ranges.dropFirst().first??.lowerBound == 98_304)  // six whole pieces of 16 KB came
            #expect(await world.loaders.traffic.bytesFetched == 1_000_000)
        }
        #expect(ended != nil, "it hangs")
    }

    @Test("HTTP-1: a 200 to a range request is used from byte 0") func whole() throws {
        let world = try World(seed: 3) { $0.supportsRanges = false }
        let ended: Void? = try world.loop.run {
            let reader = try await world.loaders.open(world.resource, priority: .current, readAhead: 0)
            let bytes3 = try await reader.read(at: 1_000, count: 500)
            #expect(bytes3 == Array(world.content[1_000..<1_500]))
            await reader.close()
            let bytes4 = try await world.readAll()
            #expect(bytes4 == world.content)
        }
        #expect(ended != nil, "it hangs")
    }

    @Test("LIMIT-8: failures are tried a bounded number of times, then told") func budget() throws {
        let world = try World(seed: 4) { ($0.failures, $0.failureStatus) = (100, 503) }
        let ended: Void? = try world.loop.run {
            await #expect(throws: LoadError.status(503, url: World.url)) { try await world.readAll() }
            #expect(await world.network.requests.count == 1 + RetryPolicy.maximumRetries)
        }
        #expect(ended != nil, "it hangs")
    }

    @Test("a passing failure is retried and not noticed") func passing() throws {
        let world = try World(seed: 5) { ($0.failures, $0.failureStatus) = (2, 503) }
        let bytes = try world.loop.run { try await world.readAll() }
        #expect(bytes == world.content)
    }

    @Test("CACHE-5: a changed validator never mixes two versions") func changed() throws {
        let world = try World(seed: 6)
        let other = [UInt8](repeating: 9, count: 1_000_000)
        let ended: Void? = try world.loop.run {
            let reader = try await world.loaders.open(world.resource, priority: .current, readAhead: 0)
            _ = try await reader.read(at: 0, count: 1_000)
            await world.network.serve(World.url, .init(bytes: other, validator: "\"2\""))
            await #expect(throws: LoadError.self) { _ = try await reader.read(at: 500_000, count: 1_000) }
            await reader.close()
            let bytes5 = try await world.readAll()
            #expect(bytes5 == other)
        }
        #expect(ended != nil, "it hangs")
    }

    @Test("DISK-1: a full disk costs the cache, not the bytes; the host learns of it once") func fullDisk() throws {
        let world = try World(seed: 7)
        let ended: Void? = try world.loop.run {
            await world.disk.setCapacity(200_000)
            let bytes6 = try await world.readAll()
            #expect(bytes6 == world.content)
            guard case .write = await world.loaders.takeCacheFailure() else {
                Issue.record("no failure was reported")
                return
            }
            #expect(await world.loaders.takeCacheFailure() == nil)
        }
        #expect(ended != nil, "it hangs")
    }

    @Test("PRELOAD-3: a preload fetches its size and no more; CACHE-8: reading past the end ends") func prefetch()
        throws
    {
        let world = try World(seed: 8)
        let ended: Void? = try world.loop.run {
            try await world.loaders.prefetch(world.resource, .bytes(300_000), priority: .preload)
            #expect(await world.loaders.traffic.bytesFetched == 300_000)
            let reader = try await world.loaders.open(world.resource, priority: .current, readAhead: 0)
            let bytes7 = try await reader.read(at: 1_000_010, count: 10)
            #expect(bytes7.isEmpty)
            #expect(await world.network.requests.count == 1)
            await reader.close()
        }
        #expect(ended != nil, "it hangs")
    }

    @Test("MEDIA-1: an index at the end is asked for as soon as the first bytes tell of it, with one request")
    func indexAtEnd()
        throws
    {
        let world = try World(seed: 10)
        let url = "http://simulated.test/last.mp4"
        let ended: Void? = try world.loop.run {
            await world.network.serve(url, .init(bytes: movie(media: 900_000, index: 20_000), validator: "\"1\""))
            let resource = Resource(key: try CacheKey("last"), urls: [url])
            let reader = try await world.loaders.open(resource, priority: .current, readAhead: 8_000_000)
            let head = try await reader.read(at: 0, count: 64)
            #expect(head.count == 64)
            let ranges = await world.network.requestedRanges(of: url).map { $0 ?? 0..<0 }
            #expect(ranges.count == 2 && ranges.last == 900_016..<920_016)
            let before = await world.network.requests.count
            let index = try await reader.read(at: 900_016, count: 20_000)
            #expect(!index.isEmpty)
            let more = await world.network.requestedRanges(of: url).dropFirst(before).compactMap { $0 }
            #expect(more.allSatisfy { !$0.overlaps(900_016..<920_016) }, "each byte once")
            await reader.close()
        }
        #expect(ended != nil, "it hangs")
    }

    /// A file whose index is at the end or in front, as far as its boxes tell.
    private func movie(media: Int, index: Int, isIndexFirst: Bool = false) -> [UInt8] {
        func empty(_ type: String, _ size: Int) -> [UInt8] { box(type, [UInt8](repeating: 0, count: size - 8)) }
        let (media, index) = (empty("mdat", media), empty("moov", index))
        return empty("ftyp", 16) + (isIndexFirst ? index + media : media + index)
    }

    /// The first requests of a play from the start, when a megabyte has come from the same server.
    private func firstRequests(_ bytes: [UInt8], firstFrameEnds: [Int64]) throws -> [ByteRange] {
        let world = try World(seed: 11)
        let url = "http://simulated.test/next.mp4"
        return try #require(
            try world.loop.run { () -> [ByteRange] in
                await world.network.serve(url, .init(bytes: bytes, validator: "\"1\""))
                _ = try await world.readAll()
                for end in firstFrameEnds { await world.loaders.learned(firstFrameEnd: end) }
                let resource = Resource(key: try CacheKey("next"), urls: [url])
                let reader = try await world.loaders.open(resource, priority: .current, readAhead: 8_000_000)
                _ = try await reader.read(at: 0, count: 64)
                let ranges = await world.network.requestedRanges(of: url).compactMap { $0 }
                await reader.close()
                return ranges
            }, "it hangs")
    }

    @Test("what follows a short first request is asked for as soon as its first bytes are there")
    func secondRequest() throws {
        let clip = movie(media: 900_000, index: 20_000, isIndexFirst: true)
        let ranges = try firstRequests(clip, firstFrameEnds: [200_000])
        #expect(ranges == [0..<212_992, 212_992..<737_280])
        #expect(try firstRequests(clip, firstFrameEnds: []) == [0..<262_144])
    }

    @Test("an index at the end comes before what follows a short first request") func indexBeforeSecondRequest() throws
    {
        let ranges = try firstRequests(movie(media: 900_000, index: 20_000), firstFrameEnds: [200_000])
        #expect(ranges == [0..<212_992, 900_016..<920_016])
    }

    @Test("what the cache has never heard of is asked for while it makes the file, and is stored there")
    func asksBeforeFile() throws {
        let world = try World(seed: 12)
        let ended: Void? = try world.loop.run {
            let reader = try await world.loaders.open(world.resource, priority: .current, readAhead: 100_000)
            #expect(await world.network.requests.count == 1)
            #expect(try await reader.readAll(count: 1_000_000) == world.content)
            await reader.close()
            #expect(await world.cache.used == 1_000_000)
            let again = try await world.loaders.open(world.resource, priority: .current, readAhead: 1_000_000)
            #expect(try await again.readAll(count: 1_000_000) == world.content)
            #expect(await world.loaders.traffic.bytesFetched == 1_000_000, "each byte once")
            await again.close()
        }
        #expect(ended != nil, "it hangs")
    }

    @Test("where a first frame's bytes are there, reading ahead begins 50 ms later; what is waited for comes at once")
    func calm() throws {
        for firstFrame in [200_000, 200_001] as [Int64] {
            let world = try World(seed: 13)
            let ended: Void? = try world.loop.run {
                try await world.loaders.prefetch(world.resource, .bytes(200_000), priority: .preload)
                await world.loaders.learned(firstFrameEnd: firstFrame)
                func begin() async throws -> ByteReader {
                    try await world.loaders.open(world.resource, priority: .current, readAhead: 500_000)
                }
                func count() async -> Int { await world.network.requests.count }
                let reader = try await begin()
                try await world.loop.sleep(for: .milliseconds(49))
                #expect(await count() == (firstFrame > 200_000 ? 2 : 1), "\(firstFrame) bytes")
                try await world.loop.sleep(for: .milliseconds(2))
                #expect(await count() == 2)
                await reader.close()
                let other = try await begin()
                let before = world.loop.now
                _ = try await other.read(at: 900_000, count: 10)
                #expect(before.duration(to: world.loop.now) < .milliseconds(40), "a round trip")
                await other.close()
            }
            #expect(ended != nil, "it hangs")
        }
    }

    @Test("cancelling one of two who wait ends only its own wait") func cancelOne() throws {
        let world = try World(seed: 9)
        let ended: Void? = try world.loop.run {
            let first = world.loop.spawn { _ = try? await world.readAll(.preload) }
            let second = Task(executorPreference: world.loop) { try await world.readAll() }
            try await world.loop.sleep(for: .milliseconds(30))
            first.cancel()
            #expect(try await second.value == world.content)
        }
        #expect(ended != nil, "it hangs")
    }
}

@Suite("First request") struct FirstRequestTests {
    private func size(
        _ firstFrameEnds: [Int64], roundTrip: Duration? = .milliseconds(20), connections: Int = 2,
        throughput: Double? = 1_000_000
    ) -> Int64 {
        var request = FirstRequest()
        for end in firstFrameEnds { request.learned(firstFrameEnd: end) }
        return request.size(
            path: roundTrip.map { ServerPath(roundTrip: $0, connections: connections) }, throughput: throughput)
    }

    @Test("it asks for the largest first frame of late, in steps of 16 KB") func firstFrame() {
        #expect(size([40_000]) == 49_152)
        #expect(size([40_000, 90_000, 20_000]) == 98_304)
        #expect(size([200_000] + [Int64](repeating: 10_000, count: 8)) == 32_768, "20 KB for the round trip")
    }

    @Test("it asks for what a round trip brings at least, and for 256 KB at most") func roundTrip() {
        #expect(size([40_000], roundTrip: .milliseconds(80)) == 81_920)
        #expect(size([40_000], roundTrip: .seconds(60)) == 262_144)
        #expect(size([9_000_000]) == 262_144)
    }

    @Test("it asks for 256 KB while first frames, throughput or way are not known, or no other connection is open")
    func unknown() {
        #expect(size([]) == 262_144)
        #expect(size([40_000], throughput: nil) == 262_144)
        #expect(size([40_000], roundTrip: nil) == 262_144)
        #expect(size([40_000], connections: 1) == 262_144)
    }
}

@Suite("Answer judge") struct AnswerJudgeTests {
    private func judge(
        _ status: Int, _ fields: [(String, String)], requested: ByteRange = 5_000..<6_000,
        known: ContentInformation? = nil, storedEnd: Int64 = 0
    ) throws -> (AnswerJudge.Verdict, ContentInformation) {
        try AnswerJudge(requested: requested, known: known, storedEnd: storedEnd, now: WallTime(secondsSince1970: 0))
            .judge(HTTPResponseHead(status: status, headers: HTTPHeaders(fields), url: "http://h/x"))
    }

    @Test("HTTP-2, HTTP-3: a 206 is placed by its Content-Range, and the total comes from there") func part() throws {
        let (verdict, information) = try judge(
            206, [("Content-Range", "bytes 4096-9999/10000"), ("Content-Length", "5904")])
        #expect(verdict == .body(at: 4_096, end: 10_000))
        #expect(information.length == 10_000)
        #expect(try judge(206, [("Content-Range", "bytes 5000-5001/*")]).1.length == nil)  // HTTP-4
    }
    @Test(
        "INPUT-8: an invalid Content-Range makes the answer unusable",
        arguments: [
            "bytes 100-50/200", "bytes 0-9/5", "bytes abc", "items 0-9/10", "bytes 0-10/10", "bytes 9000-9999/10000",
            "",
        ]) func invalid(field: String)
    { #expect(throws: FetchFailure.self) { try judge(206, [("Content-Range", field)]) } }

    @Test("HTTP-6: 416 tells the length, or that the resource changed") func unsatisfiable() throws {
        let known = ContentInformation(length: nil, contentType: nil, supportsRanges: true, validator: nil)
        #expect(try judge(416, [("Content-Range", "bytes */5000")], known: known).0 == .endOfResource)
        var longer = known
        longer.length = 9_000
        #expect(try judge(416, [("Content-Range", "bytes */4000")], known: longer).0 == .changed)
        #expect(throws: FetchFailure.self) { try judge(416, [("Content-Range", "bytes */0")]) }  // INPUT-10
    }
    // Found by the simulation: a file was replaced between an answer without a validator and one without a length.
    @Test("CACHE-5: bytes of an unnamed version are not joined with a named one of unknown length") func unnamed()
        throws
    {
        let known = ContentInformation(length: 9_000, contentType: nil, supportsRanges: true, validator: nil)
        #expect(try judge(200, [("ETag", "\"2\"")], known: known, storedEnd: 500).0 == .changed)
        #expect(try judge(200, [("ETag", "\"2\"")], known: known).0 == .body(at: 0, end: nil))  // nothing to join
        #expect(try judge(200, [], known: known, storedEnd: 500).0 == .body(at: 0, end: nil))
        let sameLength = [("ETag", "\"2\""), ("Content-Length", "9000")]
        #expect(try judge(200, sameLength, known: known, storedEnd: 500).0 == .body(at: 0, end: 9_000))
    }
    @Test("HTTP-8, HTTP-10: other statuses and coded answers carry no media") func refused() {
        #expect(throws: FetchFailure.self) { try judge(202, []) }
        #expect(throws: FetchFailure.self) {
            try judge(206, [("Content-Range", "bytes 5000-5999/10000"), ("Content-Encoding", "gzip")])
        }
        #expect(throws: FetchFailure.self) { try judge(200, [("Content-Length", "0")]) }
    }
}

@Suite("Fetch planner") struct FetchPlannerTests {
    @Test("who waits for a byte on its way starts no second request") func onItsWay() {
        let plan = FetchPlanner.plan(
            demands: [.init(ranges: [0..<8_000_000], priority: .current, segment: 256 * 1024)], stored: ByteRangeSet(),
            running: [.init(id: 1, position: 0, end: 800_000, priority: .preload)], length: nil)
        #expect(plan.starts.isEmpty && plan.cancels.isEmpty)
        #expect(plan.priorities == [1: .current])
    }
    @Test("only the hole is asked for, and nobody's request is cancelled") func holes() {
        let plan = FetchPlanner.plan(
            demands: [.init(ranges: [0..<1_000], priority: .current, segment: .max)],
            stored: ByteRangeSet([0..<400, 600..<2_000]),
            running: [.init(id: 7, position: 5_000, end: 6_000, priority: .preload)], length: 10_000)
        #expect(plan.starts.map(\.range) == [400..<600])
        #expect(plan.cancels == [7])
    }
}
