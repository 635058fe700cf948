internal import CLibuv
import Glibc

/// A thread of one's own for work that blocks for long, such as decoding; joined exactly once.
package final class WorkerThread: Sendable {
    private let id: Lock<pthread_t?>

    /// Starts `body` on a new thread.
    ///
    /// - Parameter name: At most 15 characters; shown by debuggers and `top`.
    package init(named name: String, _ body: @escaping @Sendable () -> Void) throws(LoopError) {
        var id = pthread_t()
        let start = Unmanaged.passRetained(ThreadStart(body)).toOpaque()
        let code = pthread_create(
            &id, nil,
            { context in
                Unmanaged<ThreadStart>.fromOpaque(context!).takeRetainedValue().body()
                return nil
            }, start)
        guard code == 0 else {
            Unmanaged<ThreadStart>.fromOpaque(start).release()
            throw LoopError(code: -code, call: "pthread_create")
        }
        ff_name_thread(id, name)
        self.id = Lock(id)
    }

    deinit {
        if let id = id.withLock({ $0.take() }) { pthread_detach(id) }
    }

    /// Blocks until the thread has ended. Only the first call waits.
    package func join() {
        if let id = id.withLock({ $0.take() }) { pthread_join(id, nil) }
    }
}

private final class ThreadStart: Sendable {
    let body: @Sendable () -> Void
    init(_ body: @escaping @Sendable () -> Void) { self.body = body }
}
