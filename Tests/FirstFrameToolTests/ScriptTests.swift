import FirstFrame
import Foundation
import Testing

@testable import FirstFrameTool

@Suite("Script") struct ScriptTests {
    private static let root = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
        .deletingLastPathComponent()

    @Test("the example is the demo's script") func example() throws {
        let text = try String(contentsOf: Self.root.appending(path: "Examples/two-tabs.json5"), encoding: .utf8)
        let script = try Script(parsing: text)
        #expect(script.pages.map(\.name) == ["A", "B"])
        #expect(text.contains(DemoCommand.steps.split(separator: "\n").map { "    \($0)" }.joined(separator: "\n")))
        let demo = try Script(parsing: DemoCommand.script(folder: "/a \"b\" \\c"))
        #expect(demo.folder == "/a \"b\" \\c")
        #expect(demo.steps.count == script.steps.count)
    }

    @Test(
        "a bad script is told with its line, the key and what is allowed",
        arguments: [
            (
                "{\n pages: { A: { sources: [] } },\n stepps: [] }",
                "line 3: the script: the key \"stepps\" is not known; allowed: network"
            ),
            (
                "{ pages: { A: { sources: [] } },\n steps: [\n  { enter: \"C\" } ] }",
                "line 3: \"enter\": there is no page \"C\"; pages: A"
            ),
            (
                "{ pages: { A: { sources: [] } }, steps: [ { watch: -1 } ] }",
                "line 1: \"watch\": -1.0 is out of range; allowed: 0.0 to 3600.0"
            ),
            (
                "{ pages: { A: { sources: [] } }, steps: [ { enter: \"A\", by: \"push\" } ] }",
                "line 1: \"by\": \"push\" is none of \"clear\", \"replaceSources\""
            ),
            (
                "{ pages: { A: { sources: [] } }, steps: [ { leave: \"A\", carryingPlay: true } ] }",
                "line 1: \"steps\": a step has one of enter"
            ),
            ("{ pages: {} , steps: [] }", "line 1: \"pages\": \"pages\" needs at least one page"),
            ("{ pages: { A: { sources: [] } } }", "line 1: the script: the key \"steps\" is missing"),
            ("{ // comment\n 'steps': [", "this [ has no matching ]"),
            ("{ a: 1, a: 2 }", "the key \"a\" stands here twice"),
            ("", "line 1: the script ends where a value was expected"),
        ]) func errors(text: String, message: String)
    {
        do {
            _ = try Script(parsing: text)
            Issue.record("accepted")
        } catch {
            #expect("\(error)".contains(message), "\(error)")
        }
    }

    @Test("JSON5: comments, bare keys, single quotes, trailing commas, escapes") func json5() throws {
        guard
            case .object(let members) = try JSON5Parser.parse(
                "/* x */ {a: 'b\\n\"', \"c\": [1, -2.5, 0x10,], d: null,}"
            ).content
        else {
            Issue.record("no object")
            return
        }
        #expect(members.map(\.key) == ["a", "c", "d"])
        guard case .string("b\n\"") = members[0].value.content else {
            Issue.record("\(members[0])")
            return
        }
    }

    @Test("percentiles are those of the ranks") func spread() {
        let spread = Spread((1...20).map(Double.init))
        #expect((spread.median, spread.p95, spread.max) == (10, 19, 20))
        #expect(Spread([]).median == 0)
    }
}
