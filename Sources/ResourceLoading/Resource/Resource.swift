public import EventLoop
public import FeedVocabulary
package import HTTPTransport

/// What to load: the identity of the bytes, and where missing ones come from.
package struct Resource: Hashable, Sendable {
    /// The host's name of the bytes.
    package let key: CacheKey
    /// The main URL and its backups, in the order of preference; at least one.
    package let urls: [MediaURL]
    /// Sent to the origin of the first URL and to ``furtherOrigins``.
    package let headers: HTTPHeaders
    package var furtherOrigins: Set<WebOrigin> = []
    /// Asked for new URLs when the old ones have expired.
    package var refresher: URLRefresher?
    /// Whose bytes these are, where two accounts see different ones; names the cache entry to be cleared with it.
    package var identity: String?
    /// Whether pages of text are refused as login or error pages.
    package var expectsMedia = true
    /// Of what another server's resource refers to: hosts that may be in a private network, where no other reference or
    /// redirect may lead; `nil` for all.
    package var privateHosts: Set<String>?
    /// What is known of the whole file from elsewhere; bytes that contradict it are not served.
    package var length: Int64?
    /// 32 lower-case hexadecimal digits.
    package var md5: String?
    /// A file of this machine: its bytes are all there, and the cache has nothing to do with them.
    package var path: String?

    /// The name of the bytes in the cache: two identities never share an entry.
    package var storageKey: CacheKey { identity.map { CacheKey(key, of: $0) } ?? key }

    package init(key: CacheKey, urls: [MediaURL], headers: HTTPHeaders = [:]) {
        precondition(!urls.isEmpty, "a resource has at least one URL")
        (self.key, self.urls, self.headers) = (key, urls, headers)
    }
    package init(key: CacheKey, urls: [String], headers: HTTPHeaders = [:]) {
        self.init(key: key, urls: urls.map { MediaURL($0) }, headers: headers)
    }
}

/// One URL of a resource, and until when it works.
public struct MediaURL: Hashable, Sendable {
    /// `http`, `https`, or a scheme that the host registered; used byte for byte as given.
    public let url: String
    /// When the URL's signature expires; `nil` when it does not, or nobody knows.
    public let expires: WallTime?

    /// A URL with its expiry.
    public init(_ url: String, expires: WallTime? = nil) { (self.url, self.expires) = (url, expires) }
}

/// Gives new URLs for a resource whose old ones have expired; the cache key, and the bytes on disk, stay.
public final class URLRefresher: Hashable, Sendable {
    let refresh: @Sendable (CacheKey) async throws -> [MediaURL]

    /// - Parameter refresh: Called on the loop with the resource's cache key, once for all who wait; it gives the main
    ///   URL and its backups.
    public init(_ refresh: @escaping @Sendable (_ key: CacheKey) async throws -> [MediaURL]) {
        self.refresh = refresh
    }
    /// The same object.
    public static func == (left: URLRefresher, right: URLRefresher) -> Bool { left === right }
    /// By identity.
    public func hash(into hasher: inout Hasher) { hasher.combine(ObjectIdentifier(self)) }
}

/// What is known of a whole resource once a server has answered, or from the cache.
public struct ContentInformation: Hashable, Sendable {
    /// Bytes; `nil` while unknown.
    public var length: Int64?
    /// MIME type as the server wrote it.
    public var contentType: String?
    /// Whether the server gives parts.
    public var supportsRanges: Bool
    /// Strong validator: an ETag, or a date that is known to be exact (RFC 9110 §8.8).
    public var validator: String?

    /// For a host that answers by itself.
    public init(
        length: Int64? = nil, contentType: String? = nil, supportsRanges: Bool = true, validator: String? = nil
    ) {
        (self.length, self.contentType, self.supportsRanges, self.validator) = (
            length, contentType, supportsRanges, validator
        )
    }
}
