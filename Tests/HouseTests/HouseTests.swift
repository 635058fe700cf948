import Foundation
import Testing

/// The house as Docs/House.md shows it: what each room may import besides Swift's own modules.
private let allowed: [String: Set<String>] = {
    let floor1: Set = ["FeedVocabulary", "EventLoop"]
    let floor2 = floor1.union(["FeedStrategy", "HTTPTransport", "MediaCache"])
    let floor4 = floor2.union(["ResourceLoading", "Playback"])
    return [
        "FeedVocabulary": [],
        "EventLoop": ["CLibuv"],
        "FeedStrategy": ["FeedVocabulary"],
        "HTTPTransport": floor1.union(["CLibcurl"]),
        "MediaCache": floor1.union(["CSQLite"]),
        "ResourceLoading": floor2,
        "Playback": floor2.union(["ResourceLoading"]),
        "FirstFrame": floor4.union(["FoundationEssentials"]),
        "FirstFrameFFmpeg": floor4.union(["FirstFrame", "CFFmpeg"]),
        "Origin": floor1.union(["CMicrohttpd"]),
        "Simulation": floor4.union(["FirstFrame"]),
        "FirstFrameTool": floor4.union([
            "FirstFrame", "FirstFrameFFmpeg", "Origin", "Simulation", "Foundation", "Dispatch",
        ]),
    ]
}()
/// Swift's own modules and the C library.
private let everywhere: Set = ["Swift", "Synchronization", "Glibc"]

private let root = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
    .deletingLastPathComponent()

private func swiftFiles(of room: String) throws -> [URL] {
    let folder = root.appending(path: "Sources/\(room)")
    let files = try #require(FileManager.default.enumerator(at: folder, includingPropertiesForKeys: nil))
    return files.compactMap { $0 as? URL }.filter { $0.pathExtension == "swift" }
}

private func importedModules(of file: URL) throws -> [String] {
    try String(contentsOf: file, encoding: .utf8).split(separator: "\n").compactMap { line in
        let words = line.split(separator: " ")
        guard let index = words.firstIndex(of: "import"),
            words[..<index].allSatisfy({ $0.hasPrefix("@") || accessLevels.contains(String($0)) })
        else { return nil }
        return words[index...].dropFirst().first.map(String.init)
    }
}
private let accessLevels: Set = ["public", "package", "internal", "private", "fileprivate"]

@Suite("House") struct HouseTests {
    @Test("a room imports only from lower floors, and only its own C module", arguments: allowed.keys.sorted())
    func imports(room: String) throws {
        let may = try #require(allowed[room]).union(everywhere)
        for file in try swiftFiles(of: room) {
            for module in try importedModules(of: file) {
                #expect(may.contains(module), "\(room)/\(file.lastPathComponent) imports \(module)")
            }
        }
    }

    @Test("every room is known here") func everyRoom() throws {
        let rooms = try FileManager.default.contentsOfDirectory(atPath: root.appending(path: "Sources").path())
        let swiftRooms = rooms.filter { !$0.hasPrefix("C") || $0.dropFirst().first?.isLowercase == true }
        #expect(Set(swiftRooms) == Set(allowed.keys))
    }

    @Test(
        "time, chance and tasks below the command come from the loop",
        arguments: allowed.keys.sorted().filter { $0 != "FirstFrameTool" })
    func loopOnly(room: String) throws {
        for file in try swiftFiles(of: room) {
            let code = try String(contentsOf: file, encoding: .utf8).split(
                separator: "\n", omittingEmptySubsequences: false)
            for (number, line) in code.enumerated() where !line.contains("///") && !line.contains("// ") {
                for word in ["Task {", "Task.detached", "Task.sleep", "Date()", "ContinuousClock", "DispatchQueue"] {
                    #expect(!line.contains(word), "\(room)/\(file.lastPathComponent):\(number + 1) has \(word)")
                }
            }
        }
    }

    @Test("each planted fault still has its place in the sources") func mutations() throws {
        let folder = root.appending(path: "Tests/Mutations")
        let patches = try FileManager.default.contentsOfDirectory(atPath: folder.path).filter { $0.hasSuffix(".patch") }
        #expect(patches.count >= 20)
        for name in patches {
            let lines = try String(contentsOf: folder.appending(path: name), encoding: .utf8)
                .split(separator: "\n", omittingEmptySubsequences: false)
            #expect(lines[0].hasPrefix("Planted fault: "), "\(name) says what it plants")
            let file = try #require(lines.first { $0.hasPrefix("--- a/") }?.dropFirst(6))
            let source = try String(contentsOf: root.appending(path: String(file)), encoding: .utf8)
            for hunk in lines.split(whereSeparator: { $0.hasPrefix("@@") }).dropFirst() {
                let before = hunk.filter { $0.hasPrefix(" ") || $0.hasPrefix("-") }.map { $0.dropFirst() }
                let applies = source.contains(before.joined(separator: "\n") + "\n")
                #expect(applies, "\(name) does not apply any more")
            }
        }
    }

    @Test("each test that the table of strategies names is there") func strategyTable() throws {
        let text = try String(contentsOf: root.appending(path: "Docs/Strategies.md"), encoding: .utf8)
        let files = try #require(
            FileManager.default.enumerator(at: root.appending(path: "Tests"), includingPropertiesForKeys: nil))
        let tests = try files.compactMap { $0 as? URL }.filter { $0.pathExtension == "swift" }
            .map { try String(contentsOf: $0, encoding: .utf8) }.joined(separator: "\n")
        let rows = text.split(separator: "\n").filter { $0.hasPrefix("|") && $0.count(where: { $0 == "|" }) == 4 }
        #expect(rows.count > 40)
        for row in rows {
            let proof = row.split(separator: "|")[2]
            for name in proof.matches(of: /\*([^*]+)\*/).map(\.1) {
                #expect(tests.contains("\"\(name)\""), "there is no test \"\(name)\"")
            }
            for name in proof.matches(of: /[A-Z]+-[0-9]+|[A-Za-z]+Tests/).map(\.0) {
                #expect(tests.contains(name), "no test has \(name)")
            }
        }
    }
}
