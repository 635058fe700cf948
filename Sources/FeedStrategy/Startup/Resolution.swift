/// Named sizes of video, as services list them; ordered by height.
public enum Resolution: String, Hashable, Comparable, CaseIterable, CustomStringConvertible, Sendable {
    /// 240 rows.
    case p240 = "240p"
    /// 360 rows.
    case p360 = "360p"
    /// 480 rows.
    case p480 = "480p"
    /// 540 rows.
    case p540 = "540p"
    /// 720 rows.
    case p720 = "720p"
    /// 1080 rows.
    case p1080 = "1080p"
    /// 1440 rows.
    case p1440 = "2k"
    /// 2160 rows.
    case p2160 = "4k"

    /// Rows of a landscape video; columns of a portrait one.
    public var rows: Int {
        switch self {
        case .p240: 240
        case .p360: 360
        case .p480: 480
        case .p540: 540
        case .p720: 720
        case .p1080: 1080
        case .p1440: 1440
        case .p2160: 2160
        }
    }
    /// The name that services use.
    public var description: String { rawValue }
    /// Fewer rows.
    public static func < (left: Resolution, right: Resolution) -> Bool { left.rows < right.rows }
}

/// Video codecs that services offer.
public enum VideoCodec: String, Hashable, CaseIterable, CustomStringConvertible, Sendable {
    /// H.264, which every device plays.
    case h264
    /// H.265, also called bytevc1.
    case hevc
    /// H.266, also called bytevc2.
    case vvc
    /// AV1.
    case av1
    /// Its name.
    public var description: String { rawValue }
}
