import Foundation

/// The demo's clips: made once with the `ffmpeg` command, portrait, H.264 with B-frames and AAC.
struct DemoClips {
    let console: Console
    static let count = 12

    static func name(_ number: Int) -> String { String(format: "clip%02d.mp4", number) }

    static var defaultFolder: String {
        let environment = ProcessInfo.processInfo.environment
        let base =
            environment["XDG_CACHE_HOME"].flatMap { $0.hasPrefix("/") ? $0 : nil } ?? NSHomeDirectory() + "/.cache"
        return base + "/firstframe-demo"
    }

    func make(in folder: String) async throws {
        try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
        let missing = (1...Self.count).filter { !FileManager.default.fileExists(atPath: "\(folder)/\(Self.name($0))") }
        guard !missing.isEmpty else { return }
        console.say("making \(missing.count) clips of 8 to 20 s in \(folder), once; about a minute")
        for number in missing {
            try Task.checkCancellation()
            try await make(number, in: folder)
            console.say("  \(Self.name(number))")
        }
    }

    private func make(_ number: Int, in folder: String) async throws {
        let seconds = 8 + (number * 5) % 13
        let file = "\(folder)/\(Self.name(number))"
        let unfinished = "\(folder)/.unfinished-\(Self.name(number))"
        // Every third clip keeps its index at the end, as cameras and careless encoders write it.
        let index = number % 3 == 0 ? [] : ["-movflags", "+faststart"]
        let picture =
            "testsrc2=size=720x1280:rate=30:duration=\(seconds),hue=h=\(number * 30),"
            + "drawtext=text='\(number)':fontsize=320:fontcolor=white:borderw=12:x=(w-text_w)/2:y=(h-text_h)/2"
        let arguments =
            [
                "-hide_banner", "-loglevel", "error", "-nostdin", "-y", "-f", "lavfi", "-i", picture, "-f", "lavfi",
                "-i",
                "sine=frequency=\(220 + number * 40):sample_rate=44100:duration=\(seconds)", "-c:v", "libx264",
                "-preset",
                "veryfast", "-profile:v", "high", "-pix_fmt", "yuv420p", "-bf", "2", "-g", "60", "-b:v", "1300k",
                "-maxrate",
                "1600k", "-bufsize", "2600k", "-c:a", "aac", "-b:a", "96k",
            ] + index + ["-f", "mp4", unfinished]
        do { try Self.ffmpeg(arguments, making: Self.name(number)) } catch {
            try? FileManager.default.removeItem(atPath: unfinished)
            throw error
        }
        try FileManager.default.moveItem(atPath: unfinished, toPath: file)
    }

    /// - Throws: ``DemoError`` with what the command says.
    static func ffmpeg(_ arguments: [String], making name: String) throws {
        let (status, text) = try ChildCommand.run("ffmpeg", arguments, reading: .errors)
        guard status == 0 else {
            throw DemoError(
                text: "the ffmpeg command could not make \(name): \(text.isEmpty ? "is ffmpeg installed?" : text)")
        }
    }
}

struct DemoError: Error, CustomStringConvertible {
    let text: String
    var description: String { text }
}
