/// What an engine may do next.
package struct EngineMachine: Hashable, Sendable {
    package enum State: String, Hashable, Sendable, CaseIterable {
        case idle  // → opening, stopped
        case opening  // → held, stopped (also when opening failed)
        case held  // first frame decoded → playing, stopped
        case playing  // → paused, ended, stopped
        case paused  // → playing, stopped
        case ended  // → stopped
        case stopped  // terminal
    }
    package private(set) var state = State.idle
    package init() {}

    private mutating func move(_ call: String, from allowed: Set<State>, to next: State) throws(PlaybackError) {
        if state == .stopped { throw .stopped }
        guard allowed.contains(state) else { throw .wrongState(call: call, state: state.rawValue) }
        state = next
    }

    package mutating func open() throws(PlaybackError) { try move("open", from: [.idle], to: .opening) }
    /// - Returns: Whether the engine is still wanted.
    package mutating func opened() -> Bool {
        guard state == .opening else { return false }
        state = .held
        return true
    }
    /// - Returns: Whether the clock starts now; false when it runs already or is over.
    package mutating func play() throws(PlaybackError) -> Bool {
        if state == .playing || state == .ended { return false }
        try move("play", from: [.held, .paused], to: .playing)
        return true
    }
    package mutating func pause() throws(PlaybackError) -> Bool {
        if state == .paused || state == .ended || state == .held { return false }
        try move("pause", from: [.playing], to: .paused)
        return true
    }
    /// Another place of the clip; what the engine does goes on there.
    package func seek() throws(PlaybackError) {
        if state == .stopped { throw .stopped }
        guard [.held, .playing, .paused].contains(state) else {
            throw .wrongState(call: "seek", state: state.rawValue)
        }
    }
    package mutating func end() { if state == .playing { state = .ended } }
    /// - Returns: Whether this is the call that stops it.
    package mutating func stop() -> Bool {
        defer { state = .stopped }
        return state != .stopped
    }

    /// The moves between the states that there are.
    package static let moves: [State: Set<State>] = [
        .idle: [.opening, .stopped],
        .opening: [.held, .stopped],
        .held: [.playing, .stopped],
        .playing: [.paused, .ended, .stopped],
        .paused: [.playing, .stopped],
        .ended: [.stopped],
        .stopped: [],
    ]
}
