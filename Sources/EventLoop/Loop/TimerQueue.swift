/// The pending timers of one loop, soonest first; timers of the same instant in the order they were set.
///
/// A binary heap with lazy removal: a cancelled timer loses its body at once and its place when it comes to the top.
package struct TimerQueue: Sendable {
    private struct Entry: Comparable {
        let due: LoopInstant, id: UInt64
        static func < (left: Entry, right: Entry) -> Bool { (left.due, left.id) < (right.due, right.id) }
    }
    private var heap: [Entry] = []
    private var bodies: [UInt64: @Sendable () -> Void] = [:]
    private var nextID: UInt64 = 0

    package init() {}
    package var count: Int { bodies.count }

    package mutating func insert(at due: LoopInstant, _ body: @escaping @Sendable () -> Void) -> LoopTimer {
        nextID += 1
        bodies[nextID] = body
        heap.append(Entry(due: due, id: nextID))
        var child = heap.count - 1
        while child > 0, heap[child] < heap[(child - 1) / 2] {
            heap.swapAt(child, (child - 1) / 2)
            child = (child - 1) / 2
        }
        return LoopTimer(id: nextID)
    }

    package mutating func remove(_ timer: LoopTimer) { bodies[timer.id] = nil }

    /// When the next timer is due.
    package mutating func nextDue() -> LoopInstant? {
        while let top = heap.first, bodies[top.id] == nil { removeTop() }
        return heap.first?.due
    }

    /// Takes the next timer that is due at `now`.
    package mutating func popDue(at now: LoopInstant) -> (@Sendable () -> Void)? {
        guard let due = nextDue(), due <= now, let top = heap.first else { return nil }
        removeTop()
        return bodies.removeValue(forKey: top.id)
    }

    /// Takes all bodies, due or not.
    package mutating func removeAll() {
        heap.removeAll()
        bodies.removeAll()
    }

    private mutating func removeTop() {
        heap.swapAt(0, heap.count - 1)
        heap.removeLast()
        var parent = 0
        while true {
            let left = parent * 2 + 1
            guard left < heap.count else { return }
            let child = left + 1 < heap.count && heap[left + 1] < heap[left] ? left + 1 : left
            guard heap[child] < heap[parent] else { return }
            heap.swapAt(child, parent)
            parent = child
        }
    }
}
