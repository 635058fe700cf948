import EventLoop

/// A network between the origin and one client.
package struct NetworkShape: Hashable, Sendable {
    /// Time from the client to the server and back; zero and more.
    package var roundTrip: Duration
    /// Bits of payload a second, shared by the client's connections; `nil` for as fast as the machine.
    package var bitsPerSecond: Int64?
    /// Bytes that the bottleneck holds for a client.
    package var queueBytes: Int64 = 64 * 1024

    package init(roundTrip: Duration = .zero, bitsPerSecond: Int64? = nil) {
        (self.roundTrip, self.bitsPerSecond) = (roundTrip, bitsPerSecond)
    }

    /// Bytes of an answer's head, counted like body bytes.
    package static let headBytes: Int64 = 300

    /// How long a client waits, from the begin of its first request to the last byte of `bytes` of body, when the
    /// network is otherwise idle and nothing but the network takes time.
    ///
    /// - Parameters:
    ///   - isNewConnection: Whether the connection has to be made, and grows from its initial window.
    ///   - requests: Requests one after the other, each waiting for the answer before it.
    package func timeToDeliver(_ bytes: Int64, isNewConnection: Bool, requests: Int = 1) -> Duration {
        var link = ShapedLink(self)
        let connection = link.connect(isGrown: !isNewConnection)
        var now = LoopInstant(offset: .zero)
        if isNewConnection { now = now.advanced(by: roundTrip) }
        for _ in 0..<requests {
            now = link.timeOfArrival(of: bytes / Int64(requests) + Self.headBytes, on: connection, asked: now)
        }
        return now.offset
    }
}
