internal import CLibcurl
import EventLoop
import FeedVocabulary
import Glibc

/// One easy handle: one request, one answer, no redirect followed. Touched on the loop thread only.
final class CurlTransfer {
    enum Phase {
        case head  // → body (blank line), ended
        case body  // → ended
        case ended(TransportError?)  // terminal; what is buffered may still be read
    }

    let id: Int
    let easy: OpaquePointer
    let host: String
    var priority: LoadPriority
    private(set) var phase = Phase.head
    /// Whether nothing more comes from the server.
    var isEnded: Bool { if case .ended = phase { true } else { false } }
    private(set) var head: HTTPResponseHead
    private var fieldsOfHead: HTTPHeaders = [:]
    private var pieces: [[UInt8]] = []  // in the sizes that libcurl gave, so that nothing is copied twice
    private var bufferedBytes = 0
    private var receivedBytes: Int64 = 0
    private var isPaused = false
    var isAdded = false
    /// Whether the end has been told, so that the transfer can be forgotten.
    private(set) var isOver = false
    /// Bytes still dropped before the connection is given up; `nil` while somebody reads.
    private var swallowing: Int64?
    private var headWaiter: CheckedContinuation<HTTPResponseHead, any Error>?
    private var bodyWaiter: CheckedContinuation<[UInt8]?, any Error>?
    private var headerList: UnsafeMutablePointer<curl_slist>?
    let origin: WebOrigin
    private let login: HTTPLogin?
    private let handles: LoginHandles

    init(
        id: Int, request: HTTPRequest, origin: WebOrigin, configuration: HTTPClientConfiguration, handles: LoginHandles
    ) {
        let used = request.credential?.login.flatMap { handles.take(origin, $0) }
        guard let easy = used.map({ UnsafeMutableRawPointer($0) }) ?? curl_easy_init() else {
            preconditionFailure("curl_easy_init: out of memory")
        }
        self.id = id
        self.easy = OpaquePointer(easy)
        (self.origin, login, self.handles) = (origin, request.credential?.login, handles)
        host = origin.host
        priority = request.priority
        head = HTTPResponseHead(status: 0, headers: [:], url: request.url)
        configure(easy, request, configuration)
    }

    deinit {
        if let login {
            ff_easy_pointer(UnsafeMutableRawPointer(easy), CURLOPT_HTTPHEADER, nil)
            handles.give(easy, origin, login)
        } else {
            curl_easy_cleanup(UnsafeMutableRawPointer(easy))
        }
        curl_slist_free_all(headerList)
    }

    /// A name may lead anywhere: what counts is the address that it led to.
    private static let openPublicSocket: curl_opensocket_callback = { _, _, address in
        var count: Int32 = 0
        guard let address, let bytes = ff_address_bytes(address, &count),
            !PrivateNetwork.contains(Array(UnsafeRawBufferPointer(start: bytes, count: Int(count))))
        else { return -1 }
        return socket(address.pointee.family, address.pointee.socktype, address.pointee.protocol)
    }

    private func configure(
        _ easy: UnsafeMutableRawPointer, _ request: HTTPRequest, _ configuration: HTTPClientConfiguration
    ) {
        let me = Unmanaged.passUnretained(self).toOpaque()
        ff_easy_string(easy, CURLOPT_URL, request.url)
        ff_easy_string(easy, CURLOPT_PROTOCOLS_STR, "http,https")
        ff_easy_long(easy, CURLOPT_FOLLOWLOCATION, 0)
        ff_easy_open(easy, request.privateHosts?.contains(origin.host) == false ? Self.openPublicSocket : nil)
        if request.isHead { ff_easy_long(easy, CURLOPT_NOBODY, 1) }
        ff_easy_long(easy, CURLOPT_NOSIGNAL, 1)
        ff_easy_long(easy, CURLOPT_BUFFERSIZE, 512 * 1024)
        ff_easy_long(easy, CURLOPT_CONNECTTIMEOUT_MS, Int(configuration.connectTimeout.milliseconds))
        ff_easy_long(easy, CURLOPT_LOW_SPEED_LIMIT, 1)
        ff_easy_long(easy, CURLOPT_LOW_SPEED_TIME, max(1, Int(configuration.stallTimeout.seconds.rounded(.up))))
        ff_easy_long(easy, CURLOPT_PIPEWAIT, request.url.lowercased().hasPrefix("https") ? 1 : 0)
        ff_easy_string(easy, CURLOPT_USERAGENT, configuration.userAgent)
        if let login = request.credential?.login {
            ff_easy_long(easy, CURLOPT_HTTPAUTH, login.scheme == .digest ? ff_curl_auth_digest : ff_curl_auth_as_asked)
            ff_easy_string(easy, CURLOPT_USERNAME, login.user)
            ff_easy_string(easy, CURLOPT_PASSWORD, login.password)
        }
        if let file = configuration.certificateAuthorityFile { ff_easy_string(easy, CURLOPT_CAINFO, file) }
        var headers = request.headers
        headers.set("Accept-Encoding", "identity")
        if let range = request.range {
            headers.set(
                "Range",
                range.upperBound == .max
                    ? "bytes=\(range.lowerBound)-" : "bytes=\(range.lowerBound)-\(range.upperBound - 1)")
        }
        // "Name;" is curl's way to send a field without a value.
        for field in headers.fields {
            headerList = curl_slist_append(
                headerList, field.value.isEmpty ? "\(field.name);" : "\(field.name): \(field.value)")
        }
        ff_easy_pointer(easy, CURLOPT_HTTPHEADER, headerList)
        ff_easy_pointer(easy, CURLOPT_PRIVATE, me)
        ff_easy_pointer(easy, CURLOPT_HEADERDATA, me)
        ff_easy_pointer(easy, CURLOPT_WRITEDATA, me)
        ff_easy_data(easy, CURLOPT_HEADERFUNCTION) { data, size, count, context in
            let transfer = Unmanaged<CurlTransfer>.fromOpaque(context!).takeUnretainedValue()
            transfer.receiveHeader(UnsafeRawBufferPointer(start: data, count: size * count))
            return size * count
        }
        ff_easy_data(easy, CURLOPT_WRITEFUNCTION) { data, size, count, context in
            let transfer = Unmanaged<CurlTransfer>.fromOpaque(context!).takeUnretainedValue()
            return transfer.receiveBody(UnsafeRawBufferPointer(start: data, count: size * count))
        }
    }

    static func of(_ easy: UnsafeMutableRawPointer) -> CurlTransfer? {
        var context: UnsafeMutablePointer<CChar>?
        guard ff_easy_get_string(easy, CURLINFO_PRIVATE, &context) == CURLE_OK, let context else { return nil }
        return Unmanaged<CurlTransfer>.fromOpaque(UnsafeRawPointer(context)).takeUnretainedValue()
    }

    // MARK: From libcurl

    private func receiveHeader(_ line: UnsafeRawBufferPointer) {
        let text = String(decoding: line, as: UTF8.self)
        let content = text.drop { $0 == " " }.prefix { $0 != "\r\n" && $0 != "\n" && $0 != "\r" }
        if content.hasPrefix("HTTP/") {
            // A new head: after a 1xx the real one follows.
            let parts = content.split(separator: " ", maxSplits: 2)
            head.status = parts.count > 1 ? Int(parts[1]) ?? 0 : 0
            fieldsOfHead = [:]
        } else if content.isEmpty {
            guard head.status >= 200, case .head = phase else { return }
            head.headers = fieldsOfHead
            head.timing = timing()
            // libcurl answers a challenge by itself, and drops its body; if it does not, a body or the end follows.
            if head.status == 401, login != nil { return }
            phase = .body
        } else if let colon = content.firstIndex(of: ":") {
            let value = content[content.index(after: colon)...].drop { $0 == " " || $0 == "\t" }
            fieldsOfHead.append(String(content[..<colon]), String(value))
        }
    }

    private func receiveBody(_ bytes: UnsafeRawBufferPointer) -> Int {
        if case .head = phase { phase = .body }
        if let left = swallowing {
            swallowing = left - Int64(bytes.count)
            return left < Int64(bytes.count) ? 0 : bytes.count  // 0 ends the transfer
        }
        guard bufferedBytes < HTTPLimits.bufferedBytes else {
            isPaused = true
            return ff_curl_pause_write  // delivered again after the pause
        }
        if let last = pieces.indices.last, pieces[last].count + bytes.count <= HTTPLimits.pieceBytes {
            pieces[last].append(contentsOf: bytes)
        } else {
            // libcurl gives 16 KB at a time (CURL_MAX_WRITE_SIZE): room for what is to come, or it is copied as it grows.
            var piece: [UInt8] = []
            let left = head.contentLength.map { max(0, $0 - receivedBytes) } ?? Int64(bytes.count)
            piece.reserveCapacity(max(bytes.count, Int(min(left, Int64(HTTPLimits.pieceBytes)))))
            piece.append(contentsOf: bytes)
            pieces.append(piece)
        }
        receivedBytes += Int64(bytes.count)
        bufferedBytes += bytes.count
        return bytes.count
    }

    private func timing() -> HTTPTiming {
        let easy = UnsafeMutableRawPointer(easy)
        var connections = 0
        var connected: curl_off_t = 0, secured: curl_off_t = 0, started: curl_off_t = 0
        ff_easy_get_long(easy, CURLINFO_NUM_CONNECTS, &connections)
        ff_easy_get_offset(easy, CURLINFO_CONNECT_TIME_T, &connected)
        ff_easy_get_offset(easy, CURLINFO_APPCONNECT_TIME_T, &secured)
        ff_easy_get_offset(easy, CURLINFO_STARTTRANSFER_TIME_T, &started)
        var timing = HTTPTiming()
        timing.isNewConnection = connections > 0
        if timing.isNewConnection { timing.connect = .microseconds(max(connected, secured)) }
        timing.firstByte = .microseconds(started)
        return timing
    }

    /// libcurl says that the transfer is over.
    func finish(_ result: CURLcode) {
        guard case .ended = phase else {
            phase = .ended(error(for: result))
            return
        }
    }

    /// The transfer is over because we say so.
    func end(with error: TransportError) {
        guard case .ended = phase else {
            phase = .ended(error)
            return
        }
    }

    private func error(for result: CURLcode) -> TransportError? {
        switch result {
        case CURLE_OK: nil
        case CURLE_PARTIAL_FILE: .incomplete(host: host)
        case CURLE_OPERATION_TIMEDOUT: .timedOut(host: host)
        default: .failed(code: result.rawValue, reason: String(cString: curl_easy_strerror(result)), host: host)
        }
    }

    // MARK: To the reader

    func waitForHead(_ waiter: CheckedContinuation<HTTPResponseHead, any Error>) { headWaiter = waiter }

    func waitForBody(_ waiter: CheckedContinuation<[UInt8]?, any Error>) {
        precondition(bodyWaiter == nil, "one reader a body")
        bodyWaiter = waiter
    }

    /// The redirect's target, if there is one, resolved against the request's URL by libcurl.
    var redirectURL: String? {
        var url: UnsafeMutablePointer<CChar>?
        guard ff_easy_get_string(UnsafeMutableRawPointer(easy), CURLINFO_REDIRECT_URL, &url) == CURLE_OK, let url else {
            return nil
        }
        return String(cString: url)
    }

    /// Hands over what has come; called after libcurl has returned, never from its callbacks.
    ///
    /// - Returns: Whether a paused transfer should go on, because its buffer is empty again.
    func deliver() -> Bool {
        switch phase {
        case .head: break
        case .body: headWaiter.take()?.resume(returning: head)
        case .ended(let error):
            if head.status >= 200, !head.headers.fields.isEmpty || error == nil {
                headWaiter.take()?.resume(returning: head)
            } else if let waiter = headWaiter.take() {
                isOver = true
                waiter.resume(throwing: error ?? .incomplete(host: host))
            }
            if swallowing != nil { isOver = true }
        }
        guard let waiter = bodyWaiter else { return false }
        if !pieces.isEmpty {
            bodyWaiter = nil
            let piece = pieces.removeFirst()
            bufferedBytes -= piece.count
            waiter.resume(returning: piece)
            guard bufferedBytes <= HTTPLimits.bufferedBytes / 2 else { return false }
            defer { isPaused = false }
            return isPaused
        }
        if case .ended(let error) = phase {
            bodyWaiter = nil
            isOver = true
            if let error { waiter.resume(throwing: error) } else { waiter.resume(returning: nil) }
        }
        return false
    }

    func unpause() { curl_easy_pause(UnsafeMutableRawPointer(easy), CURLPAUSE_CONT) }

    /// Nobody reads any more: waiters are told, and a short rest may be swallowed.
    ///
    /// - Returns: Whether the transfer should go on, to keep its connection.
    func abandon() -> Bool {
        headWaiter.take()?.resume(throwing: CancellationError())
        bodyWaiter.take()?.resume(throwing: CancellationError())
        guard case .body = phase, let length = head.contentLength else { return false }
        var received: curl_off_t = 0
        ff_easy_get_offset(UnsafeMutableRawPointer(easy), CURLINFO_SIZE_DOWNLOAD_T, &received)
        guard length - Int64(received) <= HTTPLimits.swallowedBytes else { return false }
        (pieces, bufferedBytes) = ([], 0)
        swallowing = HTTPLimits.swallowedBytes + Int64(HTTPLimits.bufferedBytes)
        if isPaused {
            isPaused = false
            unpause()
        }
        return true
    }
}
