package import FeedVocabulary

/// Why the disk cache can't be opened or can't take bytes.
package enum CacheError: Error, Hashable, CustomStringConvertible {
    /// The directory can't be made or written.
    case unusable(directory: String, reason: String)
    /// Another cache has the directory open.
    case inUse(directory: String, process: Int32)
    /// The directory was written by a newer version of this package.
    case newerVersion(directory: String, version: Int64)
    /// SQLite failed on the index.
    case index(directory: String, SQLiteError)
    /// The disk did not take the bytes. `errno` is the system's.
    case write(errno: Int32, reason: String)
    /// Everything in the cache is in use, and together it fills the capacity.
    case full(capacity: Int64)
    /// The disk has less room left than the cache was told to leave to others.
    case diskLow(free: Int64, guarded: Int64)
    /// The resource is not stored as a whole.
    case incomplete(CacheKey)
    /// There is no such resource.
    case missing(CacheKey)
    /// The resource was dropped meanwhile, because it changed on the server or was cleared.
    case dropped
    /// The cache was closed.
    case closed

    package var description: String {
        switch self {
        case .unusable(let directory, let reason):
            "the cache directory \(directory) can't be used: \(reason); make it writable or choose another one"
        case .inUse(let directory, let process):
            "the cache directory \(directory) is in use by process \(process); give each process a directory of its own"
        case .newerVersion(let directory, let version):
            """
            the cache directory \(directory) was written by a newer version (format \(version), this one knows \
            \(CacheIndex.version)); update, or choose another directory
            """
        case .index(let directory, let error): "the cache index in \(directory) failed: \(error)"
        case .write(_, let reason): "the cache can't write: \(reason)"
        case .full(let capacity): "everything in the cache is in use and fills its capacity of \(capacity) bytes"
        case .diskLow(let free, let guarded):
            "the disk has \(free / 1_048_576) MB left, and the cache leaves \(guarded / 1_048_576) MB to others"
        case .incomplete(let key): "\(key) is not stored as a whole; fetch the rest first"
        case .missing(let key): "the cache has nothing under the key \(key)"
        case .dropped: "the cached resource was dropped meanwhile"
        case .closed: "the cache is closed"
        }
    }
}
