import ResourceLoading

/// What is there of a clip for the play to go on with.
struct Supply {
    var index = MediaIndex()
    /// `nil` before the clip is opened, and when the engine has stopped.
    var reader: ByteReader?
    /// Where the demuxer reads.
    var readOffset: Int64 = 0
    /// How much must be buffered before the clock starts, and again before it goes on after a stall.
    private static let enough = Duration.milliseconds(500)

    func bufferedAhead(from position: Duration) -> Duration {
        reader.map { index.bufferedAhead(from: position, readOffset: readOffset, $0) } ?? .zero
    }
    func isComplete(from position: Duration) -> Bool { reader.map { index.isComplete(from: position, $0) } ?? false }

    /// Whether the demuxer waits for bytes, as far as can be told.
    func isDry(at position: Duration) -> Bool {
        reader.map { index.isDry(at: position, readOffset: readOffset, $0) } ?? false
    }

    /// Whether enough is there to run the clock without stopping it again at once.
    func isEnough(at position: Duration) -> Bool {
        guard reader != nil else { return false }
        if isComplete(from: position) { return true }
        // Near the end there is less to come than is asked for elsewhere.
        let rest = index.duration.map { max(.zero, $0 - position) } ?? Self.enough
        return bufferedAhead(from: position) >= min(Self.enough, rest)
    }
}
