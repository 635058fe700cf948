import EventLoop
package import FeedStrategy
import FeedVocabulary
import HTTPTransport

/// What preloads and pre-renders may take of the network; whatever plays is exempt.
struct BackgroundTraffic {
    /// Of the host, for the network there is.
    private(set) var limits = NetworkLimits()
    /// Of the page whose entry plays, so that the next swipe finds the network's queue empty.
    private(set) var pace: Int64?
    private(set) var limiter = RateLimiter()
    /// Bytes left of the budget.
    private var rest: Int64?

    /// Bytes that a request may ask for.
    var left: Int64 { rest ?? .max }
    var isSpent: Bool { left <= 0 }

    mutating func set(_ limits: NetworkLimits) {
        (self.limits, rest) = (limits, limits.byteBudget)
        choose()
    }
    mutating func set(pace: Int64?) {
        self.pace = pace
        choose()
    }
    private mutating func choose() {
        limiter.bytesPerSecond = [limits.bytesPerSecond, pace].compactMap { $0 }.min()
    }
    /// A request for `bytes` begins.
    mutating func began(_ bytes: Int64, at now: Duration) { limiter.began(bytes, at: now) }
    /// - Returns: Whether these bytes were the last of the budget.
    mutating func spend(_ bytes: Int64) -> Bool {
        guard let rest, rest > 0 else { return false }
        self.rest = max(0, rest - bytes)
        return rest <= bytes
    }
}

extension ResourceLoaders {
    /// How long requests wait for a network that the host says is not there, before they fail.
    private static var longestOffline: Duration { .seconds(60) }

    /// Bytes a second that the network gives; `nil` until something was fetched.
    package var throughput: Double? { meter.estimate.bytesPerSecond }

    /// Whether the budget of strategies is used up.
    package var isBudgetSpent: Bool { background.isSpent }

    /// The network is another one, or is gone.
    package func setNetwork(_ kind: NetworkKind, _ limits: NetworkLimits) {
        meter.forget()
        isOffline = kind == .none
        background.set(limits)
        for (_, loading) in openInOrder {
            // What waits for a better moment has it now; what can't work any more waits.
            if let timer = loading.retryTimer.take() { loop.cancel(timer) }
            pump(loading)
        }
    }

    /// Strategies may use the network as these say from now on; the budget begins anew.
    package func setLimits(_ limits: NetworkLimits) {
        background.set(limits)
        for (_, loading) in openInOrder { pump(loading) }
    }

    /// How fast strategies go at most while the current entry plays.
    package func setBackgroundPace(_ bytesPerSecond: Int64?) {
        guard background.pace != bytesPerSecond else { return }
        background.set(pace: bytesPerSecond)
        for (_, loading) in openInOrder where loading.paceTimer != nil {
            if let timer = loading.paceTimer.take() { loop.cancel(timer) }
            pump(loading)
        }
    }

    package func whenBudgetIsSpent(_ body: (@Sendable () -> Void)?) { onBudgetSpent = body }

    private var openInOrder: [(CacheKey, LoadingResource)] {
        resources.sorted { $0.key.text < $1.key.text }.map { ($0.key, $0.value) }
    }

    func spend(_ bytes: Int64) {
        guard background.spend(bytes) else { return }
        for (_, loading) in openInOrder {
            for (id, fetch) in loading.fetches.inOrder where fetch.priority < .current { cancelFetch(loading, id) }
        }
        onBudgetSpent?()
    }

    /// Waits for the network to come back, within limits.
    func waitForNetwork(_ loading: LoadingResource) {
        guard loading.retryTimer == nil else { return }
        let key = loading.resource.storageKey
        loading.retryTimer = loop.schedule(at: loop.now.advanced(by: Self.longestOffline)) {
            self.assumeIsolated { loaders in
                guard let loading = loaders.resources[key] else { return }
                loading.retryTimer = nil
                loaders.fail(loading, .network(reason: "there has been no network for a minute"))
            }
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
