import Glibc

/// A value that may only be touched while holding its lock; the one lock type of this package.
///
/// Built on `pthread_mutex_t` rather than `Synchronization.Mutex`, because ThreadSanitizer understands the
/// former and reports false races for the latter on Linux (checked with Swift 6.3.1).
package final class Lock<Value>: @unchecked Sendable {
    // @unchecked: `value` is only reached through `withLock`.
    private let mutex = UnsafeMutablePointer<pthread_mutex_t>.allocate(capacity: 1)
    private let changed = UnsafeMutablePointer<pthread_cond_t>.allocate(capacity: 1)
    private var value: Value

    package init(_ value: sending Value) {
        self.value = value
        let code = pthread_mutex_init(mutex, nil)
        precondition(code == 0, "pthread_mutex_init failed: \(code)")
        pthread_cond_init(changed, nil)
    }
    deinit {
        pthread_cond_destroy(changed)
        changed.deallocate()
        pthread_mutex_destroy(mutex)
        mutex.deallocate()
    }

    package func withLock<Result, Failure: Error>(
        _ body: (inout Value) throws(Failure) -> sending Result
    ) throws(Failure) -> sending Result {
        pthread_mutex_lock(mutex)
        defer { pthread_mutex_unlock(mutex) }
        return try body(&value)
    }

    /// Changes the value and wakes every thread that waits in ``waitWithLock(_:)``.
    package func withLockNotifying<Result>(_ body: (inout Value) -> sending Result) -> sending Result {
        defer { pthread_cond_broadcast(changed) }
        return withLock(body)
    }

    /// Changes the value and wakes one of the threads that wait in ``waitWithLock(_:)``.
    package func withLockNotifyingOne<Result>(_ body: (inout Value) -> sending Result) -> sending Result {
        defer { pthread_cond_signal(changed) }
        return withLock(body)
    }

    /// Blocks the calling thread until `body` gives an answer; asked again after each notifying change.
    ///
    /// For threads of one's own (an engine's decode thread), never for the loop thread or a task.
    package func waitWithLock<Result>(_ body: (inout Value) -> sending Result?) -> sending Result {
        pthread_mutex_lock(mutex)
        defer { pthread_mutex_unlock(mutex) }
        while true {
            if let answer = body(&value) { return answer }
            pthread_cond_wait(changed, mutex)
        }
    }
}
