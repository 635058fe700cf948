import FirstFrame
import Foundation

/// `firstframe demo`: the same two tabs three times over a slow network, with more and more of the strategies.
struct DemoCommand {
    let console: Console

    /// The script that Examples/two-tabs.json5 shows, with its folder set to where the clips are.
    static let steps = """
        // Viewers don't swipe in step with the frames of 1/30 s, hence the odd times.
        { enter: "A" },
        { play: 0 }, { watch: 3.98 },
        { swipe: 5, seconds: 3.98 },
        { enter: "B" },
        { play: 0 }, { watch: 3.98 },
        { swipe: 4, seconds: 3.98 },
        { enter: "A" },
        { play: "here" }, { watch: 2.98 },
        { leave: "A" },
        """

    static func script(folder: String) -> String {
        """
        {
          // A slow mobile network between the built-in origin and the player.
          network: { roundTripMs: 40, megabitsPerSecond: 8 },
          folder: "\(folder.replacing("\\", with: "\\\\").replacing("\"", with: "\\\""))",
          pages: {
            A: { sources: [\(names(1...6))] },
            B: { sources: [\(names(7...12))] },
          },
          steps: [
        \(steps)
          ],
        }
        """
    }

    private static func names(_ numbers: ClosedRange<Int>) -> String {
        numbers.map { "\"\(DemoClips.name($0))\"" }.joined(separator: ", ")
    }

    func run(_ arguments: Arguments) async throws -> Int32 {
        guard arguments.values.isEmpty else { throw UsageError(text: "demo takes no argument") }
        let folder = arguments["clips"] ?? DemoClips.defaultFolder
        try await DemoClips(console: console).make(in: folder)
        let script = try Script(
            parsing: Self.script(folder: URL(filePath: folder).standardizedFileURL.path(percentEncoded: false)))
        let runner = ScriptRunner(script: script, base: "/", console: console)
        console.say("measuring what the decoder takes for each clip, without a network")
        let limits = try await runner.limits()
        console.say("two tabs over 40 ms round trip and 8 Mbit/s, three times, each on an empty cache; 50 s each")
        var reports: [RunReport] = []
        let runs: [(String, [Strategy])] = [
            ("none", []), ("preload", [.preload]), ("preload+preRender", [.preload, .preRender]),
        ]
        for (index, (name, strategies)) in runs.enumerated() {
            console.say("\nrun \(index + 1) of \(runs.count): strategies: \(name)")
            let cache = arguments["cache"].map { "\($0)/\(name)" }
            reports.append(try await runner.run(named: name, strategies: strategies, cache: cache, limits: limits))
        }
        console.say(ReportTable.text(reports))
        if let decode = limits?.medianDecode {
            console.say("open and decode alone, from disk: median \(decode.shown) ms")
        }
        if console.isJSON { try console.json(Report(runs: reports)) }
        return reports.allSatisfy(\.problems.isEmpty) ? 0 : 1
    }
}
