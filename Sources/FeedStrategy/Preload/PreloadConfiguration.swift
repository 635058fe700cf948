/// How much of the entries after the current one is downloaded ahead, and when.
///
/// Source: published short-video guidance (3 clips, 800 KB each, start at 15 s buffered, stop below 5 s). It does not
/// define KB; here it is 1024 bytes.
public struct PreloadConfiguration: Hashable, Sendable {
    /// Entries after the current one, or before it after a swipe back. Allowed: `0...10`; 0 turns preloading off.
    public var count: Int
    /// Entries on the other side of the current one; they come last. Allowed: `0...3`.
    public var behind: Int
    /// Bytes of each entry's head. Allowed: 0 and more; 0 turns preloading off.
    public var size: Int64
    /// Seconds of media of each entry, instead of bytes; ``size`` counts where the bit rate is not known, and ten times
    /// ``size`` is never exceeded. Allowed: above 0, at most an hour; `nil` leaves it to ``size``.
    public var seconds: Double?
    /// Seconds of the current entry that must be buffered before preloading starts. Allowed: above `stopBufferLimit`.
    public var startBufferLimit: Double
    /// Seconds of the current entry below which running preloads are cancelled. Allowed: 0 and more.
    public var stopBufferLimit: Double
    /// Whether count, size, limits and parallelism follow from the network, the clips and the viewer's pace; the fields
    /// above bound what may be chosen then, and of the limits they are the highest.
    public var isAutomatic = false

    /// The published defaults.
    public init(
        count: Int = 3, size: Int64 = 800 * 1024, startBufferLimit: Double = 15, stopBufferLimit: Double = 5,
        behind: Int = 0, seconds: Double? = nil
    ) {
        (self.count, self.size, self.behind, self.seconds) = (count, size, behind, seconds)
        (self.startBufferLimit, self.stopBufferLimit) = (startBufferLimit, stopBufferLimit)
    }

    /// Everything chosen from what is seen, within the most that a configuration allows. See ``AutomaticPolicy``.
    public static var automatic: PreloadConfiguration {
        var configuration = PreloadConfiguration(count: 10, size: 2 * 1024 * 1024)
        configuration.isAutomatic = true
        return configuration
    }

    /// Preloads running at the same time.
    package static let maximumInFlight = 2
    /// Sizes that `seconds` may come to, in units of ``size``.
    package static let largestFactor: Int64 = 10

    /// Whether there is nothing to do.
    package var isOff: Bool { count + behind == 0 || size == 0 }

    /// - Throws: ``ConfigurationError`` naming the first field outside its allowed values.
    package func validate() throws(ConfigurationError) {
        guard (0...10).contains(count) else { throw .outOfRange(field: "count", allowed: "0 to 10") }
        guard (0...3).contains(behind) else { throw .outOfRange(field: "behind", allowed: "0 to 3") }
        guard size >= 0 else { throw .outOfRange(field: "size", allowed: "0 and more bytes") }
        if let seconds, !(seconds > 0 && seconds <= 3600) {
            throw .outOfRange(field: "seconds", allowed: "above 0, at most 3600")
        }
        guard stopBufferLimit.isFinite, stopBufferLimit >= 0 else {
            throw .outOfRange(field: "stopBufferLimit", allowed: "0 and more seconds")
        }
        guard startBufferLimit.isFinite, startBufferLimit - stopBufferLimit >= 0.001, startBufferLimit <= 86_400 else {
            throw .outOfRange(field: "startBufferLimit", allowed: "seconds above stopBufferLimit, at most a day")
        }
    }
}

/// A setting outside its allowed values.
public enum ConfigurationError: Error, Hashable, CustomStringConvertible, Sendable {
    /// The named field is not in the range `allowed`.
    case outOfRange(field: String, allowed: String)

    /// One sentence that says what to change.
    public var description: String {
        switch self {
        case .outOfRange(let field, let allowed): "\(field) is out of range; allowed: \(allowed)"
        }
    }
}
