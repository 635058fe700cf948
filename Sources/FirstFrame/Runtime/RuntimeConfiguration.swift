import FeedStrategy
import Glibc
import HTTPTransport
import MediaCache

/// How a runtime stores, connects and plays.
public struct RuntimeConfiguration: Sendable {
    /// Where media is cached; one process a directory. By default `$XDG_CACHE_HOME/firstframe`, or
    /// `~/.cache/firstframe`.
    public var cacheDirectory: String
    /// Bytes of media kept on disk at most. Allowed: 1 MB and more; default 300 MB.
    public var cacheCapacity: Int64 = 300 * 1024 * 1024
    /// Engines that exist at the same time. Allowed: `2...16`; default 3.
    public var engineLimit = 3
    /// Bytes that the current entry reads ahead. Allowed: 256 KB to 256 MB; default 8 MB.
    public var readAhead: Int64 = 8 * 1024 * 1024
    /// Sent to servers.
    public var userAgent = "FirstFrame/0.1"
    /// PEM file of certificate authorities to trust instead of the system's. Certificates are always verified.
    public var certificateAuthorityFile: String?

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
        guard (2...16).contains(engineLimit) else { throw .outOfRange(field: "engineLimit", allowed: "2 to 16") }
        guard (256 * 1024...256 * 1024 * 1024).contains(readAhead) else {
            throw .outOfRange(field: "readAhead", allowed: "256 KB to 256 MB")
        }
    }
    var http: HTTPClientConfiguration {
        var http = HTTPClientConfiguration()
        http.userAgent = userAgent
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
    /// Engines that exist.
    public var liveEngines = 0
    /// Resources that are open.
    public var openResources = 0
    /// Requests under way.
    public var runningFetches = 0
    init() {}
}
