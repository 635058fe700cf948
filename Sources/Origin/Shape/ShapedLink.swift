package import EventLoop

/// The bottleneck between the origin and one client: a queue that drains at a rate, and connections that grow into it.
///
/// Slow start as in RFC 5681 §3.1 with an initial window of ten segments (RFC 6928): each acknowledged byte lets one
/// more byte go. No loss: a full queue only makes senders wait, in turn, as senders of a real queue get their share.
/// Pure: time is an argument.
package struct ShapedLink: Sendable {
    package struct Segment: Hashable, Sendable {
        package let bytes: Int64
        /// When the client has it.
        package let arrival: LoopInstant
        /// When the server knows that.
        package let acknowledged: LoopInstant
    }
    package enum Admission: Hashable, Sendable {
        case sent(Segment)
        /// The window is full; ask again when something is acknowledged.
        case waitsForAcknowledgement
        /// The queue is full; ask again then.
        case waitsUntil(LoopInstant)
    }
    private struct Connection {
        var window: Int64
        var inFlight: Int64 = 0
    }

    private static let segmentBytes: Int64 = 1448
    private static let initialWindow = 10 * segmentBytes
    private static let largestWindow: Int64 = 4 * 1024 * 1024
    /// Bytes sent at a time: as many as the link takes in a millisecond, the step of the loop's timers; more on a fast link,
    /// where the sender's own turns would be the limit (0.81 instead of 0.94 x curl's speed at 1 Gbit/s).
    private static func quantum(at bitsPerSecond: Int64) -> Duration {
        .milliseconds(bitsPerSecond > 100_000_000 ? 4 : 1)
    }

    /// How soon a sender looks again.
    private static let retry = Duration.microseconds(100)
    private static let patience = Duration.milliseconds(50)

    private let shape: NetworkShape
    private var connections: [Int: Connection] = [:]
    private var nextID = 0
    private var freeAt = LoopInstant(offset: .zero)
    /// Connections that found the queue full, in the order of their turns, and when they asked last.
    private var line: [(id: Int, asked: LoopInstant)] = []

    package init(_ shape: NetworkShape) { self.shape = shape }

    package mutating func connect(isGrown: Bool = false) -> Int {
        nextID += 1
        connections[nextID] = Connection(window: isGrown ? Self.largestWindow : Self.initialWindow)
        return nextID
    }
    /// What the connection has in the queue stays there.
    package mutating func disconnect(_ id: Int) {
        connections[id] = nil
        line.removeAll { $0.id == id }
    }

    private func transmission(_ bytes: Int64) -> Duration {
        guard let rate = shape.bitsPerSecond else { return .zero }
        return .nanoseconds(bytes * 8 * 1_000_000_000 / rate)
    }

    /// Puts some of `pending` bytes on the link.
    package mutating func admit(_ id: Int, pending: Int64, at now: LoopInstant) -> Admission {
        guard var connection = connections[id] else { return .waitsForAcknowledgement }
        guard let rate = shape.bitsPerSecond else {
            let arrival = now.advanced(by: shape.roundTrip / 2)
            connections[id]?.inFlight += pending
            return .sent(
                Segment(bytes: pending, arrival: arrival, acknowledged: arrival.advanced(by: shape.roundTrip / 2)))
        }
        let backlog = max(.zero, now.duration(to: freeAt))
        let room = transmission(shape.queueBytes) - backlog
        let free = connection.window - connection.inFlight
        guard free > 0 else {
            line.removeAll { $0.id == id }
            return .waitsForAcknowledgement
        }
        // Whoever does not come back has given up its turn.
        let patience = transmission(shape.queueBytes) + Self.patience
        line.removeAll { $0.id != id && $0.asked.duration(to: now) > patience }
        guard room > .zero, line.first?.id ?? id == id else {
            if let place = line.firstIndex(where: { $0.id == id }) {
                line[place].asked = now
            } else {
                line.append((id, now))
            }
            return .waitsUntil(now.advanced(by: max(.zero, .zero - room) + Self.retry))
        }
        line.removeAll { $0.id == id }
        let quantum = max(Self.segmentBytes, rate / 8 * Self.quantum(at: rate).wholeNanoseconds / 1_000_000_000)
        let bytes = min(pending, free, quantum)
        freeAt = max(freeAt, now).advanced(by: transmission(bytes))
        connection.inFlight += bytes
        connections[id] = connection
        let arrival = freeAt.advanced(by: shape.roundTrip / 2)
        return .sent(Segment(bytes: bytes, arrival: arrival, acknowledged: arrival.advanced(by: shape.roundTrip / 2)))
    }

    package mutating func acknowledge(_ id: Int, _ bytes: Int64) {
        guard var connection = connections[id] else { return }
        connection.inFlight -= bytes
        connection.window = min(Self.largestWindow, connection.window + bytes)
        connections[id] = connection
    }

    /// When the last of `bytes` arrives, of an answer to a request made at `asked`, with nothing else on the link.
    mutating func timeOfArrival(of bytes: Int64, on id: Int, asked: LoopInstant) -> LoopInstant {
        var now = asked.advanced(by: shape.roundTrip / 2)
        var pending = bytes
        var last = now
        var unacknowledged: [Segment] = []
        while pending > 0 {
            switch admit(id, pending: pending, at: now) {
            case .sent(let segment):
                pending -= segment.bytes
                last = segment.arrival
                unacknowledged.append(segment)
            case .waitsUntil(let time): now = time
            case .waitsForAcknowledgement: now = unacknowledged.first?.acknowledged ?? now
            }
            while let first = unacknowledged.first, first.acknowledged <= now {
                acknowledge(id, first.bytes)
                unacknowledged.removeFirst()
            }
        }
        for segment in unacknowledged { acknowledge(id, segment.bytes) }
        return last
    }
}
