/// How fast reading ahead and preloads may go, so that a swipe finds the network's queue empty.
///
/// What an unpaced download costs the next start was measured: 113 ms at 80 ms round trip and 4 Mbit/s with a queue of
/// 64 KB. A link that is busy for less than three quarters of the time has an empty queue most of the time.
package struct PacingPolicy: Hashable, Sendable {
    package struct Rates: Hashable, Sendable {
        /// Bytes a second of the current entry's reading ahead; `nil` for no limit.
        package var readAhead: Int64?
        /// Bytes a second of all preloads and pre-renders together.
        package var background: Int64?
        package init(readAhead: Int64? = nil, background: Int64? = nil) {
            (self.readAhead, self.background) = (readAhead, background)
        }
    }
    /// Of what the network gives, the part that paced work may take.
    private static let share = 0.75
    /// Reading ahead is this much faster than playing, so that the buffer still grows.
    private static let lead = 1.5
    /// What playing needs, with the little that protocols add.
    private static let need = 1.1

    /// - Parameters:
    ///   - isComfortable: Whether the current entry has enough; until then it takes what it gets.
    ///   - mediaRate: Bytes a second that the current entry plays; `nil` while unknown.
    ///   - isComplete: Whether nothing of it is left to fetch.
    ///   - throughput: Bytes a second that the network gives; `nil` while unknown.
    package static func rates(
        isComfortable: Bool, mediaRate: Double?, isComplete: Bool, throughput: Double?
    ) -> Rates {
        guard isComfortable, let throughput, throughput > 0 else { return Rates() }
        let room = throughput * share
        if isComplete { return Rates(readAhead: nil, background: Int64(room)) }
        guard let mediaRate, mediaRate > 0 else { return Rates() }
        guard mediaRate * lead < room else {
            // A network that is hardly faster than the clip: its buffer has all it asks for, and others what is left.
            return Rates(background: Int64(max(throughput - mediaRate * Self.need, throughput / 8)))
        }
        return Rates(readAhead: Int64(mediaRate * lead), background: Int64(max(room - mediaRate * lead, room / 4)))
    }
}
