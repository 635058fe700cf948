package import FeedVocabulary
package import HTTPTransport

/// What to load: the identity of the bytes, and where missing ones come from.
package struct Resource: Hashable, Sendable {
    package let key: CacheKey
    /// The main URL and its backups, in the order of preference; at least one.
    package let urls: [String]
    package let headers: HTTPHeaders

    package init(key: CacheKey, urls: [String], headers: HTTPHeaders = [:]) {
        precondition(!urls.isEmpty, "a resource has at least one URL")
        (self.key, self.urls, self.headers) = (key, urls, headers)
    }
}

/// What is known of a whole resource once a server has answered, or from the cache.
package struct ContentInformation: Hashable, Sendable {
    /// Bytes; `nil` while unknown.
    package var length: Int64?
    /// MIME type as the server wrote it.
    package var contentType: String?
    package var supportsRanges: Bool
    /// Strong ETag.
    package var validator: String?
}

/// Why bytes could not be delivered. Cancellation is not in here: it stays `CancellationError`.
public enum LoadError: Error, Hashable, CustomStringConvertible, Sendable {
    /// The server answered with a status that carries no media.
    case status(Int, url: String)
    /// No answer, or a broken one, after all retries.
    case network(reason: String)
    /// The answer's range, coding or length contradicts the request or what is stored.
    case unusableAnswer(reason: String, url: String)
    /// The resource is another one than when its first bytes were read.
    case changed(url: String)
    /// The resource has no bytes.
    case empty(url: String)
    /// The reader was closed, or the runtime is shut down.
    case closed

    /// One sentence, without secrets.
    public var description: String {
        switch self {
        case .status(let status, let url): "\(url) answered \(status)\(Self.hint(status))"
        case .network(let reason): reason
        case .unusableAnswer(let reason, let url): "\(url): \(reason)"
        case .changed(let url): "\(url) changed on the server while it was read"
        case .empty(let url): "\(url) is empty"
        case .closed: "the reader is closed"
        }
    }

    private static func hint(_ status: Int) -> String {
        switch status {
        case 401, 403: " (a credential is missing, wrong or expired)"
        case 404, 410: " (there is no such file)"
        case 429: " (too many requests)"
        case 500...599: " (the server has a problem)"
        default: ""
        }
    }
}
