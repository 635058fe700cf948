import Dispatch
import FirstFrame
import Foundation

@main enum FirstFrameTool {
    static let help = """
        firstframe: feeds of short clips, headless

          firstframe demo                 the demo: two tabs over a slow network, with and without the strategies
              --clips DIR                   where its clips are made once (default: the user's cache directory)
          firstframe run SCRIPT           a script of pages, sources and steps (JSON5; see Examples/two-tabs.json5)
          firstframe play URL...          plays each URL or file to its end; on a terminal with a status line
              --start SECONDS               begins there, exact to the frame
              --loop N                      N times more, without a gap
              --rate N                      0.25 to 4 times as fast, with the pitch kept
              --snapshot FILE               writes the first frame of the last URL as PNG
          firstframe origin DIR           serves a folder on loopback over a shaped network, until interrupted
              --port N                      port (default: a free one)
              --rtt MS                      round-trip time (default: 0)
              --mbit N                      megabits a second (default: unlimited)
          firstframe fetch URL            downloads through loader and cache; goes on where an interrupted one ended
              -o, --output FILE             to a file, which appears when it is whole (default: standard output)
              -r, --range A-B               bytes A to B; also A- and -N, the last N
              -H, --header 'NAME: VALUE'    sent to the URL's own origin; may be given more than once
              -u, --user USER:PASSWORD      Digest or Basic, as the server asks
              --cacert FILE                 authorities to trust instead of the system's (PEM)
              --progress                    a progress line also where standard error is no terminal
          firstframe cache ls             what the cache holds, most recently used first
          firstframe cache info KEY       one clip: length, type, validator, the ranges that are there
          firstframe cache verify         compares files, index and checksums; drops what is not right
          firstframe cache clear [KEY]    removes everything, or one clip
              --keep N                      all but the N used last
          firstframe cache export KEY FILE
          firstframe simulate             whole runtimes in virtual time, one a seed; every step is checked
              --seeds N                     how many (default: 200);  --first N  from which on (default: 0)
              --jobs N                      at a time (default: one a core);  --unshrunk  failing seeds as they are
              --seed N                      this one, step by step;  --trace FILE  for Perfetto (Trace Event JSON)
              --steps LIST                  with these of its user's steps only, such as 0,4,7
          firstframe stress               random calls from many tasks on real loop, server and engines
              --pages N, --tasks N          how many (default: 200 and 16);  --seconds N  how long (default: 30)
              --clips DIR                   as for the demo;  --seed N  of the calls (default: 1)
          firstframe bench scale          what pages, entries and switches cost as they become many
          firstframe bench swipes         viewers who swipe every 3 s, and who fling through ten clips in 2 s
              --clips DIR                   as for the demo
          firstframe bench start          first frames of each clip of a folder, cold, preloaded and pre-rendered, at four
                                          networks, beside the network's limit and a bare program on libavformat
              --clips DIR                   the folder (default: the demo's clips)
          firstframe bench costs          a download beside curl's, a hop to the loop, engines that play or hold a frame
          firstframe help, firstframe version

        everywhere:
          --json                          one JSON object on standard output, words on standard error
          --cache DIR                     cache directory (play, cache: $XDG_CACHE_HOME/firstframe; run, demo: an empty
                                          one; fetch: beside the output until it is whole)

        exit status: 0 when all went well, 1 when something could not be played or a promise was broken, 2 for a wrong command line or script,
        130 when interrupted
        """

    static func main() async {
        signal(SIGPIPE, SIG_IGN)
        let words = CommandLine.arguments.dropFirst()
        let console = Console(isJSON: words.contains("--json"))
        let work = Task { await carryOut(words, console) }
        signal(SIGINT, SIG_IGN)
        signal(SIGTERM, SIG_IGN)
        let sources = [SIGINT, SIGTERM].map { number in
            let source = DispatchSource.makeSignalSource(signal: number, queue: .global())
            source.setEventHandler { @Sendable in work.cancel() }
            source.resume()
            return source
        }
        let status = await work.value
        withExtendedLifetime(sources) {}
        exit(status)
    }

    private static func carryOut(_ words: ArraySlice<String>, _ console: Console) async -> Int32 {
        do {
            let rest = words.dropFirst()
            switch words.first {
            case "demo":
                let arguments = try Arguments(rest, options: ["clips", "cache"], flags: ["json"])
                return try await DemoCommand(console: console).run(arguments)
            case "run":
                let arguments = try Arguments(rest, options: ["cache"], flags: ["json"])
                return try await RunCommand(console: console).run(arguments)
            case "play":
                let arguments = try Arguments(
                    rest, options: ["cache", "snapshot", "start", "loop", "rate"], flags: ["json"])
                return try await PlayCommand(console: console).run(arguments)
            case "origin":
                let arguments = try Arguments(rest, options: ["port", "rtt", "mbit"], flags: ["json"])
                return try await OriginCommand(console: console).run(arguments)
            case "fetch":
                let arguments = try Arguments(
                    rest, options: ["output", "range", "header", "user", "cacert", "cache"],
                    flags: ["json", "progress"], letters: ["o": "output", "r": "range", "H": "header", "u": "user"])
                return try await FetchCommand(console: console).run(arguments)
            case "cache":
                let arguments = try Arguments(rest, options: ["cache", "keep"], flags: ["json"])
                return try await CacheCommand(console: console).run(arguments)
            case "simulate":
                let arguments = try Arguments(
                    rest, options: ["seeds", "first", "jobs", "seed", "trace", "steps"],
                    flags: ["json", "quiet", "unshrunk"])
                return try await SimulateCommand(console: console).run(arguments)
            case "stress":
                let arguments = try Arguments(
                    rest, options: ["pages", "tasks", "seconds", "seed", "clips"], flags: ["json"])
                return try await StressCommand(console: console).run(arguments)
            case "bench":
                return try await BenchCommand(console: console).run(
                    try Arguments(rest, options: ["clips"], flags: ["json"]))
            case "help", "--help", "-h":
                console.say(help)
                return 0
            case "version", "--version":
                console.say("firstframe 0.1.0")
                return 0
            case nil:
                console.complain(help)
                return 2
            case let word?: throw UsageError(text: "there is no command \"\(word)\"")
            }
        } catch let error as UsageError {
            console.complain("\(error)")
            return 2
        } catch let error as ScriptError {
            console.complain("the script is wrong at \(error)")
            return 2
        } catch is CancellationError {
            console.complain("interrupted")
            return 130
        } catch {
            console.complain(Task.isCancelled ? "interrupted" : "\(error)")
            return Task.isCancelled ? 130 : 1
        }
    }
}
