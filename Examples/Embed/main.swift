import FirstFrame
import FirstFrameFFmpeg
import Foundation

// A host app in small: two feed pages, one switch, and the first frame of each clip as a PNG file.
//   swift run embed-example FOLDER URL URL [URL …]
let arguments = CommandLine.arguments.dropFirst()
guard let folder = arguments.first, arguments.count >= 3 else {
    print("usage: embed-example FOLDER URL URL [URL ...]")
    exit(2)
}
let entries = try arguments.dropFirst().map { FeedEntry(try URLSource(url: $0)) }

let runtime = try await FeedRuntime.start(engines: FFmpegEngines())
let home = try await runtime.makePage("home")
let friends = try await runtime.makePage("friends")

for (page, list) in [(home, entries.prefix(entries.count - 1)), (friends, entries.suffix(1))] {
    try await runtime.enter(page)  // clears the other page first
    try await page.setSources(Array(list))
    for entry in list {
        let engine = try await page.play(entry.id)
        for await frame in engine.frames {
            try Data(frame.png()).write(to: URL(filePath: folder).appending(path: "\(page.id)-\(entry.id).png"))
            break  // a player would show every frame at once: they come at their time
        }
        if let metrics = await page.currentMetrics {
            print(page.id, entry.id, metrics.servedAs.rawValue, metrics.timeToFirstFrame)
        }
    }
}
await runtime.shutdown()
