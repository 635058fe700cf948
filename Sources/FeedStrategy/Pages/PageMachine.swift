/// The life of a page: inactive, enabled, sourced, and back.
package struct PageMachine: Hashable, Sendable {
    package enum State: String, Hashable, Sendable {
        case inactive  // → enabled
        case enabled  // → sourced, clearing
        case sourced  // → clearing
        case clearing  // → inactive
    }
    /// Which call was missing before the one that was made.
    package struct Refusal: Error, Hashable {
        package let call: String, state: State
    }
    package private(set) var state = State.inactive
    /// Counts lives; what a former life started is told by its number.
    package private(set) var life = 0
    package init() {}

    package mutating func enable() throws(Refusal) {
        guard state == .inactive else { throw Refusal(call: "enable", state: state) }
        state = .enabled
        life += 1
    }
    package mutating func setSources() throws(Refusal) {
        guard state == .enabled || state == .sourced else { throw Refusal(call: "setSources", state: state) }
        state = .sourced
    }
    package func requireSources(for call: String) throws(Refusal) {
        guard state == .sourced else { throw Refusal(call: call, state: state) }
    }
    /// - Returns: Whether there is something to clear.
    package mutating func beginClear() -> Bool {
        guard state == .enabled || state == .sourced else { return false }
        state = .clearing
        return true
    }
    package mutating func endClear() { state = .inactive }
}
