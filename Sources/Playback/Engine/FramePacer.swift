/// What a player does next with what is decoded, as a function of the clock.
package enum FramePacer {
    /// The next of each kind that can be had, by their times.
    package struct Front: Hashable, Sendable {
        package var video, nextVideo, audio, subtitle: Duration?
        /// Whether nothing more will come.
        package var isDone = false
        package init() {}
    }
    package enum Step: Hashable, Sendable {
        case giveSound
        case giveSubtitle
        case showFrame
        /// Its successor is due too, so that it would only be seen too late. Sound never waits for it.
        case dropFrame
        case finish
        case stall
        /// Until the clock is at a time, or something new is decoded.
        case wait(until: Duration?)
    }

    /// How long before its time a piece of sound is handed out.
    package static let soundLead = Duration.milliseconds(200)

    /// - Parameters:
    ///   - position: Of the clock.
    ///   - end: Where what was handed out so far ends.
    ///   - isStarving: Whether nothing is left to show because bytes are missing; asked only when that counts.
    package static func step(
        _ front: Front, at position: Duration, deliveredUntil end: Duration, isStarving: () -> Bool
    ) -> Step {
        if let time = front.audio, time - soundLead <= position { return .giveSound }
        if let time = front.subtitle, time <= position { return .giveSubtitle }
        if let time = front.video, time <= position {
            return front.nextVideo.map { $0 <= position } == true ? .dropFrame : .showFrame
        }
        var wakeups = [front.audio.map { $0 - soundLead }, front.video, front.subtitle].compactMap { $0 }
        if front.isDone {
            if position >= end { return .finish }
            wakeups.append(end)
        } else if isStarving() {
            if position >= end { return .stall }
            wakeups.append(end)
        }
        return .wait(until: wakeups.min())
    }
}
