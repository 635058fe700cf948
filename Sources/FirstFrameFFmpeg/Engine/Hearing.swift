import EventLoop
import Playback

/// What the host has of the sound of one place, and what it said that it hears.
struct Hearing {
    /// How long pictures follow what is heard without being told anew.
    private static let memory = Duration.milliseconds(500)
    private var given = Duration.zero..<Duration.zero
    private var last: (drift: Duration, at: LoopInstant)?

    mutating func gave(from start: Duration, to end: Duration) {
        let begin = given.isEmpty ? start : given.lowerBound
        given = min(begin, end)..<max(given.upperBound, end)
    }

    /// Lets the clock follow; what is heard of a place that was left is not followed.
    mutating func heard(_ time: Duration, _ clock: inout PlaybackClock, at now: LoopInstant) {
        guard given.lowerBound - FramePacer.soundLead <= time, time <= given.upperBound,
            let drift = clock.follow(time, at: now)
        else { return }
        last = (drift, now)
    }

    /// How far the sound was ahead, while the host tells what it hears.
    func drift(at now: LoopInstant) -> Duration? {
        last.flatMap { $0.at.duration(to: now) < Self.memory ? $0.drift : nil }
    }
}
