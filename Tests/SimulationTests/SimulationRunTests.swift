import EventLoop
import FeedStrategy
import Foundation
import Playback
import Simulation
import Testing

@Suite("Simulation") struct SimulationRunTests {
    @Test("a run is a function of its seed, to the last entry of its trace", arguments: UInt64(0)..<50)
    func reproducible(seed: UInt64) throws {
        let first = try SimulationRun.run(seed: seed, tracing: true)
        let second = try SimulationRun.run(seed: seed, tracing: true)
        #expect(first.fingerprint == second.fingerprint && first.steps == second.steps)
        #expect(first.trace == second.trace)
    }

    @Test("taking a trace changes nothing", arguments: UInt64(0)..<5) func untraced(seed: UInt64) throws {
        let traced = try SimulationRun.run(seed: seed, tracing: true)
        let untraced = try SimulationRun.run(seed: seed)
        #expect(traced.fingerprint == untraced.fingerprint && untraced.trace.entries.isEmpty)
    }

    @Test("no interleaving of users, network, disk and engines breaks a promise", arguments: UInt64(50)..<250)
    func promises(seed: UInt64) throws {
        let report = try SimulationRun.run(seed: seed)
        #expect(report.violations == [], "firstframe simulate --seed \(seed) shows it step by step")
    }

    @Test("a run with some of its user's steps, or none, is a run", arguments: [[], [0], [0, 1, 2], [5, 900]])
    func shortened(steps: [Int]) throws {
        let report = try SimulationRun.run(seed: 7, keeping: steps)
        #expect(report.violations == [])
    }

    @Test("the trace is JSON in the Trace Event format") func trace() throws {
        let report = try SimulationRun.run(seed: 3, tracing: true)
        let object = try JSONSerialization.jsonObject(with: Data(report.trace.json.utf8)) as? [String: Any]
        let events = try #require(object?["traceEvents"] as? [[String: Any]])
        #expect(events.count > report.trace.entries.count)  // and the names of the tracks
        #expect(events.allSatisfy { $0["ph"] is String && $0["tid"] is Int })
    }

    @Test("two hundred seeds meet each fault of the network and the disk, and each state of the machines")
    func coverage()
        throws
    {
        var faults: Set<String> = []
        var coverage = MachineCoverage()
        for seed in UInt64(0)..<600 {
            let report = try SimulationRun.run(seed: seed)
            faults.formUnion(report.faults.filter { $0.value > 0 }.keys)
            coverage.add(report.coverage)
            if seed >= 200, Self.missing(faults).isEmpty { break }
        }
        #expect(Self.missing(faults).isEmpty)
        for line in coverage.lines {
            let counts = line.split(separator: ": ")[1].split(separator: " ")
            #expect(counts[0] == counts[2], "\(line)")  // states; moves are for the longer runs
        }
    }
    private static func missing(_ faults: Set<String>) -> Set<String> {
        Set(NetworkFault.allCases.map(\.rawValue) + DiskFault.allCases.map(\.rawValue)).subtracting(faults)
    }
}

@Suite("Simulated threads") struct SimulatedThreadsTests {
    private actor Counter {
        nonisolated let loop: SimulatedLoop
        nonisolated var unownedExecutor: UnownedSerialExecutor { loop.asUnownedSerialExecutor() }
        var count = 0
        init(on loop: SimulatedLoop) { self.loop = loop }
        func add() { count += 1 }
    }

    @Test("a task of the host is not on the loop: between two of its calls others come") func foreign() throws {
        let loop = SimulatedLoop(seed: 1)
        let counter = Counter(on: loop)
        let threads = SimulatedThreads(loop: loop)
        let seen = Lock<[Int]>([])
        for _ in 0..<2 {
            threads.spawn {
                for _ in 0..<20 {
                    await counter.add()
                    let now = await counter.count
                    seen.withLock { $0.append(now) }
                }
            }
        }
        loop.runUntilIdle()
        let numbers = seen.withLock { $0 }
        #expect(numbers.last == 40)
        #expect(zip(numbers, numbers.dropFirst()).contains { $1 - $0 > 1 })
    }

    @Test("advancing by steps stops in the middle") func steps() throws {
        let loop = SimulatedLoop(seed: 1)
        let done = Lock(0)
        for _ in 0..<10 { loop.post { done.withLock { $0 += 1 } } }
        loop.advance(steps: 4)
        #expect(done.withLock { $0 } == 4)
        loop.schedule(at: loop.now.advanced(by: .seconds(5))) { done.withLock { $0 += 100 } }
        loop.advance(steps: 7)
        #expect(done.withLock { $0 } == 110)
        #expect(loop.now.offset == .seconds(5))
    }
}
