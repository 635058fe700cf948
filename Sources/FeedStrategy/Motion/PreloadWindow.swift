package import FeedVocabulary

/// The entries to have ready, most wanted first.
package struct PreloadWindow: Hashable, Sendable {
    /// Entries in the direction of the motion.
    package var count: Int
    /// Entries against it.
    package var behind: Int

    package init(count: Int, behind: Int) { (self.count, self.behind) = (count, behind) }

    /// Half as many, rounded up, for a viewer in a hurry.
    package var halved: PreloadWindow { PreloadWindow(count: (count + 1) / 2, behind: behind) }

    /// - Parameters:
    ///   - direction: Which way the viewer goes; where the list ends that way, the other side takes its place.
    ///   - browsing: The entry in view of a viewer who scrolls and plays nothing: then it comes first, and both sides
    ///     after it in turn.
    package func entries(of list: PageList, direction: Motion.Direction, browsing: EntryID? = nil) -> [EntryID] {
        if let browsing, let place = list.index(of: browsing) { return both(sidesOf: place, list) }
        switch direction {
        case .forward: return Array(list.upcoming.prefix(count)) + list.previous.prefix(behind)
        case .backward:
            let back = Array(list.previous.prefix(count))
            return back.isEmpty ? Array(list.upcoming.prefix(count)) : back + list.upcoming.prefix(behind)
        }
    }

    private func both(sidesOf place: Int, _ list: PageList) -> [EntryID] {
        guard count + behind > 0 else { return [] }
        var window = [list.entries[place]]
        var distance = 1
        while window.count <= count + behind, distance < list.entries.count {
            for neighbour in [place + distance, place - distance]
            where list.entries.indices.contains(neighbour) && window.count <= count + behind {
                window.append(list.entries[neighbour])
            }
            distance += 1
        }
        return window.filter { $0 != list.current }
    }
}
