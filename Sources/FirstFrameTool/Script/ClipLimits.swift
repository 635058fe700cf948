import EventLoop
import FeedStrategy
import FirstFrame
import FirstFrameFFmpeg
import Foundation
import Origin

/// What a cold start of each clip costs at least: the network's part from the file's layout, the decoder's measured here.
struct ClipLimits: Sendable {
    private struct Clip: Sendable {
        let firstFrameEnd: Int64
        let tailBytes: Int64
        let decodeMs: Double
    }
    private let shape: NetworkShape
    private var clips: [String: Clip] = [:]

    /// Opens each clip some times from disk, without a network between.
    init(of names: [String], in folder: String, shape: NetworkShape) async throws {
        self.shape = shape
        let cache = try TemporaryFolder()
        let loop = try LoopThread()
        defer {
            loop.stop()
            cache.remove()
        }
        let origin = try await OriginServer.start(folder: folder, on: loop)
        var configuration = RuntimeConfiguration()
        configuration.cacheDirectory = cache.path
        let runtime: FeedRuntime
        do {
            runtime = try await FeedRuntime.start(engines: FFmpegEngines(), configuration: configuration)
        } catch {
            await origin.stop()
            throw error
        }
        do {
            let page = try await runtime.makePage("limits", strategies: [])
            try await runtime.enter(page)
            let entries = try Set(names).sorted().map {
                FeedEntry(try URLSource(url: origin.baseURL + "/" + $0), id: EntryID($0))
            }
            try await page.setSources(entries)
            for entry in entries {
                try Task.checkCancellation()
                if let clip = try? await Self.measure(entry.id, page, folder) { clips[entry.id.name] = clip }
            }
        } catch {
            await runtime.shutdown()
            await origin.stop()
            throw error
        }
        await runtime.shutdown()
        await origin.stop()
    }

    private static func measure(_ entry: EntryID, _ page: FeedPage, _ folder: String) async throws -> Clip? {
        var times: [Double] = []
        var end: Int64?
        for _ in 0..<4 {
            _ = try await page.play(entry)
            guard let metrics = await page.currentMetrics else { return nil }
            times.append((metrics.phases.open + metrics.phases.decode) / .milliseconds(1))
            end = metrics.media.firstFrameEnd
        }
        guard let end, let file = FileHandle(forReadingAtPath: folder + "/" + entry.name) else { return nil }
        defer { try? file.close() }
        let head = Array(try file.read(upToCount: 4096) ?? Data())
        var tail: Int64 = 0
        if case .indexLast(let offset) = ContainerHead(head) { tail = Int64(try file.seekToEnd()) - offset }
        return Clip(firstFrameEnd: end, tailBytes: max(0, tail), decodeMs: times.dropFirst().sorted()[1])
    }

    /// In milliseconds; `nil` for a clip that could not be measured.
    func limit(of name: String, isNewConnection: Bool) -> Double? {
        guard let clip = clips[name] else { return nil }
        // The request for an index at the end leaves when the first bytes have told that it is there.
        let all = shape.timeToDeliver(clip.firstFrameEnd + clip.tailBytes, isNewConnection: isNewConnection)
        var network = all
        if clip.tailBytes > 0 {
            let first = shape.timeToDeliver(1024, isNewConnection: isNewConnection)
            network = max(all, first + shape.timeToDeliver(clip.tailBytes, isNewConnection: false))
        }
        return network / .milliseconds(1) + clip.decodeMs
    }

    /// Median time to open and decode from disk, in milliseconds.
    var medianDecode: Double? {
        let times = clips.values.map(\.decodeMs).sorted()
        return times.isEmpty ? nil : times[times.count / 2]
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
