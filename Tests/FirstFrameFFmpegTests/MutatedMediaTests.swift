import EventLoop
import FirstFrame
import FirstFrameFFmpeg
import Foundation
import TestSupport
import Testing

extension FFmpegSuites {
    @Suite("Mutated media") struct MutatedMediaTests {
        /// Files made of each kind; FIRSTFRAME_MUTATIONS asks for more.
        private static let rounds =
            ProcessInfo.processInfo.environment["FIRSTFRAME_MUTATIONS"].flatMap { Int($0) } ?? 40

        @Test(
            "MEDIA-7: whatever is in a file, there are pictures, sound or an error, and the engine ends",
            arguments: ["first.mp4", "last.mp4", "sound.m4a", "late.ts", "covered.mp3", "dark.mp4"])
        func mutated(name: String) async throws {
            try await withPage([name]) { page, runtime, folder in
                let file = [UInt8](try Data(contentsOf: URL(filePath: "\(folder)/\(name)")))
                var options = EngineOptions()
                (options.pacing, options.audio) = (.none, .host)
                await page.setEngineOptions(options)
                var random = SplitMix64(seed: UInt64(name.utf8.reduce(0) { $0 &* 31 &+ Int($1) }.magnitude))
                for round in 0..<Self.rounds {
                    let path = "\(folder)/mutated-\(name)-\(round)"
                    try Data(MediaMutation.mutate(file, &random)).write(to: URL(filePath: path))
                    try await page.setSources([FeedEntry(try FileSource(path: path), id: EntryID("\(round)"))])
                    if let engine = try? await page.play(EntryID("\(round)")) {
                        async let sounds = Self.count(engine.audio)
                        _ = await Self.count(engine.frames)
                        _ = await sounds
                    }
                    await page.clear()
                    try FileManager.default.removeItem(atPath: path)
                    #expect(await runtime.statistics().liveEngines == 0)
                    try await runtime.enter(page)
                }
            }
        }

        /// To the end: an engine that nobody takes sound from waits, and its pictures wait with it.
        private static func count<Element>(_ stream: EngineStream<Element>) async -> Int {
            await stream.reduce(0) { count, _ in count + 1 }
        }
    }
}
