/// The figures of some runs beside each other.
enum ReportTable {
    static func text(_ runs: [RunReport]) -> String {
        let widths = [26] + runs.map { max(14, $0.name.count + 2) }
        func row(_ label: String, _ value: (RunReport) -> String) -> String {
            label.padded(widths[0]) + zip(runs, widths.dropFirst()).map { value($0).leftPadded($1) }.joined()
        }
        func served(_ run: RunReport, _ how: String) -> String {
            let times = run.plays.filter { $0.servedAs == how }.map(\.ttffMs)
            return times.isEmpty ? "-" : "\(Spread(times).median.shown) (\(times.count))"
        }
        func ratio(_ run: RunReport) -> String {
            let ratios = run.plays.filter { $0.servedAs == "cold" }.compactMap { play in
                play.limitMs.map { play.ttffMs / $0 }
            }
            return ratios.isEmpty ? "-" : Spread(ratios).median.shown + " x"
        }
        return [
            "",
            row("") { $0.name },
            row("time to first frame, ms") { _ in "" },
            row("  median") { $0.ttffMs.median.shown },
            row("  95th percentile") { $0.ttffMs.p95.shown },
            row("  worst") { $0.ttffMs.max.shown },
            row("  median pre-rendered (n)") { served($0, "preRendered") },
            row("  median in flight (n)") { served($0, "inFlight") },
            row("  median preloaded (n)") { served($0, "preloaded") },
            row("  median cold (n)") { served($0, "cold") },
            row("  cold / network's limit") { ratio($0) },
            row("stalls") { "\($0.stalls)" },
            row("KB fetched") { "\($0.bytesFetched / 1024)" },
            row("KB never played") { "\($0.bytesNeverPlayed / 1024)" },
        ].joined(separator: "\n")
    }
}
