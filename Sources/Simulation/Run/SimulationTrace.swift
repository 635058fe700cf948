package import EventLoop

/// What happened in a run, in order: for people, and to tell two runs apart.
package struct SimulationTrace: Hashable, Sendable {
    package struct Entry: Hashable, Sendable {
        package let time: LoopInstant
        /// For a call, from its begin to its end.
        package let duration: Duration?
        /// Who: the user, a page, the network.
        package let track: String
        package let text: String
    }
    package private(set) var entries: [Entry] = []
    /// Whether anything is taken down; it costs time.
    package var isOn = false

    mutating func note(
        _ time: LoopInstant, _ track: String, _ text: @autoclosure () -> String, until end: LoopInstant? = nil
    ) {
        guard isOn else { return }
        entries.append(
            Entry(time: time, duration: end.map { time.duration(to: $0) }, track: track, text: text()))
    }

    /// Trace Event format, which Perfetto and Chromium open.
    package var json: String {
        let tracks = Set(entries.map(\.track)).sorted()
        var lines = tracks.enumerated().map { number, track in
            "{\"name\":\"thread_name\",\"ph\":\"M\",\"pid\":1,\"tid\":\(number),\"args\":{\"name\":\(Self.quoted(track))}}"
        }
        for entry in entries {
            let tid = tracks.firstIndex(of: entry.track) ?? 0
            let start = entry.time.offset.wholeNanoseconds / 1_000
            let kind = entry.duration.map { "\"X\",\"dur\":\($0.wholeNanoseconds / 1_000)" } ?? "\"i\",\"s\":\"t\""
            lines.append(
                "{\"name\":\(Self.quoted(entry.text)),\"ph\":\(kind),\"ts\":\(start),\"pid\":1,\"tid\":\(tid)}")
        }
        return "{\"traceEvents\":[\n" + lines.joined(separator: ",\n") + "\n]}\n"
    }

    private static func quoted(_ text: String) -> String {
        var quoted = "\""
        for scalar in text.unicodeScalars {
            switch scalar {
            case "\"": quoted += "\\\""
            case "\\": quoted += "\\\\"
            case _ where scalar.value < 0x20: quoted += " "
            case _: quoted.unicodeScalars.append(scalar)
            }
        }
        return quoted + "\""
    }
}
