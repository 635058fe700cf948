package import FeedVocabulary

/// A page's entries in order, and the place where the viewer is.
package struct PageList: Hashable, Sendable {
    package private(set) var entries: [EntryID] = []
    private var positions: [EntryID: Int] = [:]
    /// The entry that plays, as long as it is in the list.
    package private(set) var current: EntryID?
    /// Index of the entry that is played next when nothing is current.
    package private(set) var anchor = 0

    package init() {}

    package func contains(_ entry: EntryID) -> Bool { positions[entry] != nil }
    package func index(of entry: EntryID) -> Int? { positions[entry] }

    /// Entries after the current one; with no current, the anchor's entry and those after it.
    package var upcoming: ArraySlice<EntryID> {
        let next = current == nil ? anchor : place + 1
        return next < entries.count ? entries[next...] : []
    }

    /// Entries before the current one, nearest first; with no current, those before the anchor.
    package var previous: ReversedCollection<ArraySlice<EntryID>> {
        entries[..<min(place, entries.count)].reversed()
    }

    /// Index of the current entry; with no current, the anchor.
    package var place: Int { current.flatMap { positions[$0] } ?? anchor }

    /// Replaces the list; entries that stay are not touched.
    ///
    /// - Parameter list: Without repetitions.
    /// - Returns: Entries that left.
    package mutating func set(_ list: [EntryID]) -> [EntryID] {
        let oldPlace = place
        let old = entries
        entries = list
        reindex()
        let left = old.filter { positions[$0] == nil }
        if let current, positions[current] != nil { return left }
        // The place follows its entry; when that left, the next one of those that were after it.
        current = nil
        let staying = old[min(oldPlace, old.count)...].first { positions[$0] != nil }
        anchor = staying.flatMap { positions[$0] } ?? min(oldPlace, list.count)
        return left
    }

    /// - Returns: The identities that were there already, and therefore changed nothing.
    package mutating func insert(_ list: [EntryID], at index: Int) -> [EntryID] {
        var added: [EntryID] = [], known: [EntryID] = [], seen: Set<EntryID> = []
        for entry in list {
            if positions[entry] == nil, seen.insert(entry).inserted { added.append(entry) } else { known.append(entry) }
        }
        if current == nil, index < anchor { anchor += added.count }
        entries.insert(contentsOf: added, at: index)
        reindex()
        return known
    }

    package mutating func remove(_ entry: EntryID) {
        guard let index = positions[entry] else { return }
        entries.remove(at: index)
        if current == entry {
            current = nil
            anchor = index
        } else if current == nil, index < anchor {
            anchor -= 1
        }
        reindex()
    }

    /// Moves an entry; what plays goes on playing.
    ///
    /// - Parameter index: Where it is afterwards, in `0..<entries.count`.
    package mutating func move(_ entry: EntryID, to index: Int) {
        guard let from = positions[entry], from != index else { return }
        let next = current == nil && anchor < entries.count ? entries[anchor] : nil
        entries.remove(at: from)
        entries.insert(entry, at: index)
        reindex()
        if let next { anchor = positions[next] ?? anchor }
    }

    package mutating func play(_ entry: EntryID) { current = entry }

    /// Nothing plays any more; the current entry is where the page goes on.
    package mutating func rest() {
        anchor = place
        current = nil
    }

    private mutating func reindex() {
        positions = Dictionary(uniqueKeysWithValues: entries.enumerated().map { ($1, $0) })
    }
}
