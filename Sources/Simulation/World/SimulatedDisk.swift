package import EventLoop
import FeedVocabulary
import Glibc

/// How often the disk refuses, and how slow it is: each seed has its own.
package struct DiskWeather: Sendable {
    /// Of writes and syncs, 0 to 1.
    package var errorRate = 0.0
    package init() {}
}

/// Something that the disk does wrong.
package enum DiskFault: String, Hashable, Sendable, CaseIterable {
    case writeFails, diskFull, syncFails
    /// Pages of what was written and not synced, at a power cut.
    case lostPages, keptPages
    /// Names of files that were made since the directory was synced, at a power cut.
    case lostNames
}

/// Files in memory, each call taking some virtual time; they can lose their power, or their process.
package actor SimulatedDisk: FileSystem {
    nonisolated private let loop: SimulatedLoop
    package nonisolated var unownedExecutor: UnownedSerialExecutor { loop.asUnownedSerialExecutor() }
    private var files: [String: StoredFile] = [:]
    private var directories: Set<String> = ["/"]
    private var unsyncedNames: Set<String> = []
    /// Bytes that fit; further writes fail as on a full disk.
    package var capacity = Int64.max
    private var weather = DiskWeather()
    private var random = SplitMix64(seed: 0)
    /// The process that has the files open, or the machine, is gone: nothing works until ``revive()``.
    private var isDead = false
    /// Faults done so far.
    package private(set) var faultCounts: [DiskFault: Int] = [:]

    package init(loop: SimulatedLoop) { self.loop = loop }

    package func setCapacity(_ bytes: Int64) { capacity = bytes }
    package func setWeather(_ weather: DiskWeather, seed: UInt64) {
        (self.weather, random) = (weather, SplitMix64(seed: seed))
    }
    /// The files that exist, by path.
    package var paths: [String] { files.keys.sorted() }
    /// What a file holds, without taking time; `nil` when there is none.
    package func contents(of path: String) -> [UInt8]? { files[path]?.contents }

    // MARK: Trouble

    /// The process is killed: what it wrote stays, what it still tries to do fails.
    package func kill() { isDead = true }

    /// The power goes: of what was not synced some pages are on the disk, in no order, and others are not.
    package func cutPower() {
        isDead = true
        for (path, file) in files.inOrder {
            let (kept, lost) = file.loseWhatIsNotSynced(&random)
            faultCounts[.keptPages, default: 0] += kept
            faultCounts[.lostPages, default: 0] += lost
            if unsyncedNames.contains(path), Bool.random(using: &random) {
                files[path] = nil
                faultCounts[.lostNames, default: 0] += 1
            }
        }
        unsyncedNames = []
    }

    /// The next process can open the files.
    package func revive() { isDead = false }

    private enum Kind { case write, sync, other }

    fileprivate func write<Value: Sendable>(_ body: () throws -> Value) async throws -> Value {
        try await take(.write, "write", body)
    }
    fileprivate func sync<Value: Sendable>(_ body: () throws -> Value) async throws -> Value {
        try await take(.sync, "fdatasync", body)
    }
    fileprivate func call<Value: Sendable>(_ name: String, _ body: () throws -> Value) async throws -> Value {
        try await take(.other, name, body)
    }

    /// A call's time and luck, and then what it does, in one step: nothing happens after the power has gone.
    private func take<Value: Sendable>(_ kind: Kind, _ call: String, _ body: () throws -> Value) async throws -> Value {
        try await loop.offload {}
        if isDead { throw LoopError(code: -EIO, call: call) }
        if weather.errorRate > 0, Double.random(in: 0..<1, using: &random) < weather.errorRate {
            switch kind {
            case .other: break
            case .sync:
                faultCounts[.syncFails, default: 0] += 1
                throw LoopError(code: -EIO, call: call)
            case .write:
                let isFull = Bool.random(using: &random)
                faultCounts[isFull ? .diskFull : .writeFails, default: 0] += 1
                throw LoopError(code: isFull ? -ENOSPC : -EIO, call: call)
            }
        }
        return try body()
    }

    // MARK: Calls

    package var used: Int64 { files.values.reduce(0) { $0 + $1.allocated } }
    private func hasRoom(for bytes: Int64) -> Bool { capacity == .max || used + bytes <= capacity }

    private func missing(_ path: String, _ call: String) -> LoopError {
        LoopError(code: -ENOENT, call: "\(call) \(path)")
    }

    package func openToRead(_ path: String) async throws -> any OpenFile { try await open(path, creating: false) }
    package func open(_ path: String, creating: Bool) async throws -> any OpenFile {
        try await call("open") {
            if let file = files[path] { return SimulatedFile(file, disk: self) }
            guard creating else { throw missing(path, "open") }
            let file = StoredFile()
            files[path] = file
            unsyncedNames.insert(path)
            return SimulatedFile(file, disk: self)
        }
    }
    package func stat(_ path: String) async throws -> FileStatus {
        try await call("stat") {
            if directories.contains(path) { return FileStatus(length: 0, allocated: 0, isDirectory: true) }
            guard let file = files[path] else { throw missing(path, "stat") }
            return FileStatus(length: file.length, allocated: file.allocated, isDirectory: false)
        }
    }
    package func rename(_ path: String, to newPath: String) async throws {
        try await call("rename") {
            guard let file = files.removeValue(forKey: path) else { throw missing(path, "rename") }
            files[newPath] = file
        }
    }
    package func unlink(_ path: String) async throws {
        try await call("unlink") {
            guard files.removeValue(forKey: path) != nil else { throw missing(path, "unlink") }
            unsyncedNames.remove(path)
        }
    }
    package func list(_ path: String) async throws -> [String] {
        try await call("list") {
            let prefix = path + "/"
            return files.keys.filter { $0.hasPrefix(prefix) }.map { String($0.dropFirst(prefix.count)) }.sorted()
        }
    }
    package func makeDirectory(_ path: String) async throws {
        try await call("mkdir") { _ = directories.insert(path) }
    }
    package func syncDirectory(_ path: String) async throws { try await sync { unsyncedNames = [] } }
    package func freeBytes(at path: String) async throws -> Int64 {
        try await call("statvfs") { capacity - used }
    }
    package func copy(_ path: String, to newPath: String) async throws {
        let source = try await open(path, creating: false)
        let target = try await open(newPath, creating: true)
        try await target.write(try await source.read(at: 0, count: .max), at: 0)
    }

    fileprivate func write(_ bytes: [UInt8], at offset: Int64, to file: StoredFile) async throws {
        try await write {
            let range = ByteRange(offset: offset, saturatingLength: Int64(bytes.count))
            guard hasRoom(for: range.length - file.overlap(with: range)) else {
                throw LoopError(code: -ENOSPC, call: "write")
            }
            file.write(bytes, at: range)
        }
    }
}

/// What the disk has of one file, with holes; the disk's own, while the names and the descriptors come and go.
private final class StoredFile: Sendable {
    private struct State {
        var bytes: [UInt8] = []
        var written = ByteRangeSet()
        /// As it is after a power cut, but for luck.
        var syncedBytes: [UInt8] = []
        var unsynced = ByteRangeSet()
    }
    private static let pageBytes: Int64 = 4096
    private let state = Lock(State())

    var length: Int64 { Int64(state.withLock { $0.bytes.count }) }
    var allocated: Int64 { state.withLock { $0.written.count } }
    var contents: [UInt8] { state.withLock { $0.bytes } }

    func overlap(with range: ByteRange) -> Int64 { state.withLock { $0.written.overlap(with: range) } }

    func read(at offset: Int64, count: Int) -> [UInt8] {
        state.withLock { state in
            let start = min(Int(offset), state.bytes.count)
            return Array(state.bytes[start...].prefix(count))
        }
    }
    func write(_ bytes: [UInt8], at range: ByteRange) {
        state.withLock { state in
            Self.put(bytes[...], at: Int(range.lowerBound), into: &state.bytes)
            state.written.insert(range)
            state.unsynced.insert(range)
        }
    }

    /// What a sync that begins now makes durable; what is written during it is not part of it.
    var unsynced: (bytes: [UInt8], ranges: ByteRangeSet) { state.withLock { ($0.bytes, $0.unsynced) } }

    func synced(_ bytes: [UInt8], _ ranges: ByteRangeSet) {
        state.withLock { state in
            for range in ranges.ranges where range.lowerBound < bytes.count {
                let part = Int(range.lowerBound)..<min(Int(range.upperBound), bytes.count)
                Self.put(bytes[part], at: part.lowerBound, into: &state.syncedBytes)
                if state.bytes.count >= part.upperBound, state.bytes[part] == bytes[part] {
                    state.unsynced.remove(range)
                }
            }
        }
    }
    func truncate(to length: Int64) {
        state.withLock { state in
            for bytes in [\State.bytes, \State.syncedBytes] {
                let missing = Int(length) - state[keyPath: bytes].count
                if missing < 0 { state[keyPath: bytes].removeLast(-missing) }
                if missing > 0 { state[keyPath: bytes] += repeatElement(0, count: missing) }
            }
            state.written.remove(length..<Int64.max)
            state.unsynced.remove(length..<Int64.max)
        }
    }
    func punchHole(_ range: ByteRange) {
        state.withLock { state in
            for bytes in [\State.bytes, \State.syncedBytes] {
                let part = range.clamped(to: 0..<Int64(state[keyPath: bytes].count))
                state[keyPath: bytes].withUnsafeMutableBytes { memory in
                    _ = UnsafeMutableRawBufferPointer(rebasing: memory[Int(part.lowerBound)..<Int(part.upperBound)])
                        .initializeMemory(as: UInt8.self, repeating: 0)
                }
            }
            state.written.remove(range)
            state.unsynced.remove(range)
        }
    }

    private static func put(_ new: ArraySlice<UInt8>, at offset: Int, into bytes: inout [UInt8]) {
        let end = offset + new.count
        if bytes.count < end { bytes += [UInt8](repeating: 0, count: end - bytes.count) }
        bytes.withUnsafeMutableBytes { memory in
            new.withUnsafeBytes { UnsafeMutableRawBufferPointer(rebasing: memory[offset..<end]).copyMemory(from: $0) }
        }
    }

    /// - Returns: Pages that were kept, and pages that were lost.
    func loseWhatIsNotSynced(_ random: inout SplitMix64) -> (kept: Int, lost: Int) {
        var copy = random
        defer { random = copy }
        return state.withLock { state in
            var counts = (kept: 0, lost: 0)
            for range in state.unsynced.ranges {
                for page in stride(from: range.lowerBound, to: range.upperBound, by: Int(Self.pageBytes)) {
                    let part = Int(page)..<min(Int(min(page + Self.pageBytes, range.upperBound)), state.bytes.count)
                    guard !part.isEmpty, Bool.random(using: &copy) else {
                        counts.lost += 1
                        continue
                    }
                    Self.put(state.bytes[part], at: part.lowerBound, into: &state.syncedBytes)
                    counts.kept += 1
                }
            }
            (state.bytes, state.unsynced) = (state.syncedBytes, ByteRangeSet())
            return counts
        }
    }
}

/// One open file of a simulated disk.
private final class SimulatedFile: OpenFile {
    private let file: StoredFile
    private let disk: SimulatedDisk
    init(_ file: StoredFile, disk: SimulatedDisk) { (self.file, self.disk) = (file, disk) }

    var descriptor: Int32? { nil }
    func read(at offset: Int64, count: Int) async throws -> [UInt8] {
        try await disk.call("read") { [file] in file.read(at: offset, count: count) }
    }
    func write(_ bytes: [UInt8], at offset: Int64) async throws {
        try await disk.write(bytes, at: offset, to: file)
    }
    func sync() async throws {
        let (bytes, ranges) = file.unsynced
        try await disk.sync { [file] in file.synced(bytes, ranges) }
    }
    func truncate(to length: Int64) async throws {
        try await disk.call("ftruncate") { [file] in file.truncate(to: length) }
    }
    func punchHole(_ range: ByteRange) async throws {
        try await disk.call("fallocate") { [file] in file.punchHole(range) }
    }
    func close() async throws {}
}
