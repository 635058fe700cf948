// swift-tools-version: 6.2
import PackageDescription

// One target a room; a room imports only from lower floors. Docs/House.md has the plan, HouseTests guards it.

let strict: [SwiftSetting] = [
    .enableUpcomingFeature("ExistentialAny"),
    .enableUpcomingFeature("InternalImportsByDefault"),
    .enableUpcomingFeature("MemberImportVisibility"),
    .enableUpcomingFeature("NonisolatedNonsendingByDefault"),
    .treatAllWarnings(as: .error),
]

func room(_ name: String, _ dependencies: [String], linked libraries: [String] = []) -> Target {
    .target(
        name: name, dependencies: dependencies.map { .byName(name: $0) }, swiftSettings: strict,
        linkerSettings: libraries.map { .linkedLibrary($0) })
}

func tests(_ name: String, _ dependencies: [String]) -> Target {
    .testTarget(name: name, dependencies: dependencies.map { .byName(name: $0) }, swiftSettings: strict)
}

let package = Package(
    name: "FirstFrame",
    products: [
        .library(name: "FirstFrame", targets: ["FirstFrame"]),
        .library(name: "FirstFrameFFmpeg", targets: ["FirstFrameFFmpeg"]),
        .executable(name: "firstframe", targets: ["FirstFrameTool"]),
    ],
    targets: [
        // Floor 0: system libraries.
        .systemLibrary(name: "CLibuv", pkgConfig: "libuv", providers: [.apt(["libuv1-dev"])]),
        .systemLibrary(name: "CLibcurl", pkgConfig: "libcurl", providers: [.apt(["libcurl4-openssl-dev"])]),
        .systemLibrary(name: "CSQLite", pkgConfig: "sqlite3", providers: [.apt(["libsqlite3-dev"])]),
        .systemLibrary(name: "CMicrohttpd", pkgConfig: "libmicrohttpd", providers: [.apt(["libmicrohttpd-dev"])]),
        .systemLibrary(
            name: "CFFmpeg", pkgConfig: "libavformat",
            providers: [
                .apt([
                    "libavformat-dev", "libavcodec-dev", "libavfilter-dev", "libavutil-dev", "libswscale-dev",
                    "libswresample-dev",
                ])
            ]),
        // Floor 1: words and the loop.
        room("FeedVocabulary", []),
        room("EventLoop", ["CLibuv"]),
        // Floor 2: decisions, transport, storage.
        room("FeedStrategy", ["FeedVocabulary"]),
        room("HTTPTransport", ["FeedVocabulary", "EventLoop", "CLibcurl"]),
        room("MediaCache", ["FeedVocabulary", "EventLoop", "CSQLite"]),
        // Floor 3 to 6: bytes, engines, pages, FFmpeg.
        room("ResourceLoading", ["FeedVocabulary", "EventLoop", "FeedStrategy", "HTTPTransport", "MediaCache"]),
        room("Playback", ["FeedVocabulary", "EventLoop", "FeedStrategy", "ResourceLoading"]),
        room(
            "FirstFrame",
            [
                "FeedVocabulary", "EventLoop", "FeedStrategy", "HTTPTransport", "MediaCache", "ResourceLoading",
                "Playback",
            ]),
        room(
            "FirstFrameFFmpeg",
            ["FeedVocabulary", "EventLoop", "FeedStrategy", "ResourceLoading", "Playback", "CFFmpeg"]),
        // Floor 7: the worlds that the product is run in: a shaped server, a simulation.
        room("Origin", ["FeedVocabulary", "EventLoop", "CMicrohttpd"]),
        room(
            "Simulation",
            [
                "FeedVocabulary", "EventLoop", "FeedStrategy", "HTTPTransport", "MediaCache", "ResourceLoading",
                "Playback", "FirstFrame",
            ]),
        // Floor 8: the command and the examples.
        .executableTarget(
            name: "FirstFrameTool",
            dependencies: [
                "FeedVocabulary", "EventLoop", "FeedStrategy", "HTTPTransport", "MediaCache", "ResourceLoading",
                "Playback", "FirstFrame", "FirstFrameFFmpeg", "Origin", "Simulation",
            ], swiftSettings: strict),
        .executableTarget(
            name: "embed-example", dependencies: ["FirstFrame", "FirstFrameFFmpeg"], path: "Examples/Embed",
            swiftSettings: strict),
        .executableTarget(
            name: "webdav-audio", dependencies: ["FirstFrame", "FirstFrameFFmpeg"], path: "Examples/WebDAVAudio",
            swiftSettings: strict),
        // The yardstick of `firstframe bench start`: the same work without this package.
        .executableTarget(
            name: "bare-start", dependencies: ["CFFmpeg"], path: "Tests/Bench/BareStart",
            linkerSettings: ["avformat", "avcodec", "avutil"].map { .linkedLibrary($0) }),
        // Tests, a target a room, and the servers and worlds that they share.
        .target(
            name: "TestSupport",
            dependencies: ["EventLoop", "FeedVocabulary", "HTTPTransport", "MediaCache", "ResourceLoading"],
            path: "Tests/TestSupport", swiftSettings: strict),
        .executableTarget(
            name: "media-fuzz", dependencies: ["FirstFrame", "FirstFrameFFmpeg", "EventLoop", "TestSupport"],
            path: "Tests/MediaFuzz", swiftSettings: strict),
        tests("HouseTests", []),
        tests("FeedVocabularyTests", ["FeedVocabulary", "EventLoop"]),
        tests("EventLoopTests", ["EventLoop", "Simulation"]),
        tests("FeedStrategyTests", ["FeedStrategy", "FeedVocabulary", "EventLoop", "TestSupport"]),
        tests("HTTPTransportTests", ["HTTPTransport", "Origin", "EventLoop", "FeedVocabulary", "TestSupport"]),
        tests("MediaCacheTests", ["MediaCache", "EventLoop", "FeedVocabulary", "Simulation", "TestSupport"]),
        tests(
            "ResourceLoadingTests",
            [
                "ResourceLoading", "MediaCache", "HTTPTransport", "EventLoop", "FeedVocabulary", "FeedStrategy",
                "Simulation", "TestSupport",
            ]),
        tests("OriginTests", ["Origin", "HTTPTransport", "EventLoop", "FeedVocabulary"]),
        tests(
            "FirstFrameFFmpegTests",
            ["FirstFrame", "FirstFrameFFmpeg", "Playback", "Origin", "EventLoop", "TestSupport"]),
        tests(
            "FirstFrameTests",
            [
                "FirstFrame", "Simulation", "EventLoop", "FeedVocabulary", "FeedStrategy", "Playback",
                "ResourceLoading", "TestSupport",
            ]),
        tests("PlaybackTests", ["Playback", "EventLoop"]),
        tests("SimulationTests", ["Simulation", "FeedStrategy", "EventLoop", "Playback"]),
        tests("FirstFrameToolTests", ["FirstFrameTool"]),
    ],
    swiftLanguageModes: [.v6]
)

// A libFuzzer target needs flags that only a command line can give (make fuzz), so it exists on demand only.
if Context.environment["FIRSTFRAME_FUZZ"] != nil {
    package.targets.append(
        .executableTarget(
            name: "header-fuzz", dependencies: ["EventLoop", "FeedVocabulary", "HTTPTransport"], path: "Tests/Fuzz",
            swiftSettings: strict))
}
