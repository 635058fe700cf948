import EventLoop
import FeedVocabulary
import FirstFrame
import MediaCache
import Synchronization

/// One run of a whole runtime, from one seed: its world, its user, and the checks after every step.
package struct SimulationRun {
    package struct Report: Sendable {
        package let seed: UInt64
        package fileprivate(set) var violations: [String] = []
        package fileprivate(set) var simulatedTime = Duration.zero
        /// Jobs and timers of the loop.
        package fileprivate(set) var steps = 0
        package fileprivate(set) var fingerprint: UInt64 = 0
        package fileprivate(set) var operations: [String: Int] = [:]
        package fileprivate(set) var faults: [String: Int] = [:]
        package fileprivate(set) var engines = SimulatedEngines.Counts()
        package fileprivate(set) var coverage = MachineCoverage()
        package fileprivate(set) var trace = SimulationTrace()
    }

    /// What the end of a process and its last requests may take.
    private static let endLimit = Duration.seconds(5)
    /// User steps between two looks at all that is on disk.
    private static let stepsBetweenDiskChecks = 8
    /// Calls of a host that does not notice that its runtime was shut down.
    private static let callsAfterShutdown = 4
    private static let runs = Atomic<Int>(0)

    private let scenario: Scenario
    private let steps: [TimedStep]
    private let loop: SimulatedLoop
    private let network: SimulatedNetwork
    private let disk: SimulatedDisk
    private let engines: SimulatedEngines
    private let index: SharedMemoryIndex
    private var cache: MediaCache
    private var runtime: FeedRuntime
    private let host: SimulatedHost
    private var boots = 1
    private var callsSinceShutdown: Int?

    /// - Parameter kept: Numbers of the user's steps to take; `nil` takes all of the scenario.
    package static func run(seed: UInt64, keeping kept: [Int]? = nil, tracing: Bool = false) throws -> Report {
        var run = try SimulationRun(Scenario(seed: seed), keeping: kept, tracing: tracing)
        return try run.report()
    }

    private init(_ scenario: Scenario, keeping kept: [Int]?, tracing: Bool) throws {
        self.scenario = scenario
        steps = kept.map { scenario.steps(numbered: $0) } ?? scenario.steps
        loop = SimulatedLoop(seed: scenario.seed)
        network = SimulatedNetwork(
            loop: loop, roundTrip: scenario.roundTrip, bytesPerSecond: scenario.bytesPerSecond)
        disk = SimulatedDisk(loop: loop)
        engines = SimulatedEngines(scenario.engines, seed: scenario.seed &+ 2, library: .shared)
        index = try SharedMemoryIndex(name: "run\(Self.runs.add(1, ordering: .relaxed).newValue)")
        (cache, runtime) = try Self.start(scenario, loop, network, disk, engines, index, boot: 1)
        host = SimulatedHost(scenario: scenario, loop: loop, network: network, runtime: runtime, tracing: tracing)
        loop.perform { [network, disk] in
            network.assumeIsolated { $0.setWeather(scenario.network, seed: scenario.seed &+ 3) }
            disk.assumeIsolated {
                $0.setWeather(scenario.disk, seed: scenario.seed &+ 4)
                $0.setCapacity(scenario.diskCapacity)
            }
        }
        if tracing {
            loop.perform { [network, host] in
                network.assumeIsolated { $0.observe { text in host.assumeIsolated { $0.saw("network", text) } } }
            }
        }
        _ = try loop.run { [host] in for clip in scenario.clips { await host.serve(clip) } }
        watch()
    }

    /// A process that opens the cache.
    private static func start(
        _ scenario: Scenario, _ loop: SimulatedLoop, _ network: SimulatedNetwork, _ disk: SimulatedDisk,
        _ engines: SimulatedEngines, _ index: SharedMemoryIndex, boot: Int
    ) throws -> (MediaCache, FeedRuntime) {
        var configuration = CacheConfiguration(directory: "/cache", capacity: scenario.cacheCapacity)
        configuration.boot = "boot \(boot)"
        configuration.freeDiskGuard = 0
        let opened = try loop.run(within: endLimit) { [configuration] in
            for _ in 0..<50 {  // the disk may refuse for a while, and the host tries again
                if let cache = try? await MediaCache.open(configuration, on: loop, files: disk, index: .memory(index)) {
                    return Optional(cache)
                }
            }
            return nil
        }
        guard let cache = opened ?? nil else { throw SimulationError.cacheDoesNotOpen }
        var settings = RuntimeConfiguration()
        settings.engineLimit = scenario.engineLimit
        return (
            cache,
            FeedRuntime(loop: loop, transport: network, cache: cache, engines: engines, configuration: settings)
        )
    }

    /// Checks the guarantees after every step of the loop, from now on.
    private func watch() {
        let (host, engines, limit) = (host, engines, scenario.engineLimit)
        loop.afterEachStep {
            host.assumeIsolated { host in
                let counts = engines.counts
                let coordinator = host.runtime.coordinator.assumeIsolated { $0.machine }
                host.guarantees.check(
                    pages: host.pages, coordinator: coordinator, liveEngines: counts.live, audible: counts.playing,
                    engineLimit: limit)
            }
        }
    }

    // MARK: The run

    private mutating func report() throws -> Report {
        for (number, step) in steps.enumerated() {
            switch step.wait {
            case .milliseconds(let time): loop.advance(by: .milliseconds(time))
            case .steps(let count): loop.advance(steps: count)
            }
            try take(step)
            if number % Self.stepsBetweenDiskChecks == 0 { checkDisk() }
            onHost { $0.checkCalls() }
            if !violations.isEmpty { break }
        }
        if violations.isEmpty { try end() }
        return makeReport()
    }

    private var violations: [String] { onHost { $0.guarantees.violations } }

    private func violated(_ text: String) {
        onHost { $0.guarantees.violated(text) }
    }

    private func onHost<Value: Sendable>(_ body: (isolated SimulatedHost) -> Value) -> Value {
        loop.perform { host.assumeIsolated(body) }
    }

    private mutating func take(_ timed: TimedStep) throws {
        let step = timed.step
        if let calls = callsSinceShutdown {
            callsSinceShutdown = calls + 1
            if calls >= Self.callsAfterShutdown { try restart(losingPower: false) }
        }
        switch step {
        case .kill:
            loop.perform { [disk] in disk.assumeIsolated { $0.kill() } }
            try restart(losingPower: false)
        case .cutPower:
            loop.perform { [disk] in disk.assumeIsolated { $0.cutPower() } }
            try restart(losingPower: true)
        case .shutdown:
            callsSinceShutdown = callsSinceShutdown ?? 0
            onHost { $0.begin(step) }
        case _: onHost { $0.begin(step, isCancelled: timed.isCancelled) }
        }
    }

    /// The old process is gone; the next one finds what the disk has.
    private mutating func restart(losingPower: Bool) throws {
        try endProcess()
        loop.perform { [disk] in disk.assumeIsolated { $0.revive() } }
        if losingPower { boots += 1 }
        (cache, runtime) = try Self.start(scenario, loop, network, disk, engines, index, boot: boots)
        onHost { [runtime] in $0.restart(runtime) }
        callsSinceShutdown = nil
        checkDisk()
    }

    private func endProcess() throws {
        let runtime = runtime
        let ended: Void? = try loop.run(within: Self.endLimit) { await runtime.shutdown() }
        if ended == nil { violated("the runtime does not end within \(Self.endLimit)") }
        onHost { $0.forgetEverything() }
        loop.advance(by: .milliseconds(100))  // the last files are closed
        let sleepers = openCalls.count(where: Self.sleeps)
        if loop.timerCount > sleepers { violated("\(loop.timerCount - sleepers) timers are left after the shutdown") }
        let left = loop.perform { [network] in network.assumeIsolated { $0.openCount + $0.waitingCount } }
        if left != 0 { violated("\(left) requests are left after the shutdown") }
    }

    private var openCalls: [String] { onHost { $0.openCalls } }
    /// Those in which the host waits for the runtime.
    private var waitingCalls: [String] { openCalls.filter { !Self.sleeps($0) } }

    /// Whether the host itself waits in a call, and not the runtime.
    private static func sleeps(_ call: String) -> Bool {
        ["rest", "loseNetwork", "fling"].contains { call.hasPrefix($0) }
    }

    /// The network is well again, and nobody calls any more: what was called ends by itself, and not by a shutdown.
    private func endCalls() {
        loop.perform { [network, disk] in
            network.assumeIsolated {
                $0.setDown(false)
                $0.setWeather(NetworkWeather(), seed: 0)
            }
            disk.assumeIsolated { $0.setWeather(DiskWeather(), seed: 0) }
        }
        let deadline = loop.now.advanced(by: Self.longestRecovery)
        while !waitingCalls.isEmpty, loop.now < deadline { loop.advance(by: .seconds(1)) }
        let left = waitingCalls
        if !left.isEmpty { violated("calls that don't return though all is well: \(left.joined(separator: ", "))") }
    }
    /// A stall, and the retries that a request has left.
    private static let longestRecovery = Duration.seconds(90)

    private mutating func end() throws {
        checkDisk()
        loop.advance(by: .seconds(1))
        endCalls()
        try endProcess()
        loop.advance(by: .seconds(30))
        let waiting = waitingCalls
        if !waiting.isEmpty { violated("calls that never return: \(waiting.joined(separator: ", "))") }
        let counts = engines.counts
        if counts.live != 0 { violated("\(counts.live) engines are left at the end") }
        if counts.playing != 0 { violated("\(counts.playing) engines are heard at the end") }
        let statistics = try loop.run { [runtime] in await runtime.statistics() }
        if let left = statistics, left.liveEngines + left.openResources + left.runningFetches > 0 {
            violated("left at the end: \(left)")
        }
        for text in engines.wrongBytes { violated(text) }
    }

    /// What the cache says it has is what some version of the clip has there.
    private func checkDisk() {
        let wrong = loop.perform { [cache, disk] () -> [String] in
            let records = cache.assumeIsolated { cache in cache.records }
            return disk.assumeIsolated { disk in
                records.compactMap { record in
                    // A file that is gone is being removed.
                    guard let bytes = disk.contents(of: cache.path(record.id)) else { return nil }
                    return Self.isTrue(record, bytes)
                        ? nil : "the cache has \(record.ranges) of \(record.key), which no version has"
                }
            }
        }
        for text in wrong { violated(text) }
        let missing = loop.perform { [cache, runtime] () -> [String] in
            let used = runtime.loaders.assumeIsolated { $0.recordsInUse }
            return cache.assumeIsolated { cache in
                used.filter { cache.record(of: $0.key)?.id != $0.id }.map {
                    "the cache dropped \($0.key), which is in use"
                }
            }
        }
        for text in missing { violated(text) }
        let fetches = loop.perform { [runtime] in runtime.loaders.assumeIsolated { $0.fetchesOfOne } }
        if fetches.most > fetches.allowed {
            violated("one resource has \(fetches.most) requests under way, \(fetches.allowed) are allowed")
        }
    }

    private static func isTrue(_ record: CacheRecord, _ bytes: [UInt8]) -> Bool {
        guard let clip = ClipLibrary.shared.clips.first(where: { $0.key == record.key.text }) else { return false }
        return clip.versions.indices.contains { version in
            if let validator = record.validator, validator != clip.validator(version) { return false }
            return record.ranges.ranges.allSatisfy { range in
                range.upperBound <= bytes.count
                    && clip.has(
                        bytes[Int(range.lowerBound)..<Int(range.upperBound)], at: range.lowerBound, version: version)
            }
        }
    }

    private func makeReport() -> Report {
        var report = Report(seed: scenario.seed)
        (report.simulatedTime, report.steps) = (loop.now.offset, loop.stepCount)
        (report.fingerprint, report.engines) = (loop.fingerprint, engines.counts)
        loop.perform { [host, network, disk, engines] in
            host.assumeIsolated { host in
                host.guarantees.saw(engineMoves: engines.moves)
                (report.violations, report.coverage) = (host.guarantees.violations, host.guarantees.coverage)
                (report.operations, report.trace) = (host.operations, host.trace)
            }
            for (fault, count) in network.assumeIsolated({ $0.faultCounts }) { report.faults[fault.rawValue] = count }
            for (fault, count) in disk.assumeIsolated({ $0.faultCounts }) { report.faults[fault.rawValue] = count }
        }
        // What the loop and the network still call would keep the whole world.
        loop.afterEachStep(nil)
        loop.perform { [network] in network.assumeIsolated { $0.observe(nil) } }
        report.faults["decoderRefuses"] = engines.counts.refused
        return report
    }
}

package enum SimulationError: Error { case cacheDoesNotOpen }
