import EventLoop
package import FeedStrategy
import FeedVocabulary
import HTTPTransport

/// What preloads and pre-renders may take of the network; whatever plays is exempt.
struct BackgroundTraffic {
    private(set) var network = NetworkKind.unmetered
    /// Of the host, for each kind of network.
    private var limits: [NetworkKind: NetworkLimits] = [:]
    /// Bytes left of the budgets.
    private var rests: [NetworkKind: Int64] = [:]
    /// Of the page whose entry plays, so that the next swipe finds the network's queue empty.
    private(set) var pace: Int64?
    private(set) var limiter = RateLimiter()

    /// Bytes that a request may ask for.
    var left: Int64 { rests[network] ?? .max }
    var isSpent: Bool { left <= 0 }

    mutating func set(_ kind: NetworkKind, at now: Duration) {
        network = kind
        choose(at: now)
    }
    /// The budget begins anew.
    mutating func set(_ limits: NetworkLimits, for kind: NetworkKind, at now: Duration) {
        (self.limits[kind], rests[kind]) = (limits, limits.byteBudget)
        choose(at: now)
    }
    mutating func set(pace: Int64?, at now: Duration) {
        self.pace = pace
        choose(at: now)
    }
    private mutating func choose(at now: Duration) {
        limiter.setRate([limits[network]?.bytesPerSecond, pace].compactMap { $0 }.min(), at: now)
    }
    /// A request for `bytes` begins.
    mutating func began(_ bytes: Int64, at now: Duration) { limiter.began(bytes, at: now) }
    /// - Returns: Whether these bytes were the last of the budget.
    mutating func spend(_ bytes: Int64) -> Bool {
        guard let rest = rests[network], rest > 0 else { return false }
        rests[network] = max(0, rest - bytes)
        return rest <= bytes
    }
}

extension ResourceLoaders {
    /// How long requests wait for a network that the host says is not there, before they fail.
    private static var longestOffline: Duration { .seconds(60) }

    /// Bytes a second that the network gives; `nil` until something was fetched.
    package var throughput: Double? { meter.estimate.bytesPerSecond }

    /// What the device is connected by, as the host said last.
    package var network: NetworkKind { background.network }
    package var isOffline: Bool { background.network == .none }

    /// Whether the budget of strategies is used up.
    package var isBudgetSpent: Bool { background.isSpent }

    /// The network is another one, or is gone.
    package func setNetwork(_ kind: NetworkKind) {
        guard kind != background.network else { return }
        meter.forget()
        background.set(kind, at: loop.now.offset)
        for (_, loading) in openInOrder {
            // What waits for a better moment has it now; what can't work any more waits.
            if let timer = loading.retryTimer.take() { loop.cancel(timer) }
            pumpAnew(loading)
        }
    }

    /// Strategies may use a kind of network as these say from now on; its budget begins anew.
    package func setLimits(_ limits: NetworkLimits, for kind: NetworkKind) {
        background.set(limits, for: kind, at: loop.now.offset)
        for (_, loading) in openInOrder { pumpAnew(loading) }
    }

    /// How fast strategies go at most while the current entry plays.
    package func setBackgroundPace(_ bytesPerSecond: Int64?) {
        guard background.pace != bytesPerSecond else { return }
        background.set(pace: bytesPerSecond, at: loop.now.offset)
        for (_, loading) in openInOrder where loading.paceTimer != nil { pumpAnew(loading) }
    }

    private func pumpAnew(_ loading: LoadingResource) {
        if let timer = loading.paceTimer.take() { loop.cancel(timer) }
        pump(loading)
    }

    package func whenBudgetIsSpent(_ body: (@Sendable () -> Void)?) { onBudgetSpent = body }

    private var openInOrder: [(CacheKey, LoadingResource)] {
        resources.sorted { $0.key.text < $1.key.text }.map { ($0.key, $0.value) }
    }

    func spend(_ bytes: Int64) {
        guard background.spend(bytes) else { return }
        for (key, loading) in openInOrder {
            var hasEnded = false
            for (id, fetch) in loading.fetches.inOrder where !fetch.isExempt {
                cancelFetch(loading, id)
                hasEnded = true
            }
            guard hasEnded else { continue }
            // Whoever waited for it learns that nothing will come; not now, in the middle of a transfer.
            loop.post {
                self.assumeIsolated { loaders in if let loading = loaders.resources[key] { loaders.pump(loading) } }
            }
        }
        onBudgetSpent?()
    }

    /// Nothing more is fetched for those who don't serve the viewer: they learn it, and the others go on.
    func refuse(_ loading: LoadingResource) {
        let isRead = loading.readers.values.contains { $0.priority == .current }
        guard isRead else { return fail(loading, .budgetSpent) }
        for (number, waiter) in loading.waiters.inOrder
        where loading.readers[waiter.reader].map({ $0.priority < .current }) ?? true {
            loading.waiters[number] = nil
            waiter.continuation.resume(throwing: LoadError.budgetSpent)
        }
    }

    /// Waits for the network to come back, within limits.
    func waitForNetwork(_ loading: LoadingResource) {
        guard loading.retryTimer == nil else { return }
        loading.retryTimer = schedule(loading, at: loop.now.advanced(by: Self.longestOffline)) { loaders, loading in
            loading.retryTimer = nil
            loaders.fail(loading, .network(reason: "there has been no network for a minute"))
        }
    }

    /// Makes a connection to the server of a resource, so that the next request finds it warm.
    package func preconnect(_ resource: Resource) async {
        guard !isOffline, resource.path == nil, let url = freshURLs.urls(for: resource)?.first ?? resource.urls.first,
            let origin = try? WebOrigin(url: url.url)
        else { return }
        await transport.preconnect(origin)
    }
}
