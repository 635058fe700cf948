package import EventLoop
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
    fileprivate var used: Int64 { files.values.reduce(0) { $0 + $1.length } }

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
        return FileStatus(length: file.length, allocated: file.length, isDirectory: false)
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
}

/// One file of a simulated disk.
private final class SimulatedFile: OpenFile {
    private let bytes = Lock<[UInt8]>([])
    private let disk: SimulatedDisk
    init(disk: SimulatedDisk) { self.disk = disk }

    var length: Int64 { Int64(bytes.withLock { $0.count }) }
    var descriptor: Int32? { nil }
    func read(at offset: Int64, count: Int) async throws -> [UInt8] {
        try await disk.delay()
        return bytes.withLock { bytes in
            let start = min(Int(offset), bytes.count)
            return Array(bytes[start..<min(bytes.count, start + count)])
        }
    }
    func write(_ new: [UInt8], at offset: Int64) async throws {
        try await disk.delay()
        let growth = max(0, offset + Int64(new.count) - length)
        guard await disk.used + growth <= disk.capacity else { throw LoopError(code: -ENOSPC, call: "write") }
        bytes.withLock { bytes in
            let end = Int(offset) + new.count
            if bytes.count < end { bytes.append(contentsOf: repeatElement(0, count: end - bytes.count)) }
            bytes.replaceSubrange(Int(offset)..<end, with: new)
        }
    }
    func sync() async throws { try await disk.delay() }
    func truncate(to length: Int64) async throws {
        try await disk.delay()
        bytes.withLock { bytes in
            bytes =
                bytes.count > length
                ? Array(bytes.prefix(Int(length))) : bytes + repeatElement(0, count: Int(length) - bytes.count)
        }
    }
    func close() async throws {}
}
