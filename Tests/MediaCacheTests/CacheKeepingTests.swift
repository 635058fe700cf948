import EventLoop
import FeedVocabulary
import Foundation
import Simulation
import TestSupport
import Testing

@testable import MediaCache

/// Opens a cache on real files for the time of `body`.
func withCache(
    in folder: TemporaryFolder, seed: UInt64? = nil, capacity: Int64 = 100_000_000, keepsChecksums: Bool = false,
    boot: String? = nil, files: ((LoopThread) -> any FileSystem)? = nil, _ body: (MediaCache) async throws -> Void
) async throws {
    let loop = try LoopThread(seed: seed)
    var configuration = CacheConfiguration(directory: folder.path + "/cache")
    (configuration.capacity, configuration.keepsChecksums) = (capacity, keepsChecksums)
    configuration.freeDiskGuard = 0
    if let boot { configuration.boot = boot }
    do {
        let cache = try await MediaCache.open(configuration, on: loop, files: files?(loop) ?? LoopFiles(loop: loop))
        var failure: (any Error)?
        do { try await body(cache) } catch { failure = error }
        await cache.close()
        if let failure { throw failure }
    } catch {
        loop.stop()
        throw error
    }
    loop.stop()
}

extension MediaCache {
    /// Stores bytes of the pattern under a name.
    package func fill(_ name: String, _ range: Range<Int>, length: Int64? = nil, version: Int = 0) async throws {
        let resource = try await checkOut(key(name))
        defer { checkIn(resource) }
        describe(resource, length: length, validator: "\"\(version)\"", contentType: "video/mp4")
        try await write(Pattern.bytes(range, version: version), at: Int64(range.lowerBound), to: resource)
    }

    /// Every byte that is promised under a name has to be the pattern's.
    func expectPattern(_ name: String, version: Int = 0, at place: SourceLocation = #_sourceLocation) async throws {
        let resource = try await checkOut(key(name))
        defer { checkIn(resource) }
        for range in resource.record.ranges.ranges {
            let bytes = try await resource.file.read(at: range.lowerBound, count: Int(range.length))
            let right = Pattern.bytes(Int(range.lowerBound)..<Int(range.upperBound), version: version)
            #expect(Bytes(bytes) == right, sourceLocation: place)
        }
    }
}

/// Disk space of the media files in a folder.
func allocated(_ folder: TemporaryFolder) throws -> Int64 {
    try FileManager.default.contentsOfDirectory(atPath: folder.path + "/cache").filter { $0.hasSuffix(".media") }
        .reduce(0) { sum, name in
            var status = stat()
            return stat(folder.path + "/cache/" + name, &status) == 0 ? sum + Int64(status.st_blocks) * 512 : sum
        }
}

@Suite("Cache keeping") struct CacheKeepingTests {
    @Test("CACHE-9: a resource larger than the cache streams through a window, and the disk keeps its limit")
    func window() async throws {
        let folder = TemporaryFolder()
        try await withCache(in: folder, capacity: 1_000_000) { cache in
            let resource = try await cache.checkOut(key("long"))
            let gone = Lock(ByteRangeSet())
            for start in stride(from: 0, to: 5_000_000, by: 50_000) {
                let bytes = Pattern.bytes(start..<start + 50_000)
                try await cache.write(bytes, at: Int64(start), to: resource, reader: Int64(start)) { range in
                    gone.withLock { $0.insert(range) }
                }
                #expect(await cache.used <= 1_000_000)
                #expect(try allocated(folder) <= 1_000_000 + 100_000)
                let back = try await resource.file.read(at: Int64(start), count: 50_000)
                #expect(Bytes(back) == Bytes(bytes))
            }
            let kept = await cache.record(of: resource.record.key)?.ranges ?? ByteRangeSet()
            #expect(gone.withLock { gone in kept.ranges.allSatisfy { gone.overlap(with: $0) == 0 } })
            #expect(await cache.used == kept.count)
            await cache.checkIn(resource)
        }
        try await withCache(in: folder, capacity: 1_000_000) { cache in
            try await cache.expectPattern("long")
            #expect(await cache.used > 500_000)
        }
    }

    @Test("CACHE-10: what is in use stays, the least recently used goes, and eviction ends") func eviction()
        async throws
    {
        let folder = TemporaryFolder()
        try await withCache(in: folder, capacity: 300_000) { cache in
            try await cache.fill("old", 0..<100_000)
            try await cache.fill("newer", 0..<100_000)
            let playing = try await cache.checkOut(key("old"))
            for number in 0..<5 { try await cache.fill("next\(number)", 0..<100_000) }
            let names = await cache.records.map(\.key.text)
            #expect(names == ["next4", "next3", "old"])
            await cache.checkIn(playing)
        }
    }

    @Test("what nobody used for the maximum age is removed") func age() throws {
        let loop = SimulatedLoop(seed: 1)
        let disk = SimulatedDisk(loop: loop)
        let ended: Void? = try loop.run(within: .seconds(20 * 86_400)) {
            var configuration = CacheConfiguration(directory: "/c")
            (configuration.maximumAge, configuration.freeDiskGuard) = (.seconds(14 * 86_400), 0)
            let cache = try await MediaCache.open(configuration, on: loop, files: disk, index: .memory(nil))
            try await cache.fill("old", 0..<1_000)
            try await loop.sleep(for: .seconds(10 * 86_400))
            try await cache.fill("used", 0..<1_000)
            try await loop.sleep(for: .seconds(5 * 86_400))
            try await cache.fill("new", 0..<1_000)
            try await loop.sleep(for: .seconds(10))
            #expect(await cache.records.map(\.key.text) == ["new", "used"])
            await cache.close()
        }
        #expect(ended != nil, "it hangs")
    }

    @Test("the disk keeps the room that was asked for others") func freeDisk() throws {
        let loop = SimulatedLoop(seed: 1)
        let disk = SimulatedDisk(loop: loop)
        let ended: Void? = try loop.run {
            await disk.setCapacity(1_000_000)
            var configuration = CacheConfiguration(directory: "/c")
            configuration.freeDiskGuard = 300_000
            let cache = try await MediaCache.open(configuration, on: loop, files: disk, index: .memory(nil))
            for number in 0..<10 { try await cache.fill("a\(number)", 0..<100_000) }
            #expect(await disk.used <= 700_000 + 300_000)
            #expect(await cache.records.first?.key.text == "a9")
            let playing = try await cache.checkOut(key("big"))
            await #expect(throws: CacheError.self) {
                for start in stride(from: 0, to: 1_000_000, by: 100_000) {
                    try await cache.write(Pattern.bytes(start..<start + 100_000), at: Int64(start), to: playing)
                }
            }
            await cache.checkIn(playing)
            await cache.close()
        }
        #expect(ended != nil, "it hangs")
    }

    @Test("clearing leaves the most recent, and takes what is in use as soon as it is not") func clearing() async throws
    {
        let folder = TemporaryFolder()
        try await withCache(in: folder) { cache in
            for number in 0..<15 { try await cache.fill("a\(number)", 0..<1_000) }
            await cache.removeAll(keepingMostRecent: 10)
            #expect(await cache.records.count == 10)
            #expect(await cache.records.last?.key.text == "a5")
            let playing = try await cache.checkOut(key("a9"))
            await cache.removeAll()
            #expect(await cache.records.map(\.key.text) == ["a9"])
            let got1 = try await playing.file.read(at: 0, count: 3)
            #expect(got1 == Pattern.bytes(3))
            await cache.checkIn(playing)
            for _ in 0..<100 where await !cache.records.isEmpty { try await cache.loop.sleep(for: .milliseconds(5)) }
            #expect(await cache.used == 0)
            #expect(try allocated(folder) == 0)
        }
    }

    @Test("an export is whole or not there; what is partial or missing is refused", arguments: [false, true])
    func export(moving: Bool) async throws {
        let folder = TemporaryFolder()
        let target = folder.path + "/out.mp4"
        try await withCache(in: folder) { cache in
            try await cache.fill("whole", 0..<50_000, length: 50_000)
            try await cache.fill("part", 0..<50_000, length: 60_000)
            await #expect(throws: CacheError.incomplete(key("part"))) {
                try await cache.export(key("part"), to: target)
            }
            await #expect(throws: CacheError.missing(key("none"))) {
                try await cache.export(key("none"), to: target)
            }
            await #expect(throws: CacheError.self) {
                try await cache.export(key("whole"), to: folder.path + "/nowhere/out.mp4")
            }
            try await cache.export(key("whole"), to: target, moving: moving)
            #expect(try Data(contentsOf: URL(filePath: target)) == Data(Pattern.bytes(50_000)))
            #expect(await cache.record(of: key("whole"))?.isComplete == (moving ? nil : true))
            #expect(!FileManager.default.fileExists(atPath: target + ".part"))
        }
    }

    @Test("a bad block is found by its checksum before the first use after an unclean end, and goes alone")
    func checksums() async throws {
        let folder = TemporaryFolder()
        try await withCache(in: folder, keepsChecksums: true) { cache in
            try await cache.fill("a", 0..<1_000_000, length: 1_000_000)
            try await cache.fill("b", 0..<1_000)
        }
        let directory = folder.path + "/cache/"
        let big = try #require(
            try FileManager.default.contentsOfDirectory(atPath: directory).first { name in
                let size = try? FileManager.default.attributesOfItem(atPath: directory + name)[.size] as? Int
                return size == 1_000_000
            })
        let file = try FileHandle(forUpdating: URL(filePath: directory + big))
        try file.seek(toOffset: 400_000)
        try file.write(contentsOf: Data([0, 0, 0, 0, 0, 0, 0, 0]))
        try file.close()
        // Closed cleanly: the file is not read through.
        try await withCache(in: folder, keepsChecksums: true) { cache in
            #expect(await cache.record(of: key("a"))?.ranges.count == 1_000_000)
        }
        try markUnclean(folder)
        try await withCache(in: folder, keepsChecksums: true) { cache in
            try await cache.expectPattern("a")
            #expect(await cache.record(of: key("a"))?.ranges.ranges == [0..<262_144, 524_288..<1_000_000])
            try await cache.expectPattern("b")
            let finding = try await cache.verify(key("b"))
            #expect(finding.checked == 1_000 && finding.lost == 0)
        }
    }

    private func markUnclean(_ folder: TemporaryFolder) throws {
        let index = try CacheIndex(
            directory: folder.path + "/cache", now: WallTime(secondsSince1970: 0),
            boot: CacheConfiguration(directory: "").boot)
        index.close(cleanly: false)
    }

    @Test("CACHE-2: the first format is taken over without records of no length, a later one is refused by name")
    func formats()
        async throws
    {
        let folder = TemporaryFolder()
        try FileManager.default.createDirectory(atPath: folder.path + "/cache", withIntermediateDirectories: true)
        let database = folder.path + "/cache/index.sqlite"
        try sql(
            database,
            """
            CREATE TABLE entry (id INTEGER PRIMARY KEY, key TEXT NOT NULL UNIQUE, length INTEGER, validator TEXT,
              type TEXT, last_use INTEGER NOT NULL);
            CREATE TABLE span (entry INTEGER NOT NULL REFERENCES entry(id), start INTEGER NOT NULL, end INTEGER NOT NULL,
              PRIMARY KEY (entry, start)) WITHOUT ROWID;
            INSERT INTO entry VALUES (171, 'old', 2000, '"0"', 'video/mp4', 5);
            INSERT INTO span VALUES (171, 0, 1000);
            INSERT INTO entry VALUES (172, 'bad', 0, NULL, NULL, 6);
            INSERT INTO span VALUES (172, 0, 1000);
            PRAGMA user_version = 1;
            """)
        try folder.write(Pattern.bytes(1_000), to: "cache/ab.media")
        try await withCache(in: folder) { cache in
            #expect(await cache.records.map(\.key.text) == ["old"])  // CACHE-2: the length 0 is not believed
            try await cache.expectPattern("old")
        }
        try sql(database, "PRAGMA user_version = 99;")
        await #expect(throws: CacheError.newerVersion(directory: folder.path + "/cache", version: 99)) {
            try await withCache(in: folder) { _ in }
        }
        #expect(FileManager.default.fileExists(atPath: folder.path + "/cache/ab.media"))
    }

    private func sql(_ database: String, _ text: String) throws {
        let process = Process()
        process.executableURL = URL(filePath: "/usr/bin/python3")
        process.arguments = [
            "-c", "import sqlite3,sys; sqlite3.connect(sys.argv[1]).executescript(sys.argv[2])", database, text,
        ]
        try process.run()
        process.waitUntilExit()
        try #require(process.terminationStatus == 0)
    }

    @Test("DISK-3: an index that is empty or all zeros is begun anew, and files of nobody go", arguments: [0, 40_960])
    func brokenIndex(size: Int) async throws {
        let folder = TemporaryFolder()
        try await withCache(in: folder) { try await $0.fill("a", 0..<1_000) }
        for suffix in ["-wal", "-shm"] {
            try? FileManager.default.removeItem(atPath: folder.path + "/cache/index.sqlite" + suffix)
        }
        try folder.write([UInt8](repeating: 0, count: size), to: "cache/index.sqlite")
        try await withCache(in: folder) { cache in
            #expect(await cache.records.isEmpty)
            try await cache.fill("a", 0..<1_000)
        }
        try await withCache(in: folder) { cache in
            try await cache.expectPattern("a")
            #expect(try allocated(folder) <= 4_096)
        }
    }

    @Test("DISK-3: a bad page anywhere in the index costs the cache's contents, not its start") func badPage()
        async throws
    {
        let folder = TemporaryFolder()
        try await withCache(in: folder) { cache in
            for number in 0..<200 { try await cache.fill("a\(number)", 0..<100) }
        }
        let path = folder.path + "/cache/index.sqlite"
        let file = try FileHandle(forUpdating: URL(filePath: path))
        try file.seek(toOffset: 4_096)
        try file.write(contentsOf: Data(repeating: 0xff, count: Int(try file.seekToEnd()) - 8_192))
        try file.close()
        try await withCache(in: folder) { cache in
            try await cache.fill("b", 0..<100)
            try await cache.expectPattern("b")
        }
    }

    @Test("what a killed process left unsynced is synced by the next one before it counts for good")
    func freshStaysFresh() async throws {
        let folder = TemporaryFolder()
        let path = folder.path
        await #expect(processExitsWith: .signal(SIGKILL)) { [path = path as String] in
            let loop = try LoopThread()
            var configuration = CacheConfiguration(directory: path + "/cache")
            configuration.freeDiskGuard = 0
            let cache = try await MediaCache.open(configuration, on: loop, files: LoopFiles(loop: loop))
            let resource = try await cache.checkOut(key("a"))
            try await cache.write(Pattern.bytes(100_000), at: 0, to: resource)
            await cache.commitNow()
            kill(getpid(), SIGKILL)
        }
        let syncs = Lock<FaultyFiles?>(nil)
        try await withCache(
            in: folder,
            files: { loop in
                let files = FaultyFiles(LoopFiles(loop: loop), .call(.max, errno: EIO))
                syncs.withLock { $0 = files }
                return files
            }
        ) { cache in
            let resource = try await cache.checkOut(key("a"))
            #expect(resource.record.ranges.ranges == [0..<100_000])
            await cache.commitNow()
            // In use and not yet 30 s old; on a slow machine it may have been synced before it was opened.
            let isSynced = await cache.entries[key("a")]?.synced.isEmpty == false
            #expect(syncs.withLock { $0?.syncCount } == (isSynced ? 2 : 0))
            await cache.checkIn(resource)
            await cache.commitNow()
            #expect(syncs.withLock { $0?.syncCount } == 2)  // the file, and its name in the directory
        }
        try await withCache(in: folder, boot: "another") { try await $0.expectPattern("a") }
    }

    @Test("DISK-5: a directory that vanishes, or is replaced by a file, costs what was in it") func vanished()
        async throws
    {
        let folder = TemporaryFolder()
        try await withCache(in: folder) { cache in
            try await cache.fill("a", 0..<1_000)
            try FileManager.default.removeItem(atPath: folder.path + "/cache")
            try await cache.fill("b", 0..<1_000)
            try await cache.expectPattern("b")
            try FileManager.default.removeItem(atPath: folder.path + "/cache")
            try folder.write([1], to: "cache")
            await #expect(throws: CacheError.self) { try await cache.fill("c", 0..<1_000) }
        }
        try FileManager.default.removeItem(atPath: folder.path + "/cache")
        try await withCache(in: folder) { try await $0.fill("a", 0..<1_000) }
    }

    @Test("DISK-8, INPUT-6: long URLs have short names on disk, and odd keys are refused") func names() async throws {
        let folder = TemporaryFolder()
        let long = "http://h/" + String(repeating: "a", count: 2_000)
        try await withCache(in: folder) { cache in
            for url in [long + "?b=1", long + "?b=2"] {
                let resource = try await cache.checkOut(CacheKey(url: url))
                try await cache.write(Array(url.utf8), at: 0, to: resource)
                await cache.checkIn(resource)
            }
            try await cache.fill(String(repeating: "K", count: 1_000), 0..<10)
            try await cache.fill("Case", 0..<10)
            try await cache.fill("case", 0..<10, version: 1)
            try await cache.expectPattern("Case")
            try await cache.expectPattern("case", version: 1)
        }
        for name in try FileManager.default.contentsOfDirectory(atPath: folder.path + "/cache") {
            #expect(name.utf8.count < 30)
        }
        for key in ["../../x", "a/b", ".", "", "a\0b", "🎵"] {
            #expect(throws: CacheKeyError.self) { try CacheKey(key) }
        }
    }

    @Test("DISK-4: a second opener gets an error that names the first") func twice() async throws {
        let folder = TemporaryFolder()
        try await withCache(in: folder) { _ in
            await #expect(throws: CacheError.inUse(directory: folder.path + "/cache", process: getpid())) {
                try await withCache(in: folder) { _ in }
            }
        }
        try await withCache(in: folder) { _ in }
    }

    @Test("DISK-9: the counter is what is on disk after any history", arguments: UInt64(0)..<6) func accounting(
        seed: UInt64
    ) async throws {
        let folder = TemporaryFolder()
        try await withCache(in: folder, seed: seed, capacity: 2_000_000) { cache in
            var random = SplitMix64(seed: seed)
            var pinned: [CachedResource] = []
            for _ in 0..<200 {
                let name = "a\(Int.random(in: 0..<12, using: &random))"
                switch Int.random(in: 0..<10, using: &random) {
                case 0: await cache.remove(key(name))
                case 1: pinned.append(try await cache.checkOut(key(name)))
                case 2: if let last = pinned.popLast() { await cache.checkIn(last) }
                case _:
                    let start = Int.random(in: 0..<100, using: &random) * 4_096
                    let count = Int.random(in: 1...20, using: &random) * 4_096
                    try? await cache.fill(name, start..<start + count)
                }
            }
            for resource in pinned { await cache.checkIn(resource) }
            try await cache.loop.sleep(for: .milliseconds(50))
            let used = await cache.used
            #expect(await cache.records.reduce(0) { $0 + $1.ranges.count } == used)
            #expect(used <= 2_000_000)
            let onDisk = try allocated(folder)
            #expect(abs(onDisk - used) <= 12 * 4_096, "\(onDisk) on disk, \(used) counted")
        }
    }
}
