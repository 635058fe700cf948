/// What a number of runs gave: the middle one, and how far they lie apart.
struct Spread: Encodable, Sendable {
    let min: Double
    let median: Double
    let p95: Double
    let max: Double

    /// - Parameter values: All are 0 when there are none.
    init(_ values: [Double]) {
        let sorted = values.sorted()
        /// The smallest value that at least `share` of all don't exceed.
        func at(_ share: Double) -> Double {
            let rank = Int((share * Double(sorted.count)).rounded(.up))
            return sorted.isEmpty ? 0 : sorted[Swift.max(0, rank - 1)]
        }
        (min, median, p95, max) = (sorted.first ?? 0, at(0.5), at(0.95), sorted.last ?? 0)
    }

    /// The middle one with two decimals, and the smallest and the largest.
    var shown: String { "\(median.hundredths) (\(min.hundredths) to \(max.hundredths))" }
}

extension [Double] {
    /// `nil` when there are none.
    var spread: Spread? { isEmpty ? nil : Spread(self) }
}
