/// Why bytes could not be delivered. Cancellation is not in here: it stays `CancellationError`.
public enum LoadError: Error, Hashable, CustomStringConvertible, Sendable {
    /// The server answered with a status that carries no media.
    case status(Int, url: String)
    /// The server wants a credential, or another one. `asksFor` is its challenge, such as `Basic for "music"`.
    case unauthorized(status: Int, url: String, asksFor: String?)
    /// The server asks to be left alone for longer than a viewer waits.
    case busy(url: String, retryAfter: Duration)
    /// No answer, or a broken one, after all retries.
    case network(reason: String)
    /// The answer's range, coding, type or length contradicts the request or what is stored.
    case unusableAnswer(reason: String, url: String)
    /// The resource is another one than when its first bytes were read.
    case changed(url: String)
    /// The resource has no bytes.
    case empty(url: String)
    /// No delegate is registered for the URL's scheme, or the delegate does not take the resource.
    case notHandled(scheme: String)
    /// The resource refers to something that it may not refer to.
    case refused(reason: String)
    /// What strategies may take of this network is used up; the current entry is exempt.
    case budgetSpent
    /// A file of this machine can't be read.
    case file(path: String, reason: String)
    /// The host's own delegate, credential provider or URL refresher failed.
    case host(reason: String)
    /// The reader was closed, or the runtime is shut down.
    case closed

    /// Whether the same request may be answered well later: the network or the server had a bad moment.
    package var mayPass: Bool {
        switch self {
        case .network, .busy, .changed, .budgetSpent: true
        case .status(let status, _): status == 408 || status == 425 || status == 429 || status >= 500
        case .unauthorized, .unusableAnswer, .empty, .notHandled, .refused, .file, .host, .closed: false
        }
    }

    /// One sentence, without secrets.
    public var description: String {
        switch self {
        case .status(let status, let url): "\(url) answered \(status)\(Self.hint(status))"
        case .unauthorized(let status, let url, let asksFor):
            "\(url) answered \(status): a credential is missing, wrong or expired"
                + (asksFor.map { "; the server asks for \($0)" } ?? "")
        case .busy(let url, let retryAfter):
            "\(url): the server asks to wait \(retryAfter.components.seconds) s before the next request"
        case .network(let reason): reason
        case .unusableAnswer(let reason, let url): "\(url): \(reason)"
        case .changed(let url): "\(url) changed on the server while it was read"
        case .empty(let url): "\(url) is empty"
        case .notHandled(let scheme):
            "nothing handles the URL scheme \"\(scheme)\"; register a delegate for it, or use http or https"
        case .refused(let reason): reason
        case .budgetSpent: "the byte budget of preloads and pre-renders is used up; set another one, or wait"
        case .file(let path, let reason): "\(path) can't be read: \(reason)"
        case .host(let reason): reason
        case .closed: "the reader is closed"
        }
    }

    private static func hint(_ status: Int) -> String {
        switch status {
        case 202, 204: " (not ready)"
        case 403: " (the credential or the URL's signature is missing, wrong or expired)"
        case 404, 410: " (there is no such file)"
        case 429: " (too many requests)"
        case 500...599: " (the server has a problem)"
        default: ""
        }
    }
}
