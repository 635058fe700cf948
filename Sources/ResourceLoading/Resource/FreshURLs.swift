import FeedVocabulary

/// URLs that refreshers gave, so that an entry that is opened again does not start with the expired one.
struct FreshURLs {
    private struct Item {
        let given, fresh: [MediaURL]
    }
    /// Entries of a feed that come back are recent ones.
    private var items = RecentItems<CacheKey, Item>(capacity: 512)

    mutating func remember(_ fresh: [MediaURL], for resource: Resource) {
        items[resource.storageKey] = Item(given: resource.urls, fresh: fresh)
    }

    /// The URLs that replaced those of `resource`, unless the host has given it others since.
    func urls(for resource: Resource) -> [MediaURL]? {
        items[resource.storageKey].flatMap { $0.given == resource.urls ? $0.fresh : nil }
    }
}
