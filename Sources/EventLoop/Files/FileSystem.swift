/// The files of one machine, real or simulated. All calls are made from actors of the loop.
package protocol FileSystem: Sendable {
    /// Opens for reading and writing.
    func open(_ path: String, creating: Bool) async throws -> any OpenFile
    /// Opens a file that is only read.
    func openToRead(_ path: String) async throws -> any OpenFile
    func stat(_ path: String) async throws -> FileStatus
    func rename(_ path: String, to newPath: String) async throws
    func unlink(_ path: String) async throws
    /// Names in a directory, in no order.
    func list(_ path: String) async throws -> [String]
    /// Creates the directory and those above it; fine when it is there.
    func makeDirectory(_ path: String) async throws
    /// Makes names created or removed in the directory durable.
    func syncDirectory(_ path: String) async throws
    /// Bytes that this user may still write to the file system of `path`.
    func freeBytes(at path: String) async throws -> Int64
    /// Copies a whole file to a new one, whose bytes are durable when it returns.
    func copy(_ path: String, to newPath: String) async throws
}

/// One open file; closed when the last reference goes away.
package protocol OpenFile: AnyObject, Sendable {
    /// The descriptor, where there is one: threads of one's own may `pread` it.
    var descriptor: Int32? { get }
    /// Up to `count` bytes from `offset`; fewer at the end of the file.
    func read(at offset: Int64, count: Int) async throws -> [UInt8]
    /// Writes all of `bytes`.
    func write(_ bytes: [UInt8], at offset: Int64) async throws
    /// Makes written data durable (`fdatasync`).
    func sync() async throws
    func truncate(to length: Int64) async throws
    /// Gives the disk space of `range` back; it reads as zeros afterwards.
    func punchHole(_ range: Range<Int64>) async throws
    /// Closes now; the file must not be used afterwards.
    func close() async throws
}

package struct FileStatus: Hashable, Sendable {
    package var length: Int64
    /// Bytes that the file takes on disk, without its holes.
    package var allocated: Int64
    package var isDirectory: Bool
    package init(length: Int64, allocated: Int64, isDirectory: Bool) {
        (self.length, self.allocated, self.isDirectory) = (length, allocated, isDirectory)
    }
}
