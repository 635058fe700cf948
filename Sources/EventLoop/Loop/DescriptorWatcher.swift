internal import CLibuv

/// Watches one socket or epoll descriptor for one life of that socket. Loop thread only.
///
/// libuv wants: never two active watchers on one descriptor, never a descriptor closed under an active watcher.
package final class DescriptorWatcher {
    package struct Events: OptionSet, Hashable, Sendable {
        package let rawValue: Int32
        package init(rawValue: Int32) { self.rawValue = rawValue }
        package static let readable = Events(rawValue: Int32(UV_READABLE.rawValue))
        package static let writable = Events(rawValue: Int32(UV_WRITABLE.rawValue))
    }
    /// What happened; `nil` when polling itself failed and the socket should be treated as broken.
    package typealias Handler = (Events?) -> Void

    private let poll = UnsafeMutablePointer<uv_poll_t>.allocate(capacity: 1)
    private let handler: Handler
    private var isClosed = false

    package init(_ descriptor: Int32, on loop: LoopThread, handler: @escaping Handler) throws(LoopError) {
        self.handler = handler
        do throws(LoopError) {
            try check(uv_poll_init(loop.handle, poll, descriptor), "uv_poll_init")
        } catch {
            poll.deallocate()
            isClosed = true
            throw error
        }
        poll.pointee.data = Unmanaged.passUnretained(self).toOpaque()
    }

    deinit { precondition(isClosed, "a descriptor watcher must be closed before it goes away") }

    /// Watches for `events`; none stops watching.
    package func watch(_ events: Events) {
        guard !isClosed else { return }
        guard !events.isEmpty else {
            uv_poll_stop(poll)
            return
        }
        let code = uv_poll_start(poll, events.rawValue) { poll, status, events in
            guard let data = poll!.pointee.data else { return }
            let watcher = Unmanaged<DescriptorWatcher>.fromOpaque(data).takeUnretainedValue()
            watcher.handler(status < 0 ? nil : Events(rawValue: events))
        }
        if code < 0 { handler(nil) }
    }

    /// Stops watching at once; the descriptor may be closed afterwards. Idempotent.
    package func close() {
        guard !isClosed else { return }
        isClosed = true
        uv_poll_stop(poll)
        poll.pointee.data = nil
        poll.withMemoryRebound(to: uv_handle_t.self, capacity: 1) { uv_close($0) { $0?.deallocate() } }
    }
}
