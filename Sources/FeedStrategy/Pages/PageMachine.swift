/// The life of a page: inactive, enabled, sourced, covered by a page above it, and back.
package struct PageMachine: Hashable, Sendable {
    package enum State: String, Hashable, Sendable, CaseIterable {
        case inactive  // → enabled
        case enabled  // → sourced, covering, clearing
        case sourced  // → covering, clearing
        case covering  // its work ends → covered, clearing
        case covered  // → enabled, sourced (restored), clearing
        case clearing  // → inactive

        /// Whether the page's strategies are at work.
        package var isOnTop: Bool { self == .enabled || self == .sourced }
    }
    /// Which call was missing before the one that was made.
    package struct Refusal: Error, Hashable {
        package let call: String, state: State
    }
    package private(set) var state = State.inactive
    /// Counts lives; what a former life started is told by its number.
    package private(set) var life = 0
    private var hasSources = false
    package init() {}

    package mutating func enable() throws(Refusal) {
        guard state == .inactive else { throw Refusal(call: "enable", state: state) }
        (state, hasSources) = (.enabled, false)
        life += 1
    }
    package mutating func setSources() throws(Refusal) {
        guard state.isOnTop else { throw Refusal(call: "setSources", state: state) }
        (state, hasSources) = (.sourced, true)
    }
    package func requireSources(for call: String) throws(Refusal) {
        guard state == .sourced else { throw Refusal(call: call, state: state) }
    }

    /// - Returns: Whether there is something to cover.
    package mutating func beginCover() -> Bool {
        guard state.isOnTop else { return false }
        state = .covering
        return true
    }
    /// - Returns: Whether the page is covered now; it may have been cleared meanwhile.
    package mutating func endCover() -> Bool {
        guard state == .covering else { return false }
        state = .covered
        return true
    }
    /// - Returns: Whether the page was covered.
    package mutating func uncover() -> Bool {
        guard state == .covered else { return false }
        state = hasSources ? .sourced : .enabled
        return true
    }

    /// - Returns: Whether there is something to clear.
    package mutating func beginClear() -> Bool {
        guard state != .inactive, state != .clearing else { return false }
        state = .clearing
        return true
    }
    package mutating func endClear() {
        precondition(state == .clearing, "a clear ended that had not begun")
        state = .inactive
    }

    /// The moves between the states that there are.
    package static let moves: [State: Set<State>] = [
        .inactive: [.enabled],
        .enabled: [.sourced, .covering, .clearing],
        .sourced: [.covering, .clearing],
        .covering: [.covered, .clearing],
        .covered: [.enabled, .sourced, .clearing],
        .clearing: [.inactive],
    ]
}
