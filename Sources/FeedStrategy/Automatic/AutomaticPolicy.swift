/// Chooses what a fixed configuration would fix: how many entries, how much of each, from when on, and how many at a time.
///
/// - The faster the network compared with the clip, the less of the current entry has to be buffered first.
/// - The faster the viewer, the more entries and the less of each: first frames of many, then a start of each.
/// - The first frames of the whole window have to fit into a few seconds of the network.
package struct AutomaticPolicy: Hashable, Sendable {
    /// What is seen when the choice is made; `nil` stands for what is not known yet.
    package struct Sight: Hashable, Sendable {
        /// Bytes a second.
        package var throughput: Double?
        /// Bytes a second that the current entry plays.
        package var mediaRate: Double?
        /// Bytes to the end of the first frame, of the clips seen so far.
        package var firstFrame: Int64?
        package var dwell: Duration?
        package var isHurried = false
        package var isMetered = false
        package init() {}
    }
    package struct Choice: Hashable, Sendable {
        package var count: Int
        package var firstFrame: Int64
        /// Bytes of each entry in the end.
        package var size: Int64
        /// Seconds.
        package var start: Double
        package var stop: Double
        package var inFlight: Int
        /// Whether there is time for more than first frames.
        package var fills: Bool
    }

    /// Where nothing is known: what most clips of feeds have (measured: 23 to 110 KB to the end of the first key frame).
    package static let usualFirstFrame: Int64 = 128 * 1024
    private static let usualMediaRate = 190_000.0  // 1.5 Mbit/s
    /// Servers declare lengths that no file has; 8 Gbit/s.
    private static let highestMediaRate = 1e9
    private static let usualDwell = Duration.seconds(5)
    /// The first frames of the window have to come within this many seconds.
    private static let windowSeconds = 4.0
    /// Entries that a viewer reaches within this time are worth a first frame.
    private static let horizon = Duration.seconds(10)

    package static func choose(_ sight: Sight, within most: PreloadConfiguration) -> Choice {
        let firstFrame = min(sight.firstFrame ?? usualFirstFrame, most.size)
        let rate = min(sight.mediaRate ?? usualMediaRate, highestMediaRate)
        let dwell = max(.milliseconds(500), sight.dwell ?? usualDwell)
        // How many times faster than the clip the network is; a network that nobody has measured gets the given limits.
        let headroom = sight.throughput.map { $0 / max(1, rate) }
        var count = Int((horizon / dwell).rounded(.up)) + 1
        if let throughput = sight.throughput {
            count = min(count, Int(min(10, throughput * windowSeconds / Double(max(1, firstFrame)))))
        }
        if sight.isMetered { count = min(count, 2) }
        count = max(1, count)
        if sight.isHurried { count = (min(count, most.count) + 1) / 2 }
        count = min(most.count, count)
        // What plays from the disk until the network has caught up; more where it is slow, never beyond the usual stay.
        let cushion = min(headroom.map { $0 >= 3 ? 1 : $0 >= 1.5 ? 2 : 4 } ?? 2, max(1, dwell / .seconds(1)))
        let size = min(most.size, firstFrame + Int64(rate * cushion))
        let start = headroom.map { min(most.startBufferLimit, max(3, most.startBufferLimit / max(1, $0))) }
        let chosenStart = start ?? most.startBufferLimit
        return Choice(
            count: count, firstFrame: firstFrame, size: size, start: chosenStart,
            stop: min(most.stopBufferLimit, chosenStart / 2),
            inFlight: (sight.throughput ?? 0) > 250_000 ? PreloadConfiguration.maximumInFlight : 1,
            fills: !sight.isHurried)
    }
}

/// The last few sizes of one kind.
package struct RecentSizes: Hashable, Sendable {
    private static let kept = 8
    private var values: [Int64] = []
    package init() {}
    package mutating func add(_ value: Int64) { values = values.suffix(Self.kept - 1) + [value] }
    /// What three quarters of them stay below; `nil` before the first.
    package var usual: Int64? { values.isEmpty ? nil : values.sorted()[(values.count - 1) * 3 / 4] }
    package var largest: Int64? { values.max() }
}
