import FirstFrame

/// A headless run of several pages, as a file describes it.
struct Script: Sendable {
    struct Network: Sendable {
        var roundTripMs = 0.0
        var megabitsPerSecond: Double?
    }
    struct Page: Sendable {
        let name: String
        let line: Int
        var sources: [String]
    }
    struct Step: Sendable {
        let line: Int
        let action: Action
    }
    enum Action: Sendable {
        case enter(String, by: TransitionPolicy, carryingPlay: Bool)
        /// The entry of that index, or the page's position.
        case play(Int?)
        case watch(seconds: Double)
        /// Moves on by `count` entries (backwards when negative), watching each for `seconds`.
        case swipe(count: Int, seconds: Double)
        case refresh([String])
        case loadMore([String])
        case leave(String)
        case suspend(keepingEngines: Bool)
        case resume
    }

    var network = Network()
    /// Folder of clips for the built-in origin; relative to the script's own folder.
    var folder: String?
    var strategies: [Strategy] = [.preload, .preRender]
    var pages: [Page] = []
    var steps: [Step] = []

    init(parsing text: String) throws(ScriptError) {
        let root = Reader(try JSON5Parser.parse(text), "the script")
        let members = try root.object(allowed: ["network", "folder", "strategies", "pages", "steps"])
        if let value = members["network"] { network = try Self.network(value) }
        folder = try members["folder"]?.string()
        if let value = members["strategies"] {
            strategies = try value.list().map { value throws(ScriptError) in try Self.strategy(value) }
        }
        guard let pages = members["pages"] else { throw root.error("the key \"pages\" is missing") }
        self.pages = try Self.pages(pages)
        guard let steps = members["steps"] else { throw root.error("the key \"steps\" is missing") }
        let names = self.pages.map(\.name)
        self.steps = try steps.list().map { value throws(ScriptError) in try Self.step(value, pages: names) }
    }

    private static func network(_ value: Reader) throws(ScriptError) -> Network {
        let members = try value.object(allowed: ["roundTripMs", "megabitsPerSecond"])
        var network = Network()
        if let value = members["roundTripMs"] { network.roundTripMs = try value.number(in: 0...10_000) }
        if let value = members["megabitsPerSecond"] { network.megabitsPerSecond = try value.number(in: 0.01...100_000) }
        return network
    }

    private static func strategy(_ value: Reader) throws(ScriptError) -> Strategy {
        if case .string(let name) = value.value.content {
            switch name {
            case "preload": return .preload
            case "preRender": return .preRender
            default:
                throw value.error("\"\(name)\" is no strategy; allowed: \"preload\", \"preRender\", { preload: {…} }")
            }
        }
        guard let fields = try value.object(allowed: ["preload"])["preload"] else {
            throw value.error("\"preload\" is missing")
        }
        let members = try fields.object(allowed: ["count", "size", "startBufferLimit", "stopBufferLimit", "behind"])
        var configuration = PreloadConfiguration()
        if let value = members["count"] { configuration.count = Int(try value.number(in: 0...10)) }
        if let value = members["behind"] { configuration.behind = Int(try value.number(in: 0...3)) }
        if let value = members["size"] { configuration.size = Int64(try value.number(in: 0...1e12)) }
        if let value = members["startBufferLimit"] { configuration.startBufferLimit = try value.number(in: 0...86_400) }
        if let value = members["stopBufferLimit"] { configuration.stopBufferLimit = try value.number(in: 0...86_400) }
        guard configuration.stopBufferLimit < configuration.startBufferLimit else {
            throw fields.error("stopBufferLimit must be below startBufferLimit")
        }
        return .preload(configuration)
    }

    private static func pages(_ value: Reader) throws(ScriptError) -> [Page] {
        guard case .object(let members) = value.value.content, !members.isEmpty else {
            throw value.error("\"pages\" needs at least one page: { A: { sources: [\"clip.mp4\"] } }")
        }
        return try members.map { member throws(ScriptError) in
            let page = Reader(member.value, "page \"\(member.key)\"")
            guard let sources = try page.object(allowed: ["sources"])["sources"] else {
                throw page.error("\"sources\" is missing")
            }
            return Page(name: member.key, line: member.value.line, sources: try sources.strings())
        }
    }

    private static let stepNames = [
        "enter", "play", "watch", "swipe", "refresh", "loadMore", "leave", "suspend", "resume",
    ]
    /// What may stand beside a step's name.
    private static let stepOptions = ["swipe": ["seconds"], "enter": ["by", "carryingPlay"]]

    private static func step(_ value: Reader, pages: [String]) throws(ScriptError) -> Step {
        let members = try value.object(allowed: stepNames + stepOptions.values.flatMap { $0 }.sorted())
        guard let name = stepNames.first(where: { members[$0] != nil }), let argument = members[name],
            Set(members.keys).subtracting([name]).isSubset(of: stepOptions[name] ?? [])
        else {
            throw value.error(
                "a step has one of \(stepNames.joined(separator: ", ")); swipe may have \"seconds\" beside it, enter "
                    + "\"by\" and \"carryingPlay\"")
        }
        let seconds = try members["seconds"]?.number(in: 0...3600)
        func policy() throws(ScriptError) -> TransitionPolicy {
            guard let value = members["by"] else { return .clear }
            return TransitionPolicy(rawValue: try value.string(of: TransitionPolicy.allCases.map(\.rawValue))) ?? .clear
        }
        func page() throws(ScriptError) -> String {
            let name = try argument.string()
            guard pages.contains(name) else {
                throw argument.error("there is no page \"\(name)\"; pages: \(pages.joined(separator: ", "))")
            }
            return name
        }
        func resume() throws(ScriptError) -> Action {
            guard try argument.bool() else { throw argument.error("true is allowed") }
            return .resume
        }
        let action: Action =
            switch name {
            case "enter":
                .enter(try page(), by: try policy(), carryingPlay: try members["carryingPlay"]?.bool() ?? false)
            case "play": .play(try argument.index())
            case "watch": .watch(seconds: try argument.number(in: 0...3600))
            case "swipe": .swipe(count: Int(try argument.number(in: -1000...1000)), seconds: seconds ?? 0)
            case "refresh": .refresh(try argument.strings())
            case "loadMore": .loadMore(try argument.strings())
            case "suspend":
                .suspend(keepingEngines: try argument.string(of: ["keepEngines", "dropEngines"]) == "keepEngines")
            case "resume": try resume()
            default: .leave(try page())
            }
        return Step(line: value.value.line, action: action)
    }

    /// A value and the name of its place, for errors that say what is allowed there.
    private struct Reader {
        let value: JSON5Value
        let place: String
        init(_ value: JSON5Value, _ place: String) { (self.value, self.place) = (value, place) }

        func error(_ text: String) -> ScriptError { ScriptError(line: value.line, text: "\(place): \(text)") }

        func object(allowed: [String]) throws(ScriptError) -> [String: Reader] {
            guard case .object(let members) = value.content else {
                throw error("\(value.kind) stands where an object belongs")
            }
            var result: [String: Reader] = [:]
            for (key, member) in members {
                guard allowed.contains(key) else {
                    throw ScriptError(
                        line: member.line,
                        text: "\(place): the key \"\(key)\" is not known; allowed: \(allowed.joined(separator: ", "))")
                }
                result[key] = Reader(member, "\"\(key)\"")
            }
            return result
        }
        func list() throws(ScriptError) -> [Reader] {
            guard case .array(let elements) = value.content else {
                throw error("\(value.kind) stands where a list belongs")
            }
            return elements.map { Reader($0, place) }
        }
        func string() throws(ScriptError) -> String {
            guard case .string(let text) = value.content else {
                throw error("\(value.kind) stands where a text belongs")
            }
            return text
        }
        func string(of allowed: [String]) throws(ScriptError) -> String {
            let text = try string()
            guard allowed.contains(text) else {
                throw error("\"\(text)\" is none of \(allowed.map { "\"\($0)\"" }.joined(separator: ", "))")
            }
            return text
        }
        func bool() throws(ScriptError) -> Bool {
            guard case .bool(let bool) = value.content else {
                throw error("\(value.kind) stands where true or false belongs")
            }
            return bool
        }
        func strings() throws(ScriptError) -> [String] {
            try list().map { value throws(ScriptError) in try value.string() }
        }
        /// A number, or "here" for the page's own position.
        func index() throws(ScriptError) -> Int? {
            if case .string("here") = value.content { return nil }
            guard case .number(let number) = value.content, number >= 0, number <= 100_000 else {
                throw error("the number of an entry, from 0 on, or \"here\" is allowed")
            }
            return Int(number)
        }
        func number(in range: ClosedRange<Double>) throws(ScriptError) -> Double {
            guard case .number(let number) = value.content else {
                throw error("\(value.kind) stands where a number belongs")
            }
            guard range.contains(number) else {
                throw error("\(number) is out of range; allowed: \(range.lowerBound) to \(range.upperBound)")
            }
            return number
        }
    }
}
