package import EventLoop

/// Media time as a function of the loop's time: runs, stands still, never jumps.
package struct PlaybackClock: Hashable, Sendable {
    private var mediaAnchor: Duration
    /// `nil` while the clock stands.
    private var loopAnchor: LoopInstant?

    package init(at position: Duration) { mediaAnchor = position }
    package var isRunning: Bool { loopAnchor != nil }

    package func position(at now: LoopInstant) -> Duration {
        guard let loopAnchor else { return mediaAnchor }
        return mediaAnchor + loopAnchor.duration(to: now)
    }
    package mutating func start(at now: LoopInstant) { if loopAnchor == nil { loopAnchor = now } }
    package mutating func stop(at now: LoopInstant) { mediaAnchor = position(at: now); loopAnchor = nil }
    /// Stands still at `position`, as in a stall that began when the last frame was due to end.
    package mutating func freeze(at position: Duration) { (mediaAnchor, loopAnchor) = (position, nil) }

    /// When the clock will show `position`; `nil` while it stands.
    package func instant(of position: Duration) -> LoopInstant? { loopAnchor?.advanced(by: position - mediaAnchor) }
}
