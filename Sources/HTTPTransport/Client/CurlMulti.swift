internal import CLibcurl
import EventLoop
import Glibc

/// Owns the multi handle: the sockets that libcurl wants watched and the one timer it wants set.
///
/// Sources of the rules: CURLMOPT_SOCKETFUNCTION, CURLMOPT_TIMERFUNCTION, CURLOPT_CLOSESOCKETFUNCTION.
final class CurlMulti {
    private let loop: LoopThread
    private let multi: UnsafeMutableRawPointer
    /// One a socket life: libcurl's REMOVE or its close callback ends it, whichever comes first.
    private var watchers: [curl_socket_t: DescriptorWatcher] = [:]
    private var timer: LoopTimer?
    private var isClosed = false
    /// Told to settle after each action; it owns this object.
    unowned(unsafe) var client: HTTPClient?

    init(loop: LoopThread) {
        self.loop = loop
        guard curl_global_init(Int(CURL_GLOBAL_ALL)) == CURLE_OK, let multi = curl_multi_init() else {
            preconditionFailure("libcurl can't be initialised: out of memory")
        }
        self.multi = multi
        let me = Unmanaged.passUnretained(self).toOpaque()
        ff_multi_socket(
            multi,
            { _, socket, what, context, _ in
                Unmanaged<CurlMulti>.fromOpaque(context!).takeUnretainedValue().watch(socket, what)
                return 0
            }, me)
        ff_multi_timer(
            multi,
            { _, milliseconds, context in
                Unmanaged<CurlMulti>.fromOpaque(context!).takeUnretainedValue().setTimer(milliseconds)
                return 0
            }, me)
        // Warm connections for the hosts of a feed; libcurl's default of 4 per handle is too few.
        ff_multi_long(multi, CURLMOPT_MAXCONNECTS, 32)
    }

    deinit { precondition(isClosed, "the HTTP client must be shut down before it goes away") }

    func add(_ transfer: CurlTransfer) {
        let easy = UnsafeMutableRawPointer(transfer.easy)
        ff_easy_pointer(easy, CURLOPT_CLOSESOCKETDATA, Unmanaged.passUnretained(self).toOpaque())
        ff_easy_close(easy) { context, socket in
            Unmanaged<CurlMulti>.fromOpaque(context!).takeUnretainedValue().unwatch(socket)
            return Glibc.close(socket)
        }
        let code = curl_multi_add_handle(multi, easy)
        precondition(code == CURLM_OK, "curl_multi_add_handle: \(code)")
        transfer.isAdded = true
    }

    func remove(_ transfer: CurlTransfer) {
        guard transfer.isAdded else { return }
        transfer.isAdded = false
        let code = curl_multi_remove_handle(multi, UnsafeMutableRawPointer(transfer.easy))
        precondition(code == CURLM_OK, "curl_multi_remove_handle: \(code)")
    }

    /// Lets libcurl work on a socket, or on its timeouts when `socket` is nil.
    func act(on socket: curl_socket_t?, _ bits: Int32) {
        guard !isClosed else { return }
        var running: Int32 = 0
        let code = curl_multi_socket_action(multi, socket ?? CURL_SOCKET_TIMEOUT, bits, &running)
        precondition(code == CURLM_OK, "curl_multi_socket_action: \(code)")
    }

    /// The transfers that ended since the last call.
    func finished() -> [(easy: UnsafeMutableRawPointer, result: CURLcode)] {
        guard !isClosed else { return [] }
        var ended: [(UnsafeMutableRawPointer, CURLcode)] = []
        var left: Int32 = 0
        while let message = curl_multi_info_read(multi, &left) {
            guard message.pointee.msg == CURLMSG_DONE, let easy = message.pointee.easy_handle else { continue }
            ended.append((easy, ff_message_result(message)))
        }
        return ended
    }

    /// Closes idle connections too. All transfers must have been removed.
    func close() {
        guard !isClosed else { return }
        curl_multi_cleanup(multi)
        isClosed = true
        for watcher in watchers.values { watcher.close() }
        watchers.removeAll()
        if let timer { loop.cancel(timer) }
    }

    // MARK: Called by libcurl

    private func watch(_ socket: curl_socket_t, _ what: Int32) {
        guard what != CURL_POLL_REMOVE else { return unwatch(socket) }
        guard !isClosed else { return }
        var events: DescriptorWatcher.Events = []
        if what & CURL_POLL_IN != 0 { events.insert(.readable) }
        if what & CURL_POLL_OUT != 0 { events.insert(.writable) }
        if let watcher = watchers[socket] { return watcher.watch(events) }
        do throws(LoopError) {
            let watcher = try DescriptorWatcher(socket, on: loop) { [weak self] events in
                self?.socketReady(socket, events)
            }
            watchers[socket] = watcher
            watcher.watch(events)
        } catch {
            // The transfer learns of it as of any broken socket, on the next turn and not inside this callback.
            fail(socket)
        }
    }

    private func unwatch(_ socket: curl_socket_t) { watchers.removeValue(forKey: socket)?.close() }

    private func fail(_ socket: curl_socket_t) {
        guard let client else { return }
        loop.post { client.assumeIsolated { $0.socketReady(socket, CURL_CSELECT_ERR) } }
    }

    private func socketReady(_ socket: curl_socket_t, _ events: DescriptorWatcher.Events?) {
        var bits: Int32 = 0
        if let events {
            if events.contains(.readable) { bits |= CURL_CSELECT_IN }
            if events.contains(.writable) { bits |= CURL_CSELECT_OUT }
        } else {
            bits = CURL_CSELECT_ERR
        }
        client?.assumeIsolated { $0.socketReady(socket, bits) }
    }

    /// Each call replaces the timer; 0 means the next turn of the loop, never at once, which would recurse.
    private func setTimer(_ milliseconds: Int) {
        if let timer { loop.cancel(timer) }
        timer = nil
        guard milliseconds >= 0, !isClosed, let client else { return }
        timer = loop.schedule(at: loop.now.advanced(by: .milliseconds(milliseconds))) { [weak client] in
            client?.assumeIsolated { $0.socketReady(nil, 0) }
        }
    }
}
