import FeedVocabulary
import FirstFrame
import FirstFrameFFmpeg
import Foundation
import Origin

/// `firstframe bench scale`, `swipes`, `start` and `costs`.
struct BenchCommand {
    let console: Console

    func run(_ arguments: Arguments) async throws -> Int32 {
        switch arguments.values {
        case ["scale"]: return try await scale()
        case ["swipes"]: return try await swipes(arguments)
        case ["start"]: return try await start(arguments)
        case ["costs"]:
            let report = try await CostsBench(console: console).run()
            if console.isJSON { try console.json(report) }
            return 0
        case _: throw UsageError(text: "bench takes one word: scale, swipes, start or costs")
        }
    }

    private func start(_ arguments: Arguments) async throws -> Int32 {
        let folder = arguments["clips"] ?? DemoClips.defaultFolder
        if arguments["clips"] == nil { try await DemoClips(console: console).make(in: folder) }
        let kinds: Set = ["mp4", "mov", "m4v", "mkv", "webm"]
        guard let found = try? FileManager.default.contentsOfDirectory(atPath: folder) else {
            throw UsageError(text: "there is no folder \(folder) that can be read")
        }
        let names = found.sorted().filter { kinds.contains(URL(filePath: $0).pathExtension) }
        guard !names.isEmpty else { throw UsageError(text: "\(folder) has no clips") }
        let report = try await StartBench(console: console, folder: folder, names: names).run()
        if console.isJSON { try console.json(report) }
        return 0
    }

    private func swipes(_ arguments: Arguments) async throws -> Int32 {
        let folder = arguments["clips"] ?? DemoClips.defaultFolder
        try await DemoClips(console: console).make(in: folder)
        // The demo's network.
        let shape = NetworkShape(roundTrip: .milliseconds(40), bitsPerSecond: 8_000_000)
        let report = try await SwipesBench(console: console, folder: folder, shape: shape).run()
        if console.isJSON { try console.json(report) }
        return 0
    }

    private func scale() async throws -> Int32 {
        let folder = FileManager.default.temporaryDirectory.appending(path: "firstframe-bench-\(getpid())").path
        defer { try? FileManager.default.removeItem(atPath: folder) }
        var configuration = RuntimeConfiguration()
        configuration.cacheDirectory = folder
        let runtime = try await FeedRuntime.start(engines: FFmpegEngines(), configuration: configuration)
        do {
            let report = try await ScaleBench(runtime: runtime, console: console).run()
            await runtime.shutdown()
            if console.isJSON { try console.json(report) }
            return 0
        } catch {
            await runtime.shutdown()
            throw error
        }
    }
}

/// Nothing is fetched and nothing plays: only pages, lists and switches.
struct ScaleBench {
    let runtime: FeedRuntime
    let console: Console

    struct Report: Encodable {
        var bytesPerPage = 0.0
        var bytesPerEntry = 0.0
        /// Microseconds of one page switch, by the number of pages and of entries of each.
        var switchMicroseconds: [String: Spread] = [:]
        /// Milliseconds of setting a list with one other entry, and of comparing its sources one by one.
        var setSourcesMilliseconds: [String: [String: Spread]] = [:]
    }
    private static let rounds = 9
    private static let switches = 400

    func run() async throws -> Report {
        var report = Report()
        try await measureMemory(&report)
        for (pages, entries) in [(10, 10), (10, 1_000), (100, 1_000), (1_000, 1_000)] {
            let microseconds = try await switchTime(pages: pages, entries: entries)
            report.switchMicroseconds["\(pages) pages x \(entries) entries"] = microseconds
            console.say("a page switch, \(pages) pages of \(entries) entries: \(microseconds.shown) us")
        }
        for count in [1_000, 10_000, 100_000] {
            let (set, scan) = try await setSourcesTime(count)
            report.setSourcesMilliseconds["\(count) entries"] = ["setSources": set, "scan": scan]
            console.say(
                "setSources of \(count) entries, one of them new: \(set.shown) ms, "
                    + "\((set.median / scan.median).shown) x a scan that "
                    + "compares them and builds the new index (\(scan.shown) ms)")
        }
        return report
    }

    private static func entries(_ count: Int, page: Int) throws -> [FeedEntry] {
        try (0..<count).map { number in
            FeedEntry(
                try URLSource(url: "https://clips.example/feed\(page)/clip\(number).mp4"), id: EntryID("\(number)"))
        }
    }

    private func makePages(_ count: Int, entries: Int, prefix: String) async throws -> [FeedPage] {
        var pages: [FeedPage] = []
        for number in 0..<count {
            let page = try await runtime.makePage("\(prefix)\(number)", strategies: [])
            try await runtime.enter(page)
            if entries > 0 { try await page.setSources(try Self.entries(entries, page: number)) }
            pages.append(page)
        }
        await runtime.clearAll()
        return pages
    }

    /// - Returns: Resident bytes, after what can go has gone.
    private static var resident: Double { Double(ProcessUse.now.residentBytes) }

    private func measureMemory(_ report: inout Report) async throws {
        let pages = 1_000, entries = 1_000
        let start = Self.resident
        let empty = try await makePages(pages, entries: 0, prefix: "empty")
        report.bytesPerPage = (Self.resident - start) / Double(pages)
        let before = Self.resident
        let full = try await makePages(pages, entries: entries, prefix: "full")
        report.bytesPerEntry = (Self.resident - before) / Double(pages * entries)
        withExtendedLifetime((empty, full)) {}
        console.say(
            "memory: \(Int(report.bytesPerPage)) bytes an idle page, \(Int(report.bytesPerEntry)) bytes an entry of it "
                + "(\(pages) pages of \(entries) entries, each with a URL, a key and an identity of its own)")
    }

    private func switchTime(pages count: Int, entries: Int) async throws -> Spread {
        let pages = try await makePages(count, entries: entries, prefix: "\(count)x\(entries)-")
        var times: [Double] = []
        for _ in 0..<Self.rounds {
            let start = ContinuousClock.now
            for number in 0..<Self.switches { try await runtime.enter(pages[number * 7 % count]) }
            times.append(start.duration(to: .now) / .microseconds(1) / Double(Self.switches))
        }
        await runtime.clearAll()
        return Spread(times)
    }

    private func setSourcesTime(_ count: Int) async throws -> (set: Spread, scan: Spread) {
        let page = try await runtime.makePage("set\(count)", strategies: [])
        try await runtime.enter(page)
        let first = try Self.entries(count, page: 0)
        var second = first
        second[count / 2] = FeedEntry(try URLSource(url: "https://clips.example/new.mp4"), id: "new")
        var (sets, scans): ([Double], [Double]) = ([], [])
        for round in 0..<Self.rounds {
            let (old, new) = round % 2 == 0 ? (first, second) : (second, first)
            try await page.setSources(old)
            var start = ContinuousClock.now
            try await page.setSources(new)
            sets.append(start.duration(to: .now) / .milliseconds(1))
            start = ContinuousClock.now
            // What any diff has to do: look every entry up by its identity, and compare its source.
            let index = Dictionary(uniqueKeysWithValues: old.map { ($0.id, $0.source) })
            let changed = new.count { index[$0.id] != $0.source }
            precondition(changed == 1, "one entry is another")
            scans.append(start.duration(to: .now) / .milliseconds(1))
        }
        await page.clear()
        return (Spread(sets), Spread(scans))
    }
}
