import EventLoop
public import FeedStrategy
import FeedVocabulary
public import ResourceLoading

/// What a service says of one id: the files that it can play as.
public struct VidMedia: Hashable, Sendable {
    /// The id that the answer is about.
    public var vid: String
    /// A picture for the time before the first frame.
    public var posterURL: String?
    /// Seconds.
    public var duration: Double?
    /// At least one.
    public var variants: [Variant]

    /// One file.
    public struct Variant: Hashable, Sendable {
        /// Rows.
        public var resolution: Resolution
        /// Codec.
        public var codec: VideoCodec
        /// The main URL and its backups, with their expiry.
        public var urls: [MediaURL]
        /// The service's name of the file; with it, new URLs don't make another file of it.
        public var fileID: String?
        /// 32 hexadecimal digits.
        public var md5: String?
        /// Bytes of the file.
        public var length: Int64?
        /// Bits a second.
        public var bitrate: Int?
        /// Bytes from the start of the file that hold its index and first frame.
        public var headLength: Int64?

        /// A file at `urls`.
        public init(resolution: Resolution, codec: VideoCodec = .h264, urls: [MediaURL]) {
            (self.resolution, self.codec, self.urls) = (resolution, codec, urls)
        }
        /// Resolution and codec, for reports.
        public var name: String { "\(resolution) \(codec)" }
    }

    /// The files of `vid`.
    public init(vid: String, variants: [Variant]) { (self.vid, self.variants) = (vid, variants) }

    /// When the first of the URLs stops working; `nil` when none is said to.
    var expires: WallTime? { variants.flatMap(\.urls).compactMap(\.expires).min() }
}

extension VidMedia.Variant {
    /// Whether another answer means the same file.
    func isSame(as other: VidMedia.Variant) -> Bool {
        name == other.name && (fileID ?? md5) == (other.fileID ?? other.md5)
    }

    /// The name of the file's bytes: by what the service calls the file, and by what it is.
    func cacheKey(of vid: String) -> CacheKey {
        CacheKey(digestOf: "vid", fileID ?? md5 ?? vid, resolution.rawValue, codec.rawValue)
    }
}

/// Asks a service what an id stands for.
public protocol VidResolver: Sendable {
    /// The files of a source; called on the loop, at most four at a time, once for all who ask for the same source.
    ///
    /// - Parameter http: The runtime's own client.
    /// - Throws: ``VidError``, ``LoadError``, or anything of its own.
    func resolve(_ source: VidSource, with http: WebClient) async throws -> VidMedia
}

/// Why an id could not be turned into URLs.
public enum VidError: Error, Hashable, CustomStringConvertible, Sendable {
    /// The play-auth token can't be read.
    case malformedToken(vid: String, reason: String)
    /// The play-auth token was good for a time that is over.
    case expiredToken(vid: String)
    /// The token is for another id, or the service answered for another one.
    case otherVid(asked: String, got: String)
    /// The service refused, with its own code and text.
    case refused(vid: String, code: String, message: String)
    /// The service knows the id, and it can't be played (now).
    case notPlayable(vid: String, status: Int)
    /// The answer has no file of this kind that can be played.
    case noVariant(vid: String)
    /// The answer is not what the service is known to answer.
    case unreadableAnswer(vid: String, reason: String)
    /// There is no network, no server, or none that answers.
    case network(vid: String, reason: String)

    /// Whether asking again later may help.
    package var mayPass: Bool {
        switch self {
        case .network: true
        case .refused(_, let code, _):
            code.hasPrefix("Throttl") || code.hasPrefix("FlowLimit") || code == "InternalError"
        case .malformedToken, .expiredToken, .otherVid, .notPlayable, .noVariant, .unreadableAnswer: false
        }
    }

    /// One sentence, without the token.
    public var description: String {
        switch self {
        case .malformedToken(let vid, let reason): "the play-auth token of \(vid) can't be read: \(reason)"
        case .expiredToken(let vid): "the play-auth token of \(vid) has expired; ask your server for a new one"
        case .otherVid(let asked, let got): "the play-auth token given for \(asked) is of \(got)"
        case .refused(let vid, let code, let message): "the service refuses \(vid): \(message) (\(code))"
        case .notPlayable(let vid, let status): "\(vid) can't be played: its status with the service is \(status)"
        case .noVariant(let vid): "the service has no file of \(vid) that can be played"
        case .unreadableAnswer(let vid, let reason): "the service's answer for \(vid) can't be read: \(reason)"
        case .network(let vid, let reason): "the service could not be asked for \(vid): \(reason)"
        }
    }
}
