import EventLoop
import FeedVocabulary
package import HTTPTransport
import ResourceLoading

/// Small requests to a service, over the connections that the runtime has.
public struct WebClient: Sendable {
    /// What a service answered.
    public struct Answer: Sendable {
        /// HTTP status.
        public let status: Int
        /// The body, whole.
        public let body: [UInt8]
    }
    private let transport: any Transport
    package init(transport: any Transport) { self.transport = transport }

    /// A GET, with redirects followed.
    ///
    /// - Parameter limit: Bytes of the body that are accepted.
    /// - Throws: ``LoadError`` (`network`, or `unusableAnswer` for a body that is too long), or `CancellationError`.
    public func get(
        _ url: String, headers: [String: String] = [:], limit: Int = 1024 * 1024
    ) async throws -> Answer {
        let name = WebOrigin.redacted(url)
        do {
            let exchange = try await transport.start(HTTPRequest(url: url, headers: HTTPHeaders(headers)))
            var body: [UInt8] = []
            while let piece = try await exchange.next() {
                body += piece
                guard body.count <= limit else {
                    await exchange.cancel()
                    throw LoadError.unusableAnswer(reason: "the answer is longer than \(limit) bytes", url: name)
                }
            }
            return Answer(status: exchange.head.status, body: body)
        } catch let error as TransportError {
            throw LoadError.network(reason: error.description)
        }
    }
}
