/// One of the streams that a clip is made of, as far as it can be played.
public struct MediaTrack: Hashable, Sendable, Identifiable {
    /// What a track gives.
    public enum Kind: String, Hashable, Sendable, CaseIterable {
        /// Pictures.
        case video
        /// Sound.
        case audio
        /// Text, inside of the file or beside it.
        case subtitles
    }
    /// Its number in the clip.
    public let id: Int
    /// What it gives.
    public let kind: Kind
    /// FFmpeg's name of the codec; `nil` for a file beside the clip, whose content is not known yet.
    public let codec: String?
    /// As the file has it: three letters (ISO 639-2) as a rule.
    public let language: String?
    /// As the file has it.
    public let title: String?
    package init(id: Int, kind: Kind, codec: String?, language: String?, title: String?) {
        (self.id, self.kind, self.codec, self.language, self.title) = (id, kind, codec, language, title)
    }
}
