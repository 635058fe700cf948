import EventLoop
import Foundation
import Simulation
import Synchronization

/// `firstframe simulate`: whole runtimes in virtual time, one a seed, each step of each checked.
struct SimulateCommand {
    let console: Console

    /// Seeds that ran into a violation; more of the same tell nothing new.
    private static let failuresShown = 3

    func run(_ arguments: Arguments) async throws -> Int32 {
        guard arguments.values.isEmpty else { throw UsageError(text: "simulate takes no argument but options") }
        let kept = try arguments["steps"].map(Self.numbers)
        if let seed = try arguments.number("seed", in: 0...0x1p53) {
            return try one(UInt64(seed), kept, trace: arguments["trace"], isQuiet: arguments.has("quiet"))
        }
        if kept != nil || arguments["trace"] != nil { throw UsageError(text: "--steps and --trace need --seed") }
        let first = UInt64(try arguments.number("first", in: 0...0x1p53) ?? 0)
        let count = UInt64(try arguments.number("seeds", in: 1...1e9) ?? 200)
        let cores = ProcessInfo.processInfo.activeProcessorCount
        let jobs = Int(try arguments.number("jobs", in: 1...256) ?? Double(cores))
        return try many(first..<first + count, jobs: jobs, isShrinking: !arguments.has("unshrunk"))
    }

    private static func numbers(_ text: String) throws(UsageError) -> [Int] {
        let words = text.split(separator: ",", omittingEmptySubsequences: true)
        let numbers = words.compactMap { Int($0) }
        guard numbers.count == words.count else { throw UsageError(text: "--steps is a list such as 0,4,7") }
        return numbers
    }

    // MARK: One seed

    private func one(_ seed: UInt64, _ kept: [Int]?, trace file: String?, isQuiet: Bool) throws -> Int32 {
        CrashNotes.install()
        CrashNotes.running(seed, slot: 0)
        let report = try SimulationRun.run(seed: seed, keeping: kept, tracing: !isQuiet)
        if let file { try Data(report.trace.json.utf8).write(to: URL(filePath: file)) }
        if isQuiet {
            for violation in report.violations { console.complain(violation) }
            return report.violations.isEmpty ? 0 : 1
        }
        if console.isJSON {
            try console.json(Summary([report], seconds: 0))
        } else {
            for entry in report.trace.entries {
                let time = String(format: "%9.3f", entry.time.offset / .seconds(1))
                let length = entry.duration.map { String(format: " (%.3f s)", $0 / .seconds(1)) } ?? ""
                console.say("\(time)  \(entry.track.padded(8))  \(entry.text)\(length)")
            }
            console.say("seed \(seed): \(report.steps) steps, fingerprint \(String(report.fingerprint, radix: 16))")
        }
        for violation in report.violations { console.complain("seed \(seed): \(violation)") }
        return report.violations.isEmpty ? 0 : 1
    }

    // MARK: Many seeds

    private func many(_ seeds: Range<UInt64>, jobs: Int, isShrinking: Bool) throws -> Int32 {
        CrashNotes.install()
        let start = ContinuousClock.now
        let next = Atomic<UInt64>(seeds.lowerBound)
        let sum = Mutex(SimulationSum())
        DispatchQueue.concurrentPerform(iterations: jobs) { job in
            while true {
                let seed = next.add(1, ordering: .relaxed).oldValue
                guard seed < seeds.upperBound, !sum.withLock({ $0.failures.count >= Self.failuresShown }) else {
                    return
                }
                CrashNotes.running(seed, slot: job)
                do {
                    let report = try SimulationRun.run(seed: seed)
                    sum.withLock { $0.add(report) }
                } catch {
                    sum.withLock { $0.failures.append((seed, ["\(error)"])) }
                }
            }
        }
        let seconds = start.duration(to: .now) / .seconds(1)
        let result = sum.withLock { $0 }
        if console.isJSON { try console.json(Summary(result, seconds: seconds)) }
        for line in result.lines(seconds: seconds) { console.say(line) }
        for (seed, violations) in result.failures {
            for violation in violations.prefix(3) { console.complain("seed \(seed): \(violation)") }
            guard isShrinking else { continue }
            let steps = ScenarioShrinker(seed: seed).shrink()
            let list = steps.map(String.init).joined(separator: ",")
            console.complain("seed \(seed) fails still with \(steps.count) steps:")
            for (number, step) in zip(steps, Scenario(seed: seed).steps(numbered: steps)) {
                console.complain("  \(number): \(step.name)")
            }
            console.complain("replay it: firstframe simulate --seed \(seed) --steps \(list) --trace FILE")
        }
        return result.failures.isEmpty ? 0 : 1
    }

    private struct Summary: Encodable {
        let seeds: Int, seconds: Double, simulatedHours: Double, steps: Int
        let operations: [String: Int], faults: [String: Int], coverage: [String]
        let failures: [String: [String]]

        init(_ reports: [SimulationRun.Report], seconds: Double) {
            var sum = SimulationSum()
            for report in reports { sum.add(report) }
            self.init(sum, seconds: seconds)
        }
        init(_ sum: SimulationSum, seconds: Double) {
            (seeds, self.seconds, steps) = (sum.seeds, seconds, sum.steps)
            simulatedHours = sum.simulatedTime / .seconds(3600)
            (operations, faults, coverage) = (sum.operations, sum.faults, sum.coverage.lines)
            failures = Dictionary(uniqueKeysWithValues: sum.failures.map { ("\($0.seed)", $0.violations) })
        }
    }
}

/// What many runs have shown together.
struct SimulationSum {
    private(set) var seeds = 0
    private(set) var steps = 0
    private(set) var simulatedTime = Duration.zero
    private(set) var operations: [String: Int] = [:]
    private(set) var faults: [String: Int] = [:]
    private(set) var engines = (opened: 0, stalls: 0)
    private(set) var coverage = MachineCoverage()
    var failures: [(seed: UInt64, violations: [String])] = []

    mutating func add(_ report: SimulationRun.Report) {
        seeds += 1
        steps += report.steps
        simulatedTime += report.simulatedTime
        operations.merge(report.operations, uniquingKeysWith: +)
        faults.merge(report.faults, uniquingKeysWith: +)
        engines = (engines.opened + report.engines.opened, engines.stalls + report.engines.stalls)
        coverage.add(report.coverage)
        if !report.violations.isEmpty { failures.append((report.seed, report.violations)) }
    }

    func lines(seconds: Double) -> [String] {
        let hours = simulatedTime / .seconds(3600)
        var lines = [
            "\(seeds) seeds in \(String(format: "%.1f", seconds)) s: \(String(format: "%.1f", hours)) simulated hours, "
                + "\(steps) steps of the loop, \(engines.opened) engines opened, \(engines.stalls) stalls",
            "operations: \(operations.values.reduce(0, +)): \(operations.listed)",
            "faults: \(faults.values.reduce(0, +)): \(faults.listed)",
        ]
        lines += coverage.lines.map { "coverage of the \($0)" }
        lines.append(failures.isEmpty ? "no violation" : "\(failures.count) seeds with violations")
        return lines
    }
}
