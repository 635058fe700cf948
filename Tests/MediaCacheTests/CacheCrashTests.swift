import EventLoop
import FeedVocabulary
import Foundation
import TestSupport
import Testing

@testable import MediaCache

/// Everything that a cache does, in one run; errors of single steps are what is tried here.
private func useEverything(_ cache: MediaCache, in folder: TemporaryFolder) async {
    try? await cache.fill("a", 0..<60_000, length: 60_000)
    try? await cache.fill("b", 10_000..<30_000, length: 50_000)
    await cache.commitNow()
    try? await cache.fill("b", 40_000..<50_000)
    try? await cache.fill("a", 0..<10, length: 60_000)
    try? await cache.export(key("a"), to: folder.path + "/a.mp4")
    await cache.commitNow()
    // Larger than the cache: what is committed is trimmed.
    if let resource = try? await cache.checkOut(key("long")) {
        for start in stride(from: 0, to: 300_000, by: 20_000) {
            try? await cache.write(
                Pattern.bytes(start..<start + 20_000), at: Int64(start), to: resource, reader: Int64(start))
            if start % 60_000 == 0 { await cache.commitNow() }
        }
        await cache.checkIn(resource)
    }
    if let old = try? await cache.checkOut(key("c")) {
        try? await cache.write(Pattern.bytes(5_000), at: 0, to: old)
        await cache.commitNow()
        await cache.invalidate(old)
        await cache.checkIn(old)
    }
    try? await cache.fill("c", 1_000..<9_000, version: 1)
    await cache.commitNow()
    _ = try? await cache.verify(key("c"))
    await cache.remove(key("b"))
    try? await cache.fill("d", 0..<9_000)
}

extension MediaCache {
    /// Commits what was written without waiting for the timer.
    func commitNow() async { for key in entries.keys.sorted(by: { $0.text < $1.text }) { await commit(key) } }
}

/// After whatever happened, the cache opens, promises only right bytes, takes new ones, and is no larger than it says.
private func expectSound(_ folder: TemporaryFolder, boot: String? = nil) async throws {
    try await withCache(in: folder, capacity: 150_000, boot: boot) { cache in
        for record in await cache.records {
            try await cache.expectPattern(
                record.key.text, version: record.key.text == "c" && record.validator == "\"1\"" ? 1 : 0)
        }
        #expect(await cache.used <= 150_000)
        try await cache.fill("after", 0..<1_000)
        try await cache.expectPattern("after")
    }
    let files = try FileManager.default.contentsOfDirectory(atPath: folder.path + "/cache").filter {
        $0.hasSuffix(".media")
    }
    try await withCache(in: folder, capacity: 150_000) { #expect(await $0.records.count == files.count) }
}

@Suite("Cache crashes") struct CacheCrashTests {
    @Test("full disk and I/O errors at each call: nothing hangs, nothing wrong is promised", arguments: [ENOSPC, EIO])
    func everyCall(errno: Int32) async throws {
        for number in 1... {
            let folder = TemporaryFolder()
            let faulty = Lock<FaultyFiles?>(nil)
            // Opening may be what fails.
            try? await withCache(
                in: folder, seed: 1, capacity: 150_000,
                files: { loop in
                    let files = FaultyFiles(LoopFiles(loop: loop), .call(number, errno: errno))
                    faulty.withLock { $0 = files }
                    return files
                }
            ) { await useEverything($0, in: folder) }
            try await expectSound(folder)
            if try #require(faulty.withLock { $0 }).callCount < number { return #expect(number > 50) }
        }
    }

    @Test("a power cut at each sync: the index promises only what the disk has") func everySync() async throws {
        for number in 1... {
            let folder = TemporaryFolder()
            let after = TemporaryFolder()
            let faulty = Lock<FaultyFiles?>(nil)
            try? await withCache(
                in: folder, seed: 2, capacity: 150_000,
                boot: "first",
                files: { loop in
                    let files = FaultyFiles(LoopFiles(loop: loop), .powerCut(atSync: number, seed: UInt64(number))) {
                        // The disk as it is at this moment is what the next start finds.
                        try? FileManager.default.copyItem(atPath: folder.path + "/cache", toPath: after.path + "/cache")
                    }
                    faulty.withLock { $0 = files }
                    return files
                }
            ) { await useEverything($0, in: folder) }
            guard try #require(faulty.withLock { $0 }).isDead else { return #expect(number > 8) }
            try await expectSound(after, boot: "another")
        }
    }

    /// More with `FIRSTFRAME_KILLS=200`.
    static let kills = ProcessInfo.processInfo.environment["FIRSTFRAME_KILLS"].flatMap { Int($0) } ?? 12

    @Test("DISK-2, DISK-6: killed at a random moment under load, the cache opens and serves only right bytes")
    func killed() async throws {
        let folder = TemporaryFolder()
        for round in 0..<Self.kills {
            let path = folder.path
            let delay = UInt32.random(in: 20_000...400_000)
            await #expect(processExitsWith: .signal(SIGKILL)) {
                [path = path as String, delay = delay as UInt32, round = round as Int] in
                Thread.detachNewThread {
                    usleep(delay)
                    kill(getpid(), SIGKILL)
                }
                let loop = try LoopThread()
                var configuration = CacheConfiguration(directory: path + "/cache", capacity: 3_000_000)
                configuration.freeDiskGuard = 0
                let cache = try await MediaCache.open(configuration, on: loop, files: LoopFiles(loop: loop))
                await withTaskGroup(of: Void.self) { group in
                    for worker in 0..<4 {
                        group.addTask {
                            var random = SplitMix64(seed: UInt64(round * 4 + worker))
                            while true {
                                let start = Int.random(in: 0..<2_000_000, using: &random)
                                try? await cache.fill(
                                    "a\(Int.random(in: 0..<6, using: &random))",
                                    start..<start + Int.random(in: 1...200_000, using: &random))
                                await cache.commitNow()
                            }
                        }
                    }
                }
            }
            try await withCache(in: folder, capacity: 3_000_000) { cache in
                for record in await cache.records { try await cache.expectPattern(record.key.text) }
                #expect(await cache.used <= 3_000_000)
            }
            #expect(try allocated(folder) <= 3_000_000 + 6 * 64 * 4_096)
        }
    }
}
