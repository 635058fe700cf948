package import FeedVocabulary

/// Which bytes came over the network, and which of them were played.
package struct TrafficLedger: Sendable {
    private struct Account {
        var fetched = ByteRangeSet()
        var played = ByteRangeSet()
        var wasted: Int64 { fetched.count - fetched.ranges.reduce(0) { $0 + played.overlap(with: $1) } }
    }
    /// Resources remembered one by one; older ones are folded into the totals.
    private var accounts = RecentItems<CacheKey, Account>(capacity: 1024)
    private var foldedWaste: Int64 = 0
    /// Bytes of bodies received.
    package private(set) var bytesFetched: Int64 = 0

    package init() {}

    /// Bytes fetched that no playing engine has read.
    package var bytesNeverPlayed: Int64 { accounts.values.reduce(foldedWaste) { $0 + $1.wasted } }

    /// Bytes of one resource that came over the network, and those of them that no playing engine has read.
    ///
    /// - Parameter reading: What engines that still play have read.
    package func account(of key: CacheKey, reading: ByteRangeSet) -> (fetched: Int64, unplayed: Int64) {
        guard var account = accounts[key] else { return (0, 0) }
        for range in reading.ranges { account.played.insert(range) }
        return (account.fetched.count, account.wasted)
    }

    package mutating func fetched(_ range: ByteRange, of key: CacheKey) {
        bytesFetched += range.length
        touch(key) { $0.fetched.insert(range) }
    }

    package mutating func played(_ ranges: ByteRangeSet, of key: CacheKey) {
        touch(key) { account in for range in ranges.ranges { account.played.insert(range) } }
    }

    private mutating func touch(_ key: CacheKey, _ change: (inout Account) -> Void) {
        foldedWaste += accounts.update(key, default: Account(), change)?.wasted ?? 0
    }
}
