/// Shows frames, for hosts that prefer to be called.
public protocol VideoSink: Sendable {
    /// Called with each frame at its time. What it takes long for is not shown, and counted as dropped.
    func show(_ frame: VideoFrame) async
}

/// Plays sound, for hosts that prefer to be called.
public protocol AudioSink: Sendable {
    /// Called with each piece of sound, up to 200 ms before its time.
    ///
    /// - Returns: The media time that is heard now, which the pictures follow from then on; `nil` when the sink can't tell.
    func play(_ buffer: AudioBuffer) async -> Duration?
}

extension PlayerEngine {
    /// Hands everything to sinks until the play is over, it is stopped, or the calling task is cancelled.
    ///
    /// - Parameter audio: Nothing is heard without ``EngineOptions/audio`` set to `.host`.
    public func deliver(to video: (any VideoSink)?, _ audio: (any AudioSink)? = nil) async {
        async let sound: Void = deliverSound(to: audio)
        if let video { for await frame in frames { await video.show(frame) } }
        await sound
    }
    private func deliverSound(to sink: (any AudioSink)?) async {
        guard let sink else { return }
        for await buffer in audio { if let time = await sink.play(buffer) { await heard(time) } }
    }
}
