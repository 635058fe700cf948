import EventLoop
import FirstFrame
import FirstFrameFFmpeg
import Foundation
import Origin

/// One page on the built-in origin, for one measurement: runtime, cache and connections are new, and gone afterwards.
struct TemporaryFeed {
    let folder: String
    var shape = NetworkShape()
    var strategies: [Strategy] = []

    /// - Parameter entries: Each under a URL of its own, whatever clip it is.
    func run<Value>(
        _ entries: [(id: String, clip: String)], _ body: (FeedPage, FeedRuntime) async throws -> Value
    ) async throws -> Value {
        let cache = try TemporaryFolder()
        let loop = try LoopThread()
        defer {
            loop.stop()
            cache.remove()
        }
        let origin = try await OriginServer.start(folder: folder, shape: shape, on: loop)
        let result: Result<Value, any Error>
        do {
            result = .success(try await measure(origin, cache, entries, body))
        } catch {
            result = .failure(error)
        }
        await origin.stop()
        return try result.get()
    }

    private func measure<Value>(
        _ origin: OriginServer, _ cache: TemporaryFolder, _ entries: [(id: String, clip: String)],
        _ body: (FeedPage, FeedRuntime) async throws -> Value
    ) async throws -> Value {
        var configuration = RuntimeConfiguration()
        configuration.cacheDirectory = cache.path
        let runtime = try await FeedRuntime.start(engines: FFmpegEngines(), configuration: configuration)
        do {
            let page = try await runtime.makePage("page", strategies: strategies)
            try await runtime.enter(page)
            try await page.setSources(
                try entries.enumerated().map { number, entry in
                    let url = "\(origin.baseURL)/\(entry.clip)?entry=\(number)"
                    return FeedEntry(try URLSource(url: url), id: EntryID(entry.id))
                })
            let value = try await body(page, runtime)
            await runtime.shutdown()
            return value
        } catch {
            await runtime.shutdown()
            throw error
        }
    }
}

/// A folder that is gone afterwards.
struct TemporaryFolder: Sendable {
    let path: String
    init() throws {
        let url = FileManager.default.temporaryDirectory.appending(path: "firstframe-\(UUID().uuidString)")
        try FileManager.default.createDirectory(at: url, withIntermediateDirectories: true)
        path = url.path(percentEncoded: false)
    }
    func remove() { try? FileManager.default.removeItem(atPath: path) }
}
