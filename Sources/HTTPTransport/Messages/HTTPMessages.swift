package import EventLoop
package import FeedVocabulary

/// One GET, as a room above asks for it.
package struct HTTPRequest: Sendable {
    package var url: String
    /// Sent to ``headerOrigins`` only, but for fields that tell nothing of who asks.
    package var headers: HTTPHeaders
    /// Origins that may receive `headers`; `nil` stands for the origin of `url`.
    package var headerOrigins: Set<WebOrigin>?
    /// What proves who asks, with origins of its own.
    package var credential: HTTPCredential?
    /// Bytes wanted; an upper bound of `Int64.max` asks to the end. `nil` asks for the whole resource.
    package var range: ByteRange?
    package var priority: LoadPriority
    /// Hosts that may be in a private network, whichever way the request takes; `nil` stands for all. A proxy's address
    /// counts as the server's.
    package var privateHosts: Set<String>?
    /// Whether only the head of the answer is asked for.
    package var isHead = false

    package init(url: String, headers: HTTPHeaders = [:], range: ByteRange? = nil, priority: LoadPriority = .current) {
        (self.url, self.headers, self.range, self.priority) = (url, headers, range, priority)
    }
}

/// What is sent along to some origins, and to no other whatever a redirect says.
package struct HTTPCredential: Sendable {
    package var fields: HTTPHeaders = [:]
    /// Answers a challenge.
    package var login: HTTPLogin?
    package let origins: Set<WebOrigin>
    package init(origins: Set<WebOrigin>) { self.origins = origins }
}

/// User and password that libcurl proves to a server that asks.
package struct HTTPLogin: Hashable, Sendable {
    package enum Scheme: Hashable, Sendable {
        /// RFC 7616; the password never crosses the network.
        case digest
        /// Digest where the server offers it, else Basic; costs a round trip before the first answer.
        case asAsked
    }
    package let user, password: String
    package let scheme: Scheme
    package init(user: String, password: String, scheme: Scheme) {
        (self.user, self.password, self.scheme) = (user, password, scheme)
    }
}

/// What is known of an answer before its body.
package struct HTTPResponseHead: Sendable {
    package var status: Int
    package var headers: HTTPHeaders
    /// Where the answer came from, after redirects.
    package var url: String
    package var timing: HTTPTiming

    package init(status: Int, headers: HTTPHeaders, url: String, timing: HTTPTiming = HTTPTiming()) {
        (self.status, self.headers, self.url, self.timing) = (status, headers, url, timing)
    }

    /// `Content-Length` when there is exactly one sane value (RFC 9110 §8.6).
    package var contentLength: Int64? {
        let values = Set(headers.all("Content-Length"))
        guard values.count == 1, let value = values.first else { return nil }
        return ContentRange.number(value)
    }

    /// How long the server asks to be left alone (RFC 9110 §10.2.3).
    ///
    /// - Parameter now: The local time of day, for a server that does not tell its own.
    package func retryAfter(now: WallTime) -> Duration? {
        headers["Retry-After"].flatMap {
            RetryAfter.delay($0, serverTime: headers["Date"].flatMap(HTTPDate.parse), now: now)
        }
    }

    /// `Content-Range` when there is exactly one valid value.
    package var contentRange: ContentRange? {
        let values = headers.all("Content-Range")
        return values.count == 1 ? ContentRange(values[0]) : nil
    }
}

/// Where the time before an answer went.
package struct HTTPTiming: Hashable, Sendable {
    /// Name, connection and TLS; zero on a connection that was open already.
    package var connect: Duration = .zero
    /// From the start of the request to the first byte of the answer, `connect` included.
    package var firstByte: Duration = .zero
    package var isNewConnection = false
    package init() {}
}

/// What is known of the way to a server that was asked lately.
package struct ServerPath: Hashable, Sendable {
    /// From a request on an open connection to the first byte of its answer.
    package var roundTrip: Duration
    /// Connections that are open.
    package var connections: Int
    package init(roundTrip: Duration, connections: Int) {
        (self.roundTrip, self.connections) = (roundTrip, connections)
    }
}

/// Makes requests; the loop's own client, or the simulation's network.
package protocol Transport: Sendable {
    /// Sends a GET and waits for the head of the answer; redirects are followed, at most ten.
    ///
    /// - Throws: ``TransportError``, or `CancellationError` when the calling task is cancelled.
    func start(_ request: HTTPRequest) async throws -> any HTTPExchange

    /// Has a connection to `origin` ready soon, unless there was one a moment ago; nobody learns whether it worked.
    func preconnect(_ origin: WebOrigin) async

    /// What is known of the way to `origin`; `nil` when that has not answered lately. Called on the loop.
    func path(to origin: WebOrigin) -> ServerPath?
}

/// One answer whose body is read piece by piece; a reader that doesn't ask slows the sender.
package protocol HTTPExchange: Sendable {
    var head: HTTPResponseHead { get }
    /// The next piece of the body; `nil` after the last one.
    ///
    /// - Throws: ``TransportError``, or `CancellationError`. A body shorter than declared ends with an error.
    func next() async throws -> [UInt8]?
    /// Reads no more. A short rest is swallowed to keep the connection, a long one ends it. Idempotent.
    func cancel() async
    /// Says how urgent the rest is.
    func setPriority(_ priority: LoadPriority) async
}

/// Why no whole answer came.
package enum TransportError: Error, Hashable, CustomStringConvertible {
    /// The URL is none that can be fetched.
    case invalidURL(WebURLError)
    /// A header name or value can't be sent.
    case invalidHeader(name: String, reason: String)
    /// libcurl gave up; `code` is its `CURLcode`, so it can be looked up.
    case failed(code: UInt32, reason: String, host: String)
    /// The connection ended inside the body.
    case incomplete(host: String)
    /// No byte for the stall timeout, or no connection for the connect timeout.
    case timedOut(host: String)
    /// More than ten redirects, or one to itself.
    case tooManyRedirects(host: String)
    /// A redirect led to something other than http or https.
    case forbiddenRedirect(scheme: String)
    /// The client was shut down.
    case stopped

    package var description: String {
        switch self {
        case .invalidURL(let error): error.description
        case .invalidHeader(let name, let reason): "the header \"\(name)\" can't be sent: \(reason)"
        case .failed(let code, let reason, let host): "\(host): \(reason) (curl \(code))"
        case .incomplete(let host): "\(host): the connection ended before the declared end of the body"
        case .timedOut(let host): "\(host): no answer within the time limit"
        case .tooManyRedirects(let host): "\(host): more than \(HTTPLimits.redirects) redirects"
        case .forbiddenRedirect(let scheme): "a redirect to \"\(scheme)\" was refused; only http and https are followed"
        case .stopped: "the runtime was shut down"
        }
    }
}

/// The client's named limits.
package enum HTTPLimits {
    /// Hops after the first request; browsers allow 20, feeds need 2.
    package static let redirects = 10
    /// Bytes of one body held for a reader before the socket is paused.
    package static let bufferedBytes = 1024 * 1024
    /// Small pieces of a body are joined up to this size. Larger ones fall out of the processor's cache before they are
    /// written, smaller ones cost more turns of the loop (measured against curl with 128 KB to 1 MB).
    package static let pieceBytes = 512 * 1024
    /// A rest of a body up to this many bytes is read and dropped rather than closing its connection.
    package static let swallowedBytes: Int64 = 16 * 1024
    /// Transfers under way to one origin; two of them are kept for the current entry.
    package static let transfersPerOrigin = 6
    /// Transfers under way in all.
    package static let transfers = 32
}
