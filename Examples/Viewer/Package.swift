// swift-tools-version: 6.2
import PackageDescription

// A package of its own, so that nobody needs SDL who only wants FirstFrame: swift run --package-path Examples/Viewer viewer
let package = Package(
    name: "Viewer",
    dependencies: [.package(name: "FirstFrame", path: "../..")],
    targets: [
        .systemLibrary(name: "CSDL2", providers: [.apt(["libsdl2-dev"])]),
        .executableTarget(
            name: "viewer",
            dependencies: [
                "CSDL2", .product(name: "FirstFrame", package: "FirstFrame"),
                .product(name: "FirstFrameFFmpeg", package: "FirstFrame"),
            ], path: "Sources/Viewer"),
    ],
    swiftLanguageModes: [.v6]
)
