import Foundation
import TestSupport
import Testing

/// The example as its user runs it: a program, a WebDAV server with a login, and then no server.
extension FFmpegSuites {
    @Suite("WebDAVAudio example", .enabled(if: RealServer.Kind.rclone.isInstalled, "rclone is not installed"))
    struct WebDAVAudioTests {
        private static let program = URL(filePath: CommandLine.arguments[0]).deletingLastPathComponent()
            .appending(path: "webdav-audio").path()

        private func play(_ arguments: [String]) throws -> (status: Int32, sound: Data, words: String) {
            let process = Process()
            process.executableURL = URL(filePath: Self.program)
            process.arguments = arguments + ["--fast"]
            let (output, errors) = (Pipe(), Pipe())
            (process.standardOutput, process.standardError) = (output, errors)
            process.standardInput = FileHandle.nullDevice
            try process.run()
            let sound = try output.fileHandleForReading.readToEnd() ?? Data()
            let words = String(decoding: try errors.fileHandleForReading.readToEnd() ?? Data(), as: UTF8.self)
            process.waitUntilExit()
            return (process.terminationStatus, sound, words)
        }

        @Test(
            "plays MP3, M4A and FLAC with a login, seeks, and plays the second time without the server",
            .enabled(if: FileManager.default.isExecutableFile(atPath: program), "the example is not built"))
        func plays() throws {
            let server = try RealServer(.rclone)
            defer { server.stop() }
            for name in ["a.mp3", "b é.m4a", "c.flac"] {
                let ffmpeg = Process()
                ffmpeg.executableURL = URL(filePath: "/usr/bin/env")
                ffmpeg.arguments =
                    ["ffmpeg", "-v", "error", "-f", "lavfi", "-i", "sine=frequency=440:sample_rate=44100:duration=3"]
                    + [server.files + "/" + name]
                try ffmpeg.run()
                ffmpeg.waitUntilExit()
                try #require(ffmpeg.terminationStatus == 0)
            }
            let folder = TemporaryFolder()
            let arguments = [
                server.baseURL, "--user", "\(RealServer.user):\(RealServer.password)", "--cache",
                folder.path + "/cache",
            ]
            let first = try play(arguments)
            #expect(first.status == 0, "\(first.words)")
            // Three tracks of three seconds, one channel of floats; encoders pad by up to a few frames.
            let samples = first.sound.count / 4
            #expect((3 * 132_300...3 * 132_300 + 3 * 4_608).contains(samples))
            for name in ["a.mp3", "b é.m4a", "c.flac"] { #expect(first.words.contains("▶ \(name)")) }

            let seeking = try play(arguments + ["--from", "2"])
            #expect(abs(samples - seeking.sound.count / 4 - 2 * 44_100) <= 1_152, "\(seeking.words)")

            server.stop()
            let second = try play(arguments)
            #expect(second.status == 0, "\(second.words)")
            #expect(second.sound == first.sound)

            let stranger = try play([server.baseURL, "--cache", folder.path + "/other"])
            #expect(stranger.status == 1)
            #expect(stranger.words.contains("does not answer"))
        }
    }
}
