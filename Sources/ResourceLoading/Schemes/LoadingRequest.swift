import EventLoop
public import FeedVocabulary
import HTTPTransport

/// One request for bytes of a resource with a custom scheme, to be answered by its delegate from any thread.
///
/// It ends exactly once: by ``finish()``, ``fail(_:)``, ``redirect(to:)``, or by its cancellation. What comes after the
/// end is ignored.
public final class LoadingRequest: Sendable {
    /// The URL as the source has it.
    public let url: String
    /// The resource's cache key.
    public let key: CacheKey
    /// First byte wanted.
    public let requestedOffset: Int64
    /// Bytes wanted; meaningless with ``requestsAllDataToEnd``.
    public let requestedLength: Int64
    /// Whether everything from ``requestedOffset`` on is wanted.
    public let requestsAllDataToEnd: Bool
    /// Whether length and type are not known yet: tell them by ``setContentInformation(_:)`` before the first byte.
    public let wantsContentInformation: Bool

    enum Outcome {
        case finished
        case failed(LoadError)
        case redirected(LoadingRedirect)
    }
    private struct State {
        var information: ContentInformation?
        var pieces: [[UInt8]] = []
        var bufferedBytes = 0
        var position: Int64
        var outcome: Outcome?
        var isCancelled = false
        var isTaken = false
        var loaderWaits: CheckedContinuation<Void, Never>?
        var delegateWaits: [CheckedContinuation<Void, Never>] = []
        var isOver: Bool { outcome != nil || isCancelled }
        mutating func takeWaiters() -> [CheckedContinuation<Void, Never>] {
            defer { (loaderWaits, delegateWaits) = (nil, []) }
            return delegateWaits + (loaderWaits.map { [$0] } ?? [])
        }
    }
    /// Bytes that wait for the loader before ``respond(with:)`` suspends.
    private static let bufferLimit = HTTPLimits.bufferedBytes
    private let state: Lock<State>

    init(url: String, key: CacheKey, range: ByteRange, wantsContentInformation: Bool) {
        (self.url, self.key, self.wantsContentInformation) = (url, key, wantsContentInformation)
        (requestedOffset, requestedLength) = (range.lowerBound, range.length)
        requestsAllDataToEnd = range.upperBound == .max
        state = Lock(State(position: range.lowerBound))
    }

    // MARK: For the delegate

    /// The next byte to give.
    public var currentOffset: Int64 { state.withLock { $0.position } }
    /// Whether nobody waits for an answer any more.
    public var isCancelled: Bool { state.withLock { $0.isCancelled } }
    /// Whether the request has ended, in whatever way.
    public var isFinished: Bool { state.withLock { $0.isOver } }

    /// What the resource is; without it, it counts as one of unknown length that can be asked for in parts.
    public func setContentInformation(_ information: ContentInformation) {
        state.withLock { if !$0.isOver, $0.information == nil { $0.information = information } }
    }

    /// Gives bytes from ``currentOffset`` on; suspends while the loader has more than it can store.
    ///
    /// What goes beyond the bytes asked for is dropped, and the request is finished with the last of them.
    public func respond(with bytes: [UInt8]) async {
        let waiting = state.withLock { state -> CheckedContinuation<Void, Never>? in
            guard !state.isOver else { return nil }
            let room = requestsAllDataToEnd ? Int64.max : requestedOffset + requestedLength - state.position
            let kept = Int64(bytes.count) <= room ? bytes : Array(bytes.prefix(Int(room)))
            guard !kept.isEmpty else { return nil }
            state.pieces.append(kept)
            state.bufferedBytes += kept.count
            state.position += Int64(kept.count)
            if Int64(kept.count) == room { state.outcome = .finished }
            return state.loaderWaits.take()
        }
        waiting?.resume()
        await withCheckedContinuation { waiting in
            let mustWait = state.withLock { state -> Bool in
                guard !state.isOver, state.bufferedBytes > Self.bufferLimit else { return false }
                state.delegateWaits.append(waiting)
                return true
            }
            if !mustWait { waiting.resume() }
        }
    }

    /// All that there is has been given. Fewer bytes than asked for mean that the resource ends here, unless its length
    /// is known; then the rest is asked for again.
    public func finish() { end(.finished) }

    /// The bytes can't be had. The text is shown to the viewer's host, so it must hold no secret.
    public func fail(_ reason: String) { end(.failed(.host(reason: reason))) }

    /// The loader is to carry out this request instead. Not after bytes were given.
    public func redirect(to redirect: LoadingRedirect) { end(.redirected(redirect)) }

    private func end(_ outcome: Outcome) {
        let waiting = state.withLock { state -> [CheckedContinuation<Void, Never>] in
            guard !state.isOver else { return [] }
            state.outcome = outcome
            return state.takeWaiters()
        }
        for waiter in waiting { waiter.resume() }
    }

    // MARK: For the loader

    /// The next bytes, or the end; suspends until there is one of them.
    func next() async -> (piece: [UInt8]?, outcome: Outcome?) {
        while true {
            let (answer, waiting) = state.withLock {
                state -> ((piece: [UInt8]?, outcome: Outcome?)?, [CheckedContinuation<Void, Never>]) in
                guard state.pieces.isEmpty else {
                    let piece = state.pieces.removeFirst()
                    state.bufferedBytes -= piece.count
                    guard state.bufferedBytes <= Self.bufferLimit else { return ((piece, nil), []) }
                    defer { state.delegateWaits = [] }
                    return ((piece, nil), state.delegateWaits)
                }
                if state.isCancelled { return ((nil, .failed(.closed)), []) }
                return (state.outcome.map { (nil, $0) }, [])
            }
            for waiter in waiting { waiter.resume() }
            if let answer { return answer }
            await suspend()
        }
    }

    /// Suspends until the delegate has begun to answer, and gives what it said of the resource.
    func begin() async -> (information: ContentInformation?, outcome: Outcome?) {
        while true {
            let answer = state.withLock { state -> (information: ContentInformation?, outcome: Outcome?)? in
                if state.isCancelled { return (nil, .failed(.closed)) }
                guard state.outcome != nil || !state.pieces.isEmpty else { return nil }
                return (state.information, state.pieces.isEmpty ? state.outcome : nil)
            }
            if let answer { return answer }
            await suspend()
        }
    }

    private func suspend() async {
        await withCheckedContinuation { waiting in
            let mustWait = state.withLock { state -> Bool in
                guard state.pieces.isEmpty, !state.isOver else { return false }
                precondition(state.loaderWaits == nil, "one loader reads a request")
                state.loaderWaits = waiting
                return true
            }
            if !mustWait { waiting.resume() }
        }
    }

    /// Ends the request from the loader's side.
    ///
    /// - Returns: Whether the delegate has to be told.
    func cancel() -> Bool {
        let (wasOpen, waiting) = state.withLock { state -> (Bool, [CheckedContinuation<Void, Never>]) in
            guard !state.isCancelled else { return (false, []) }
            let wasOpen = state.outcome == nil
            state.isCancelled = true
            state.pieces = []
            return (wasOpen, state.takeWaiters())
        }
        for waiter in waiting { waiter.resume() }
        return wasOpen
    }
}
