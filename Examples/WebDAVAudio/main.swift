import FirstFrame
import FirstFrameFFmpeg
import Foundation

// A music player without a screen: plays the MP3, M4A and FLAC files of a WebDAV folder. What was played once plays from
// disk afterwards, also without the server.
//   swift run webdav-audio https://cloud.example/music --user NAME:PASSWORD | aplay -f FLOAT_LE -c 2 -r 44100
// Sound goes to standard output as 32-bit floats. Keys, each with Enter: n next, p previous, a number of seconds to go
// there, q quit.
let usage = """
    usage: webdav-audio FOLDER-URL [--user NAME:PASSWORD] [--cache DIR] [--from SECONDS] [--fast]
      --user    the login of the server
      --cache   where music is kept (default: the user's cache directory)
      --from    where in the first track to begin
      --fast    as fast as the reader of standard output takes the sound, for pipes into files
    """

func complain(_ text: String) { FileHandle.standardError.write(Data((text + "\n").utf8)) }

var words = CommandLine.arguments.dropFirst()
var options: [String: String] = [:]
var isFast = false
var folder: String?
while let word = words.popFirst() {
    switch word {
    case "--fast": isFast = true
    case "--user", "--cache", "--from":
        guard let value = words.popFirst() else {
            complain("\(word) needs a value\n\(usage)")
            exit(2)
        }
        options[word] = value
    case _ where folder == nil && !word.hasPrefix("-"): folder = word.hasSuffix("/") ? word : word + "/"
    case _:
        complain("\(word) is not known here\n\(usage)")
        exit(2)
    }
}
guard let folder, let from = options["--from"].map({ Double($0) }) ?? 0, from >= 0, from.isFinite else {
    complain(usage)
    exit(2)
}
let login = options["--user"].map { $0.split(separator: ":", maxSplits: 1, omittingEmptySubsequences: false) }
if let login, login.count != 2 {
    complain("--user is written NAME:PASSWORD")
    exit(2)
}

do {
    var configuration = RuntimeConfiguration()
    if let directory = options["--cache"] { configuration.cacheDirectory = directory }
    configuration.cacheCapacity = 4 * 1024 * 1024 * 1024
    let runtime = try await FeedRuntime.start(engines: FFmpegEngines(), configuration: configuration)
    if let login {
        let credential = Credential.login(user: String(login[0]), password: String(login[1]))
        try await runtime.setCredentials(credential, for: folder, identity: String(login[0]))
    }
    var failures = 0
    do {
        let tracks = try await MusicFolder(url: folder, login: login.map { (String($0[0]), String($0[1])) })
            .tracks(rememberedIn: configuration.cacheDirectory)
        guard !tracks.isEmpty else { throw MusicFolderError(text: "there is no MP3, M4A or FLAC file in \(folder)") }
        failures = try await play(tracks, on: runtime, from: .seconds(from))
    } catch {
        complain("\(error)")
        failures = 1
    }
    await runtime.shutdown()
    exit(failures == 0 ? 0 : 1)
} catch {
    complain("\(error)")
    exit(1)
}

/// - Returns: Tracks that could not be played.
@MainActor func play(_ tracks: [String], on runtime: FeedRuntime, from start: Duration) async throws -> Int {
    let page = try await runtime.makePage("music", strategies: [.preload])
    try await runtime.enter(page)
    try await page.setSources(try tracks.map { FeedEntry(try URLSource(url: $0), id: EntryID($0)) })
    let keys = Keys()
    var (index, start, failures) = (0, start, 0)
    while tracks.indices.contains(index) {
        var engineOptions = EngineOptions()
        (engineOptions.audio, engineOptions.startTime) = (.host, start)
        engineOptions.pacing = isFast ? .none : .clock
        start = .zero
        do {
            let engine = try await page.play(EntryID(tracks[index]), options: engineOptions)
            complain("▶ \(title(tracks[index]))")
            for await buffer in engine.audio {
                var isThere = true
                buffer.samples.withUnsafeBytes { bytes in
                    isThere = (try? FileHandle.standardOutput.write(contentsOf: bytes)) != nil
                }
                guard isThere else { return failures }
                if keys.isWaiting { break }
            }
            for await event in engine.events {
                if case .failed(let reason) = event {
                    complain("\(title(tracks[index])): \(reason)")
                    failures += 1
                }
                break
            }
        } catch {
            complain("\(title(tracks[index])): \(error)")
            failures += 1
        }
        switch keys.take() {
        case .quit: return failures
        case .previous: index = max(0, index - 1)
        case .seek(let seconds): start = .seconds(seconds)
        case .next, nil: index += 1
        }
    }
    return failures
}

func title(_ url: String) -> String {
    let name = url.split(separator: "/").last.map(String.init) ?? url
    return name.removingPercentEncoding ?? name
}
