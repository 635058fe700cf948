internal import CLibuv
import Glibc
import Synchronization

/// One thread that turns one libuv loop; the executor of every actor of a runtime.
package final class LoopThread: LoopExecutor, @unchecked Sendable {
    // @unchecked: libuv memory is touched on the loop thread only; other threads leave work in `inbox` and write to
    // `wakeup`, which is open as long as this object lives.
    private enum Work {
        case job(UnownedJob)
        case body(@Sendable () -> Void)
    }
    private enum Life {
        case running
        case ended  // uv_run has returned; late work gets a short-lived thread
        case draining
    }
    private struct Inbox {
        var work: [Work] = []
        var life = Life.running
        /// Whether the loop is at its work, and looks for more before it waits.
        var isTurning = false
    }

    private let loop = UnsafeMutablePointer<uv_loop_t>.allocate(capacity: 1)
    /// An event counter that the loop polls, and not uv_async_t: libuv 1.44 spins in the loop until the sender's thread
    /// has left uv_async_send, which took 3 ms when the wake-up preempted the sender.
    private let wakeup: Int32
    private let wakeupPoll = UnsafeMutablePointer<uv_poll_t>.allocate(capacity: 1)
    private let alarm = UnsafeMutablePointer<uv_timer_t>.allocate(capacity: 1)
    private let inbox = Lock(Inbox())
    private let timers = Lock(TimerQueue())
    private let chance: Lock<SplitMix64>
    private let thread = Lock<WorkerThread?>(nil)
    /// Writes, index commits, checksums: enough threads that a slow commit does not hold up other resources.
    private let pool = WorkerPool(limit: 4)
    /// Decoding: the engines of a page.
    private let longWork = WorkerPool(limit: 3)
    private var offloadedCount = 0  // touched on the loop thread only
    private let currentThread = Atomic<UInt>(0)
    private let isStopping = Atomic<Bool>(false)

    /// Starts the thread.
    ///
    /// - Throws: ``LoopError`` when the system has no descriptor or thread left.
    package init(seed: UInt64? = nil) throws(LoopError) {
        chance = Lock(SplitMix64(seed: seed ?? UInt64.random(in: .min ... .max)))
        wakeup = eventfd(0, ff_eventfd_flags)
        let code = wakeup < 0 ? -errno : uv_loop_init(loop)
        guard code == 0 else {
            wakeupPoll.deallocate()
            alarm.deallocate()
            throw LoopError(code: code, call: wakeup < 0 ? "eventfd" : "uv_loop_init")
        }
        loop.pointee.data = Unmanaged.passUnretained(self).toOpaque()
        var handles = 0
        do {
            try check(uv_timer_init(loop, alarm), "uv_timer_init")
            handles = 1
            try check(uv_poll_init(loop, wakeupPoll, wakeup), "uv_poll_init")
            handles = 2
            try check(
                uv_poll_start(wakeupPoll, Int32(UV_READABLE.rawValue)) { poll, _, _ in
                    LoopThread.from(poll!.pointee.loop).turn()
                },
                "uv_poll_start")
            let worker = try WorkerThread(named: "ff-loop") { self.run() }
            thread.withLock { $0 = worker }
        } catch {
            endWithoutThread(handles)
            throw error
        }
    }

    /// No thread could be started: what libuv has of the loop goes here and now.
    private func endWithoutThread(_ handles: Int) {
        let memory = [UnsafeMutableRawPointer(alarm), UnsafeMutableRawPointer(wakeupPoll)]
        for handle in memory[..<handles] {
            uv_close(handle.assumingMemoryBound(to: uv_handle_t.self)) { $0?.deallocate() }
        }
        for handle in memory[handles...] { handle.deallocate() }
        uv_run(loop, UV_RUN_DEFAULT)
        uv_loop_close(loop)
    }

    /// Also after an init that threw: all properties are set by then.
    deinit {
        loop.deallocate()
        if wakeup >= 0 { close(wakeup) }
    }

    private static func from(_ loop: UnsafeMutablePointer<uv_loop_t>) -> LoopThread {
        Unmanaged<LoopThread>.fromOpaque(loop.pointee.data).takeUnretainedValue()
    }

    /// The C loop, for handles and requests; loop thread only.
    var handle: UnsafeMutablePointer<uv_loop_t> {
        checkIsolated()
        return loop
    }

    /// The loop's jobs take microseconds; with the system's default slice it may wait 3 ms for a decoder's turn to end.
    private static let slice: UInt64 = 100_000  // nanoseconds, the kernel's minimum

    private func run() {
        _ = ff_request_slice(Self.slice)  // a wish; older kernels ignore it
        // TLS writes to a socket that the peer closed raise SIGPIPE, which would end the host's process.
        var brokenPipe = sigset_t()
        sigemptyset(&brokenPipe)
        sigaddset(&brokenPipe, SIGPIPE)
        pthread_sigmask(SIG_BLOCK, &brokenPipe, nil)
        currentThread.store(UInt(pthread_self()), ordering: .releasing)
        uv_run(loop, UV_RUN_DEFAULT)
        let code = uv_loop_close(loop)
        precondition(code == 0, "a handle was still open when the loop closed")
        currentThread.store(0, ordering: .releasing)
        // Work that came too late for the loop is run, not lost: an await that began ends.
        let hasLateWork = inbox.withLock { inbox -> Bool in
            inbox.life = inbox.work.isEmpty ? .ended : .draining
            return !inbox.work.isEmpty
        }
        if hasLateWork { drain() }
    }

    private func drain() {
        currentThread.store(UInt(pthread_self()), ordering: .releasing)
        while let batch = inbox.withLock({ inbox -> [Work]? in
            guard !inbox.work.isEmpty else {
                inbox.life = .ended
                currentThread.store(0, ordering: .releasing)
                return nil
            }
            defer { inbox.work = [] }
            return inbox.work
        }) {
            perform(batch)
        }
    }

    private func submit(_ work: Work) {
        let (isFirst, startsDrain) = inbox.withLock { inbox -> (Bool, Bool) in
            inbox.work.append(work)
            switch inbox.life {
            case .running: return (inbox.work.count == 1 && !inbox.isTurning, false)
            case .ended:
                inbox.life = .draining
                return (false, true)
            case .draining: return (false, false)
            }
        }
        // One wake-up per batch, not per job; without the lock, which the woken thread wants at once.
        if isFirst { wake() }
        guard startsDrain else { return }
        do throws(LoopError) {
            _ = try WorkerThread(named: "ff-late") { self.drain() }
        } catch {
            preconditionFailure("no thread for work that came after the loop ended: \(error)")
        }
    }

    private func wake() {
        var one: UInt64 = 1
        // Fails only when the counter is full, and then the loop is awake already.
        _ = write(wakeup, &one, MemoryLayout.size(ofValue: one))
    }

    package func enqueue(_ job: consuming ExecutorJob) { submit(.job(UnownedJob(job))) }
    package func post(_ body: @escaping @Sendable () -> Void) { submit(.body(body)) }

    /// Batches of one turn: what a batch enqueues is run without a wake-up, but sockets and timers get their share.
    private static let batches = 16

    /// Runs what has been enqueued.
    private func turn() {
        var count: UInt64 = 0
        _ = read(wakeup, &count, MemoryLayout.size(ofValue: count))  // before the batch: what comes later wakes again
        for _ in 0..<Self.batches {
            guard let batch = takeBatch() else { break }
            perform(batch)
        }
        let isLeft = inbox.withLock { inbox in
            inbox.isTurning = false
            return !inbox.work.isEmpty
        }
        if isLeft { wake() }
        if !isStopping.load(ordering: .acquiring) { arm() } else if offloadedCount == 0 { closeOwnHandles() }
    }

    private func takeBatch() -> [Work]? {
        inbox.withLock { inbox in
            inbox.isTurning = !inbox.work.isEmpty
            guard inbox.isTurning else { return nil }
            defer { inbox.work.removeAll(keepingCapacity: inbox.work.count < 1024) }
            return inbox.work
        }
    }

    private func perform(_ batch: [Work]) {
        for work in batch {
            switch work {
            case .job(let job):
                job.runSynchronously(isolatedTo: asUnownedSerialExecutor(), taskExecutor: asUnownedTaskExecutor())
            case .body(let body): body()
            }
        }
    }

    // MARK: Time and chance

    package var now: LoopInstant { LoopInstant(offset: .nanoseconds(Int64(uv_hrtime()))) }

    package var wallTime: WallTime { WallTime(secondsSince1970: Int64(time(nil))) }

    package func random() -> UInt64 { chance.withLock { $0.next() } }

    @discardableResult
    package func schedule(at due: LoopInstant, _ body: @escaping @Sendable () -> Void) -> LoopTimer {
        let (timer, isNext) = timers.withLock { timers -> (LoopTimer, Bool) in
            let timer = timers.insert(at: due, body)
            return (timer, timers.nextDue() == due)
        }
        if isNext {
            if isIsolatingCurrentContext() == true { arm() } else { submit(.body {}) }  // each turn arms the alarm
        }
        return timer
    }

    package func cancel(_ timer: LoopTimer) { timers.withLock { $0.remove(timer) } }

    /// Sets the one libuv timer to the next due time; libuv counts whole milliseconds, so round up.
    private func arm() {
        guard !isStopping.load(ordering: .acquiring), let due = timers.withLock({ $0.nextDue() }) else { return }
        uv_update_time(loop)
        // Somebody may want to be woken in a thousand years; each time it fires, the alarm is set anew.
        let wait = min(now.duration(to: due), Self.longestWait).wholeNanoseconds
        uv_timer_start(
            alarm, { LoopThread.from($0!.pointee.loop).fireTimers() },
            wait <= 0 ? 0 : UInt64((wait + 999_999) / 1_000_000), 0)
    }
    private static let longestWait = Duration.seconds(3600)

    private func fireTimers() {
        let now = now
        // At most those due at the start of the turn: a timer that sets a timer waits for the next.
        while let body = timers.withLock({ $0.popDue(at: now) }) { body() }
        arm()
    }

    // MARK: Work off the loop

    package func startWork(named name: String, _ work: @escaping @Sendable () -> Void) throws(LoopError) -> LongWork {
        try longWork.start(named: name, work)
    }

    package func offload(_ work: @escaping @Sendable () -> Void, then done: @escaping @Sendable () -> Void) {
        guard isIsolatingCurrentContext() == true else { return post { self.offload(work, then: done) } }
        guard isRunning else {  // a drain has no loop to come back to
            work()
            return done()
        }
        offloadedCount += 1
        pool.submit {
            work()
            self.post {
                self.offloadedCount -= 1
                done()
            }
        }
    }

    // MARK: Identity and end

    /// Whether libuv still takes handles and requests.
    var isRunning: Bool { inbox.withLock { $0.life == .running } }

    package func isIsolatingCurrentContext() -> Bool? {
        currentThread.load(ordering: .acquiring) == UInt(pthread_self())
    }
    package func checkIsolated() { precondition(isIsolatingCurrentContext() == true, "not on the loop thread") }

    /// Ends the loop and waits for its thread; pending timers are forgotten, requests under way are finished first.
    ///
    /// Call from outside the loop, once, after everything that owns a handle has closed it. Blocks for one turn.
    package func stop() {
        precondition(isIsolatingCurrentContext() == false, "stop() would wait for itself")
        guard let worker = thread.withLock({ $0.take() }) else { preconditionFailure("stop() was called twice") }
        isStopping.store(true, ordering: .releasing)
        post {}
        worker.join()
        pool.stop()
        longWork.stop()
    }

    /// The same for whoever may be on the loop itself, such as a callback: a thread of its own waits for the end.
    package func stopFromAnywhere() async {
        guard isIsolatingCurrentContext() == true else { return stop() }
        await withCheckedContinuation { ended in
            let stopping = try? WorkerThread(named: "ff-stop") {
                self.stop()
                ended.resume()
            }
            precondition(stopping != nil, "no thread left to end the loop with")
        }
    }

    private func closeOwnHandles() {
        timers.withLock { $0.removeAll() }
        uv_poll_stop(wakeupPoll)
        wakeupPoll.withMemoryRebound(to: uv_handle_t.self, capacity: 1) { handle in
            if uv_is_closing(handle) == 0 { uv_close(handle) { $0?.deallocate() } }
        }
        inbox.withLock { inbox in
            inbox.life = .draining  // no wake-up any more: run() drains what comes from now on
        }
        alarm.withMemoryRebound(to: uv_handle_t.self, capacity: 1) { handle in
            if uv_is_closing(handle) == 0 { uv_close(handle) { $0?.deallocate() } }
        }
    }
}

/// A libuv or pthread call that failed. `code` is libuv's (a negative errno).
package struct LoopError: Error, Hashable, CustomStringConvertible {
    package let code: Int32, call: String
    package init(code: Int32, call: String) { (self.code, self.call) = (code, call) }
    /// The errno behind the code.
    package var errno: Int32 { -code }
    package var description: String { "\(String(cString: uv_strerror(code))) (\(call))" }
}

/// Turns libuv's negative codes into errors.
@discardableResult func check(_ code: Int32, _ call: String) throws(LoopError) -> Int32 {
    guard code >= 0 else { throw LoopError(code: code, call: call) }
    return code
}
