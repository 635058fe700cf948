import EventLoop
import FeedVocabulary
import HTTPTransport
import MediaCache
import Simulation
import TestSupport
import Testing

@testable import ResourceLoading

/// Random use of all loaders at once, against what the right bytes are.
@Suite("Loader model") struct LoaderModelTests {
    static let length = 300_000
    static let names = ["a", "b", "c", "d", "e"]

    private struct Reading {
        let reader: ByteReader
        let name: String
        /// The version that it has read from; another one in the same reader is a mixture.
        var version: Int?
    }

    private final class Model: Sendable {
        let loop: SimulatedLoop
        let network: SimulatedNetwork
        let disk: SimulatedDisk
        let contents: [[UInt8]]
        private let state = Lock(State())
        struct State {
            var current: [String: Int] = [:]
            var readings: [Int: Reading] = [:]
            var tasks: [Task<Void, Never>] = []
            var right = 0, failed = 0, opened = 0
            var wrong: [String] = []
        }
        init(seed: UInt64) {
            loop = SimulatedLoop(seed: seed)
            disk = SimulatedDisk(loop: loop)
            network = SimulatedNetwork(loop: loop, roundTrip: .milliseconds(5), bytesPerSecond: 50_000_000)
            contents = (0..<6).map { Pattern.bytes(LoaderModelTests.length, version: $0) }
        }
        var counts: State { state.withLock { $0 } }

        func serve(_ name: String, version: Int, breaksAfter: Int? = nil, failures: Int = 0, ranges: Bool = true) async
        {
            var resource = SimulatedNetwork.Resource(bytes: contents[version], validator: "\"\(version)\"")
            (resource.breaksAfter, resource.failures, resource.supportsRanges) = (breaksAfter, failures, ranges)
            state.withLock { $0.current[name] = version }
            await network.serve("http://simulated.test/\(name)", resource)
        }

        func run(operations: Int, _ random: inout SplitMix64) async throws {
            var configuration = CacheConfiguration(directory: "/c", capacity: 700_000)
            configuration.freeDiskGuard = 0
            let cache = try await MediaCache.open(configuration, on: loop, files: disk, index: .memory(nil))
            let loaders = ResourceLoaders(on: loop, cache: cache, transport: network)
            for name in LoaderModelTests.names { await serve(name, version: 0) }
            for number in 0..<operations {
                let name = LoaderModelTests.names[Int.random(in: 0..<5, using: &random)]
                let version = state.withLock { $0.current[name] ?? 0 }
                switch Int.random(in: 0..<100, using: &random) {
                case 0..<20:
                    let resource = Resource(key: key(name), urls: ["http://simulated.test/\(name)"])
                    let priority = [LoadPriority.preload, .preRender, .current][Int.random(in: 0..<3, using: &random)]
                    let ahead = [0, 50_000, 1_000_000][Int.random(in: 0..<3, using: &random)]
                    if let reader = try? await loaders.open(resource, priority: priority, readAhead: Int64(ahead)) {
                        state.withLock { $0.readings[number] = Reading(reader: reader, name: name) }
                    }
                case 20..<25: await close(&random)
                case 25..<80:
                    let offset = Int.random(in: 0..<LoaderModelTests.length + 1_000, using: &random)
                    read(offset, count: Int.random(in: 1...60_000, using: &random), &random)
                case 80..<86: state.withLock { $0.tasks }.randomElement(using: &random)?.cancel()
                case 86..<88: await serve(name, version: min(5, version + 1))
                case 88..<92:
                    await serve(name, version: version, breaksAfter: Int.random(in: 0..<100_000, using: &random))
                case 92..<94: await serve(name, version: version, failures: Int.random(in: 1...3, using: &random))
                case 94..<95: await serve(name, version: version, ranges: Bool.random(using: &random))
                case 95..<97: await cache.remove(key(name))
                case 97..<98: await cache.removeAll(keepingMostRecent: 2)
                case 98:
                    await network.setDown(true)
                    try await loop.sleep(for: .milliseconds(Int.random(in: 1...1_000, using: &random)))
                    await network.setDown(false)
                case _: try await loop.sleep(for: .milliseconds(Int.random(in: 1...400, using: &random)))
                }
                if number % 20 == 0 { try await loop.sleep(for: .milliseconds(20)) }
            }
            await network.setDown(false)
            for task in state.withLock({ $0.tasks }) { await task.value }
            while !state.withLock({ $0.readings.isEmpty }) { await close(&random) }
            try await loop.sleep(for: .seconds(2))
            let left = (await loaders.openCount, await loaders.fetchCount, await network.openCount)
            if left != (0, 0, 0) { state.withLock { $0.wrong.append("left open: \(left)") } }
            await expectCache(cache)
            await loaders.shutdown()
            await cache.close()
        }

        private func close(_ random: inout SplitMix64) async {
            let number = state.withLock { $0.readings.keys.sorted() }.randomElement(using: &random)
            guard let number, let reading = state.withLock({ $0.readings.removeValue(forKey: number) }) else { return }
            await reading.reader.close()
        }

        private func read(_ offset: Int, count: Int, _ random: inout SplitMix64) {
            let number = state.withLock { $0.readings.keys.sorted() }.randomElement(using: &random)
            guard let number, let reading = state.withLock({ $0.readings[number] }) else { return }
            let task = loop.spawn { [self] in
                do {
                    let bytes = try await reading.reader.read(at: Int64(offset), count: count)
                    check(bytes, offset, number, reading.name)
                } catch {
                    state.withLock { state in
                        state.failed += 1
                        if error is LoadError { state.readings[number] = nil }
                    }
                    if error is LoadError { await reading.reader.close() }
                }
            }
            state.withLock { state in
                state.tasks.append(task)
                if state.tasks.count > 50 { state.tasks.removeFirst(10) }
            }
        }

        private func check(_ bytes: [UInt8], _ offset: Int, _ number: Int, _ name: String) {
            state.withLock { state in
                state.right += 1
                guard !bytes.isEmpty else {
                    if offset < LoaderModelTests.length { state.wrong.append("an end at \(offset)") }
                    return
                }
                let newest = state.current[name] ?? 0
                let versions = (0...newest).filter { contents[$0][offset..<offset + bytes.count].elementsEqual(bytes) }
                guard let version = versions.last else {
                    state.wrong.append("\(name) at \(offset): no version has these \(bytes.count) bytes")
                    return
                }
                // Short pieces may fit several versions.
                if let before = state.readings[number]?.version, !versions.contains(before) {
                    state.wrong.append("\(name): versions \(before) and \(version) in one reader")
                }
                if versions.count == 1 { state.readings[number]?.version = version }
            }
        }

        /// What is stored under one record is of one version.
        private func expectCache(_ cache: MediaCache) async {
            for record in await cache.records {
                guard let resource = try? await cache.checkOut(record.key) else { continue }
                var versions = Set(contents.indices)
                for range in record.ranges.ranges {
                    guard let bytes = try? await resource.file.read(at: range.lowerBound, count: Int(range.length))
                    else { continue }
                    let (start, end) = (Int(range.lowerBound), Int(range.upperBound))
                    versions = versions.filter { contents[$0][start..<end].elementsEqual(bytes) }
                }
                if versions.isEmpty { state.withLock { $0.wrong.append("\(record.key) mixes versions on disk") } }
                await cache.checkIn(resource)
            }
        }
    }

    @Test("CACHE-4: 10,000 random operations: each read is the model's bytes or an error", arguments: UInt64(0)..<20)
    func random(seed: UInt64) throws {
        let model = Model(seed: seed)
        var random = SplitMix64(seed: seed &* 7919)
        let generator = random
        let done = try model.loop.run(within: .seconds(36_000)) { () -> Bool in
            var random = generator
            try await model.run(operations: 500, &random)
            return true
        }
        _ = random.next()
        #expect(done == true, "seed \(seed) hangs")
        let counts = model.counts
        #expect(counts.wrong.prefix(3) == [], "seed \(seed)")
        #expect(counts.right > 50, "seed \(seed): \(counts.right) right, \(counts.failed) failed")
    }
}
