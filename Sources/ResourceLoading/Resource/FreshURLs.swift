import FeedVocabulary

/// URLs that refreshers gave, so that an entry that is opened again does not start with the expired one.
struct FreshURLs {
    /// Entries of a feed that come back are recent ones.
    private static let capacity = 512
    private struct Item {
        let given, fresh: [MediaURL]
        let age: Int
    }
    private var items: [CacheKey: Item] = [:]
    private var count = 0

    mutating func remember(_ fresh: [MediaURL], for resource: Resource) {
        count += 1
        items[resource.storageKey] = Item(given: resource.urls, fresh: fresh, age: count)
        if items.count > Self.capacity, let oldest = items.min(by: { $0.value.age < $1.value.age }) {
            items[oldest.key] = nil
        }
    }

    /// The URLs that replaced those of `resource`, unless the host has given it others since.
    func urls(for resource: Resource) -> [MediaURL]? {
        items[resource.storageKey].flatMap { $0.given == resource.urls ? $0.fresh : nil }
    }
}
