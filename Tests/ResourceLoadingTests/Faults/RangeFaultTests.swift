import EventLoop
import FeedStrategy
import FeedVocabulary
import Foundation
import HTTPTransport
import MediaCache
import TestSupport
import Testing

@testable import ResourceLoading

/// A line of `/proc/self/status` in bytes, such as `VmRSS` or `VmHWM`.
private func memory(_ name: String) -> Int {
    let status = (try? String(contentsOfFile: "/proc/self/status", encoding: .utf8)) ?? ""
    let line = status.split(separator: "\n").first { $0.hasPrefix(name + ":") } ?? ""
    return (Int(line.filter(\.isNumber)) ?? 0) * 1024
}

@Suite("Ranges and resources") struct RangeFaultTests {
    @Test("CACHE-6: after a long seek the gap is a gap, is fetched alone, and then all is there") func gap()
        async throws
    {
        let content = Pattern.bytes(1_000_000)
        let server = try RawResponder { [.file(content, $0)] }
        try await LoaderWorld.run { world in
            let resource = Resource(key: key("a"), urls: [server.baseURL + "/a"])
            _ = try await world.read(resource, 0..<100_000, readAhead: 0)
            _ = try await world.read(resource, 900_000..<1_000_000, readAhead: 0)
            let before = try #require(await world.cache.record(of: resource.key))
            #expect(!before.isComplete)
            #expect(before.ranges.ranges.count == 2)
            let fetched = await world.loaders.traffic.bytesFetched
            let whole = try await world.read(resource)
            #expect(whole == content)
            #expect(await world.loaders.traffic.bytesFetched - fetched == 1_000_000 - before.ranges.count)
            #expect(await world.cache.record(of: resource.key)?.isComplete == true)
        }
        server.stop()
    }

    @Test("CACHE-7: a partly filled entry is not the whole: missing bytes come, or are a clear error") func partial()
        async throws
    {
        let content = Pattern.bytes(1_000_000)
        let server = try RawResponder { [.file(content, $0)] }
        try await LoaderWorld.run { world in
            let resource = Resource(key: key("a"), urls: [server.baseURL + "/a"])
            _ = try await world.read(resource, 0..<200_000, readAhead: 0)
            _ = try await world.read(resource, 990_000..<1_000_000, readAhead: 0)
            server.stop()
            let stored = try await world.read(resource, 0..<200_000, readAhead: 0)
            #expect(stored == Pattern.bytes(200_000))
            do {
                _ = try await world.read(resource)
                Issue.record("missing bytes were served")
            } catch LoadError.network(let reason) {
                #expect(reason.contains("127.0.0.1"))
            }
        }
    }

    @Test("INPUT-4: places beyond every file are an end, on servers with and without ranges", arguments: [true, false])
    func beyond(withRanges: Bool) async throws {
        let content = Pattern.bytes(900_000)
        let server = try RawResponder { request in
            withRanges ? [.file(content, request)] : [.whole("200 OK", ["Content-Type: video/mp4"], content)]
        }
        try await LoaderWorld.run { world in
            let resource = Resource(key: key("a"), urls: [server.baseURL + "/a"])
            let reader = try await world.loaders.open(resource, priority: .current, readAhead: 1 << 20)
            let end = try await reader.read(at: .max, count: 10)
            #expect(end.isEmpty)
            try await world.loop.offload {
                var bytes = [UInt8](repeating: 0, count: 10)
                for offset in [Int64.max, Int64.max - 1, 0x7fff_ffff_ffff_0000] {
                    let count = try bytes.withUnsafeMutableBytes { try reader.readBlocking(at: offset, into: $0) }
                    #expect(count == 0)
                }
                let count = try bytes.withUnsafeMutableBytes { try reader.readBlocking(at: 5, into: $0) }
                #expect(count > 0 && bytes[0] == Pattern.byte(5))
            }
            await reader.close()
        }
        server.stop()
    }

    @Test("DISK-1: without room on disk, readers go on through memory, and what can't fit is an error, not a loop")
    func noRoom() async throws {
        let content = Pattern.bytes(20 << 20)
        let server = try RawResponder { [.file(content, $0)] }
        try await LoaderWorld.run({ $0.freeDiskGuard = .max / 2 }) { world in
            let resource = Resource(key: key("a"), urls: [server.baseURL + "/a"])
            let reader = try await world.loaders.open(resource, priority: .current, readAhead: 64 << 20)
            var position = 0
            while position < content.count {
                let piece = try await reader.read(at: Int64(position), count: 256 * 1024)
                #expect(Bytes(piece) == Array(content[position..<position + piece.count]))
                position += piece.count
            }
            await reader.close()
            let fetched = await world.loaders.traffic.bytesFetched
            #expect(fetched < 40 << 20)
            let whole = try await world.loaders.open(resource, priority: .current, readAhead: 0)
            await #expect(throws: LoadError.self) {
                await whole.want([0..<Int64.max])
                try await whole.wait(for: 0..<Int64.max)
            }
            await whole.close()
            #expect(await world.loaders.traffic.bytesFetched - fetched < 40 << 20)
        }
        server.stop()
    }

    @Test("CONC-4: what comes after a cancel is dropped", arguments: UInt64(0)..<20) func lateData(seed: UInt64)
        async throws
    {
        let content = Pattern.bytes(3_000_000)
        let server = try RawResponder { [.file(content, $0)] }
        try await LoaderWorld.run(seed: seed) { world in
            let resource = Resource(key: key("a"), urls: [server.baseURL + "/a"])
            let reader = try await world.loaders.open(resource, priority: .current, readAhead: 3_000_000)
            _ = try await reader.read(at: 0, count: 1)
            await reader.close()
            await #expect(throws: LoadError.closed) { try await reader.read(at: 1_000_000, count: 1) }
            #expect(await world.loaders.openCount == 0)
            #expect(await world.loaders.fetchCount == 0)
        }
        server.stop()
    }

    @Test("CONC-9: threads that wait for bytes don't keep the loop waiting, and end when they are told") func blocked()
        async throws
    {
        let server = try RawResponder { _ in [.stall] }
        try await LoaderWorld.run { world in
            var readers: [ByteReader] = []
            var threads: [WorkerThread] = []
            let ended = Lock(0)
            for number in 0..<4 {
                let resource = Resource(key: key("a\(number)"), urls: [server.baseURL + "/\(number)"])
                let reader = try await world.loaders.open(resource, priority: .current, readAhead: 0)
                readers.append(reader)
                threads.append(
                    try WorkerThread(named: "reader") {
                        var bytes = [UInt8](repeating: 0, count: 10)
                        let result = Result {
                            try bytes.withUnsafeMutableBytes { try reader.readBlocking(at: 0, into: $0) }
                        }
                        #expect(throws: LoadError.closed) { try result.get() }
                        ended.withLock { $0 += 1 }
                    })
            }
            while server.requests.count < 4 { try await world.loop.sleep(for: .milliseconds(5)) }
            for _ in 0..<500 { _ = await world.loaders.openCount }
            #expect(ended.withLock { $0 } == 0)
            for reader in readers { reader.interrupt() }
            try await world.loop.offload { [threads] in for thread in threads { thread.join() } }
            #expect(ended.withLock { $0 } == 4)
            for reader in readers { await reader.close() }
        }
        server.stop()
    }

    @Test("LIMIT-2: out of descriptors is an error of some requests, and passes") func descriptors() async throws {
        let content = Pattern.bytes(20_000)
        let server = try RawResponder { request in [.wait(seconds: 0.05), .file(content, request)] }
        let base = server.baseURL
        await #expect(processExitsWith: .success) { [base = base as String] in
            try await LoaderWorld.run { world in
                let open = try FileManager.default.contentsOfDirectory(atPath: "/proc/self/fd").count
                var limit = rlimit(rlim_cur: rlim_t(open + 24), rlim_max: rlim_t(open + 24))
                setrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit)
                let failures = await withTaskGroup(of: String?.self) { group in
                    for number in 0..<100 {
                        let resource = Resource(key: key("a\(number)"), urls: ["\(base)/\(number)"])
                        group.addTask {
                            do {
                                return try await world.read(resource) == Bytes(Pattern.bytes(20_000)) ? nil : "wrong"
                            } catch {
                                return "\(error)"
                            }
                        }
                    }
                    return await group.reduce(into: [String]()) { if let failure = $1 { $0.append(failure) } }
                }
                precondition(failures.allSatisfy { $0.hasPrefix("127.0.0.1: ") }, "\(failures.first ?? "")")
                let later = try await world.read(Resource(key: key("later"), urls: ["\(base)/later"]))
                precondition(later == Bytes(Pattern.bytes(20_000)), "a later load does not work")
            }
        }
        server.stop()
    }

    @Test("LIMIT-3: preloads that are dropped leave no memory behind") func preloadsDropped() async throws {
        let content = Pattern.bytes(200_000)
        let server = try RawResponder { [.file(content, $0)] }
        let base = server.baseURL
        await #expect(processExitsWith: .success) { [base = base as String] in
            try await LoaderWorld.run { world in
                var before = 0
                for number in 0..<300 {
                    let resource = Resource(key: key("a\(number)"), urls: ["\(base)/\(number)"])
                    try await world.loaders.prefetch(resource, .bytes(200_000), priority: .preload)
                    await world.cache.remove(resource.key)
                    if number == 50 { before = memory("VmRSS") }
                }
                precondition(memory("VmRSS") - before < 20 << 20, "300 preloads left memory behind")
            }
        }
        server.stop()
    }

    @Test("LIMIT-5: a large cached file is read in pieces, whatever the readers do") func largeCached() async throws {
        await #expect(processExitsWith: .success) {
            try await LoaderWorld.run({ $0.capacity = 1 << 30 }) { world in
                let resource = Resource(key: key("a"), urls: ["http://127.0.0.1:1/a"])
                let stored = try await world.cache.checkOut(resource.key)
                let length: Int64 = 300 << 20
                let piece = [UInt8](repeating: 7, count: 1 << 20)
                await world.cache.describe(stored, length: length, validator: "\"1\"", contentType: "video/mp4")
                for offset in stride(from: 0, to: length, by: piece.count) {
                    try await world.cache.write(piece, at: offset, to: stored)
                }
                await world.cache.checkIn(stored)
                let before = memory("VmHWM")
                try await withThrowingTaskGroup(of: Void.self) { group in
                    for _ in 0..<3 {
                        group.addTask {
                            let reader = try await world.loaders.open(resource, priority: .current, readAhead: length)
                            var position: Int64 = 0
                            while position < length {
                                let bytes = try await reader.read(at: position, count: 256 * 1024)
                                position += Int64(bytes.count)
                            }
                            await reader.close()
                        }
                    }
                    try await group.waitForAll()
                }
                precondition(memory("VmHWM") - before < 20 << 20, "reading a cached file took its size in memory")
            }
        }
    }
}
