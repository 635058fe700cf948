import EventLoop
import FeedStrategy
import FeedVocabulary
import FirstFrame
import Foundation
import Origin

/// What a cold start of each clip costs at least: the network's part from the file's layout, the decoder's measured here.
struct ClipLimits: Sendable {
    private struct Clip: Sendable {
        let firstFrameEnd: Int64
        let tailBytes: Int64
        let decodeMs: Double
    }
    private let clips: [String: Clip]

    /// Opens each clip some times from disk, without a network between.
    init(of names: [String], in folder: String) async throws {
        clips = try await TemporaryFeed(folder: folder).run(Set(names).sorted().map { (id: $0, clip: $0) }) { page, _ in
            var clips: [String: Clip] = [:]
            for entry in await page.entries {
                try Task.checkCancellation()
                if let clip = try? await Self.measure(entry, page, folder) { clips[entry.name] = clip }
            }
            return clips
        }
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
        return Clip(firstFrameEnd: end, tailBytes: max(0, tail), decodeMs: times.dropFirst().median ?? 0)
    }

    /// In milliseconds, what our own decoder takes included; `nil` for a clip that could not be measured.
    func limit(of name: String, on shape: NetworkShape, isNewConnection: Bool) -> Double? {
        guard let clip = clips[name] else { return nil }
        return networkLimit(of: name, on: shape, isNewConnection: isNewConnection).map { $0 + clip.decodeMs }
    }

    /// The network's part of it.
    func networkLimit(of name: String, on shape: NetworkShape, isNewConnection: Bool) -> Double? {
        guard let clip = clips[name] else { return nil }
        // The request for an index at the end leaves when the first bytes have told that it is there.
        let all = shape.timeToDeliver(clip.firstFrameEnd + clip.tailBytes, isNewConnection: isNewConnection)
        var network = all
        if clip.tailBytes > 0 {
            let first = shape.timeToDeliver(1024, isNewConnection: isNewConnection)
            network = max(all, first + shape.timeToDeliver(clip.tailBytes, isNewConnection: false))
        }
        return network / .milliseconds(1)
    }

    /// Median time to open and decode from disk, in milliseconds.
    var medianDecode: Double? { clips.values.map(\.decodeMs).median }
}
