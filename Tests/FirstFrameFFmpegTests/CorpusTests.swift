import FirstFrame
import FirstFrameFFmpeg
import Foundation
import Testing

/// Real files of every kind, beside the project where there are any; they are not part of it.
private enum Corpus {
    static let folder = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
        .deletingLastPathComponent().deletingLastPathComponent().appending(path: "shared/media").path
    static let isThere = FileManager.default.fileExists(atPath: folder + "/manifest.json")
    static func files(_ part: String) -> [String] {
        let names = (try? FileManager.default.contentsOfDirectory(atPath: folder + "/" + part)) ?? []
        return names.sorted().map { part + "/" + $0 }
    }
    static let whole =
        files("feed") + files("video") + files("audio") + ["hls/ts_h264/prog_index.m3u8", "hls/fmp4/playlist.m3u8"]
    static let broken = files("broken")
}

/// Reads what the `ffmpeg` command writes, piece by piece.
private final class Reference {
    private let process = Process()
    private let output = Pipe()

    init(_ arguments: [String]) throws {
        process.executableURL = URL(filePath: "/usr/bin/env")
        process.arguments = ["ffmpeg", "-hide_banner", "-loglevel", "quiet", "-nostdin"] + arguments + ["-"]
        process.standardOutput = output
        try process.run()
    }
    func next(_ count: Int) -> Data {
        var data = Data()
        while data.count < count, let more = try? output.fileHandleForReading.read(upToCount: count - data.count),
            !more.isEmpty
        { data += more }
        return data
    }
    func all() -> Data { output.fileHandleForReading.readDataToEndOfFile() }
    func stop() {
        if process.isRunning { process.terminate() }
        process.waitUntilExit()
    }
}

private struct Times {
    var stamps: [Duration] = []
    /// Milliseconds to which the command rounds them.
    var unit = 0.0

    /// As the `ffmpeg` command times a file's pictures, counted from the media's start.
    init(of file: String, frames: Int) throws {
        let reference = try Reference(
            [
                "-noautorotate", "-i", file, "-map", "0:V:0", "-fps_mode", "passthrough", "-frames:v", "\(frames)",
                "-f", "framecrc",
            ]
        )
        var (numerator, denominator) = (1.0, 1.0)
        for line in String(decoding: reference.all(), as: UTF8.self).split(separator: "\n") {
            if line.hasPrefix("#tb 0: ") {
                let parts = line.dropFirst(7).split(separator: "/").compactMap { Double($0) }
                if parts.count == 2 { (numerator, denominator) = (parts[0], parts[1]) }
            } else if !line.hasPrefix("#") {
                let fields = line.split(separator: ",").map { $0.trimmingCharacters(in: .whitespaces) }
                if fields.count > 2, let stamp = Double(fields[2]) {
                    stamps.append(.seconds(stamp * numerator / denominator))
                }
            }
        }
        reference.stop()
        unit = numerator / denominator * 1000
    }
}

private func withFile(
    _ name: String, _ body: (FeedPage, FeedRuntime, String) async throws -> Void
) async throws {
    let cache = FileManager.default.temporaryDirectory.path + "/ff-corpus-\(UUID().uuidString)"
    var configuration = RuntimeConfiguration()
    configuration.cacheDirectory = cache
    let runtime = try await FeedRuntime.start(engines: FFmpegEngines(), configuration: configuration)
    let result: Result<Void, any Error>
    do {
        let page = try await runtime.makePage("corpus", strategies: [])
        var options = EngineOptions()
        (options.pacing, options.audio) = (.none, .host)
        await page.setEngineOptions(options)
        try await runtime.enter(page)
        let path = Corpus.folder + "/" + name
        try await page.setSources([FeedEntry(try FileSource(path: path), id: "file")])
        result = .success(try await body(page, runtime, path))
    } catch {
        result = .failure(error)
    }
    await runtime.shutdown()
    try? FileManager.default.removeItem(atPath: cache)
    try result.get()
}

/// Pictures compared of one file: enough for every kind of stream, and not minutes of the largest.
private let mostFrames = 150

extension FFmpegSuites {
    @Suite("Real files", .serialized, .enabled(if: Corpus.isThere, "the media corpus is not beside the project"))
    struct CorpusTests {
        @Test("pictures, their times and sound as the ffmpeg command gives them", arguments: Corpus.whole)
        func whole(name: String) async throws {
            try await withFile(name) { page, _, path in
                let engine = try await page.play("file")
                let sound = Task { () -> (count: Int, channels: Int) in
                    var (count, channels) = (0, 0)
                    for await buffer in engine.audio {
                        count += buffer.frameCount
                        channels = buffer.channelCount
                    }
                    return (count, channels)
                }
                let media = try #require(await page.currentMetrics?.media)
                if media.videoCodec != nil { try await comparePictures(engine, path, name) }
                if media.audioCodec != nil, media.videoCodec == nil {
                    let heard = await sound.value
                    let reference = try Reference(["-i", path, "-map", "0:a:0", "-f", "f32le"])
                    let wanted = reference.all().count / 4 / max(1, heard.channels)
                    reference.stop()
                    // A codec frame more or less at the ends: who trims what differs.
                    #expect(abs(heard.count - wanted) <= 2_048, "\(name): \(heard.count) samples, ffmpeg has \(wanted)")
                    #expect(heard.count > 0)
                }
                await page.clear()
                _ = await sound.value
            }
        }

        private func comparePictures(_ engine: any PlayerEngine, _ path: String, _ name: String) async throws {
            let reference = try Times(of: path, frames: mostFrames)
            let times = reference.stamps
            let pictures = try Reference(
                [
                    "-noautorotate", "-i", path, "-map", "0:V:0", "-fps_mode", "passthrough", "-frames:v",
                    "\(mostFrames)", "-f", "rawvideo",
                ])
            defer { pictures.stop() }
            var (count, difference) = (0, 0.0)
            for await frame in engine.frames where count < mostFrames {
                let bytes = Data(frame.packedBytes())
                let isSame = pictures.next(bytes.count) == bytes
                #expect(isSame, "\(name): picture \(count) of \(frame.width) x \(frame.height) \(frame.pixelFormat)")
                if times.indices.contains(count) {
                    difference = max(difference, abs((frame.presentationTime - times[count]) / .milliseconds(1)))
                }
                count += 1
                if !isSame || count == mostFrames { break }
            }
            #expect(difference < max(2, reference.unit), "\(name): up to \(difference) ms from ffmpeg's times")
            #expect(count == times.count, "\(name): \(count) pictures, ffmpeg has \(times.count)")
        }

        @Test("MEDIA-7: a broken file gives pictures or a clear error, and ends", arguments: Corpus.broken)
        func broken(name: String) async throws {
            try await withFile(name) { page, runtime, _ in
                do {
                    let engine = try await page.play("file")
                    async let sounds = engine.audio.reduce(0) { count, _ in count + 1 }
                    let pictures = await engine.frames.reduce(0) { count, _ in count + 1 }
                    #expect(await pictures + sounds > 0)
                    guard name.hasSuffix("truncated_faststart.mp4") else { return await page.clear() }
                    var last: EngineEvent?
                    for await event in engine.events { last = event }
                    #expect(last == .failed("\(Corpus.folder)/\(name) is truncated: it ends before its last frame"))
                } catch {
                    #expect(!"\(error)".isEmpty && !(error is CancellationError))
                }
                await page.clear()
                #expect(await runtime.statistics().liveEngines == 0)
            }
        }
    }
}
