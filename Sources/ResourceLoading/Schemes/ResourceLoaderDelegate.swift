public import FeedVocabulary

/// Answers requests for URLs of a scheme that the host registered: with bytes of its own, or with an HTTP request for
/// the loader to carry out.
///
/// Called on the runtime's loop: answer at once, and do lengthy work in a task. Bytes that are on disk are served
/// without asking; each missing byte is asked for once, whoever wants it.
public protocol ResourceLoaderDelegate: AnyObject, Sendable {
    /// A request begins.
    ///
    /// - Returns: Whether the delegate takes it. It then answers by the request's own methods, now or later; a request
    ///   that is never finished waits until it is cancelled.
    func shouldLoad(_ request: LoadingRequest) -> Bool
    /// Nobody wants the request any more; further answers to it are ignored.
    func didCancel(_ request: LoadingRequest)
    /// All bytes of a resource are there.
    func didLoadWhole(_ url: String, key: CacheKey)
    /// Those who waited for a resource were told this error.
    func didFail(_ url: String, key: CacheKey, error: LoadError)
}

extension ResourceLoaderDelegate {
    /// Does nothing.
    public func didCancel(_ request: LoadingRequest) {}
    /// Does nothing.
    public func didLoadWhole(_ url: String, key: CacheKey) {}
    /// Does nothing.
    public func didFail(_ url: String, key: CacheKey, error: LoadError) {}
}

/// An HTTP request that answers a ``LoadingRequest`` in the delegate's place; the loader adds the range.
public struct LoadingRedirect: Hashable, Sendable {
    /// `http` or `https`.
    public let url: String
    /// Sent to the URL's origin, and to ``furtherOrigins``.
    public let headers: [String: String]
    /// Origins that a redirect may lead to with the same headers.
    public let furtherOrigins: Set<WebOrigin>

    /// A request with its headers.
    public init(url: String, headers: [String: String] = [:], furtherOrigins: Set<WebOrigin> = []) {
        (self.url, self.headers, self.furtherOrigins) = (url, headers, furtherOrigins)
    }
}

/// Why a scheme can't be registered.
public enum SchemeError: Error, Hashable, CustomStringConvertible, Sendable {
    /// RFC 3986 §3.1: a letter, then letters, digits, `+`, `-` and `.`.
    case illegal(String)
    /// `http` and `https` are the loader's own.
    case reserved(String)

    /// One sentence that says what to change.
    public var description: String {
        switch self {
        case .illegal(let scheme):
            "\"\(scheme)\" is no URL scheme; a scheme is a letter, followed by letters, digits, \"+\", \"-\" or \".\""
        case .reserved(let scheme): "the scheme \"\(scheme)\" is handled by the loader itself; choose another name"
        }
    }
}
