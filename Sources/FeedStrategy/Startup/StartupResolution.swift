/// Which of several resolutions a clip starts with: one choice for preload, pre-render and play, so that their bytes are
/// the same.
public struct StartupResolution: Hashable, Sendable {
    /// The viewer's own choice; `nil` leaves it to the rules.
    public var selected: Resolution?
    /// The shorter side of the view that shows the clip, in pixels: more rows than that are never seen. `nil` for no bound.
    public var displayRows: Int?
    /// The most on an unmetered network; `nil` for no bound.
    public var cap: Resolution?
    /// The most on a metered network; 480p by default, `nil` for no bound.
    public var meteredCap: Resolution? = .p480
    /// Where the network has not been measured yet; 720p by default.
    public var initial = Resolution.p720

    /// No display, no cap.
    public init(displayRows: Int? = nil, cap: Resolution? = nil) { (self.displayRows, self.cap) = (displayRows, cap) }

    /// - Throws: ``ConfigurationError`` naming the first field outside its allowed values.
    package func validate() throws(ConfigurationError) {
        if let displayRows, displayRows <= 0 { throw .outOfRange(field: "displayRows", allowed: "above 0, or nil") }
    }

    /// One that a service offers.
    package struct Offer: Hashable, Sendable {
        package let resolution: Resolution
        package let codec: VideoCodec
        /// Bits a second; `nil` while unknown.
        package let bitrate: Int?
        package init(resolution: Resolution, codec: VideoCodec, bitrate: Int?) {
            (self.resolution, self.codec, self.bitrate) = (resolution, codec, bitrate)
        }
    }
    /// A clip has to be this much smaller than the network, or it stalls at the next dip.
    private static let share = 0.7

    /// - Parameters:
    ///   - asked: The resolution that the source names; it wins over everything, and falls to the nearest lower offer, or
    ///     the lowest there is.
    ///   - codec: Taken where it is offered at the resolution; H.264 comes next, for every device plays it.
    ///   - throughput: Bytes a second; `nil` while unknown.
    /// - Returns: The index of an offer; `nil` without any.
    package func choose(
        from offers: [Offer], asked: Resolution?, codec: VideoCodec?, throughput: Double?, isMetered: Bool
    ) -> Int? {
        let resolutions = Set(offers.map(\.resolution)).sorted()
        guard let lowest = resolutions.first else { return nil }
        func lower(_ bound: Resolution) -> Resolution { resolutions.last { $0 <= bound } ?? lowest }
        let chosen: Resolution
        if let asked = asked ?? selected {
            chosen = lower(asked)
        } else {
            var bound = Resolution.p2160
            for cap in [cap, isMetered ? meteredCap : nil, throughput == nil ? initial : nil].compactMap({ $0 }) {
                bound = min(bound, cap)
            }
            if let displayRows {
                // The first that fills the view; more rows than that are thrown away.
                bound = min(bound, Resolution.allCases.first { $0.rows >= displayRows } ?? .p2160)
            }
            let fitting = resolutions.filter { resolution in
                guard resolution <= bound else { return false }
                guard let throughput, let offer = offers.first(where: { $0.resolution == resolution }),
                    let bitrate = offer.bitrate
                else { return true }
                return Double(bitrate) <= throughput * 8 * Self.share
            }
            chosen = fitting.last ?? lowest
        }
        let same = offers.indices.filter { offers[$0].resolution == chosen }
        return same.first { offers[$0].codec == codec } ?? same.first { offers[$0].codec == .h264 } ?? same.first
    }
}
