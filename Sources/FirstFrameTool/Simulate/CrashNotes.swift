import Glibc
import Synchronization

/// Says which seeds were running when the process traps: a trap has no other way to tell.
enum CrashNotes {
    private static let slots = 16
    /// Written by each job before its run; read by the signal handler, where only atomics and write(2) are safe.
    private static let seeds: [Slot] = (0..<slots).map { _ in Slot() }
    private final class Slot: Sendable { let seed = Atomic<UInt64>(.max) }

    static func running(_ seed: UInt64, slot: Int) { seeds[slot % slots].seed.store(seed, ordering: .relaxed) }

    static func install() {
        for number in [SIGILL, SIGTRAP, SIGABRT, SIGSEGV, SIGBUS] {
            signal(number) { number in
                for slot in CrashNotes.seeds {
                    let seed = slot.seed.load(ordering: .relaxed)
                    if seed != .max { CrashNotes.write("firstframe: it trapped while this seed ran: ", seed) }
                }
                signal(number, SIG_DFL)
                raise(number)
            }
        }
    }

    private static func write(_ text: StaticString, _ number: UInt64) {
        _ = Glibc.write(2, text.utf8Start, text.utf8CodeUnitCount)
        withUnsafeTemporaryAllocation(of: UInt8.self, capacity: 24) { digits in
            var rest = number
            var start = digits.count - 1
            digits[start] = UInt8(ascii: "\n")
            repeat {
                start -= 1
                digits[start] = UInt8(ascii: "0") + UInt8(rest % 10)
                rest /= 10
            } while rest > 0
            _ = Glibc.write(2, digits.baseAddress! + start, digits.count - start)
        }
    }
}
