import EventLoop
import FeedVocabulary
import HTTPTransport

/// How often and how far apart a request is repeated. Attempts count from the last byte that came.
struct RetryPolicy: Hashable, Sendable {
    /// Repetitions without a byte of progress before the error is told.
    static let maximumRetries = 3
    private static let firstDelay = Duration.milliseconds(250)
    /// A server that asks for a longer wait is an error at once; a viewer doesn't wait longer.
    static let longestDelay = Duration.seconds(30)
    private var failures = 0

    mutating func progressed() { failures = 0 }

    /// When to try again, or `nil` when the error is final.
    ///
    /// - Parameter jitter: 0.5 … 1.5, from the loop's random source, so that clients don't come back in step.
    mutating func delay(after failure: FetchFailure, jitter: Double) -> Duration? {
        guard failure.isRetryable, failures < Self.maximumRetries else { return nil }
        failures += 1
        if let asked = failure.retryAfter { return asked }
        return Self.firstDelay * (1 << (failures - 1)) * jitter
    }
}

/// One failed request, and what to do about it.
struct FetchFailure: Error {
    private(set) var error: LoadError
    private(set) var isRetryable: Bool
    private(set) var retryAfter: Duration?
    /// The answer's, where there was one.
    private(set) var status: Int?
    /// What the server wants to see, such as `Basic for "music"`.
    private(set) var asksFor: String?

    init(_ error: LoadError, isRetryable: Bool) { (self.error, self.isRetryable) = (error, isRetryable) }

    /// `nil` for cancellation.
    init?(any error: any Error) {
        switch error {
        case let failure as FetchFailure: self = failure
        case let error as TransportError: self.init(error)
        case let error as LoadError: self.init(error, isRetryable: false)
        case is CancellationError: return nil
        case _: self.init(.host(reason: "\(type(of: error))"), isRetryable: false)
        }
    }

    init(_ error: TransportError) {
        self.error = error == .stopped ? .closed : .network(reason: error.description)
        isRetryable =
            switch error {
            case .incomplete, .timedOut: true
            case .failed(let code, _, _): Self.passingCodes.contains(code)
            case .invalidURL, .invalidHeader, .tooManyRedirects, .forbiddenRedirect, .stopped: false
            }
    }

    /// CURLcodes of faults that may pass: resolve (6), connect (7), HTTP/2 (16), partial (18), timeout (28),
    /// TLS connect (35), no answer (52), send (55), receive (56), HTTP/2 stream (92).
    private static let passingCodes: Set<UInt32> = [6, 7, 16, 18, 28, 35, 52, 55, 56, 92]

    /// An answer that carries no media.
    init(_ head: HTTPResponseHead, now: WallTime) {
        let url = WebOrigin.redacted(head.url)
        (status, retryAfter) = (head.status, head.retryAfter(now: now))
        let challenges = head.headers.all("WWW-Authenticate").flatMap { AuthChallenge.parse($0) }
        asksFor =
            challenges.isEmpty
            ? nil
            : challenges.map { Self.capitalized($0.scheme) + ($0.realm.map { " for \"\($0)\"" } ?? "") }
                .joined(separator: " or ")
        error =
            head.status == 401 || head.status == 407
            ? .unauthorized(status: head.status, url: url, asksFor: asksFor) : .status(head.status, url: url)
        isRetryable = Self.passingStatuses.contains(head.status)
        if let wait = retryAfter, isRetryable, wait > RetryPolicy.longestDelay {
            (error, isRetryable) = (.busy(url: url, retryAfter: wait), false)
        }
    }

    private static func capitalized(_ word: String) -> String { word.prefix(1).uppercased() + word.dropFirst() }

    /// 2xx other than 200 and 206 mean "not ready"; the others are overload and its like.
    private static let passingStatuses: Set<Int> = [201, 202, 203, 204, 205, 408, 425, 429, 500, 502, 503, 504]

    /// Whether the whole host has a problem, by its own word, and not this resource.
    var concernsHost: Bool { status == 429 || status == 503 }
    /// Whether a URL whose signature expired would be answered so.
    var mayBeExpiry: Bool { status.map { [401, 403, 404, 410].contains($0) } ?? false }
    var mayBeCredential: Bool { status == 401 || status == 403 }
}
