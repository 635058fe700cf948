/// Decides whether bytes of other entries may be fetched, from how well the current entry is supplied.
///
/// Open at `start` or more buffered, or when the current entry is complete; closed below `stop` while not complete, at
/// a stall, and from a change of the current entry until its first frame is shown; between the limits it stays as it
/// is. With nothing playing it is open.
package struct WatermarkGate: Hashable, Sendable {
    package struct Playing: Hashable, Sendable {
        package var bufferedAhead: Duration
        package var isComplete: Bool
        package var isFirstFrameShown: Bool
        package var isStalled: Bool
        package init(bufferedAhead: Duration, isComplete: Bool, isFirstFrameShown: Bool, isStalled: Bool) {
            (self.bufferedAhead, self.isComplete) = (bufferedAhead, isComplete)
            (self.isFirstFrameShown, self.isStalled) = (isFirstFrameShown, isStalled)
        }
    }

    package private(set) var start: Duration
    package private(set) var stop: Duration
    package private(set) var isOpen = true

    /// - Parameters: `0 ≤ stop < start`, checked by the configuration that they come from.
    package init(start: Duration, stop: Duration) {
        precondition(stop < start, "the stop limit is below the start limit")
        (self.start, self.stop) = (start, stop)
    }

    /// The limits change; the next update goes by them.
    package mutating func setLimits(start: Duration, stop: Duration) {
        precondition(stop < start, "the stop limit is below the start limit")
        (self.start, self.stop) = (start, stop)
    }

    /// Another entry becomes current: its first frame comes before anything else.
    package mutating func currentChanged() { isOpen = false }

    package mutating func nothingPlays() { isOpen = true }

    package mutating func update(_ playing: Playing) {
        if !playing.isFirstFrameShown {
            isOpen = false
        } else if playing.isComplete {
            isOpen = true
        } else if playing.isStalled || playing.bufferedAhead < stop {
            isOpen = false
        } else if playing.bufferedAhead >= start {
            isOpen = true
        }
    }
}
