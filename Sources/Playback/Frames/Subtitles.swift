/// A line of text that belongs to a part of a clip.
public struct SubtitleCue: Hashable, Sendable {
    /// When it is shown, from the start of the media; goes on from pass to pass of a loop, as the times of frames do.
    public let start: Duration
    /// When it goes away.
    public let end: Duration
    /// Plain text, without styles; lines are parted by "\n".
    public let text: String
    package init(start: Duration, end: Duration, text: String) {
        (self.start, self.end, self.text) = (start, end, text)
    }
    package func shifted(by time: Duration) -> SubtitleCue {
        SubtitleCue(start: start + time, end: end + time, text: text)
    }
}

/// A file of subtitles beside a clip: WebVTT, SubRip, or another format of text that the engine knows.
public struct SubtitleInput: Sendable {
    /// Its title among the tracks, without secrets.
    public let name: String
    package let load: @Sendable () async throws -> [UInt8]
    package init(name: String, load: @escaping @Sendable () async throws -> [UInt8]) {
        (self.name, self.load) = (name, load)
    }
}
