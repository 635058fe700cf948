import Foundation

/// `firstframe run SCRIPT`
struct RunCommand {
    let console: Console

    func run(_ arguments: Arguments) async throws -> Int32 {
        guard arguments.values.count == 1, let file = arguments.values.first else {
            throw UsageError(text: "run needs one script")
        }
        let text: String
        do {
            text = try String(contentsOfFile: file, encoding: .utf8)
        } catch {
            throw UsageError(text: "the script \(file) can't be read: \(error.localizedDescription)")
        }
        let script = try Script(parsing: text)
        let base = URL(filePath: file).deletingLastPathComponent().path(percentEncoded: false)
        let runner = ScriptRunner(script: script, base: base, console: console)
        let limits = try await runner.limits()
        let report = try await runner.run(
            named: URL(filePath: file).deletingPathExtension().lastPathComponent, strategies: script.strategies,
            cache: arguments["cache"], limits: limits)
        console.say(ReportTable.text([report]))
        if console.isJSON { try console.json(Report(runs: [report])) }
        return report.problems.isEmpty ? 0 : 1
    }
}
