import CSDL2
import FirstFrame
import Foundation

// A feed in a window: wheel and arrow keys swipe, Tab switches pages.
//   viewer FILE-OR-URL… [-- FILE-OR-URL…]…
let usage = """
    usage: viewer FILE-OR-URL ... [-- FILE-OR-URL ...]
    Each list is a page. Up, Down, wheel: swipe. Tab: the next page. Left, Right: seek. Space: pause. M: mute.
    F: full screen. Q, Escape: quit.

    """
let lists = CommandLine.arguments.dropFirst().split(separator: "--").map(Array.init)
guard !lists.isEmpty, !CommandLine.arguments.contains("--help") else {
    FileHandle.standardError.write(Data(usage.utf8))
    exit(lists.isEmpty ? 2 : 0)
}

guard SDL_Init(SDL_INIT_VIDEO | SDL_INIT_AUDIO) == 0 || SDL_Init(SDL_INIT_VIDEO) == 0 else {
    FileHandle.standardError.write(Data("\(ViewerError("no display"))\n".utf8))
    exit(1)
}
do {
    let screen = try Screen(title: "FirstFrame", width: 480, height: 720)
    let feed = try await Feed(lists, on: screen)
    try await feed.enter()
    try await run(feed, screen)
    await feed.close()
} catch {
    FileHandle.standardError.write(Data("\(error)\n".utf8))
    exit(1)
}
SDL_Quit()

/// Until the viewer quits. Between events the main thread is free for frames.
@MainActor func run(_ feed: Feed, _ screen: Screen) async throws {
    while true {
        var event = SDL_Event()
        while SDL_PollEvent(&event) != 0 {
            switch SDL_EventType(event.type) {
            case SDL_QUIT: return
            case SDL_WINDOWEVENT: screen.draw()
            case SDL_MOUSEWHEEL where event.wheel.y != 0: await feed.swipe(by: event.wheel.y < 0 ? 1 : -1)
            case SDL_KEYDOWN:
                switch Int(event.key.keysym.sym) {
                case Int(SDLK_q.rawValue), Int(SDLK_ESCAPE.rawValue): return
                case Int(SDLK_DOWN.rawValue): await feed.swipe(by: 1)
                case Int(SDLK_UP.rawValue): await feed.swipe(by: -1)
                case Int(SDLK_TAB.rawValue): try await feed.switchPage()
                case Int(SDLK_LEFT.rawValue): await feed.seek(by: -5)
                case Int(SDLK_RIGHT.rawValue): await feed.seek(by: 5)
                case Int(SDLK_SPACE.rawValue): await feed.togglePause()
                case Int(SDLK_m.rawValue): await feed.toggleMute()
                case Int(SDLK_f.rawValue): screen.toggleFullscreen()
                case _: break
                }
            case _: break
            }
        }
        try await Task.sleep(for: .milliseconds(5))
    }
}
