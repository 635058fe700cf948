internal import CLibuv
import Glibc
import Synchronization

/// The machine's files through `uv_fs_*`: the work is done on libuv's thread pool, the answer comes to the loop.
package actor LoopFiles: FileSystem {
    nonisolated private let loop: LoopThread
    package nonisolated var unownedExecutor: UnownedSerialExecutor { loop.asUnownedSerialExecutor() }

    private let writesOnLoop: Bool

    /// - Parameter writesOnLoop: For a program whose loop has nothing else to do: bytes that have just come are written
    ///   while they are in the processor's cache, and a slow disk slows the loop down.
    package init(loop: LoopThread, writesOnLoop: Bool = false) {
        (self.loop, self.writesOnLoop) = (loop, writesOnLoop)
    }

    package func open(_ path: String, creating: Bool) async throws -> any OpenFile {
        let flags = O_RDWR | O_CLOEXEC | (creating ? O_CREAT : 0)
        let descriptor = try await request("open \(path)") { uv_fs_open($0, $1, path, flags, 0o600, $2) }
        return LoopFile(descriptor: Int32(descriptor), files: self)
    }

    package func openToRead(_ path: String) async throws -> any OpenFile {
        let descriptor = try await request("open \(path)") { uv_fs_open($0, $1, path, O_RDONLY | O_CLOEXEC, 0, $2) }
        return LoopFile(descriptor: Int32(descriptor), files: self)
    }

    package func stat(_ path: String) async throws -> FileStatus {
        try await request("stat \(path)") {
            uv_fs_stat($0, $1, path, $2)
        } reading: { request in
            let status = request.pointee.statbuf
            return FileStatus(
                length: Int64(status.st_size), allocated: Int64(status.st_blocks) * 512,
                isDirectory: mode_t(truncatingIfNeeded: status.st_mode) & Glibc.S_IFMT == Glibc.S_IFDIR)
        }
    }

    package func rename(_ path: String, to newPath: String) async throws {
        try await request("rename \(path)") { uv_fs_rename($0, $1, path, newPath, $2) }
    }

    package func unlink(_ path: String) async throws {
        try await request("unlink \(path)") { uv_fs_unlink($0, $1, path, $2) }
    }

    package func list(_ path: String) async throws -> [String] {
        try await request("scandir \(path)") {
            uv_fs_scandir($0, $1, path, 0, $2)
        } reading: { request in
            var names: [String] = []
            var entry = uv_dirent_t()
            while uv_fs_scandir_next(request, &entry) >= 0 { names.append(String(cString: entry.name)) }
            return names
        }
    }

    package func makeDirectory(_ path: String) async throws {
        do {
            try await request("mkdir \(path)") { uv_fs_mkdir($0, $1, path, 0o700, $2) }
        } catch let error as LoopError where error.errno == EEXIST {
            guard try await stat(path).isDirectory else { throw LoopError(code: -ENOTDIR, call: "mkdir \(path)") }
        } catch let error as LoopError where error.errno == ENOENT {
            guard let slash = path.lastIndex(of: "/"), slash != path.startIndex else { throw error }
            try await makeDirectory(String(path[..<slash]))
            // Not by recursion: some file systems answer "no such file" to every new name.
            try await request("mkdir \(path)") { uv_fs_mkdir($0, $1, path, 0o700, $2) }
        }
    }

    package func syncDirectory(_ path: String) async throws {
        let descriptor = try await request("open \(path)") {
            uv_fs_open($0, $1, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0, $2)
        }
        let file = LoopFile(descriptor: Int32(descriptor), files: self)
        try await request("fsync \(path)") { uv_fs_fsync($0, $1, uv_file(descriptor), $2) }
        try await file.close()
    }

    package func freeBytes(at path: String) async throws -> Int64 {
        try await offloaded("statvfs \(path)") {
            var status = statvfs()
            guard statvfs(path, &status) == 0 else { return -1 }
            return Int64(clamping: status.f_bavail) * Int64(clamping: status.f_frsize)
        }
    }

    package func copy(_ path: String, to newPath: String) async throws {
        _ = try await offloaded("copy \(path) to \(newPath)") { Self.copyFile(path, newPath) }
    }

    /// Runs in the kernel, so that nothing of the file passes through this process.
    private static func copyFile(_ path: String, _ newPath: String) -> Int64 {
        let source = Glibc.open(path, O_RDONLY | O_CLOEXEC)
        guard source >= 0 else { return -1 }
        defer { Glibc.close(source) }
        let target = Glibc.open(newPath, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0o644)
        guard target >= 0 else { return -1 }
        defer { Glibc.close(target) }
        var status = Glibc.stat()
        guard fstat(source, &status) == 0 else { return -1 }
        var left = Int(status.st_size)
        while left > 0 {
            var count = ff_copy_file_range(source, target, min(left, 1 << 30))
            // Not between every two file systems, nor on every kernel.
            if count < 0, errno == EXDEV || errno == ENOSYS || errno == EINVAL || errno == EOPNOTSUPP {
                count = sendfile(target, source, nil, min(left, 1 << 30))
            }
            guard count > 0 else { return -1 }
            left -= count
        }
        return fdatasync(target) == 0 ? 0 : -1
    }

    /// The result of calls that libuv does not have, on its thread pool. Negative means that `errno` tells why.
    @discardableResult
    private func offloaded(
        _ call: String, isOnLoop: Bool = false, _ work: @escaping @Sendable () -> Int64
    ) async throws -> Int64 {
        let attempt: @Sendable () -> (Int64, Int32) = {
            let result = work()
            return (result, result < 0 ? errno : 0)
        }
        let (result, code) = isOnLoop ? attempt() : try await loop.offload(attempt)
        guard result >= 0 else { throw LoopError(code: -code, call: call) }
        return result
    }

    // MARK: One request

    private typealias Start = (UnsafeMutablePointer<uv_loop_t>, UnsafeMutablePointer<uv_fs_t>, uv_fs_cb?) -> Int32

    /// Carries out one `uv_fs_*` call and gives its result, which is a count or a descriptor.
    @discardableResult
    private func request(_ call: String, _ start: Start) async throws -> Int {
        try await request(call, start) { $0.pointee.result }
    }

    /// Carries out one `uv_fs_*` call; `reading` takes what is wanted from the finished request.
    private func request<Answer>(
        _ call: String, _ start: Start, reading: (UnsafeMutablePointer<uv_fs_t>) -> Answer
    ) async throws -> Answer {
        let request = FileRequest()
        let code = await withCheckedContinuation { (waiting: CheckedContinuation<Int32, Never>) in
            guard loop.isRunning else { return waiting.resume(returning: -ECANCELED) }
            let code = start(loop.handle, request.begin(waiting)) { request in FileRequest.finished(request!) }
            if code < 0 { request.refused(code) }
        }
        try check(code, call)
        guard request.handle.pointee.result >= 0 else {
            throw LoopError(code: Int32(request.handle.pointee.result), call: call)
        }
        return reading(request.handle)
    }

    // MARK: Calls of an open file

    fileprivate func read(_ descriptor: Int32, at offset: Int64, count: Int) async throws -> [UInt8] {
        let memory = UnsafeMutablePointer<CChar>.allocate(capacity: max(1, count))
        defer { memory.deallocate() }
        var filled = 0
        while filled < count {
            var buffer = uv_buf_init(memory + filled, UInt32(count - filled))
            let got = try await request("read") {
                uv_fs_read($0, $1, descriptor, &buffer, 1, offset + Int64(filled), $2)
            }
            if got == 0 { break }
            filled += got
        }
        return Array(UnsafeRawBufferPointer(start: memory, count: filled))
    }

    fileprivate func write(_ bytes: [UInt8], to descriptor: Int32, at offset: Int64) async throws {
        try await offloaded("write", isOnLoop: writesOnLoop) {
            bytes.withUnsafeBytes { memory in
                var written = 0
                while written < memory.count {
                    let count = pwrite(
                        descriptor, memory.baseAddress! + written, memory.count - written, off_t(offset) + written)
                    if count < 0, errno == EINTR { continue }
                    guard count > 0 else {
                        if count == 0 { errno = ENOSPC }
                        return -1
                    }
                    written += count
                }
                return 0
            }
        }
    }
    fileprivate func punchHole(_ descriptor: Int32, _ range: Range<Int64>) async throws {
        try await offloaded("fallocate") {
            Int64(ff_punch_hole(descriptor, off_t(range.lowerBound), off_t(range.upperBound - range.lowerBound)))
        }
    }

    fileprivate func sync(_ descriptor: Int32) async throws {
        try await request("fdatasync") { uv_fs_fdatasync($0, $1, descriptor, $2) }
    }
    fileprivate func truncate(_ descriptor: Int32, to length: Int64) async throws {
        try await request("ftruncate") { uv_fs_ftruncate($0, $1, descriptor, length, $2) }
    }
    fileprivate func close(_ descriptor: Int32) async throws {
        try await request("close") { uv_fs_close($0, $1, descriptor, $2) }
    }
}

/// One descriptor, closed exactly once: by `close()`, or when the last reference goes away.
private final class LoopFile: OpenFile {
    private let raw: Int32
    private let files: LoopFiles
    private let isOpen = Atomic<Bool>(true)

    init(descriptor: Int32, files: LoopFiles) { (raw, self.files) = (descriptor, files) }
    deinit { if isOpen.load(ordering: .acquiring) { _ = Glibc.close(raw) } }

    var descriptor: Int32? { raw }
    func read(at offset: Int64, count: Int) async throws -> [UInt8] {
        try await files.read(raw, at: offset, count: count)
    }
    func write(_ bytes: [UInt8], at offset: Int64) async throws { try await files.write(bytes, to: raw, at: offset) }
    func sync() async throws { try await files.sync(raw) }
    func truncate(to length: Int64) async throws { try await files.truncate(raw, to: length) }
    func punchHole(_ range: Range<Int64>) async throws { try await files.punchHole(raw, range) }
    func close() async throws {
        guard isOpen.exchange(false, ordering: .acquiringAndReleasing) else { return }
        try await files.close(raw)
    }
}

/// One `uv_fs_t`, which libuv holds from `begin` to the callback.
private final class FileRequest: @unchecked Sendable {
    // @unchecked: the request is touched on the loop thread only; libuv's worker has it in between.
    let handle = UnsafeMutablePointer<uv_fs_t>.allocate(capacity: 1)
    private var waiting: CheckedContinuation<Int32, Never>?

    init() { handle.initialize(to: uv_fs_t()) }
    deinit {
        uv_fs_req_cleanup(handle)
        handle.deallocate()
    }

    func begin(_ continuation: CheckedContinuation<Int32, Never>) -> UnsafeMutablePointer<uv_fs_t> {
        waiting = continuation
        handle.pointee.data = Unmanaged.passRetained(self).toOpaque()
        return handle
    }
    static func finished(_ handle: UnsafeMutablePointer<uv_fs_t>) {
        Unmanaged<FileRequest>.fromOpaque(handle.pointee.data).takeRetainedValue().waiting.take()?.resume(returning: 0)
    }
    /// libuv did not take the request, so no callback will come.
    func refused(_ code: Int32) {
        Unmanaged.passUnretained(self).release()
        waiting.take()?.resume(returning: code)
    }
}
