import Foundation

/// What this process uses, from /proc (proc(5)).
struct ProcessUse {
    var decodeThreads = 0
    /// Sockets and temporary files.
    var descriptors = 0
    var residentBytes = 0

    static var now: ProcessUse {
        var use = ProcessUse()
        let manager = FileManager.default
        for task in (try? manager.contentsOfDirectory(atPath: "/proc/self/task")) ?? [] {
            let name = try? String(contentsOfFile: "/proc/self/task/\(task)/comm", encoding: .utf8)
            if name?.hasPrefix("ff-decode") == true { use.decodeThreads += 1 }
        }
        for descriptor in (try? manager.contentsOfDirectory(atPath: "/proc/self/fd")) ?? [] {
            // Timers and pipes that Swift's and libuv's process-wide parts make once are not counted.
            let target = (try? manager.destinationOfSymbolicLink(atPath: "/proc/self/fd/\(descriptor)")) ?? ""
            if target.hasPrefix("socket:") || target.hasPrefix(manager.temporaryDirectory.path) { use.descriptors += 1 }
        }
        let status = (try? String(contentsOfFile: "/proc/self/status", encoding: .utf8)) ?? ""
        for line in status.split(separator: "\n") {
            let words = line.split(whereSeparator: \.isWhitespace)
            if words.first == "VmRSS:" { use.residentBytes = (words.dropFirst().first.flatMap { Int($0) } ?? 0) * 1024 }
        }
        return use
    }

    /// What is used once the peer, too, has closed its connections; after two seconds as it is.
    static func settled(to before: ProcessUse) async -> ProcessUse {
        for _ in 0..<40 {
            let now = now
            if now.descriptors <= before.descriptors { return now }
            try? await Task.sleep(for: .milliseconds(50))
        }
        return now
    }
}
