import Foundation
import Simulation

/// Finds a short list of user steps with which a seed still fails. Each try is a process of its own, so that a trap or a
/// hang counts as a failure and ends nothing else.
struct ScenarioShrinker {
    let seed: UInt64
    /// A run takes some milliseconds; one that takes this long hangs.
    private static let limit = DispatchTimeInterval.seconds(20)
    private static let tries = 200

    /// Leaves out halves, then quarters, down to single steps, as long as it still fails.
    func shrink() -> [Int] {
        var steps = Array(Scenario(seed: seed).steps.indices)
        var size = steps.count / 2
        var left = Self.tries
        while size >= 1 {
            var start = 0
            while start < steps.count, left > 0 {
                left -= 1
                let shorter = Array(steps[..<start] + steps[min(steps.count, start + size)...])
                if fails(shorter) { steps = shorter } else { start += size }
            }
            size /= 2
        }
        return steps
    }

    private func fails(_ steps: [Int]) -> Bool {
        let process = Process()
        process.executableURL = URL(filePath: "/proc/self/exe").resolvingSymlinksInPath()
        let list = steps.map(String.init).joined(separator: ",")
        process.arguments = ["simulate", "--quiet", "--seed", "\(seed)", "--steps", list]
        process.standardOutput = FileHandle.nullDevice
        process.standardError = FileHandle.nullDevice
        let ended = DispatchSemaphore(value: 0)
        process.terminationHandler = { _ in ended.signal() }
        guard (try? process.run()) != nil else { return false }
        guard ended.wait(timeout: .now() + Self.limit) == .success else {
            kill(process.processIdentifier, SIGKILL)
            return true
        }
        return process.terminationStatus != 0 || process.terminationReason == .uncaughtSignal
    }
}
