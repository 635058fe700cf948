/// A number of values by key, those that were changed last: for what is worth remembering, but not for ever.
package struct RecentItems<Key: Hashable & Sendable, Value: Sendable>: Sendable {
    private struct Item {
        var value: Value
        var age: Int
    }
    private let capacity: Int
    private var items: [Key: Item] = [:]
    private var count = 0

    package init(capacity: Int) {
        precondition(capacity > 0, "something is remembered")
        self.capacity = capacity
    }

    /// Looking makes nothing younger; `nil` forgets.
    package subscript(_ key: Key) -> Value? {
        get { items[key]?.value }
        set {
            if let newValue { update(key, default: newValue) { $0 = newValue } } else { items[key] = nil }
        }
    }

    package var values: some Sequence<Value> { items.values.lazy.map(\.value) }

    /// Changes a value in its place, or the one to begin with, and makes it the youngest.
    ///
    /// - Returns: The oldest value, when there was no room for it any more.
    @discardableResult
    package mutating func update(
        _ key: Key, default initial: @autoclosure () -> Value, _ change: (inout Value) -> Void
    ) -> Value? {
        count += 1
        change(&items[key, default: Item(value: initial(), age: count)].value)
        items[key]?.age = count
        guard items.count > capacity, let oldest = items.min(by: { $0.value.age < $1.value.age }) else { return nil }
        return items.removeValue(forKey: oldest.key)?.value
    }

    package mutating func removeAll() { items = [:] }
}
