import EventLoop
import Foundation
import Testing

private actor Counter {
    nonisolated let loop: any LoopExecutor
    nonisolated var unownedExecutor: UnownedSerialExecutor { loop.asUnownedSerialExecutor() }
    private(set) var count = 0
    private(set) var order: [Int] = []
    init(on loop: any LoopExecutor) { self.loop = loop }
    func add(_ value: Int = 0) {
        loop.checkIsolated()
        count += 1
        order.append(value)
    }
}

private func openDescriptors() -> Int {
    (try? FileManager.default.contentsOfDirectory(atPath: "/proc/self/fd").count) ?? 0
}

@Suite("Loop thread", .serialized) struct LoopThreadTests {
    @Test("1,000 loops leave no descriptor behind") func noLeak() async {
        // In a process of its own: other suites open and close descriptors meanwhile.
        await #expect(processExitsWith: .success) {
            try LoopThread().stop()
            let before = openDescriptors()
            for _ in 0..<1_000 { try LoopThread().stop() }
            precondition(openDescriptors() < before + 100, "loops leave descriptors behind")  // a leak would be 2,000
        }
    }

    @Test("LOOP-9: every job of eight threads runs, those of one thread in order") func allRun() async throws {
        let loop = try LoopThread()
        let counter = Counter(on: loop)
        await withTaskGroup(of: Void.self) { group in
            for worker in 0..<8 {
                group.addTask { for number in 0..<1_000 { await counter.add(worker * 1_000 + number) } }
            }
        }
        #expect(await counter.count == 8_000)
        let order = await counter.order
        for worker in 0..<8 {
            let own = order.filter { $0 / 1_000 == worker }
            #expect(own == own.sorted())
        }
        loop.stop()
    }

    @Test("work that enqueues more work without end leaves timers their turn") func busyLoop() async throws {
        let loop = try LoopThread()
        let isOver = Lock(false)
        @Sendable func goOn() { if !isOver.withLock({ $0 }) { loop.post(goOn) } }
        loop.post(goOn)
        await withCheckedContinuation { fired in
            loop.schedule(at: loop.now.advanced(by: .milliseconds(1))) { fired.resume() }
        }
        isOver.withLock { $0 = true }
        loop.stop()
    }

    @Test("LOOP-8: work that comes after the end is run, not lost") func lateWork() async throws {
        let loop = try LoopThread()
        let counter = Counter(on: loop)
        loop.stop()
        for _ in 0..<100 { await counter.add() }
        #expect(await counter.count == 100)
        #expect(try await loop.offload { 7 } == 7)
    }

    @Test("LOOP-8: eight threads submit while the loop stops", arguments: 0..<20) func stopRace(round: Int) async throws
    {
        let loop = try LoopThread()
        let counter = Counter(on: loop)
        await withTaskGroup(of: Void.self) { group in
            for _ in 0..<8 { group.addTask { for _ in 0..<50 { await counter.add() } } }
            group.addTask { loop.stop() }
        }
        #expect(await counter.count == 400)
    }

    @Test("LIMIT-1, LIMIT-2: a loop that finds no descriptor says so, and the next one works") func noDescriptors()
        async
    {
        await #expect(processExitsWith: .success) {
            try LoopThread().stop()  // libuv itself aborts when the first loop of a process finds none for its signals
            var limit = rlimit()
            getrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit)
            let before = (try? FileManager.default.contentsOfDirectory(atPath: "/proc/self/fd").count) ?? 0
            // With each limit another call is the one that fails, until there are enough.
            for extra in 0..<12 {
                var tight = limit
                tight.rlim_cur = rlim_t(before + extra)
                setrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &tight)
                if let loop = try? LoopThread() { loop.stop() }
                setrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit)
            }
            let loop = try LoopThread()
            try await loop.sleep(for: .milliseconds(1))
            loop.stop()
        }
    }

    @Test("a time in a thousand years is a time like any other") func farFuture() async throws {
        let loop = try LoopThread()
        loop.schedule(at: loop.now.advanced(by: .seconds(Int64.max))) { Issue.record("a thousand years are not over") }
        try await loop.sleep(for: .milliseconds(2))
        #expect(Duration.seconds(Int64.max).wholeNanoseconds == .max)
        #expect(Duration.seconds(Int64.min).wholeNanoseconds == .min)
        #expect(Duration.nanoseconds(-7).wholeNanoseconds == -7)
        loop.stop()
    }

    @Test("a loop can be ended from one of its own jobs") func endFromWithin() async throws {
        let loop = try LoopThread()
        let task = Task(executorPreference: loop) { await loop.stopFromAnywhere() }
        await task.value
        #expect(loop.isIsolatingCurrentContext() == false)
    }

    @Test("files are written, read, renamed and removed") func files() async throws {
        let loop = try LoopThread()
        let files = LoopFiles(loop: loop)
        let folder = FileManager.default.temporaryDirectory.path() + "/ff-files-\(UUID().uuidString)/deep"
        try await files.makeDirectory(folder)
        let file = try await files.open(folder + "/a", creating: true)
        try await file.write(Array("hello".utf8), at: 3)
        try await file.sync()
        #expect(try await file.read(at: 0, count: 100) == [0, 0, 0] + Array("hello".utf8))
        #expect(try await files.stat(folder + "/a").length == 8)
        try await file.truncate(to: 4)
        try await files.rename(folder + "/a", to: folder + "/b")
        try await files.syncDirectory(folder)
        #expect(try await files.list(folder) == ["b"])
        #expect(try await files.stat(folder + "/b").length == 4)
        try await file.close()
        try await files.unlink(folder + "/b")
        await #expect(throws: LoopError.self) { try await files.open(folder + "/b", creating: false) }
        loop.stop()
        try FileManager.default.removeItem(atPath: folder)
    }
}

@Suite("Timers") struct TimerTests {
    @Test("timers fire in the order of their times, those of one time in the order of setting") func order() {
        var queue = TimerQueue()
        let fired = Lock<[Int]>([])
        func set(_ milliseconds: Int64, _ number: Int) -> LoopTimer {
            queue.insert(at: LoopInstant(offset: .milliseconds(milliseconds))) { fired.withLock { $0.append(number) } }
        }
        _ = set(30, 1)
        _ = set(10, 2)
        let cancelled = set(20, 3)
        _ = set(10, 4)
        queue.remove(cancelled)
        while let body = queue.popDue(at: LoopInstant(offset: .milliseconds(30))) { body() }
        #expect(fired.withLock { $0 } == [2, 4, 1])
        #expect(queue.count == 0)
    }

    @Test("CONC-3: a cancelled sleep ends at once and leaves no timer") func cancelledSleep() async throws {
        let loop = try LoopThread()
        let sleeper = Task { try await loop.sleep(for: .seconds(3_600)) }
        sleeper.cancel()
        await #expect(throws: CancellationError.self) { try await sleeper.value }
        try await loop.clock.sleep(for: .milliseconds(1))
        loop.stop()
    }
}
