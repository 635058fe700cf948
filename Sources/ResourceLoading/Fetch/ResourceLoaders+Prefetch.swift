import FeedStrategy
package import FeedVocabulary

extension ResourceLoaders {
    /// An index at the end larger than this is not preloaded: it would cost more than the clip's own start.
    private static var largestTail: Int64 { ByteSize.megabytes(4) }
    /// The boxes before `mdat` of a real file end long before this.
    private static var largestHead: Int { 4096 }

    /// Brings the head of a resource to disk, and its tail when the index (`moov`) is there.
    ///
    /// - Parameter size: Bytes of the head; what is on disk already is not fetched again.
    /// - Throws: ``LoadError``, or `CancellationError`; what came until then stays on disk.
    package func prefetch(_ resource: Resource, size: Int64, priority: LoadPriority) async throws {
        guard size > 0 else { return }
        let reader = try await open(resource, priority: priority, readAhead: 0)
        do {
            var wanted: [ByteRange] = [0..<size]
            await reader.want(wanted)
            if let tail = try await tail(of: reader, head: size) {
                wanted.append(tail)
                await reader.want(wanted)
            }
            for range in wanted { try await reader.wait(for: range) }
            await reader.close()
        } catch {
            await reader.close()
            throw error
        }
    }

    private func tail(of reader: ByteReader, head size: Int64) async throws -> ByteRange? {
        var needed = 64
        while needed <= min(Self.largestHead, Int(size)) {
            try await reader.wait(for: 0..<Int64(needed))
            let head = try await reader.read(at: 0, count: needed)
            switch ContainerHead(head) {
            case .indexFirst: return nil
            case .needs(let bytes):
                guard head.count == needed else { return nil }  // the file ends here
                needed = bytes
            case .indexLast(let offset):
                guard let length = reader.length, offset >= size, offset < length else { return nil }
                return length - offset <= Self.largestTail ? offset..<length : nil
            }
        }
        return nil
    }
}
