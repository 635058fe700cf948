import HTTPTransport

/// How often and how far apart a request is repeated. Attempts count from the last byte that came.
struct RetryPolicy: Hashable, Sendable {
    /// Repetitions without a byte of progress before the error is told.
    static let maximumRetries = 3
    private static let firstDelay = Duration.milliseconds(250)
    /// A server's Retry-After is honoured up to here; a viewer doesn't wait longer.
    private static let longestDelay = Duration.seconds(30)
    private var failures = 0

    mutating func progressed() { failures = 0 }

    /// When to try again, or `nil` when the error is final.
    ///
    /// - Parameter jitter: 0.5 … 1.5, from the loop's random source, so that clients don't come back in step.
    mutating func delay(after failure: FetchFailure, jitter: Double) -> Duration? {
        guard failure.isRetryable, failures < Self.maximumRetries else { return nil }
        failures += 1
        if let asked = failure.retryAfter { return min(asked, Self.longestDelay) }
        return Self.firstDelay * (1 << (failures - 1)) * jitter
    }
}

/// One failed request, and what to do about it.
struct FetchFailure: Error {
    let error: LoadError
    let isRetryable: Bool
    var retryAfter: Duration?

    init(_ error: LoadError, isRetryable: Bool, retryAfter: Duration? = nil) {
        (self.error, self.isRetryable, self.retryAfter) = (error, isRetryable, retryAfter)
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

    init(status: Int, url: String, headers: HTTPHeaders) {
        error = .status(status, url: url)
        isRetryable = [202, 204, 408, 429, 500, 502, 503, 504].contains(status)
        retryAfter = headers["Retry-After"].flatMap { Int($0) }.map { .seconds(max(0, $0)) }
    }
}
