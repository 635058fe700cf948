/// Spaces requests so that in the long run they ask for a given number of bytes a second: after each, the next may begin
/// when its bytes have had their time.
///
/// A rate is kept with small requests at intervals, not by reading slowly: what is not read lies in the network's queue,
/// in front of the next clip.
package struct RateLimiter: Hashable, Sendable {
    /// Bytes a second; `nil` for as many as there come.
    package private(set) var bytesPerSecond: Int64?
    private var free = Duration.zero

    package init(bytesPerSecond: Int64? = nil) { self.bytesPerSecond = bytesPerSecond }

    /// Another rate from now on; what was asked for has its time at the new one.
    package mutating func setRate(_ rate: Int64?, at now: Duration) {
        guard rate != bytesPerSecond else { return }
        if let old = bytesPerSecond, free > now {
            free = now + (rate.map { (free - now) * (Double(old) / Double(max(1, $0))) } ?? .zero)
        }
        bytesPerSecond = rate
    }

    /// When the next request may begin; `nil` for at once.
    package func due(at now: Duration) -> Duration? { bytesPerSecond != nil && free > now ? free : nil }

    /// A request for `bytes` begins.
    package mutating func began(_ bytes: Int64, at now: Duration) {
        guard let rate = bytesPerSecond else { return }
        free = max(free, now) + .seconds(1) * (Double(bytes) / Double(max(1, rate)))
    }

    /// Bytes of one request: a tenth of a second's worth, and never so few that the requests themselves cost more.
    package var segment: Int64? {
        bytesPerSecond.map { min(Self.largestSegment, max(Self.smallestSegment, $0 / 10)) }
    }
    private static let smallestSegment: Int64 = 32 * 1024
    private static let largestSegment: Int64 = 256 * 1024
}
