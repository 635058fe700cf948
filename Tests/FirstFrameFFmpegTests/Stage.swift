import EventLoop
import FirstFrame
import FirstFrameFFmpeg
import Foundation
import Origin
import Testing

/// Suites that decode, one after the other: what depends on a player's own pace is not disturbed by other players.
@Suite("With FFmpeg", .serialized) enum FFmpegSuites {}

/// For tests that take frames and sound as fast as they are decoded.
func allFrames() -> EngineOptions {
    var options = EngineOptions()
    options.pacing = .none
    return options
}

/// Clips made once a run with the `ffmpeg` command, an origin that serves them, and a runtime that plays them.
actor Stage {
    static let shared = Stage()
    private var folder: String?

    func clips() throws -> String {
        if let folder { return folder }
        let path = FileManager.default.temporaryDirectory.path() + "/ff-clips-\(getpid())"
        try FileManager.default.createDirectory(atPath: path, withIntermediateDirectories: true)
        let sound = ["-f", "lavfi", "-i", "sine=frequency=440:duration=2"]
        let codecs = ["-c:v", "libx264", "-pix_fmt", "yuv420p", "-preset", "veryfast", "-bf", "2", "-c:a", "aac"]
        try ffmpeg(
            ["-f", "lavfi", "-i", "testsrc2=size=360x640:rate=30:duration=2"] + sound + codecs + [
                "-movflags", "+faststart", "\(path)/first.mp4",
            ])
        try ffmpeg(
            ["-f", "lavfi", "-i", "testsrc=size=320x240:rate=25:duration=2"] + sound + codecs + ["\(path)/last.mp4"])
        try ffmpeg(
            ["-f", "lavfi", "-i", "testsrc2=size=318x242:rate=24:duration=2"] + codecs.dropLast(2) + [
                "-movflags", "+faststart", "\(path)/silent.mp4",
            ])
        // More samples a second than one thread decodes.
        try ffmpeg(
            ["-f", "lavfi", "-i", "testsrc2=size=1280x720:rate=100:duration=0.4"] + codecs.dropLast(2) + [
                "-g", "16", "\(path)/fast.mp4",
            ])
        try ffmpeg(sound + ["-c:a", "aac", "\(path)/sound.m4a"])
        try ffmpeg([
            "-i", "\(path)/silent.mp4", "-c", "copy", "-movflags", "frag_keyframe+empty_moov+default_base_moof",
            "\(path)/fragments.mp4",
        ])
        try ffmpeg(
            ["-f", "lavfi", "-i", "testsrc=size=320x240:rate=25:duration=2", "-f", "lavfi", "-i", "sine=duration=6"]
                + codecs + ["-movflags", "+faststart", "\(path)/longsound.mp4"])
        try ffmpeg(
            [
                "-f", "lavfi", "-i", "testsrc=size=320x240:rate=25:duration=4", "-c:v", "libx264", "-g", "25",
                "-preset",
                "veryfast", "-muxdelay", "1.4", "-muxpreload", "1.4", "\(path)/late.ts",
            ])
        try ffmpeg(
            [
                "-f", "lavfi", "-i", "color=black:size=320x240:rate=25:duration=1", "-f", "lavfi", "-i",
                "testsrc=size=320x240:rate=25:duration=1", "-filter_complex", "[0][1]concat=n=2", "-c:v", "libx264",
                "-pix_fmt", "yuv420p", "-movflags", "+faststart", "\(path)/dark.mp4",
            ])
        try ffmpeg(sound + ["-c:a", "libmp3lame", "-id3v2_version", "0", "\(path)/plain.mp3"])
        // A tag of 3 MB, as pictures make it: its size is written in four times seven bits.
        let tag =
            [0x49, 0x44, 0x33, 3, 0, 0]
            + [3_000_000 >> 21, 3_000_000 >> 14, 3_000_000 >> 7, 3_000_000].map { $0 & 0x7F }
        let sounds = try Data(contentsOf: URL(filePath: path + "/plain.mp3"))
        try (Data(tag.map { UInt8($0) }) + Data(count: 3_000_000) + sounds).write(
            to: URL(filePath: path + "/tagged.mp3"))
        try makePlaylists(in: path)
        try makeTracks(in: path)
        try ffmpeg(["-f", "lavfi", "-i", "testsrc2=size=64x48:rate=1", "-frames:v", "1", "\(path)/cover.png"])
        try ffmpeg([
            "-i", "\(path)/plain.mp3", "-i", "\(path)/cover.png", "-map", "0:a", "-map", "1:v", "-c", "copy",
            "-disposition:v:0", "attached_pic", "-id3v2_version", "3", "\(path)/covered.mp3",
        ])
        let whole = try Data(contentsOf: URL(filePath: path + "/first.mp4"))
        try whole.prefix(whole.count / 2).write(to: URL(filePath: path + "/truncated.mp4"))
        try whole.prefix(600).write(to: URL(filePath: path + "/stump.mp4"))
        try Data("this is a text, not a clip\n".utf8).write(to: URL(filePath: path + "/text.mp4"))
        try Data().write(to: URL(filePath: path + "/empty.mp4"))
        folder = path
        return path
    }

    /// A clip with sound in two languages and subtitles inside, and subtitles beside it.
    private func makeTracks(in path: String) throws {
        let cues = "1\n00:00:00,500 --> 00:00:01,000\n<i>first</i>\n\n2\n00:00:01,200 --> 00:00:03,000\nsecond\nline\n"
        try cues.write(toFile: path + "/text.srt", atomically: true, encoding: .utf8)
        try "WEBVTT\n\n00:00.200 --> 00:00.700\n<v Somebody>beside\n".write(
            toFile: path + "/text.vtt", atomically: true, encoding: .utf8)
        try ffmpeg([
            "-f", "lavfi", "-i", "testsrc=size=320x240:rate=25:duration=4", "-f", "lavfi", "-i",
            "sine=frequency=440:duration=4", "-f", "lavfi", "-i", "sine=frequency=880:duration=4", "-i",
            path + "/text.srt", "-map", "0", "-map", "1", "-map", "2", "-map", "3", "-c:v", "libx264", "-g", "25",
            "-preset", "veryfast", "-pix_fmt", "yuv420p", "-c:a", "aac", "-c:s", "srt", "-metadata:s:a:0",
            "language=eng", "-metadata:s:a:1", "language=fre", "-metadata:s:a:1", "title=Other", "-metadata:s:s:0",
            "language=ger", path + "/tracks.mkv",
        ])
    }

    /// Playlists of every kind: MPEG-TS, encrypted, parts in a file each and in one, sound apart.
    private func makePlaylists(in path: String) throws {
        let source = [
            "-f", "lavfi", "-i", "testsrc=size=320x240:rate=25:duration=4", "-f", "lavfi", "-i", "sine=duration=4",
            "-c:v",
            "libx264", "-pix_fmt", "yuv420p", "-preset", "veryfast", "-bf", "2", "-g", "25", "-c:a", "aac", "-shortest",
        ]
        let playlist = ["-f", "hls", "-hls_time", "1", "-hls_playlist_type", "vod"]
        for folder in ["ts", "mp4", "one", "key", "apart"] {
            try FileManager.default.createDirectory(
                atPath: "\(path)/hls/\(folder)", withIntermediateDirectories: true)
        }
        try ffmpeg(source + playlist + ["\(path)/hls/ts/index.m3u8"])
        try ffmpeg(source + playlist + ["-hls_segment_type", "fmp4", "\(path)/hls/mp4/index.m3u8"])
        try ffmpeg(
            source + playlist + [
                "-hls_segment_type", "fmp4", "-hls_flags", "single_file", "\(path)/hls/one/index.m3u8",
            ])
        try Data(0..<16).write(to: URL(filePath: path + "/hls/key/key.bin"))
        try Data("key.bin\n\(path)/hls/key/key.bin\n".utf8).write(to: URL(filePath: path + "/hls/key/info"))
        try ffmpeg(source + playlist + ["-hls_key_info_file", "\(path)/hls/key/info", "\(path)/hls/key/index.m3u8"])
        try ffmpeg(
            source + ["-map", "0:v", "-map", "1:a"] + playlist + [
                "-hls_segment_type", "fmp4", "-var_stream_map", "a:0,agroup:sound v:0,agroup:sound",
                "-master_pl_name", "index.m3u8", "\(path)/hls/apart/%v.m3u8",
            ])
    }
}

@discardableResult func ffmpeg(_ arguments: [String]) throws -> Data {
    let process = Process()
    process.executableURL = URL(filePath: "/usr/bin/env")
    process.arguments = ["ffmpeg", "-hide_banner", "-loglevel", "error", "-nostdin", "-y"] + arguments
    let output = Pipe()
    process.standardOutput = output
    try process.run()
    let data = output.fileHandleForReading.readDataToEndOfFile()
    process.waitUntilExit()
    try #require(process.terminationStatus == 0, "ffmpeg failed")
    return data
}

/// The frames that the `ffmpeg` command decodes, one after the other, without padding.
func reference(_ file: String, _ options: [String] = []) throws -> Data {
    try ffmpeg(
        options + ["-noautorotate", "-i", file, "-map", "0:v:0", "-fps_mode", "passthrough", "-f", "rawvideo", "-"])
}

func withPage(
    _ names: [String], strategies: [Strategy] = [], options: EngineOptions = EngineOptions(),
    _ body: (FeedPage, FeedRuntime, String) async throws -> Void
) async throws {
    let folder = try await Stage.shared.clips()
    let loop = try LoopThread()
    let origin = try await OriginServer.start(folder: folder, on: loop)
    let cache = FileManager.default.temporaryDirectory.path() + "/ff-cache-\(UUID().uuidString)"
    var configuration = RuntimeConfiguration()
    configuration.cacheDirectory = cache
    let runtime = try await FeedRuntime.start(engines: FFmpegEngines(), configuration: configuration)
    let page = try await runtime.makePage("page", strategies: strategies)
    await page.setEngineOptions(options)
    try await runtime.enter(page)
    try await page.setSources(
        try names.map { FeedEntry(try URLSource(url: origin.baseURL + "/" + $0), id: EntryID($0)) })
    let result: Result<Void, any Error>
    do { result = .success(try await body(page, runtime, folder)) } catch { result = .failure(error) }
    await runtime.shutdown()
    await origin.stop()
    loop.stop()
    try? FileManager.default.removeItem(atPath: cache)
    try result.get()
}
