package import EventLoop
public import FeedStrategy
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
    package let pool: EnginePool
    package let coordinator: FeedCoordinator
    let stills: StillDesk
    let vids: VidCatalog
    let configuration: RuntimeConfiguration
    /// What this runtime itself has to end; the simulation ends its own.
    private let owned: Owned?
    private struct Owned {
        let loop: LoopThread
        let client: HTTPClient
    }
    private let ending = Lock<Task<Void, Never>?>(nil)

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
        stills = StillDesk(on: loop, factory: engines)
        vids = VidCatalog(
            on: loop, resolver: configuration.vidResolver, client: WebClient(transport: transport),
            startup: configuration.startup)
        pool = EnginePool(on: loop, factory: engines, limit: configuration.engineLimit)
        coordinator = FeedCoordinator(on: loop, engineLimit: configuration.engineLimit)
        // At the next turn: the loader is in the middle of a transfer.
        let tell: @Sendable () -> Void = { [weak coordinator] in
            loop.post { [weak coordinator] in coordinator?.assumeIsolated { $0.networkChanged() } }
        }
        loop.post { [loaders] in loaders.assumeIsolated { $0.whenBudgetIsSpent(tell) } }
    }

    // MARK: The network

    /// What the device is connected by, as the host said last; unmetered at first.
    public var network: NetworkKind { get async { await loaders.network } }

    /// Says what the device is connected by. With `none`, strategies rest, requests wait up to a minute, and what plays
    /// goes on with what it has; when the network is back, everything goes on at once, but a pause by the viewer stays.
    public func setNetwork(_ kind: NetworkKind) async {
        await loaders.setNetwork(kind)
        await coordinator.networkChanged()
    }

    /// Says what strategies may take of a kind of network, from now on; the current entry is exempt.
    ///
    /// - Throws: ``ConfigurationError``.
    public func setLimits(_ limits: NetworkLimits, for kind: NetworkKind) async throws {
        try limits.validate()
        await loaders.setLimits(limits, for: kind)
        await coordinator.networkChanged()
    }

    /// How the resolution of a ``VidSource`` is chosen from now on, where it does not name one.
    ///
    /// - Throws: ``ConfigurationError``.
    public func setStartup(_ startup: StartupResolution) async throws {
        try startup.validate()
        await vids.setStartup(startup)
    }

    // MARK: Pages

    /// A new page, inactive until it is entered or enabled.
    ///
    /// - Parameters:
    ///   - name: Unique among the pages of this runtime that exist.
    ///   - strategies: What ``enter(_:by:carryingPlay:)`` enables, such as those of a ``FeedScene``.
    /// - Throws: ``FeedError/pageExists(_:)``, ``FeedError/stopped``, or ``ConfigurationError``.
    public func makePage(_ name: String, strategies: [Strategy] = FeedScene.smallVideo.strategies) async throws
        -> FeedPage
    {
        try FeedPage.validate(strategies)
        let page = FeedPage(PageID(name), runtime: self, strategies: strategies)
        try await coordinator.register(page)
        return page
    }

    /// Makes a page the owner of the strategies: clears or covers the old owner, waits until nothing of it runs, enables
    /// the page, and sets its remembered list again at its remembered position. A page that lies covered comes back,
    /// and those above it are cleared.
    ///
    /// - Parameters:
    ///   - policy: What becomes of the old owner; `replaceSources` for a nested page.
    ///   - carryingPlay: Whether what the old owner plays goes on, on the same engine: a play of the same clip on the
    ///     new page continues it, any other play there ends it.
    /// - Throws: ``FeedError/superseded`` when another page is entered, or this one is left, before the switch is done;
    ///   the old owner may be gone then, and no page owns the strategies until the newer switch is done.
    ///   ``FeedError/stopped``, ``FeedError/foreignPage(_:)``, or `CancellationError`.
    public func enter(_ page: FeedPage, by policy: TransitionPolicy = .clear, carryingPlay: Bool = false) async throws {
        try await coordinator.enter(page, by: policy, carryingPlay: carryingPlay)
    }

    /// Clears a page; it remembers its list and position. The page that it covered, if there is one, owns the
    /// strategies again when this returns. Always allowed.
    public func leave(_ page: FeedPage) async { await coordinator.leave(page) }

    /// The app goes to the background: the page that owns the strategies stands still, silently, and no strategy works
    /// until ``resume()``. Pages may be entered and left meanwhile.
    ///
    /// - Parameter keepingEngines: Whether what plays keeps its engine and position; otherwise it ends, and the page
    ///   comes back at its entry. With an ``RuntimeConfiguration/engineLimit`` of 2 it always ends.
    public func suspend(keepingEngines: Bool = true) async {
        await coordinator.suspend(true, keepingEngines: keepingEngines)
    }

    /// The app is back: what played when it was suspended goes on, unless the host has paused it.
    public func resume() async { await coordinator.suspend(false, keepingEngines: true) }

    /// Clears every page.
    public func clearAll() async { await coordinator.clearAll() }

    /// The page that owns the strategies.
    public var owner: PageID? { get async { await coordinator.machine.owner } }

    /// The pages that lie under the owner, from the bottom; each comes back when the one above it is left.
    public var coveredPages: [PageID] {
        get async {
            let machine = await coordinator.machine
            return machine.stack.filter { $0 != machine.owner }
        }
    }

    /// What was done so far.
    public func statistics() async -> RuntimeStatistics {
        var statistics = RuntimeStatistics()
        let traffic = await loaders.traffic
        statistics.bytesFetched = traffic.bytesFetched
        statistics.bytesNeverPlayed = traffic.bytesNeverPlayed
        statistics.throughput = await loaders.throughput
        statistics.liveEngines = await pool.liveCount
        statistics.openResources = await loaders.openCount
        statistics.runningFetches = await loaders.fetchCount
        return statistics
    }

    /// Ends everything: pages, engines, requests, connections, the cache, the loop and its thread. Further calls of the
    /// runtime throw ``FeedError/stopped``, reads ``LoadError/closed``, and pages say that they have to be entered first.
    /// Idempotent, from anywhere; the first call returns when the loop's thread has ended, others when pages, bytes and
    /// connections have.
    public func shutdown() async {
        let (ending, isFirst) = ending.withLock { ending -> (Task<Void, Never>, Bool) in
            if let ending { return (ending, false) }
            let task = loop.spawn { await self.endEverything() }
            ending = task
            return (task, true)
        }
        await ending.value
        if isFirst { await owned?.loop.stopFromAnywhere() }
    }

    private func endEverything() async {
        await coordinator.shutdown()
        await stills.close()
        await pool.close()
        await loaders.shutdown()
        await cache.close()
        await owned?.client.shutdown()
    }
}
