import EventLoop
import FirstFrame
import FirstFrameFFmpeg
import Foundation
import TestSupport

/// Mutated files of a folder through the whole engine, to be built with AddressSanitizer (make fuzz-media).
///     media-fuzz FOLDER SECONDS [SEED]
/// Prints what it did; a crash or a leak is the sanitizer's to tell, a file that is not over in 20 seconds is ours.
@main enum MediaFuzz {
    static func main() async throws {
        let words = CommandLine.arguments
        guard words.count >= 3, let seconds = Double(words[2]), words.count == 3 || UInt64(words[3]) != nil else {
            print("usage: media-fuzz FOLDER SECONDS [SEED]")
            exit(2)
        }
        let seed = words.count > 3 ? UInt64(words[3]) ?? 1 : 1
        let kinds: Set = [
            "mp4", "m4a", "mov", "mkv", "webm", "ts", "mp3", "flac", "ogg", "opus", "wav", "adts", "m4s", "m3u8", "vtt",
            "srt",
        ]
        let files = (FileManager.default.enumerator(atPath: words[1])?.compactMap { $0 as? String } ?? [])
            .filter { name in
                // Foundation leaks its buffer when it reads an empty file.
                let size = try? FileManager.default.attributesOfItem(atPath: words[1] + "/" + name)[.size] as? Int
                return kinds.contains(URL(filePath: name).pathExtension) && size ?? 0 > 0
            }.sorted()
        guard !files.isEmpty else {
            print("there is no media in \(words[1])")
            exit(2)
        }
        print(try await fuzz(files, in: words[1], seconds, seed))
        fflush(nil)  // the sanitizer ends the process without
        try await Task.sleep(for: .milliseconds(200))  // what other threads still hold is let go of
    }

    /// - Returns: What was done. Nothing of it is left by then, so that a leak is one.
    private static func fuzz(
        _ files: [String], in source: String, _ seconds: Double, _ seed: UInt64
    ) async throws -> String {
        let folder = FileManager.default.temporaryDirectory.path + "/media-fuzz-\(getpid())"
        try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
        var configuration = RuntimeConfiguration()
        configuration.cacheDirectory = folder + "/cache"
        let runtime = try await FeedRuntime.start(engines: FFmpegEngines(), configuration: configuration)
        let page = try await runtime.makePage("fuzz", strategies: [])
        var options = EngineOptions()
        (options.pacing, options.audio) = (.none, .host)
        var random = SplitMix64(seed: seed)
        var (played, refused, frames, sounds) = (0, 0, 0, 0)
        let end = ContinuousClock.now.advanced(by: .seconds(seconds))

        var round = 0
        while ContinuousClock.now < end {
            let file = files[Int.random(in: 0..<files.count, using: &random)]
            let bytes = MediaMutation.mutate(
                [UInt8](try Data(contentsOf: URL(filePath: source + "/" + file))), &random)
            let path = "\(folder)/\(round).\(URL(filePath: file).pathExtension)"
            try Data(bytes).write(to: URL(filePath: path))
            let name = "round \(round) of seed \(seed), made of \(file)"
            let alarm = Task.detached {
                try await Task.sleep(for: .seconds(20))
                print("\(name) is not over after 20 seconds; it is in \(path)")
                exit(1)
            }
            await page.setEngineOptions(options)
            try await runtime.enter(page)
            try await page.setSources([FeedEntry(try FileSource(path: path), id: EntryID("\(round)"))])
            do {
                let engine = try await page.play(EntryID("\(round)"))
                // The subtitles of one clip are another one's bytes.
                for track in await page.currentMetrics?.media.tracks ?? [] where track.kind == .subtitles {
                    try? await engine.select(track.id, of: .subtitles)
                }
                async let heard = count(engine.audio, then: page)
                frames += await count(engine.frames, then: page)
                sounds += await heard
                played += 1
            } catch {
                refused += 1
            }
            await page.clear()
            alarm.cancel()
            try FileManager.default.removeItem(atPath: path)
            round += 1
        }
        await runtime.shutdown()
        try FileManager.default.removeItem(atPath: folder)
        return
            "\(round) mutated files: \(played) played (\(frames) pictures, \(sounds) pieces of sound), \(refused) refused"
    }

    /// To the end, or for some seconds of what is long. Both streams are taken from: an engine whose sound nobody takes
    /// waits. So the play is over for both when it is for one.
    private static func count<Element>(_ stream: EngineStream<Element>, then page: FeedPage) async -> Int {
        let end = ContinuousClock.now.advanced(by: .seconds(3))
        var count = 0
        for await _ in stream {
            count += 1
            if ContinuousClock.now > end { break }
        }
        await page.clear()
        return count
    }
}
