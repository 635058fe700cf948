public import FeedStrategy
import Glibc
package import HTTPTransport
package import MediaCache

/// How a runtime stores, connects and plays.
public struct RuntimeConfiguration: Sendable {
    /// Where media is cached; one process a directory. By default `$XDG_CACHE_HOME/firstframe`, or
    /// `~/.cache/firstframe`.
    public var cacheDirectory: String
    /// Bytes of media kept on disk at most. Allowed: 1 MB and more; default 300 MB.
    public var cacheCapacity: Int64 = 300 * 1024 * 1024
    /// A cached clip that nobody used for this long is removed. Allowed: above zero; default 14 days.
    public var maximumCacheAge = Duration.seconds(14 * 24 * 3600)
    /// Bytes of the disk that the cache leaves to others. Allowed: 0 and more; default 100 MB.
    public var freeDiskGuard: Int64 = 100 * 1024 * 1024
    /// Whether a checksum of each cached block is kept, and compared before the first use after a process that did not
    /// end well: for disks that lose what they said they had written. Costs reading each block once more.
    public var keepsCacheChecksums = false
    /// Engines that exist at the same time. Allowed: `2...16`; default 3.
    public var engineLimit = 3
    /// Bytes that the current entry reads ahead. Allowed: 256 KB to 256 MB; default 8 MB.
    public var readAhead: Int64 = 8 * 1024 * 1024
    /// Asks the service that knows the ids of ``VidSource``.
    public var vidResolver: any VidResolver = VolcengineVidResolver()
    /// How the resolution of a ``VidSource`` is chosen that does not name one.
    public var startup = StartupResolution()
    /// Sent to servers.
    public var userAgent = "FirstFrame/0.1"
    /// PEM file of certificate authorities to trust instead of the system's. Certificates are always verified.
    public var certificateAuthorityFile: String?

    /// Time for name, connection and TLS together. Allowed: 0.1 to 300 s; default 10 s.
    public var connectTimeout = Duration.seconds(10)
    /// Time without a byte, after which a server counts as stalled and the request is made again at the same byte.
    /// Allowed: 1 to 300 s, in whole seconds; default 15 s.
    public var stallTimeout = Duration.seconds(15)

    /// The defaults.
    public init() { cacheDirectory = Self.defaultCacheDirectory }

    private static var defaultCacheDirectory: String {
        // XDG Base Directory Specification: an empty or relative value counts as unset.
        if let base = getenv("XDG_CACHE_HOME").map({ String(cString: $0) }), base.hasPrefix("/") {
            return base + "/firstframe"
        }
        let home = getenv("HOME").map { String(cString: $0) } ?? "/tmp"
        return home + "/.cache/firstframe"
    }

    func validate() throws(ConfigurationError) {
        guard cacheCapacity >= 1024 * 1024 else { throw .outOfRange(field: "cacheCapacity", allowed: "1 MB and more") }
        guard maximumCacheAge > .zero else { throw .outOfRange(field: "maximumCacheAge", allowed: "above zero") }
        guard freeDiskGuard >= 0 else { throw .outOfRange(field: "freeDiskGuard", allowed: "0 and more") }
        guard (.milliseconds(100) ... .seconds(300)).contains(connectTimeout) else {
            throw .outOfRange(field: "connectTimeout", allowed: "0.1 to 300 s")
        }
        guard (.seconds(1) ... .seconds(300)).contains(stallTimeout) else {
            throw .outOfRange(field: "stallTimeout", allowed: "1 to 300 s")
        }
        try startup.validate()
        guard (2...16).contains(engineLimit) else { throw .outOfRange(field: "engineLimit", allowed: "2 to 16") }
        guard (256 * 1024...256 * 1024 * 1024).contains(readAhead) else {
            throw .outOfRange(field: "readAhead", allowed: "256 KB to 256 MB")
        }
    }
    package var cache: CacheConfiguration {
        var cache = CacheConfiguration(directory: cacheDirectory, capacity: cacheCapacity)
        (cache.maximumAge, cache.freeDiskGuard) = (maximumCacheAge, freeDiskGuard)
        cache.keepsChecksums = keepsCacheChecksums
        return cache
    }
    package var http: HTTPClientConfiguration {
        var http = HTTPClientConfiguration()
        http.userAgent = userAgent
        (http.connectTimeout, http.stallTimeout) = (connectTimeout, stallTimeout)
        http.certificateAuthorityFile = certificateAuthorityFile
        return http
    }
}

/// What a runtime has done so far.
public struct RuntimeStatistics: Hashable, Sendable {
    /// Bytes of media received from servers.
    public var bytesFetched: Int64 = 0
    /// Of these, bytes that no playing engine has read. What an engine that still plays has read counts at its end.
    public var bytesNeverPlayed: Int64 = 0
    /// Bytes a second that the network gave lately; `nil` until something was fetched.
    public var throughput: Double?
    /// Engines that exist.
    public var liveEngines = 0
    /// Resources that are open.
    public var openResources = 0
    /// Requests under way.
    public var runningFetches = 0
    init() {}
}
