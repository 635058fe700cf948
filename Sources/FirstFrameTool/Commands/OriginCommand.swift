import EventLoop
import Foundation
import Origin

/// `firstframe origin DIR`
struct OriginCommand {
    let console: Console

    func run(_ arguments: Arguments) async throws -> Int32 {
        guard arguments.values.count == 1, let folder = arguments.values.first else {
            throw UsageError(text: "origin needs one folder")
        }
        var isDirectory: ObjCBool = false
        guard FileManager.default.fileExists(atPath: folder, isDirectory: &isDirectory), isDirectory.boolValue else {
            throw UsageError(text: "\(folder) is no folder")
        }
        let shape = NetworkShape(
            roundTrip: .milliseconds(try arguments.number("rtt", in: 0...10_000) ?? 0),
            bitsPerSecond: try arguments.number("mbit", in: 0.01...100_000).map { Int64($0 * 1_000_000) })
        let loop = try LoopThread()
        do {
            let port = UInt16(try arguments.number("port", in: 0...65_535) ?? 0)
            let origin = try await OriginServer.start(
                folder: URL(filePath: folder).standardizedFileURL.path(percentEncoded: false), shape: shape, on: loop,
                port: port)
            console.say("serving \(folder) at \(origin.baseURL)/; interrupt to stop")
            try? await Task.sleep(for: .seconds(Int64.max / 2_000_000_000))
            await origin.stop()
        } catch {
            loop.stop()
            throw error
        }
        loop.stop()
        return 0
    }
}
