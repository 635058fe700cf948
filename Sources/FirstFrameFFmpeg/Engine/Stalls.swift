import EventLoop

/// When the play stood still for want of bytes.
struct Stalls {
    private(set) var count = 0
    private var start: LoopInstant?
    private var past = Duration.zero

    var isStalled: Bool { start != nil }

    mutating func begin(at now: LoopInstant) {
        start = now
        count += 1
    }

    /// - Returns: How long the stall took that ends; `nil` when there is none.
    mutating func end(at now: LoopInstant) -> Duration? {
        guard let time = start.take()?.duration(to: now) else { return nil }
        past += time
        return time
    }

    /// Of all stalls, the present one included.
    func time(at now: LoopInstant) -> Duration { past + (start?.duration(to: now) ?? .zero) }
}
