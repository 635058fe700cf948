import EventLoop

/// What an engine delivers, one element after the other, to one consumer on any thread.
public struct EngineStream<Element: Sendable>: AsyncSequence, Sendable {
    package let channel: EngineChannel<Element>
    package init(_ channel: EngineChannel<Element>) { self.channel = channel }

    /// Takes the elements in order.
    public struct AsyncIterator: AsyncIteratorProtocol {
        fileprivate let channel: EngineChannel<Element>
        /// The next element; `nil` at the end of the stream, or when the task is cancelled.
        public func next() async -> Element? { await channel.next() }
    }
    /// An iterator. All iterators take from one stream: who asks later takes it over, and the wait of the one before ends
    /// with `nil`, as when another page goes on with a play.
    public func makeAsyncIterator() -> AsyncIterator { AsyncIterator(channel: channel) }
}

/// A bounded queue from the loop to one consumer. What doesn't fit pushes the oldest out, and is counted.
package final class EngineChannel<Element: Sendable>: Sendable {
    private struct State {
        var queue: [Element] = []
        /// Of the newest consumer; the number tells whose it is.
        var waiter: (number: Int, continuation: CheckedContinuation<Element?, Never>)?
        var calls = 0
        var isFinished = false
        var dropped = 0
        var onRoom: (@Sendable () -> Void)?
    }
    private let capacity: Int
    private let state: Lock<State>

    package init(capacity: Int) {
        self.capacity = capacity
        state = Lock(State())
    }

    /// Elements that were pushed out because nobody took them.
    package var droppedCount: Int { state.withLock { $0.dropped } }
    package var hasRoom: Bool { state.withLock { $0.queue.count < capacity } }
    /// Called, on the consumer's thread, each time an element was taken.
    package func onRoom(_ body: @escaping @Sendable () -> Void) { state.withLock { $0.onRoom = body } }

    package func send(_ element: Element) {
        let waiter = state.withLock { state -> CheckedContinuation<Element?, Never>? in
            guard !state.isFinished else { return nil }
            if let waiter = state.waiter.take() { return waiter.continuation }
            if state.queue.count == capacity {
                state.queue.removeFirst()
                state.dropped += 1
            }
            state.queue.append(element)
            return nil
        }
        waiter?.resume(returning: element)
    }

    /// Ends the stream after what is queued.
    package func finish() {
        let waiter = state.withLock { state -> CheckedContinuation<Element?, Never>? in
            state.isFinished = true
            state.onRoom = nil
            return state.waiter.take()?.continuation
        }
        waiter?.resume(returning: nil)
    }

    /// Gives up what is queued.
    package func discard() { state.withLock { $0.queue.removeAll() } }

    func next() async -> Element? {
        let number = state.withLock { state in
            state.calls += 1
            return state.calls
        }
        let element = await withTaskCancellationHandler {
            await withCheckedContinuation { (waiter: CheckedContinuation<Element?, Never>) in
                let (answer, overtaken) = state.withLock {
                    state -> (Element??, CheckedContinuation<Element?, Never>?) in
                    if !state.queue.isEmpty { return (.some(state.queue.removeFirst()), nil) }
                    if state.isFinished || Task.isCancelled { return (.some(nil), nil) }
                    defer { state.waiter = (number, waiter) }
                    return (nil, state.waiter?.continuation)
                }
                if let answer { waiter.resume(returning: answer) }
                overtaken?.resume(returning: nil)
            }
        } onCancel: {
            // Only its own wait: another consumer may have taken the stream over.
            let waiter = state.withLock { state in
                state.waiter?.number == number ? state.waiter.take()?.continuation : nil
            }
            waiter?.resume(returning: nil)
        }
        if element != nil { state.withLock { $0.onRoom }?() }
        return element
    }
}
