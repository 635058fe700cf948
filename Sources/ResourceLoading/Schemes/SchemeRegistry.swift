import EventLoop
import FeedVocabulary
import HTTPTransport

/// The part of a URL before the colon.
package enum SchemeName {
    /// RFC 3986 §3.1: a letter, then letters, digits, `+`, `-` and `.`.
    package static func isLegal(_ name: String) -> Bool {
        guard let first = name.utf8.first, isLetter(first) else { return false }
        return name.utf8.allSatisfy { isLetter($0) || "0123456789+-.".utf8.contains($0) }
    }
    private static func isLetter(_ byte: UInt8) -> Bool {
        (UInt8(ascii: "a")...UInt8(ascii: "z")).contains(byte | 0x20)
    }
}

/// The host's own schemes and their delegates. Touched on the loop only.
final class SchemeRegistry {
    private let loop: any LoopExecutor
    private var delegates: [String: any ResourceLoaderDelegate] = [:]

    init(loop: any LoopExecutor) { self.loop = loop }

    func register(_ delegate: (any ResourceLoaderDelegate)?, scheme: String) throws(SchemeError) {
        let name = scheme.lowercased()
        guard SchemeName.isLegal(name) else { throw .illegal(scheme) }
        guard name != "http", name != "https" else { throw .reserved(name) }
        delegates[name] = delegate
    }

    private static func scheme(of url: String) -> String { url.prefix { $0 != ":" }.lowercased() }

    func loadedWhole(_ loading: LoadingResource) {
        delegates[Self.scheme(of: loading.url.url)]?.didLoadWhole(loading.url.url, key: loading.resource.key)
    }
    func failed(_ loading: LoadingResource, _ error: LoadError) {
        delegates[Self.scheme(of: loading.url.url)]?.didFail(loading.url.url, key: loading.resource.key, error: error)
    }

    /// Asks the delegate of a resource's scheme for bytes; its answer looks like one that came over HTTP.
    ///
    /// - Throws: ``LoadError``, ``TransportError``, or `CancellationError`.
    func start(
        _ loading: LoadingResource, range: ByteRange, priority: LoadPriority, transport: any Transport
    ) async throws -> any HTTPExchange {
        let url = loading.url.url
        let scheme = Self.scheme(of: url)
        let request = LoadingRequest(
            url: url, key: loading.resource.key, range: range, wantsContentInformation: loading.information == nil)
        guard let delegate = delegates[scheme], delegate.shouldLoad(request) else {
            throw LoadError.notHandled(scheme: scheme)
        }
        let posting = loop
        let (information, outcome) = await withTaskCancellationHandler {
            await request.begin()
        } onCancel: {
            if request.cancel() { posting.post { delegate.didCancel(request) } }
        }
        try Task.checkCancellation()
        switch outcome {
        case .failed(let error): throw error
        case .redirected(let redirect):
            var http = HTTPRequest(
                url: redirect.url, headers: HTTPHeaders(redirect.headers), range: range,
                priority: priority)
            do throws(WebURLError) {
                http.headerOrigins = redirect.furtherOrigins.union([try WebOrigin(url: redirect.url)])
            } catch {
                throw TransportError.invalidURL(error)
            }
            return try await transport.start(http)
        case .finished, nil:
            return SchemeExchange(request, delegate, loop, head: Self.head(of: request, information, outcome))
        }
    }

    /// What a server would have said.
    private static func head(
        of request: LoadingRequest, _ information: ContentInformation?, _ outcome: LoadingRequest.Outcome?
    ) -> HTTPResponseHead {
        let (information, start) = (information ?? ContentInformation(), request.requestedOffset)
        var fields: [(String, String)] = []
        if let type = information.contentType { fields.append(("Content-Type", type)) }
        if let validator = information.validator { fields.append(("ETag", validator)) }
        let head = { (status: Int) in
            HTTPResponseHead(status: status, headers: HTTPHeaders(fields), url: request.url)
        }
        if let length = information.length, start >= length || length == 0 {
            fields.append(("Content-Range", "bytes */\(length)"))
            return head(416)
        }
        if outcome != nil, start > 0, information.length == nil {
            // Ended without a byte: the resource ends where the request began.
            fields.append(("Content-Range", "bytes */\(start)"))
            return head(416)
        }
        if start == 0, information.length == nil, request.requestsAllDataToEnd { return head(200) }
        let asked = request.requestsAllDataToEnd ? Int64.max : start + request.requestedLength
        let end = min(asked, information.length ?? asked)
        fields.append(("Content-Range", "bytes \(start)-\(end - 1)/\(information.length.map(String.init) ?? "*")"))
        return head(206)
    }
}

/// A delegate's answer, read like one that comes over HTTP.
private final class SchemeExchange: HTTPExchange {
    let head: HTTPResponseHead
    private let request: LoadingRequest
    private let delegate: any ResourceLoaderDelegate
    private let loop: any LoopExecutor

    init(
        _ request: LoadingRequest, _ delegate: any ResourceLoaderDelegate, _ loop: any LoopExecutor,
        head: HTTPResponseHead
    ) {
        (self.request, self.delegate, self.loop, self.head) = (request, delegate, loop, head)
    }
    deinit { end() }

    func next() async throws -> [UInt8]? {
        let (piece, outcome) = await withTaskCancellationHandler {
            await request.next()
        } onCancel: {
            end()
        }
        try Task.checkCancellation()
        if let piece { return piece }
        switch outcome {
        case .failed(let error): throw error
        case .redirected:
            throw LoadError.host(reason: "a delegate redirected a request to which it had given bytes already")
        case .finished, nil: return nil
        }
    }
    func cancel() async { end() }
    func setPriority(_ priority: LoadPriority) async {}

    private func end() {
        if request.cancel() { loop.post { [delegate, request] in delegate.didCancel(request) } }
    }
}
