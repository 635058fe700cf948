import EventLoop
package import FeedStrategy
package import FeedVocabulary

/// What the file told.
package struct PrefetchReport: Hashable, Sendable {
    package var firstFrameEnd: Int64?
    package init() {}
}

/// No byte came for as long as others were kept waiting.
package struct PrefetchStalled: Error { package init() {} }

extension ResourceLoaders {
    /// An index larger than this is not fetched ahead: it would cost more than the clip's own start.
    static var largestIndex: Int64 { ByteSize.megabytes(4) }
    /// The boxes before `mdat` of a real file end long before this.
    private static var largestHead: Int { 4096 }
    /// What tells where the index is, and holds most indexes.
    private static var firstLook: Int64 { ByteSize.kilobytes(32) }
    /// How long a prefetch may stand still; shorter than a request's own limit, as others wait behind it.
    private static var patience: Duration { .seconds(4) }

    /// Brings the head of a resource to disk, and its tail when the index (`moov`) is there. What is on disk already is
    /// not fetched again.
    ///
    /// - Throws: ``LoadError``, ``PrefetchStalled``, or `CancellationError`; what came until then stays on disk.
    @discardableResult
    package func prefetch(_ resource: Resource, _ amount: StrategyPlanner.Amount, priority: LoadPriority) async throws
        -> PrefetchReport
    {
        let reader = try await open(resource, priority: priority, readAhead: 0)
        let watch = PrefetchWatch()
        watchProgress(of: reader, watch, since: reader.availableInAll)
        do {
            let report = try await bring(amount, by: reader)
            end(watch)
            await reader.close()
            return report
        } catch {
            end(watch)
            await reader.close()
            throw watch.isStalled ? PrefetchStalled() : error
        }
    }

    private func bring(_ amount: StrategyPlanner.Amount, by reader: ByteReader) async throws -> PrefetchReport {
        var wanted: [ByteRange]
        switch amount {
        case .bytes(let size): wanted = [0..<size]
        case .seconds: wanted = [0..<Self.firstLook]
        case .firstFrame(let guess, _): wanted = [0..<max(guess, Self.firstLook)]
        }
        wanted = wanted.filter { !$0.isEmpty }
        guard let first = wanted.first else { return PrefetchReport() }
        await reader.want(wanted)
        if try await isPlaylistBrought(amount, by: reader, isTop: true) { return PrefetchReport() }
        let (index, indexRange) = try await index(of: reader, head: first.length, wanted: &wanted)
        var report = PrefetchReport()
        report.firstFrameEnd = index?.firstFrameEnd
        let end: Int64
        switch amount {
        case .bytes(let size): end = size
        case .seconds(let seconds, let fallback, let largest):
            end = min(largest, index?.end(ofFirst: seconds) ?? fallback)
        case .firstFrame(let guess, let largest): end = min(largest, index?.firstFrameEnd ?? guess)
        }
        wanted = [0..<max(end, indexRange.map { $0.lowerBound == 0 ? $0.upperBound : 0 } ?? 0)]
        if let indexRange, indexRange.lowerBound > 0 { wanted.append(indexRange) }
        await reader.want(wanted)
        for range in wanted { try await reader.wait(for: range) }
        return report
    }

    /// Bytes of a small file, as one who plays it reads them.
    package func readAll(_ resource: Resource, most: Int64) async throws -> [UInt8] {
        let reader = try await open(resource, priority: .current, readAhead: FirstRequest.usual)
        let result: Result<[UInt8], any Error>
        do { result = .success(try await reader.readAll(count: Int(most) + 1)) } catch { result = .failure(error) }
        await reader.close()
        let bytes = try result.get()
        guard bytes.count <= most else {
            let name = WebOrigin.redacted(resource.urls[0].url)
            throw LoadError.unusableAnswer(reason: "it has more than \(most / 1024) KB", url: name)
        }
        return bytes
    }

    /// What an engine reads first of a playlist: the one that it begins with, and the head of its first parts.
    ///
    /// - Returns: Whether it is one.
    private func isPlaylistBrought(
        _ amount: StrategyPlanner.Amount, by reader: ByteReader, isTop: Bool
    ) async throws -> Bool {
        guard HLSPlaylist.begins(try await reader.readAll(count: HLSPlaylist.beginning.count)) else { return false }
        let text = try await reader.readAll(count: HLSPlaylist.largestText + 1)
        // What it refers to, and whether it is one at all, is for whoever plays it to complain about.
        switch try? HLSPlaylist(String(decoding: text, as: UTF8.self)) {
        case .variants(let variants) where isTop:
            for uri in variants.first?.playlists ?? [] {
                _ = try await isPlaylistBrought(amount, by: try await reader.openRelated(uri), isTop: false)
            }
        case .media(let media):
            var (rest, until): (Int64, Duration) =
                switch amount {
                case .bytes(let size): (size, .zero)
                case .firstFrame(let guess, _): (guess, .zero)
                case .seconds(let seconds, _, let largest): (largest, .seconds(seconds))
                }
            if let map = media.parts.first?.initialization { try await bring(map, most: &rest, by: reader) }
            for part in media.parts.prefix(Self.mostParts) where part.start < until || until == .zero {
                let before = rest
                try await bring(part.place, most: &rest, by: reader)
                if rest <= 0 || rest == before { break }
            }
        case .variants, nil: break
        }
        return true
    }

    /// More are small ones, and each is a request.
    private static var mostParts: Int { 8 }

    private func bring(_ place: HLSPlaylist.Place, most: inout Int64, by playlist: ByteReader) async throws {
        let reader = try await playlist.openRelated(place.uri)
        let whole = place.range ?? 0..<Int64.max
        let range = ByteRange(offset: whole.lowerBound, saturatingLength: min(whole.length, most))
        await reader.want([range])
        try await reader.wait(for: range)
        most -= reader.available(in: range)
    }

    /// The index of an MP4, wherever it lies, and the bytes that a decoder needs to find it; fetches what is missing.
    private func index(
        of reader: ByteReader, head size: Int64, wanted: inout [ByteRange]
    ) async throws -> (MovieIndex?, ByteRange?) {
        var needed = 64
        while needed <= min(Self.largestHead, Int(clamping: size)) {
            try await reader.wait(for: 0..<Int64(needed))
            let head = try await reader.read(at: 0, count: needed)
            switch ContainerHead(head) {
            case .noIndex: return (nil, nil)
            case .needs(let bytes):
                guard head.count == needed else { return (nil, nil) }  // the file ends here
                needed = bytes
            case .indexFirst(let box):
                // A head that the index does not fit into is all that was asked for.
                guard box.upperBound <= max(size, Self.largestIndex) else { return (nil, nil) }
                return (try await movieIndex(at: box, of: reader, &wanted), 0..<box.upperBound)
            case .indexLast(let offset):
                guard let length = reader.length, offset < length, length - offset <= Self.largestIndex else {
                    return (nil, nil)
                }
                return (try await movieIndex(at: offset..<length, of: reader, &wanted), offset..<length)
            }
        }
        return (nil, nil)
    }

    private func movieIndex(
        at range: ByteRange, of reader: ByteReader, _ wanted: inout [ByteRange]
    ) async throws -> MovieIndex? {
        if !ByteRangeSet(wanted).contains(range) {
            wanted.append(range)
            await reader.want(wanted)
        }
        try await reader.wait(for: range)
        let bytes = try await reader.readAll(at: range.lowerBound, count: Int(range.length))
        // Other boxes may come before the index at the end.
        var rest = bytes[...]
        while rest.count >= 16 {
            if let index = MovieIndex(moov: rest) { return index }
            guard let next = ContainerHead.sizeOfBox(rest), next < rest.count else { return nil }
            rest = rest.dropFirst(next)
        }
        return nil
    }

    // MARK: Patience

    private func watchProgress(of reader: ByteReader, _ watch: PrefetchWatch, since bytes: Int64) {
        let (key, id) = (reader.key, reader.id)
        watch.timer = loop.schedule(at: loop.now.advanced(by: Self.patience)) { [weak self, weak reader] in
            self?.assumeIsolated { loaders in
                guard let reader, !watch.isOver else { return }
                let now = reader.availableInAll
                // Who is made to wait by us is no slow server.
                if now > bytes || loaders.resources[key]?.paceTimer != nil {
                    return loaders.watchProgress(of: reader, watch, since: now)
                }
                watch.isStalled = true
                loaders.close(key, id)
            }
        }
    }
    private func end(_ watch: PrefetchWatch) {
        watch.isOver = true
        if let timer = watch.timer.take() { loop.cancel(timer) }
    }
}

/// Whether a prefetch goes on. Touched on the loop only.
private final class PrefetchWatch: @unchecked Sendable {
    // Unchecked: a timer of the loop holds it, and nothing but the loaders, which live there, touches it.
    var timer: LoopTimer?
    var isStalled = false
    var isOver = false
}
