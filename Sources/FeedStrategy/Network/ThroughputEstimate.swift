/// How fast the network is, from what transfers took: the lower of a quick and a slow average, so that a drop is believed
/// at once and a rise only when it lasts.
///
/// Both averages weigh by the time that bytes were on their way (half lives 3 s and 9 s, as other players have them). Time
/// in which nothing was asked for, or in which we held back ourselves, is for the caller to leave out.
package struct ThroughputEstimate: Hashable, Sendable {
    private struct Average: Hashable, Sendable {
        let halfLife: Double
        var weighted = 0.0
        var weight = 0.0
        var value: Double? { weight > 0 ? weighted / weight : nil }
        init(halfLife: Double) { self.halfLife = halfLife }
        mutating func add(_ rate: Double, over seconds: Double) {
            let kept = exp2Approximation(-seconds / halfLife)
            weighted = weighted * kept + rate * (1 - kept)
            weight = weight * kept + (1 - kept)
        }
    }
    /// Samples of fewer bytes tell more of round trips than of the network.
    package static let smallestSample: Int64 = 16 * 1024
    private var quick = Average(halfLife: 3)
    private var slow = Average(halfLife: 9)

    package init() {}

    /// `nil` until something was measured.
    package var bytesPerSecond: Double? {
        guard let quick = quick.value, let slow = slow.value else { return nil }
        return min(quick, slow)
    }

    package mutating func add(bytes: Int64, over time: Duration) {
        guard bytes >= Self.smallestSample else { return }
        let seconds = max(0.001, time / .seconds(1))
        quick.add(Double(bytes) / seconds, over: seconds)
        slow.add(Double(bytes) / seconds, over: seconds)
    }

    /// The network is another one.
    package mutating func forget() { self = ThroughputEstimate() }
}

/// 2 to the power of a number that is not above 0, without the C library's mathematics; exact to 1e-9.
private func exp2Approximation(_ power: Double) -> Double {
    guard power > -60 else { return 0 }
    let whole = power.rounded(.down)
    // The series of e^(x ln 2) for the part below 1.
    let part = (power - whole) * 0.693_147_180_559_945_3
    var (term, sum) = (1.0, 1.0)
    for step in 1...12 {
        term *= part / Double(step)
        sum += term
    }
    return sum * Double(sign: .plus, exponent: Int(whole), significand: 1)
}

/// Measures what all transfers together bring, while at least one is under way.
package struct TransferMeter: Hashable, Sendable {
    /// A sample is closed after this long, so that a long transfer is believed while it runs.
    private static let sampleTime = Duration.milliseconds(500)
    private var active = 0
    private var since = Duration.zero
    private var bytes: Int64 = 0
    package private(set) var estimate = ThroughputEstimate()

    package init() {}

    /// The answer of a transfer begins to come.
    package mutating func begin(at now: Duration) {
        if active == 0 { (since, bytes) = (now, 0) }
        active += 1
    }
    package mutating func received(_ count: Int64, at now: Duration) {
        bytes += count
        if now - since >= Self.sampleTime { close(at: now) }
    }
    /// It has ended, or stands still because we do not take more.
    package mutating func end(at now: Duration) {
        active = max(0, active - 1)
        if active == 0 { close(at: now) }
    }
    package mutating func forget() { estimate.forget() }

    private mutating func close(at now: Duration) {
        estimate.add(bytes: bytes, over: now - since)
        (since, bytes) = (now, 0)
    }
}
