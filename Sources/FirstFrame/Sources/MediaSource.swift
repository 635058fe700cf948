public import FeedStrategy
public import FeedVocabulary
package import ResourceLoading

/// Where a clip comes from.
public enum MediaSource: Hashable, Sendable {
    /// URLs, with a scheme of the host's own too.
    case url(URLSource)
    /// An id with a service that tells URLs.
    case vid(VidSource)
    /// A file of this machine.
    case file(FileSource)

    /// The clip's id with the service that the host uses.
    public var vid: String? {
        switch self {
        case .url(let source): source.vid
        case .vid(let source): source.vid
        case .file: nil
        }
    }

    /// Bits a second, where the host knows.
    var bitrate: Int? { if case .url(let source) = self { source.bitrate } else { nil } }

    /// What identifies it where nothing better is given.
    var defaultIdentity: String {
        switch self {
        case .url(let source): source.cacheKey.text
        case .vid(let source): source.vid
        case .file(let source): source.path
        }
    }
    /// For error texts, without secrets.
    var name: String {
        switch self {
        case .url(let source): source.name
        case .vid(let source): "vid \(source.vid)"
        case .file(let source): source.path
        }
    }
    /// What to load, where nobody has to be asked.
    var resource: Resource? {
        switch self {
        case .url(let source): source.resource
        case .vid: nil
        case .file(let source): source.resource
        }
    }
}

/// A clip that a service knows by an id, and for which it gives URLs in exchange for a token.
public struct VidSource: Hashable, Sendable {
    /// The id.
    public let vid: String
    /// What the app's server gave for it; valid for minutes as a rule.
    public let playAuthToken: String
    /// The resolution to play; `nil` chooses by ``StartupResolution``. Part of the identity of the bytes: a preload and a
    /// play of other resolutions are of two resources.
    public let resolution: Resolution?
    /// The codec to play, where it is offered; `nil` leaves it to the service's list.
    public let codec: VideoCodec?

    /// - Throws: ``SourceError/vid(_:)`` for an empty id or token.
    public init(
        vid: String, playAuthToken: String, resolution: Resolution? = nil, codec: VideoCodec? = nil
    ) throws(SourceError) {
        guard !vid.isEmpty else { throw .vid("the vid is empty") }
        guard !playAuthToken.isEmpty else { throw .vid("the play-auth token of \(vid) is empty") }
        (self.vid, self.playAuthToken, self.resolution, self.codec) = (vid, playAuthToken, resolution, codec)
    }
}

/// A file of this machine; read where it lies, never copied to the cache.
public struct FileSource: Hashable, Sendable {
    /// Absolute.
    public let path: String

    /// - Throws: ``SourceError/path(_:)`` for a path that is not absolute.
    public init(path: String) throws(SourceError) {
        guard path.hasPrefix("/"), !path.utf8.contains(0) else { throw .path(path) }
        self.path = path
    }

    package var resource: Resource {
        var resource = Resource(key: CacheKey(digestOf: "file", path), urls: ["file://" + path])
        resource.path = path
        return resource
    }
}

/// One place in a page's list.
public struct FeedEntry: Hashable, Sendable {
    /// Unique in the page's list.
    public let id: EntryID
    /// What is played there.
    public let source: MediaSource
    /// Picture that stands for the clip until its first frame; loaded ahead with the clip.
    public var cover: URLSource?
    /// Subtitle files that are loaded ahead with the clip.
    public var subtitles: [URLSource] = []

    /// - Parameter id: The host's own identity of the place, such as the post's id; by default the cache key, the vid or
    ///   the path. The same source may stand at two places, under two identities.
    public init(_ source: MediaSource, id: EntryID? = nil) {
        self.source = source
        self.id = id ?? EntryID(source.defaultIdentity)
    }
    /// A clip at URLs; otherwise the same.
    public init(_ source: URLSource, id: EntryID? = nil) { self.init(.url(source), id: id) }
    /// A clip that a service knows; otherwise the same.
    public init(_ source: VidSource, id: EntryID? = nil) { self.init(.vid(source), id: id) }
    /// A file of this machine; otherwise the same.
    public init(_ source: FileSource, id: EntryID? = nil) { self.init(.file(source), id: id) }
}
