package import EventLoop
import FeedVocabulary
import Glibc

/// Files in memory, each call taking some virtual time.
package actor SimulatedDisk: FileSystem {
    nonisolated private let loop: SimulatedLoop
    package nonisolated var unownedExecutor: UnownedSerialExecutor { loop.asUnownedSerialExecutor() }
    private var files: [String: SimulatedFile] = [:]
    private var directories: Set<String> = ["/"]
    /// Bytes that fit; further writes fail as on a full disk.
    package var capacity = Int64.max

    package init(loop: SimulatedLoop) { self.loop = loop }

    package func setCapacity(_ bytes: Int64) { capacity = bytes }
    /// The files that exist, by path.
    package var paths: [String] { files.keys.sorted() }

    fileprivate func delay() async throws {
        try await loop.offload {}
    }
    package var used: Int64 { files.values.reduce(0) { $0 + $1.allocated } }

    private func missing(_ path: String, _ call: String) -> LoopError {
        LoopError(code: -ENOENT, call: "\(call) \(path)")
    }

    package func open(_ path: String, creating: Bool) async throws -> any OpenFile {
        try await delay()
        if let file = files[path] { return file }
        guard creating else { throw missing(path, "open") }
        let file = SimulatedFile(disk: self)
        files[path] = file
        return file
    }
    package func stat(_ path: String) async throws -> FileStatus {
        try await delay()
        if directories.contains(path) { return FileStatus(length: 0, allocated: 0, isDirectory: true) }
        guard let file = files[path] else { throw missing(path, "stat") }
        return FileStatus(length: file.length, allocated: file.allocated, isDirectory: false)
    }
    package func rename(_ path: String, to newPath: String) async throws {
        try await delay()
        guard let file = files.removeValue(forKey: path) else { throw missing(path, "rename") }
        files[newPath] = file
    }
    package func unlink(_ path: String) async throws {
        try await delay()
        guard files.removeValue(forKey: path) != nil else { throw missing(path, "unlink") }
    }
    package func list(_ path: String) async throws -> [String] {
        try await delay()
        let prefix = path + "/"
        return files.keys.filter { $0.hasPrefix(prefix) }.map { String($0.dropFirst(prefix.count)) }.sorted()
    }
    package func makeDirectory(_ path: String) async throws {
        try await delay()
        directories.insert(path)
    }
    package func syncDirectory(_ path: String) async throws { try await delay() }
    package func freeBytes(at path: String) async throws -> Int64 {
        try await delay()
        return capacity - used
    }
    package func copy(_ path: String, to newPath: String) async throws {
        let source = try await open(path, creating: false)
        let target = try await open(newPath, creating: true)
        try await target.write(try await source.read(at: 0, count: .max), at: 0)
    }
}

/// One file of a simulated disk, with holes.
private final class SimulatedFile: OpenFile {
    private struct State {
        var bytes: [UInt8] = []
        var written = ByteRangeSet()
    }
    private let state = Lock(State())
    private let disk: SimulatedDisk
    init(disk: SimulatedDisk) { self.disk = disk }

    var length: Int64 { Int64(state.withLock { $0.bytes.count }) }
    var allocated: Int64 { state.withLock { $0.written.count } }
    var descriptor: Int32? { nil }
    func read(at offset: Int64, count: Int) async throws -> [UInt8] {
        try await disk.delay()
        return state.withLock { state in
            let start = min(Int(offset), state.bytes.count)
            return Array(state.bytes[start...].prefix(count))
        }
    }
    func write(_ new: [UInt8], at offset: Int64) async throws {
        try await disk.delay()
        let range = ByteRange(offset: offset, saturatingLength: Int64(new.count))
        let growth = range.length - state.withLock { $0.written.overlap(with: range) }
        guard await disk.used + growth <= disk.capacity else { throw LoopError(code: -ENOSPC, call: "write") }
        state.withLock { state in
            let end = Int(offset) + new.count
            if state.bytes.count < end {
                state.bytes += [UInt8](repeating: 0, count: end - state.bytes.count)
            }
            state.bytes.withUnsafeMutableBytes { memory in
                UnsafeMutableRawBufferPointer(rebasing: memory[Int(offset)..<end]).copyBytes(from: new)
            }
            state.written.insert(range)
        }
    }
    func sync() async throws { try await disk.delay() }
    func truncate(to length: Int64) async throws {
        try await disk.delay()
        state.withLock { state in
            let missing = Int(length) - state.bytes.count
            state.bytes =
                missing < 0 ? Array(state.bytes.prefix(Int(length))) : state.bytes + repeatElement(0, count: missing)
            state.written.remove(length..<Int64.max)
        }
    }
    func punchHole(_ range: ByteRange) async throws {
        try await disk.delay()
        state.withLock { state in
            let part = range.clamped(to: 0..<Int64(state.bytes.count))
            _ = state.bytes.withUnsafeMutableBytes { memory in
                UnsafeMutableRawBufferPointer(rebasing: memory[Int(part.lowerBound)..<Int(part.upperBound)])
                    .initializeMemory(as: UInt8.self, repeating: 0)
            }
            state.written.remove(range)
        }
    }
    func close() async throws {}
}
