public import FeedVocabulary
import HTTPTransport
public import ResourceLoading

/// A clip at a URL, or at several that hold the same bytes.
public struct URLSource: Hashable, Sendable {
    /// The main URL and its backups, in the order of preference; used byte for byte as given.
    public let urls: [MediaURL]
    /// The name of the bytes in the cache.
    public let cacheKey: CacheKey
    /// The clip's id with the service that the host uses, for reports.
    public let vid: String?
    /// Request headers, sent to the main URL's own origin and to ``furtherOrigins`` only.
    public let headers: [String: String]
    /// Origins that may receive the headers too, when a backup or a redirect leads there.
    public let furtherOrigins: Set<WebOrigin>
    /// Asked for new URLs when these have expired.
    public let refresher: URLRefresher?
    /// Whose bytes these are, where two accounts see different ones under one URL.
    public let identity: String?
    /// Bytes of the whole file, where known from elsewhere; another length on the server is an error.
    public let length: Int64?
    /// Bits a second, where known from elsewhere; a preload of some seconds of media goes by it.
    public let bitrate: Int?
    /// Seconds, where known from elsewhere.
    public let duration: Double?
    /// The file's MD5 as 32 hexadecimal digits, where known; compared once all bytes are there.
    public let md5: String?

    /// The main URL.
    public var url: String { urls[0].url }

    /// - Parameters:
    ///   - url: Absolute `http` or `https` URL, or one of a scheme registered with the runtime; percent-encoded where
    ///     need be.
    ///   - cacheKey: Letters and digits; by default the MD5 of the URL without its signature parameters.
    ///   - headers: Request headers, such as credentials.
    /// - Throws: ``SourceError`` that says what to change.
    public init(
        url: String, cacheKey: String? = nil, vid: String? = nil, headers: [String: String] = [:]
    ) throws(SourceError) {
        try self.init(urls: [MediaURL(url)], cacheKey: cacheKey, vid: vid, headers: headers)
    }

    /// - Parameters:
    ///   - urls: The main URL and its backups; at least one.
    ///   - cacheKey: Letters and digits; by default the MD5 of the main URL without its signature parameters.
    ///   - identity: By default, and with the default key, one derived from the headers that may be credentials.
    /// - Throws: ``SourceError`` that says what to change.
    public init(
        urls: [MediaURL], cacheKey: String? = nil, vid: String? = nil, headers: [String: String] = [:],
        furtherOrigins: Set<WebOrigin> = [], refresher: URLRefresher? = nil, identity: String? = nil,
        length: Int64? = nil, md5: String? = nil, bitrate: Int? = nil, duration: Double? = nil
    ) throws(SourceError) {
        guard let main = urls.first else { throw .noURL }
        for url in urls { try Self.check(url.url) }
        if let cacheKey {
            do throws(CacheKeyError) { self.cacheKey = try CacheKey(cacheKey) } catch { throw .cacheKey(error) }
        } else {
            self.cacheKey = CacheKey(url: main.url)
        }
        if let length, length <= 0 { throw .length(length) }
        if let md5, md5.utf8.count != 32 || !md5.allSatisfy(\.isHexDigit) { throw .md5(md5) }
        if let bitrate, bitrate <= 0 { throw .number(field: "bitrate") }
        if let duration, !(duration > 0 && duration.isFinite) { throw .number(field: "duration") }
        (self.bitrate, self.duration) = (bitrate, duration)
        (self.urls, self.vid, self.headers, self.furtherOrigins) = (urls, vid, headers, furtherOrigins)
        (self.refresher, self.length, self.md5) = (refresher, length, md5?.lowercased())
        let secrets = HTTPHeaders(headers).withoutForwarded
        self.identity =
            identity
            ?? (cacheKey == nil && !secrets.fields.isEmpty
                ? MD5.hexDigest(of: secrets.fields.map { "\($0.name): \($0.value)" }.joined(separator: "\n").utf8)
                : nil)
        do throws(TransportError) { try HTTPHeaders(headers).validate() } catch {
            throw .header(error.description)
        }
    }

    private static func check(_ url: String) throws(SourceError) {
        do throws(WebURLError) {
            try WebOrigin.checkCharacters(url)
            _ = try WebOrigin(url: url)
        } catch {
            // Schemes of the host's own are looked up when the source is opened.
            if case .unsupportedScheme(let scheme) = error, SchemeName.isLegal(scheme) { return }
            throw .url(error)
        }
    }

    package var resource: Resource {
        var resource = Resource(key: cacheKey, urls: urls, headers: HTTPHeaders(headers))
        (resource.furtherOrigins, resource.refresher) = (furtherOrigins, refresher)
        (resource.identity, resource.length, resource.md5) = (identity, length, md5)
        return resource
    }
    /// For error texts: without query, user and password.
    package var name: String { WebOrigin.redacted(url) }
}

/// Why a source can't be made.
public enum SourceError: Error, Hashable, CustomStringConvertible, Sendable {
    /// There is no URL.
    case noURL
    /// The URL can't be fetched.
    case url(WebURLError)
    /// The cache key has something else than letters and digits.
    case cacheKey(CacheKeyError)
    /// A header can't be sent.
    case header(String)
    /// The length is not above 0.
    case length(Int64)
    /// The MD5 is not 32 hexadecimal digits.
    case md5(String)
    /// Bit rate or duration are not above 0.
    case number(field: String)
    /// The vid or its token is empty.
    case vid(String)
    /// The path of a file is not absolute.
    case path(String)

    /// One sentence that says what to change.
    public var description: String {
        switch self {
        case .noURL: "a source needs at least one URL"
        case .url(let error): error.description
        case .cacheKey(let error): error.description
        case .header(let text): text
        case .length(let length): "the length \(length) is not allowed; leave it out, or give the file's bytes"
        case .md5(let text): "\"\(text)\" is no MD5; it has 32 hexadecimal digits"
        case .number(let field): "the \(field) is not above 0; leave it out where it is not known"
        case .vid(let text): text
        case .path(let path): "\"\(path)\" is no absolute path"
        }
    }
}
