package import EventLoop

/// Media time as a function of the loop's time: runs, stands still, never jumps.
package struct PlaybackClock: Hashable, Sendable {
    private var mediaAnchor: Duration
    /// `nil` while the clock stands.
    private var loopAnchor: LoopInstant?
    /// Media time that passes in a unit of the loop's time; above 0.
    package private(set) var rate = 1.0

    package init(at position: Duration, rate: Double = 1) { (mediaAnchor, self.rate) = (position, rate) }
    package var isRunning: Bool { loopAnchor != nil }

    package func position(at now: LoopInstant) -> Duration {
        guard let loopAnchor else { return mediaAnchor }
        let passed = loopAnchor.duration(to: now)
        return mediaAnchor + (rate == 1 ? passed : passed * rate)
    }
    package mutating func start(at now: LoopInstant) { if loopAnchor == nil { loopAnchor = now } }
    package mutating func stop(at now: LoopInstant) { mediaAnchor = position(at: now); loopAnchor = nil }
    /// Stands still at `position`, as in a stall that began when the last frame was due to end.
    package mutating func freeze(at position: Duration) { (mediaAnchor, loopAnchor) = (position, nil) }
    /// Goes on from where it is, faster or slower.
    package mutating func setRate(_ rate: Double, at now: LoopInstant) {
        mediaAnchor = position(at: now)
        if loopAnchor != nil { loopAnchor = now }
        self.rate = rate
    }

    /// Follows what is heard: a little at a time, so that pictures don't jerk, or at once when it is far away.
    ///
    /// - Returns: How far the sound was ahead; `nil` while the clock stands.
    package mutating func follow(_ heard: Duration, at now: LoopInstant) -> Duration? {
        guard isRunning else { return nil }
        let position = position(at: now)
        let drift = heard - position
        let isFar = drift > Self.farthestDrift || drift < .zero - Self.farthestDrift
        (mediaAnchor, loopAnchor) = (isFar ? heard : position + drift / 8, now)
        return drift
    }
    /// What lips and sound may be apart before everybody sees it (ITU-R BT.1359: 45 to 125 ms).
    private static let farthestDrift = Duration.milliseconds(80)

    /// When the clock will show `position`; `nil` while it stands.
    package func instant(of position: Duration) -> LoopInstant? {
        let ahead = position - mediaAnchor
        return loopAnchor?.advanced(by: rate == 1 ? ahead : ahead * (1 / rate))
    }
}
