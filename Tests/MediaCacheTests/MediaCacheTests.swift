import EventLoop
import FeedVocabulary
import Foundation
import MediaCache
import Simulation
import TestSupport
import Testing

@Suite("Media cache") struct MediaCacheTests {
    @Test("DISK-7: what was stored is there after a restart, byte for byte") func restart() async throws {
        let folder = TemporaryFolder()
        let key = try CacheKey("clip")
        try await withCache(in: folder) { cache in
            let resource = try await cache.checkOut(key)
            await cache.describe(resource, length: 5_000, validator: "\"v\"", contentType: "video/mp4")
            try await cache.write([UInt8](repeating: 7, count: 1_000), at: 2_000, to: resource)
            await cache.checkIn(resource)
        }
        try await withCache(in: folder) { cache in
            let resource = try await cache.checkOut(key)
            #expect(resource.record.ranges.ranges == [2_000..<3_000])
            #expect(resource.record.length == 5_000 && resource.record.validator == "\"v\"")
            #expect(try await resource.file.read(at: 2_000, count: 1_000) == [UInt8](repeating: 7, count: 1_000))
            #expect(await cache.used == 1_000)
            await cache.checkIn(resource)
        }
    }

    @Test("DISK-5, DISK-6: a lost file is forgotten, a file without a record is removed") func reconcile() async throws
    {
        let folder = TemporaryFolder()
        for name in ["one", "two"] {
            try await withCache(in: folder) { cache in
                let resource = try await cache.checkOut(try CacheKey(name))
                try await cache.write([1, 2, 3], at: 0, to: resource)
                await cache.checkIn(resource)
            }
        }
        let files = try FileManager.default.contentsOfDirectory(atPath: folder.path + "/cache").filter {
            $0.hasSuffix(".media")
        }
        try FileManager.default.removeItem(atPath: folder.path + "/cache/" + files[0])
        try Data([1]).write(to: URL(filePath: folder.path + "/cache/beef.media"))
        try await withCache(in: folder) { cache in
            #expect(await cache.records.count == 1)
            #expect(await cache.used == 3)
        }
        #expect(!FileManager.default.fileExists(atPath: folder.path + "/cache/beef.media"))
    }

    @Test("CACHE-10: the least recently used goes first, what is pinned stays") func eviction() async throws {
        try await withCache(in: TemporaryFolder(), capacity: 2_500_000) { cache in
            let megabyte = [UInt8](repeating: 1, count: 1_000_000)
            let pinned = try await cache.checkOut(try CacheKey("pinned"))
            try await cache.write(megabyte, at: 0, to: pinned)
            for name in ["old", "new"] {
                let resource = try await cache.checkOut(try CacheKey(name))
                try await cache.write(megabyte, at: 0, to: resource)
                await cache.checkIn(resource)
            }
            #expect(Set(await cache.records.map(\.key.text)) == ["pinned", "new"])
            #expect(await cache.used == 2_000_000)
            await #expect(throws: CacheError.full(capacity: 2_500_000)) {
                try await cache.write([UInt8](repeating: 2, count: 2_000_000), at: 1_000_000, to: pinned)
            }
            await cache.checkIn(pinned)
        }
    }

    @Test("DISK-4: a second opener is told who has the directory") func secondOpener() async throws {
        let folder = TemporaryFolder()
        try await withCache(in: folder) { _ in
            await #expect(throws: CacheError.inUse(directory: folder.path + "/cache", process: getpid())) {
                try await withCache(in: folder) { _ in }
            }
        }
        try await withCache(in: folder) { _ in }  // a lock that was given up doesn't block
    }

    @Test("a directory that can't be made is refused, and nothing hangs") func refused()
        async throws
    {
        let folder = TemporaryFolder()
        try FileManager.default.createDirectory(atPath: folder.path + "/cache", withIntermediateDirectories: true)
        try Data().write(to: URL(filePath: folder.path + "/cache/file"))
        let loop = try LoopThread()
        for directory in [folder.path + "/cache/file/cache", "/proc/firstframe"] {
            await #expect(throws: CacheError.self, "\(directory)") {
                try await MediaCache.open(
                    CacheConfiguration(directory: directory), on: loop, files: LoopFiles(loop: loop))
            }
        }
        loop.stop()
    }

    @Test("an index that is no database is begun anew") func corruptIndex() async throws {
        let folder = TemporaryFolder()
        try await withCache(in: folder) { _ in }
        try Data(repeating: 0x41, count: 8_192).write(to: URL(filePath: folder.path + "/cache/index.sqlite"))
        try await withCache(in: folder) { cache in #expect(await cache.records.isEmpty) }
    }

    @Test("data is synced before its range is committed, whatever the order of the loop", arguments: UInt64(0)..<50)
    func order(seed: UInt64) throws {
        let loop = SimulatedLoop(seed: seed)
        let disk = SimulatedDisk(loop: loop)
        let ended: Void? = try loop.run {
            let cache = try await MediaCache.open(
                CacheConfiguration(directory: "/c"), on: loop, files: disk, index: .memory(nil))
            let resource = try await cache.checkOut(try CacheKey("a"))
            for piece in 0..<20 {
                let bytes = [UInt8](repeating: UInt8(piece), count: 1_000)
                loop.spawn { try? await cache.write(bytes, at: Int64(piece) * 1_000, to: resource) }
            }
            try await loop.sleep(for: .seconds(3))
            #expect(await cache.record(of: resource.record.key)?.ranges.ranges == [0..<20_000])
            #expect(await cache.used == 20_000)
            await cache.checkIn(resource)
            await cache.removeAll()
            #expect(await cache.used == 0)
            #expect(await disk.paths.isEmpty)
            await cache.close()
        }
        #expect(ended != nil, "it hangs")
    }
}
