import FeedStrategy
import Playback

/// Which states and moves of the machines were seen.
package struct MachineCoverage: Sendable {
    /// One machine's graph, by the names of its states.
    private struct Graph: Sendable {
        var moves: [String: Set<String>]
        var seen: Set<[String]> = []
        var states: Set<String> = []
    }
    private var graphs: [String: Graph] = [:]

    package init() {
        add("page", PageMachine.moves)
        add("coordinator", CoordinatorMachine.moves)
        add("pre-render", PreRenderMachine.moves)
        add("gate", [WatermarkGateState.open: [.closed], .closed: [.open]])
        add("engine", EngineMachine.moves)
    }
    private enum WatermarkGateState: String { case open, closed }

    private mutating func add<State: RawRepresentable>(_ name: String, _ moves: [State: Set<State>])
    where State.RawValue == String {
        let named = moves.map { from, to in (from.rawValue, Set(to.map(\.rawValue))) }
        graphs[name] = Graph(moves: Dictionary(uniqueKeysWithValues: named))
    }

    /// Takes note of what a machine did in one step, which may be several moves.
    ///
    /// - Returns: Whether the machine's own graph has a way for it.
    package mutating func saw(_ machine: String, _ from: String?, _ to: String) -> Bool {
        graphs[machine]?.states.insert(to)
        guard let from, from != to else { return true }
        graphs[machine]?.states.insert(from)
        if graphs[machine]?.seen.contains([from, to]) == true { return true }
        guard let way = way(machine, from, to) else { return false }
        for (step, next) in zip(way, way.dropFirst()) { graphs[machine]?.seen.insert([step, next]) }
        return true
    }

    /// The shortest way from one state to another.
    private func way(_ machine: String, _ from: String, _ to: String) -> [String]? {
        guard let graph = graphs[machine] else { return nil }
        var ways = [[from]]
        var known: Set = [from]
        while !ways.isEmpty {
            var longer: [[String]] = []
            for way in ways {
                for next in (way.last.flatMap { graph.moves[$0] } ?? []).sorted() where known.insert(next).inserted {
                    if next == to { return way + [next] }
                    longer.append(way + [next])
                }
            }
            ways = longer
        }
        return nil
    }

    package mutating func add(_ other: MachineCoverage) {
        for (name, graph) in other.graphs {
            graphs[name]?.seen.formUnion(graph.seen)
            graphs[name]?.states.formUnion(graph.states)
        }
    }

    /// A line a machine: what was seen of how much, and what was not.
    package var lines: [String] {
        graphs.keys.sorted().map { name in
            guard let graph = graphs[name] else { return name }
            let moves = graph.moves.flatMap { from, to in to.map { [from, $0] } }
            let unseenMoves = moves.filter { !graph.seen.contains($0) }
            let unseenStates = graph.moves.keys.filter { !graph.states.contains($0) }
            let unseen = (unseenMoves.map { "\($0[0]) → \($0[1])" } + unseenStates).sorted()
            return "\(name): \(graph.moves.count - unseenStates.count) of \(graph.moves.count) states, "
                + "\(moves.count - unseenMoves.count) of \(moves.count) moves"
                + (unseen.isEmpty ? "" : "; not seen: " + unseen.joined(separator: ", "))
        }
    }
}
