import Playback

/// The newest seek, until its frame is there, and who waits for it; those before it are over. Touched on the loop only.
struct SeekLine {
    enum Purpose {
        /// A host's.
        case moving(SeekAccuracy)
        /// Our own, to where the play is: its picture is on screen already, and another one is not shown.
        case remakingSound
        /// Our own, and the picture is another one now.
        case remakingPicture
    }
    private(set) var purpose: Purpose?
    /// Seeks so far.
    private(set) var count = 0
    private var waiter: CheckedContinuation<Void, any Error>?
    /// How the last seek ended whose task was still on its way to wait for it.
    private var outcome: (number: Int, result: Result<Void, any Error>)?

    var isEmpty: Bool { purpose == nil }

    /// - Returns: Its number.
    mutating func begin(_ purpose: Purpose) -> Int {
        end(.failure(PlaybackError.superseded))
        count += 1
        self.purpose = purpose
        return count
    }

    /// Our own seek gives another picture after all.
    mutating func addPicture() { if case .remakingSound = purpose { purpose = .remakingPicture } }

    mutating func end(_ result: Result<Void, any Error>) {
        guard purpose.take() != nil else { return }
        if let waiter = waiter.take() { waiter.resume(with: result) } else { outcome = (count, result) }
    }

    /// Resumes the waiter when the seek of this number ends, or now if it has.
    mutating func wait(for number: Int, isStopped: Bool, _ waiter: CheckedContinuation<Void, any Error>) {
        if Task.isCancelled { return waiter.resume(throwing: CancellationError()) }
        if let outcome, outcome.number == number { return waiter.resume(with: outcome.result) }
        if isStopped { return waiter.resume(throwing: PlaybackError.stopped) }
        if count != number { return waiter.resume(throwing: PlaybackError.superseded) }
        self.waiter = waiter
    }

    /// Its task was cancelled: the seek goes on.
    mutating func giveUp(_ number: Int) {
        if count == number { waiter.take()?.resume(throwing: CancellationError()) }
    }
}
