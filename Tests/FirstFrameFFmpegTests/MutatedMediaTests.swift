import EventLoop
import FirstFrame
import FirstFrameFFmpeg
import Foundation
import Testing

extension FFmpegSuites {
    @Suite("Mutated media") struct MutatedMediaTests {
        /// Files made of each kind; FIRSTFRAME_MUTATIONS asks for more.
        private static let rounds =
            ProcessInfo.processInfo.environment["FIRSTFRAME_MUTATIONS"].flatMap { Int($0) } ?? 40

        /// Random bytes flipped, parts cut out, doubled or cut off, most of them in the head, where sizes and counts are.
        private static func mutate(_ file: Data, _ random: inout SplitMix64) -> Data {
            var bytes = [UInt8](file)
            for _ in 0..<Int.random(in: 1...20, using: &random) {
                let reach = Bool.random(using: &random) ? min(bytes.count, 4_096) : bytes.count
                guard reach > 16 else { break }
                let place = Int.random(in: 0..<reach, using: &random)
                switch Int.random(in: 0..<8, using: &random) {
                case 0: bytes.removeSubrange(place..<min(bytes.count, place + Int.random(in: 1...64, using: &random)))
                case 1: bytes.insert(contentsOf: bytes[place..<min(bytes.count, place + 64)], at: place)
                case 2: bytes.removeLast(min(bytes.count - 1, Int.random(in: 1...bytes.count, using: &random) / 4))
                case 3: for index in place..<min(bytes.count, place + 4) { bytes[index] = 0xFF }
                case _: bytes[place] = UInt8.random(in: 0...255, using: &random)
                }
            }
            return Data(bytes)
        }

        @Test(
            "MEDIA-7: whatever is in a file, there are pictures, sound or an error, and the engine ends",
            arguments: ["first.mp4", "last.mp4", "sound.m4a", "late.ts", "covered.mp3", "dark.mp4"])
        func mutated(name: String) async throws {
            try await withPage([name]) { page, runtime, folder in
                let file = try Data(contentsOf: URL(filePath: "\(folder)/\(name)"))
                var options = EngineOptions()
                (options.pacing, options.audio) = (.none, .host)
                await page.setEngineOptions(options)
                var random = SplitMix64(seed: UInt64(name.utf8.reduce(0) { $0 &* 31 &+ Int($1) }.magnitude))
                for round in 0..<Self.rounds {
                    let path = "\(folder)/mutated-\(name)-\(round)"
                    try Self.mutate(file, &random).write(to: URL(filePath: path))
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
