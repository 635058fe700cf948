public import FeedVocabulary
import HTTPTransport
import ResourceLoading

/// A clip at a URL.
public struct URLSource: Hashable, Sendable {
    /// `http` or `https`, used byte for byte as given.
    public let url: String
    /// The name of the bytes in the cache.
    public let cacheKey: CacheKey
    /// The clip's id with the service that the host uses, for reports.
    public var vid: String?
    /// Request headers, sent to the URL's own origin only.
    public private(set) var headers: [String: String]

    /// - Parameters:
    ///   - url: Absolute `http` or `https` URL, percent-encoded where need be.
    ///   - cacheKey: Letters and digits; by default the MD5 of the URL without its signature parameters.
    ///   - headers: Request headers, such as credentials.
    /// - Throws: ``SourceError`` that says what to change.
    public init(
        url: String, cacheKey: String? = nil, vid: String? = nil, headers: [String: String] = [:]
    ) throws(SourceError) {
        do throws(WebURLError) { _ = try WebOrigin(url: url) } catch { throw .url(error) }
        if let cacheKey {
            do throws(CacheKeyError) { self.cacheKey = try CacheKey(cacheKey) } catch { throw .cacheKey(error) }
        } else {
            self.cacheKey = CacheKey(url: url)
        }
        (self.url, self.vid, self.headers) = (url, vid, headers)
        do throws(TransportError) { try httpHeaders.validate() } catch { throw .header(error.description) }
    }

    private var httpHeaders: HTTPHeaders { HTTPHeaders(headers.sorted { $0.key < $1.key }) }
    package var resource: Resource { Resource(key: cacheKey, urls: [url], headers: httpHeaders) }
    /// For error texts: without query, user and password.
    package var name: String { WebOrigin.redacted(url) }
}

/// Why a source can't be made.
public enum SourceError: Error, Hashable, CustomStringConvertible, Sendable {
    /// The URL can't be fetched.
    case url(WebURLError)
    /// The cache key has something else than letters and digits.
    case cacheKey(CacheKeyError)
    /// A header can't be sent.
    case header(String)

    /// One sentence that says what to change.
    public var description: String {
        switch self {
        case .url(let error): error.description
        case .cacheKey(let error): error.description
        case .header(let text): text
        }
    }
}

/// One place in a page's list.
public struct FeedEntry: Hashable, Sendable {
    /// Unique in the page's list.
    public let id: EntryID
    /// What is played there.
    public let source: URLSource

    /// - Parameter id: The host's own identity of the place, such as the post's id; by default the cache key. The same
    ///   source may stand at two places, under two identities.
    public init(_ source: URLSource, id: EntryID? = nil) {
        self.source = source
        self.id = id ?? EntryID(source.cacheKey.text)
    }
}
