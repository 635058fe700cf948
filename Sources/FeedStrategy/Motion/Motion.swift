import FeedVocabulary

/// How the viewer moves through a list: which way, how fast, and how long on each entry.
package struct Motion: Hashable, Sendable {
    package enum Direction: Hashable, Sendable { case forward, backward }

    /// Two selections within this time are a viewer in a hurry, who passes most of what is fetched ahead.
    package static let hurry = Duration.seconds(2)
    /// Two selections within this time are a fling: the viewer looks at nothing of what passes.
    package static let fling = Duration.milliseconds(700)
    /// A viewer who stays this long has arrived.
    package static let settling = Duration.milliseconds(300)
    private static let dwellsKept = 8

    private var selections: [Duration] = []
    private var dwells: [Duration] = []
    private var place: Int?
    package private(set) var direction = Direction.forward

    package init() {}

    /// The viewer went to another entry.
    ///
    /// - Parameters:
    ///   - place: Its index in the list.
    ///   - now: In the time that the caller counts.
    package mutating func selected(place: Int, at now: Duration) {
        if let before = self.place, before != place { direction = place > before ? .forward : .backward }
        self.place = place
        if let last = selections.last { dwells = dwells.suffix(Self.dwellsKept - 1) + [now - last] }
        selections = selections.suffix(1) + [now]
    }

    /// The list is another one, or the page was away: what was seen of the way through it is over.
    package mutating func interrupt() { (selections, place, direction) = ([], nil, .forward) }

    /// The list changed around the viewer.
    package mutating func moved(to place: Int) { if self.place != nil { self.place = place } }

    private func isWithin(_ time: Duration, at now: Duration, resting: Duration) -> Bool {
        selections.count == 2 && selections[1] - selections[0] < time && now - selections[1] < resting
    }
    /// Whether less than usual should be fetched ahead.
    package func isHurried(at now: Duration) -> Bool { isWithin(Self.hurry, at: now, resting: Self.hurry) }
    /// Whether nothing should be fetched but what is looked at.
    package func isFlinging(at now: Duration) -> Bool { isWithin(Self.fling, at: now, resting: Self.settling) }

    /// How long until the viewer has stayed long enough to have arrived; `nil` when that is so.
    package func untilArrived(at now: Duration) -> Duration? {
        guard let last = selections.last, now - last < Self.settling else { return nil }
        return last + Self.settling - now
    }

    /// When the viewer will be slower than now, without another selection; `nil` for one who is in no hurry.
    package func calm(after now: Duration) -> Duration? {
        guard let last = selections.last else { return nil }
        if let wait = untilArrived(at: now) { return now + wait }
        return isHurried(at: now) ? last + Self.hurry : nil
    }

    /// How long the viewer stays on an entry, as a rule: the median of the last ones; `nil` before the second selection.
    package var typicalDwell: Duration? {
        dwells.median
    }
}
