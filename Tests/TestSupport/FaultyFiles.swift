package import EventLoop
import FeedVocabulary
import Foundation

/// Real files that fail, or lose their power, at a chosen moment.
package final class FaultyFiles: FileSystem {
    package enum Fault: Sendable {
        /// The n-th call fails with this errno, all others work.
        case call(Int, errno: Int32)
        /// At the n-th sync the power goes: what was not synced before is lost or torn, and nothing works afterwards.
        case powerCut(atSync: Int, seed: UInt64)
    }
    fileprivate struct State {
        var calls = 0
        var syncs = 0
        var isDead = false
        var unsyncedNames: Set<String> = []
        var open: [String: [(offset: Int64, bytes: [UInt8])]] = [:]  // written, not synced
    }
    private let files: LoopFiles
    private let fault: Fault
    fileprivate let state = Lock(State())
    /// Called when the power goes, with all files as the disk has them.
    private let whenDead: @Sendable () -> Void

    package init(_ files: LoopFiles, _ fault: Fault, whenDead: @escaping @Sendable () -> Void = {}) {
        (self.files, self.fault, self.whenDead) = (files, fault, whenDead)
    }

    /// Calls made so far.
    package var callCount: Int { state.withLock { $0.calls } }
    /// Syncs of files and directories so far.
    package var syncCount: Int { state.withLock { $0.syncs } }
    package var isDead: Bool { state.withLock { $0.isDead } }

    fileprivate var buffersWrites: Bool { if case .powerCut = fault { true } else { false } }

    fileprivate func begin(_ call: String) throws {
        let (number, isDead) = state.withLock { state -> (Int, Bool) in
            state.calls += 1
            return (state.calls, state.isDead)
        }
        if isDead { throw LoopError(code: -EIO, call: call) }
        if case .call(number, let errno) = fault { throw LoopError(code: -errno, call: call) }
    }

    /// Counts a sync; the power may go now.
    fileprivate func beginSync() throws {
        try begin("fsync")
        guard case .powerCut(let last, let seed) = fault else { return state.withLock { $0.syncs += 1 } }
        let lost = state.withLock {
            state -> (writes: [String: [(offset: Int64, bytes: [UInt8])]], names: Set<String>)? in
            state.syncs += 1
            guard state.syncs == last else { return nil }
            state.isDead = true
            return (state.open, state.unsyncedNames)
        }
        guard let lost else { return }
        var random = SplitMix64(seed: seed)
        for (path, writes) in lost.writes.sorted(by: { $0.key < $1.key }) {
            // Of what was not synced some pages made it, in no order, and others did not.
            guard let file = FileHandle(forUpdatingAtPath: path) else { continue }
            for write in writes {
                for start in stride(from: 0, to: write.bytes.count, by: 4_096) where Bool.random(using: &random) {
                    try? file.seek(toOffset: UInt64(write.offset) + UInt64(start))
                    try? file.write(contentsOf: write.bytes[start..<min(start + 4_096, write.bytes.count)])
                }
            }
            try? file.close()
        }
        for path in lost.names { try? FileManager.default.removeItem(atPath: path) }
        whenDead()
        throw LoopError(code: -EIO, call: "fsync")
    }

    package func openToRead(_ path: String) async throws -> any OpenFile { try await open(path, creating: false) }
    package func open(_ path: String, creating: Bool) async throws -> any OpenFile {
        try begin("open")
        let isNew = creating && !FileManager.default.fileExists(atPath: path)
        let file = try await files.open(path, creating: creating)
        if isNew { state.withLock { _ = $0.unsyncedNames.insert(path) } }
        return FaultyFile(file, path: path, files: self)
    }
    package func stat(_ path: String) async throws -> FileStatus {
        try begin("stat")
        return try await files.stat(path)
    }
    package func rename(_ path: String, to newPath: String) async throws {
        try begin("rename")
        try await files.rename(path, to: newPath)
    }
    package func unlink(_ path: String) async throws {
        try begin("unlink")
        try await files.unlink(path)
    }
    package func list(_ path: String) async throws -> [String] {
        try begin("list")
        return try await files.list(path)
    }
    package func makeDirectory(_ path: String) async throws {
        try begin("mkdir")
        try await files.makeDirectory(path)
    }
    package func syncDirectory(_ path: String) async throws {
        try beginSync()
        state.withLock { $0.unsyncedNames.removeAll() }
        try await files.syncDirectory(path)
    }
    package func freeBytes(at path: String) async throws -> Int64 {
        try begin("statvfs")
        return try await files.freeBytes(at: path)
    }
    package func copy(_ path: String, to newPath: String) async throws {
        try begin("copy")
        try await files.copy(path, to: newPath)
    }
}

private final class FaultyFile: OpenFile {
    private let file: any OpenFile
    private let path: String
    private let files: FaultyFiles
    init(_ file: any OpenFile, path: String, files: FaultyFiles) {
        (self.file, self.path, self.files) = (file, path, files)
    }

    var descriptor: Int32? { files.buffersWrites ? nil : file.descriptor }

    func read(at offset: Int64, count: Int) async throws -> [UInt8] {
        try files.begin("read")
        let pending = files.state.withLock { $0.open[path] ?? [] }
        guard !pending.isEmpty else { return try await file.read(at: offset, count: count) }
        // What this process wrote it sees, whether the disk has it or not.
        var bytes = try await file.read(at: offset, count: count)
        for write in pending {
            let start = max(offset, write.offset)
            let end = min(offset + Int64(count), write.offset + Int64(write.bytes.count))
            guard start < end else { continue }
            if bytes.count < Int(end - offset) {
                bytes += [UInt8](repeating: 0, count: Int(end - offset) - bytes.count)
            }
            bytes.replaceSubrange(
                Int(start - offset)..<Int(end - offset),
                with: write.bytes[Int(start - write.offset)..<Int(end - write.offset)])
        }
        return bytes
    }
    func write(_ bytes: [UInt8], at offset: Int64) async throws {
        try files.begin("write")
        guard files.buffersWrites else { return try await file.write(bytes, at: offset) }
        files.state.withLock { $0.open[path, default: []].append((offset, bytes)) }
    }
    func sync() async throws {
        try files.beginSync()
        for write in files.state.withLock({ $0.open.removeValue(forKey: path) ?? [] }) {
            try await file.write(write.bytes, at: write.offset)
        }
        try await file.sync()
    }
    func truncate(to length: Int64) async throws {
        try files.begin("ftruncate")
        try await file.truncate(to: length)
    }
    func punchHole(_ range: Range<Int64>) async throws {
        try files.begin("fallocate")
        try await file.punchHole(range)
    }
    func close() async throws { try await file.close() }
}
