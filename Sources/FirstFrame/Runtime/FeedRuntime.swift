package import EventLoop
import FeedStrategy
public import FeedVocabulary
package import HTTPTransport
package import MediaCache
public import Playback
package import ResourceLoading

/// Everything that the pages of one app share: loop, network, disk cache, engines, and who owns the strategies.
///
/// Call from any thread; nothing blocks. End it with ``shutdown()``.
public final class FeedRuntime: Sendable {
    package let loop: any LoopExecutor
    package let loaders: ResourceLoaders
    package let cache: MediaCache
    let pool: EnginePool
    let coordinator: FeedCoordinator
    let configuration: RuntimeConfiguration
    /// What this runtime itself has to end; the simulation ends its own.
    private let owned: Owned?
    private struct Owned {
        let loop: LoopThread
        let client: HTTPClient
    }
    private let isShutDown = Lock(false)

    /// Starts the loop, opens the cache, and is ready for pages.
    ///
    /// - Parameters:
    ///   - engines: What plays, such as `FFmpegEngines()` of the module `FirstFrameFFmpeg`.
    /// - Throws: ``ConfigurationError`` for a setting outside its range, ``FeedError/cache(_:)`` when the cache directory
    ///   can't be used.
    public static func start(
        engines: any EngineFactory, configuration: RuntimeConfiguration = RuntimeConfiguration()
    ) async throws -> FeedRuntime {
        try configuration.validate()
        let loop: LoopThread
        do throws(LoopError) { loop = try LoopThread() } catch {
            throw FeedError.cache("the loop can't start: \(error)")
        }
        let client = HTTPClient(loop: loop, configuration: configuration.http)
        do {
            let cache = try await MediaCache.open(configuration.cache, on: loop, files: LoopFiles(loop: loop))
            return FeedRuntime(
                loop: loop, transport: client, cache: cache, engines: engines, configuration: configuration,
                owned: Owned(loop: loop, client: client))
        } catch {
            await client.shutdown()
            loop.stop()
            throw FeedError.cache("\(error)")
        }
    }

    /// A runtime on a loop, network and disk of somebody else, such as the simulation's.
    package convenience init(
        loop: any LoopExecutor, transport: any Transport, cache: MediaCache, engines: any EngineFactory,
        configuration: RuntimeConfiguration
    ) {
        self.init(
            loop: loop, transport: transport, cache: cache, engines: engines, configuration: configuration, owned: nil)
    }

    private init(
        loop: any LoopExecutor, transport: any Transport, cache: MediaCache, engines: any EngineFactory,
        configuration: RuntimeConfiguration, owned: Owned?
    ) {
        (self.loop, self.cache, self.configuration, self.owned) = (loop, cache, configuration, owned)
        loaders = ResourceLoaders(on: loop, cache: cache, transport: transport)
        pool = EnginePool(on: loop, factory: engines, limit: configuration.engineLimit)
        coordinator = FeedCoordinator(on: loop)
    }

    // MARK: Pages

    /// A new page, inactive until it is entered or enabled.
    ///
    /// - Parameters:
    ///   - name: Unique among the pages of this runtime that exist.
    ///   - strategies: What ``enter(_:)`` enables.
    /// - Throws: ``FeedError/pageExists(_:)``, ``FeedError/stopped``, or ``ConfigurationError``.
    public func makePage(_ name: String, strategies: [Strategy] = [.preload, .preRender]) async throws -> FeedPage {
        try FeedPage.validate(strategies)
        let page = FeedPage(PageID(name), runtime: self, strategies: strategies)
        try await coordinator.register(page)
        return page
    }

    /// Makes a page the owner of the strategies: clears the old owner, waits until nothing of it runs, enables the
    /// page, and sets its remembered list again at its remembered position.
    ///
    /// - Throws: ``FeedError/superseded`` when another page is entered before this one's turn comes,
    ///   ``FeedError/stopped``, or `CancellationError`.
    public func enter(_ page: FeedPage) async throws { try await coordinator.enter(page) }

    /// Clears a page; it remembers its list and position. Always allowed.
    public func leave(_ page: FeedPage) async { await page.clear() }

    /// Clears every page.
    public func clearAll() async { await coordinator.clearAll() }

    /// The page that owns the strategies.
    public var owner: PageID? { get async { await coordinator.owner } }

    /// What was done so far.
    public func statistics() async -> RuntimeStatistics {
        var statistics = RuntimeStatistics()
        let traffic = await loaders.traffic
        statistics.bytesFetched = traffic.bytesFetched
        statistics.bytesNeverPlayed = traffic.bytesNeverPlayed
        statistics.liveEngines = await pool.liveCount
        statistics.openResources = await loaders.openCount
        statistics.runningFetches = await loaders.fetchCount
        return statistics
    }

    /// Ends everything: pages, engines, requests, connections, the cache, the loop and its thread. Further calls throw
    /// ``FeedError/stopped``. Idempotent.
    public func shutdown() async {
        let isFirst = isShutDown.withLock { isShutDown in
            defer { isShutDown = true }
            return !isShutDown
        }
        guard isFirst else { return }
        await coordinator.shutdown()
        await pool.close()
        await loaders.shutdown()
        await cache.close()
        guard let owned else { return }
        await owned.client.shutdown()
        owned.loop.stop()
    }
}
