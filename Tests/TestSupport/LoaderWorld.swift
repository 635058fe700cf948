package import EventLoop
package import FeedVocabulary
package import HTTPTransport
package import MediaCache
package import ResourceLoading

/// Loop, client, cache and loaders as the runtime has them, on a folder that goes away.
package final class LoaderWorld: Sendable {
    package let loop: LoopThread
    package let client: HTTPClient
    package let cache: MediaCache
    package let loaders: ResourceLoaders
    package let folder: TemporaryFolder

    private init(_ loop: LoopThread, _ client: HTTPClient, _ cache: MediaCache, _ folder: TemporaryFolder) {
        (self.loop, self.client, self.cache, self.folder) = (loop, client, cache, folder)
        loaders = ResourceLoaders(on: loop, cache: cache, transport: client)
    }

    /// Runs `body` in a world of its own, and ends that world whatever happens.
    package static func run(
        in folder: TemporaryFolder = TemporaryFolder(), seed: UInt64? = nil,
        http: HTTPClientConfiguration = HTTPClientConfiguration(),
        _ change: (inout CacheConfiguration) -> Void = { _ in }, files: ((LoopThread) -> any FileSystem)? = nil,
        _ body: (LoaderWorld) async throws -> Void
    ) async throws {
        let loop = try LoopThread(seed: seed)
        let client = HTTPClient(loop: loop, configuration: http)
        var configuration = CacheConfiguration(directory: folder.path + "/cache")
        configuration.freeDiskGuard = 0
        change(&configuration)
        let cache: MediaCache
        do {
            cache = try await MediaCache.open(
                configuration, on: loop, files: files?(loop) ?? LoopFiles(loop: loop))
        } catch {
            await client.shutdown()
            loop.stop()
            throw error
        }
        let world = LoaderWorld(loop, client, cache, folder)
        var failure: (any Error)?
        do { try await body(world) } catch { failure = error }
        await world.loaders.shutdown()
        await cache.close()
        await client.shutdown()
        loop.stop()
        if let failure { throw failure }
    }

    /// Reads a range through a reader of its own.
    package func read(
        _ resource: Resource, _ range: ByteRange = 0..<Int64.max, priority: LoadPriority = .current,
        readAhead: Int64 = 256 * 1024
    ) async throws -> Bytes {
        let reader = try await loaders.open(resource, priority: priority, readAhead: readAhead)
        do {
            var bytes: [UInt8] = []
            while range.lowerBound + Int64(bytes.count) < range.upperBound {
                let offset = range.lowerBound + Int64(bytes.count)
                let piece = try await reader.read(at: offset, count: Int(min(256 * 1024, range.upperBound - offset)))
                if piece.isEmpty { break }
                bytes += piece
            }
            await reader.close()
            return Bytes(bytes)
        } catch {
            await reader.close()
            throw error
        }
    }
}

/// Bytes that compare and print shortly: a difference of a million elements would take a test hours to describe.
package struct Bytes: Equatable, CustomStringConvertible, CustomReflectable, Sendable {
    package let array: [UInt8]
    package init(_ array: [UInt8]) { self.array = array }
    package var count: Int { array.count }
    package var description: String { "\(array.count) bytes, \(array.prefix(8))…" }
    package var customMirror: Mirror { Mirror(self, children: [:]) }
    package static func == (left: Bytes, right: [UInt8]) -> Bool { left.array == right }
}

/// A cache key that the test knows to be legal.
package func key(_ text: String) -> CacheKey {
    do { return try CacheKey(text) } catch { preconditionFailure("\(error)") }
}
