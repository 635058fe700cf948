package import EventLoop

/// Makes pictures of clips without an engine: one at a time, because nobody waits for them as for a first frame.
package actor StillDesk {
    nonisolated private let loop: any LoopExecutor
    package nonisolated var unownedExecutor: UnownedSerialExecutor { loop.asUnownedSerialExecutor() }
    private let factory: any EngineFactory
    private let line = SlotLine(limit: 1)

    package init(on loop: any LoopExecutor, factory: any EngineFactory) { (self.loop, self.factory) = (loop, factory) }

    /// The first picture of the media that is not black, or its first one when all of its beginning is.
    ///
    /// - Throws: ``PlaybackError``, ``LoadError``, or `CancellationError`.
    package func still(of input: MediaInput, format: PixelFormat?) async throws -> VideoFrame {
        try await line.enter(of: self, on: loop) { $0.line }
        defer { line.leave() }
        return try await factory.still(of: input, format: format, in: EngineEnvironment(loop: loop))
    }

    package func close() { line.close() }
}
