import EventLoop
import FeedStrategy
import FeedVocabulary
import HTTPTransport
import MediaCache

/// What one fetch was sent with, and what has been tried to get past a refusal since bytes came.
private struct FetchTrial {
    var url = ""
    var usedRedirect = false
    var ticket: CredentialVault.Ticket?
    var didRenew = false
}

extension ResourceLoaders {
    /// Brings the requests under way in line with what readers want.
    func pump(_ loading: LoadingResource) {
        guard loading.opening == nil || loading.isNew, loading.retryTimer == nil, loading.failure == nil else { return }
        guard loading.resource.path == nil else { return demandFile(loading) }
        loading.backgroundSegment = background.limiter.segment
        loading.setSegmentLimit(throughput: throughput)
        if loading.isUnknown {
            loading.firstSegment = firstRequest.size(path: path(of: loading), throughput: throughput)
        }
        let (stored, lost) = loading.bytes.state.withLock { ($0.readable, $0.lost.take()) }
        if !lost.isEmpty, let cached = loading.cached {
            loop.spawn { [cache] in for range in lost.ranges { await cache.lost(range, of: cached) } }
        }
        let plan = FetchPlanner.plan(
            demands: loading.demands, stored: stored, running: loading.running, length: loading.information?.length)
        for id in plan.cancels { cancelFetch(loading, id) }
        for (id, priority) in plan.priorities.inOrder {
            loading.fetches[id]?.priority = priority
            if priority == .current { loading.fetches[id]?.isExempt = true }
            if let exchange = loading.fetches[id]?.exchange { loop.spawn { await exchange.setPriority(priority) } }
        }
        for start in plan.starts { startWhenAllowed(loading, start) }
        for (id, fetch) in loading.fetches.inOrder where fetch.paused != nil && loading.isWanted(fetch.position) {
            loading.fetches[id]?.paused.take()?.resume()
        }
    }

    /// Nothing of a file of this machine is fetched: what is missing has been cut off.
    private func demandFile(_ loading: LoadingResource) {
        guard let path = loading.resource.path, loading.bytes.state.withLock({ !$0.lost.isEmpty }) else { return }
        fail(loading, .file(path: path, reason: "it became shorter while it was read"))
    }

    private func startWhenAllowed(_ loading: LoadingResource, _ start: FetchPlanner.Start) {
        if isOffline { return waitForNetwork(loading) }
        let now = loop.now.offset
        let isBackground = start.priority < .current
        var range = start.range
        if isBackground {
            guard !background.isSpent else { return refuse(loading) }
            if let due = background.limiter.due(at: now) { return pump(loading, at: due) }
            range = range.clamped(to: ByteRange(offset: range.lowerBound, saturatingLength: background.left))
            background.began(range.length, at: now)
        } else if !loading.isAwaited(range.lowerBound), let reader = loading.starter(of: range) {
            if let due = loading.readers[reader]?.due(at: now) { return pump(loading, at: due) }
            loading.readers[reader]?.pace.began(range.length, at: now)
        }
        startFetch(loading, FetchPlanner.Start(range: range, priority: start.priority))
    }

    private func pump(_ loading: LoadingResource, at due: Duration) {
        if let timer = loading.paceTimer {
            guard due < loading.paceDue else { return }
            loop.cancel(timer)
        }
        loading.paceDue = due
        loading.paceTimer = schedule(loading, at: LoopInstant(offset: due)) { loaders, loading in
            loading.paceTimer = nil
            loaders.pump(loading)
        }
    }

    /// Runs `body` at `due`, unless the resource is closed by then.
    func schedule(
        _ loading: LoadingResource, at due: LoopInstant,
        _ body: @escaping @Sendable (isolated ResourceLoaders, LoadingResource) -> Void
    ) -> LoopTimer {
        let key = loading.resource.storageKey
        return loop.schedule(at: due) {
            self.assumeIsolated { loaders in if let loading = loaders.resources[key] { body(loaders, loading) } }
        }
    }

    private func startFetch(_ loading: LoadingResource, _ start: FetchPlanner.Start) {
        nextID += 1
        let (id, key) = (nextID, loading.resource.storageKey)
        let starter = loading.starter(of: start.range)
        if let starter { loading.readers[starter]?.segments += 1 }
        loading.fetches[id] = LoadingResource.Fetch(
            position: start.range.lowerBound, end: start.range.upperBound, priority: start.priority, starter: starter)
        loading.fetches[id]?.isExempt = start.priority == .current
        loading.fetches[id]?.task = loop.spawn { await self.run(key, id) }
    }

    func cancelFetch(_ loading: LoadingResource, _ id: Int) {
        guard let fetch = loading.fetches.removeValue(forKey: id) else { return }
        fetch.task?.cancel()
        fetch.paused?.resume()
    }

    private func run(_ key: CacheKey, _ id: Int) async {
        guard let loading = resources[key] else { return }
        var trial = FetchTrial()
        while loading.fetches[id] != nil {
            do {
                try await transfer(loading, id, &trial)
                guard loading.fetches.removeValue(forKey: id) != nil else { return }
                wake(loading)
                pump(loading)
                return
            } catch {
                guard var failure = FetchFailure(any: error) else {
                    loading.fetches[id] = nil  // cancelled: whoever wanted it is gone
                    return
                }
                do {
                    if try await isRemedied(loading, failure, &trial) { continue }
                } catch {
                    failure = FetchFailure(error as? LoadError ?? .closed, isRetryable: false)
                }
                return failed(loading, id, failure)
            }
        }
    }

    // MARK: One request

    /// One request and its answer, from the first missing byte to the end of the fetch.
    private func transfer(_ loading: LoadingResource, _ id: Int, _ trial: inout FetchTrial) async throws {
        let exchange = try await MultipartExchange.unwrap(try await request(loading, id, &trial))
        await loading.opening?.value  // what comes has its place from then on
        guard let fetch = loading.fetches[id] else { return await exchange.cancel() }
        loading.fetches[id]?.exchange = exchange
        if loading.firstAnswer == nil { loading.firstAnswer = exchange.head.timing }
        let wanted = fetch.asked
        let (verdict, information): (AnswerJudge.Verdict, ContentInformation)
        do {
            let judge = AnswerJudge(
                requested: wanted, known: loading.information,
                storedEnd: loading.bytes.state.withLock { $0.readable.ranges.last?.upperBound ?? 0 },
                expectsMedia: loading.resource.expectsMedia,
                expectedLength: loading.resource.length, now: loop.wallTime)
            (verdict, information) = try judge.judge(exchange.head)
        } catch {
            await exchange.cancel()
            throw error
        }
        switch verdict {
        case .changed:
            await exchange.cancel()
            return await replace(loading)
        case .endOfResource:
            await exchange.cancel()
            return await learn(loading, information, from: id)
        case .body(let offset, let end):
            loading.fetches[id]?.position = offset
            // An answer shorter than asked is asked for again by the plan; one from byte 0 has more in front.
            // A server without ranges would begin at byte 0 for every segment, so the current entry keeps the answer.
            let isWhole = exchange.head.status == 200 && fetch.priority == .current
            loading.fetches[id]?.isWhole = isWhole
            loading.fetches[id]?.end = min(isWhole ? .max : fetch.end, end ?? .max)
        }
        await learn(loading, information, from: id)
        try await receive(exchange, loading, id, &trial)
        await exchange.cancel()
        guard let rest = loading.fetches[id], rest.position < rest.end else { return }
        if information.length == nil, exchange.head.status == 206, rest.position > wanted.lowerBound {
            return  // whether more follows is for the next request to find out
        }
        // The message is whole, yet the range is not: only an answer of unknown length may end here.
        guard information.length == nil, exchange.head.status == 200 else {
            throw FetchFailure(TransportError.incomplete(host: WebOrigin.redacted(exchange.head.url)))
        }
        guard rest.position > 0 else {
            throw FetchFailure(.empty(url: WebOrigin.redacted(exchange.head.url)), isRetryable: false)
        }
        var known = information
        known.length = rest.position
        await learn(loading, known, from: id)
    }

    private func receive(
        _ exchange: any HTTPExchange, _ loading: LoadingResource, _ id: Int, _ trial: inout FetchTrial
    ) async throws {
        meter.begin(at: loop.now.offset)
        defer { meter.end(at: loop.now.offset) }
        while let fetch = loading.fetches[id], fetch.position < fetch.end {
            if fetch.isWhole, !loading.isWanted(fetch.position) {
                meter.end(at: loop.now.offset)
                await pause(loading, id)
                meter.begin(at: loop.now.offset)
            }
            guard loading.fetches[id] != nil, let chunk = try await exchange.next() else { return }
            guard let fetch = loading.fetches[id] else { return }
            meter.received(Int64(chunk.count), at: loop.now.offset)
            if !fetch.isExempt { spend(Int64(chunk.count)) }
            let position = fetch.position
            let room = fetch.end - position
            let bytes = Int64(chunk.count) > room ? Array(chunk.prefix(Int(room))) : chunk
            let isProgress = try await store(loading, bytes, at: position)
            traffic.fetched(position..<position + Int64(bytes.count), of: loading.resource.storageKey)
            // The same bytes once more are none: a server that breaks off at one place would be asked for ever.
            if isProgress {
                loading.retry.progressed()
                (loading.didRefresh, trial.didRenew) = (false, false)
            }
            loading.fetches[id]?.position = position + Int64(bytes.count)
            wake(loading)
            if position == 0, !loading.isHeadSeen { look(at: bytes, loading, fetch) }
        }
    }

    /// What the first bytes of a file tell of what will be wanted.
    private func look(at head: [UInt8], _ loading: LoadingResource, _ fetch: LoadingResource.Fetch) {
        loading.isHeadSeen = true
        if !fetch.isWhole, fetch.end < FirstRequest.usual { loading.secondRequest = fetch.end }
        if let length = loading.information?.length, case .indexLast(let offset) = ContainerHead(head),
            offset < length, length - offset <= Self.largestIndex
        {
            loading.indexAtEnd = offset..<length
        }
        pump(loading)
    }

    private func path(of loading: LoadingResource) -> ServerPath? {
        guard let origin = try? WebOrigin(url: loading.redirectTarget ?? loading.url.url) else { return nil }
        return transport.path(to: origin)
    }

    /// Lets the sender wait, by not reading, until a reader comes near.
    private func pause(_ loading: LoadingResource, _ id: Int) async {
        await withCheckedContinuation { waiting in
            guard let fetch = loading.fetches[id], !loading.isWanted(fetch.position) else { return waiting.resume() }
            loading.fetches[id]?.paused = waiting
        }
    }

    /// Sends the request of a fetch, with the credential of its origin, when its host may be asked.
    private func request(
        _ loading: LoadingResource, _ id: Int, _ trial: inout FetchTrial
    ) async throws -> any HTTPExchange {
        if let expires = loading.url.expires, expires <= loop.wallTime, !loading.didRefresh {
            _ = try await refreshURLs(loading)
        }
        guard let fetch = loading.fetches[id] else { throw CancellationError() }
        let url = loading.url.url
        (trial.url, trial.usedRedirect, trial.ticket) = (url, loading.redirectTarget != nil, nil)
        guard let origin = try? WebOrigin(url: url) else {
            return try await schemes.start(
                loading, range: fetch.asked, priority: fetch.priority,
                transport: transport)
        }
        try await waitForTurn(of: origin)
        guard loading.fetches[id] != nil else { throw CancellationError() }
        var request = HTTPRequest(
            url: loading.redirectTarget ?? url, headers: loading.resource.headers, priority: fetch.priority)
        // Given for the main URL; a backup on another host is another server.
        let home = (try? WebOrigin(url: loading.urls[0].url)) ?? origin
        request.headerOrigins = loading.resource.furtherOrigins.union([home])
        request.privateHosts = loading.resource.privateHosts
        trial.ticket = try await vault.authorize(&request, to: origin)
        guard vault.identity(for: loading.resource.urls[0].url) == loading.account else {
            throw FetchFailure(
                .host(reason: "the account for \(home) was changed; open the source again"), isRetryable: false)
        }
        guard let fetch = loading.fetches[id] else { throw CancellationError() }
        request.range = fetch.asked
        let hasBytes = loading.bytes.state.withLock { !$0.readable.isEmpty }
        if hasBytes, let validator = loading.information?.validator { request.headers.set("If-Range", validator) }
        let exchange = try await transport.start(request)
        if exchange.head.status == 200 || exchange.head.status == 206 {
            loading.redirectTarget = exchange.head.url == url ? nil : exchange.head.url
        }
        return exchange
    }

    private func waitForTurn(of origin: WebOrigin) async throws {
        while let due = backoff.due(origin, now: loop.now) {
            let wait = loop.now.duration(to: due)
            guard wait <= RetryPolicy.longestDelay else {
                throw FetchFailure(.busy(url: origin.description, retryAfter: wait), isRetryable: false)
            }
            // Those who wait for one host don't come back in step.
            try await loop.sleep(until: due.advanced(by: .milliseconds(Int(loop.random(in: 0...500)))))
            try Task.checkCancellation()
        }
    }

    // MARK: Remedies

    /// Whether the request can go on with another credential or another URL, at the byte where it is.
    private func isRemedied(
        _ loading: LoadingResource, _ failure: FetchFailure, _ trial: inout FetchTrial
    ) async throws -> Bool {
        // A pre-signed URL that the main one led to is good for minutes; the main one gives another.
        if trial.usedRedirect, failure.mayBeExpiry {
            loading.redirectTarget = nil
            return true
        }
        if failure.mayBeCredential, let ticket = trial.ticket, !trial.didRenew, let status = failure.status {
            trial.didRenew = true
            if try await vault.renew(ticket, status: status, asksFor: failure.asksFor) { return true }
        }
        guard failure.mayBeExpiry else { return false }
        if trial.url != loading.url.url { return true }  // another fetch brought new URLs meanwhile
        return try await refreshURLs(loading)
    }

    /// Asks the host for new URLs, once until bytes come.
    ///
    /// - Returns: Whether there are others now.
    private func refreshURLs(_ loading: LoadingResource) async throws -> Bool {
        guard let refresher = loading.resource.refresher else { return false }
        let key = loading.resource.key
        if !loading.refreshing.isRunning {
            guard !loading.didRefresh else { return false }
            loading.didRefresh = true
        }
        let (answer, isFirst) = await loading.refreshing.value {
            do {
                let urls = try await refresher.refresh(key)
                return urls.isEmpty ? .failure(.host(reason: "the URL refresher gave no URL")) : .success(urls)
            } catch {
                return .failure(.host(reason: "the URL refresher failed for \(key)"))
            }
        }
        if isFirst, case .success(let urls) = answer {
            freshURLs.remember(urls, for: loading.resource)
            (loading.urls, loading.urlIndex, loading.redirectTarget) = (urls, 0, nil)
            tell(.refreshedURLs(key))
        }
        _ = try answer.get()
        return true
    }

    private func failed(_ loading: LoadingResource, _ id: Int, _ failure: FetchFailure) {
        guard loading.fetches.removeValue(forKey: id) != nil, resources[loading.resource.storageKey] === loading else {
            return
        }
        let delay = loading.retry.delay(after: failure, jitter: loop.random(in: 0.5...1.5))
        if failure.concernsHost, let origin = try? WebOrigin(url: loading.url.url),
            let wait = failure.retryAfter ?? delay
        {
            backoff.note(origin, until: loop.now.advanced(by: wait), now: loop.now)
        }
        if let delay { return retry(loading, after: delay) }
        if loading.urlIndex + 1 < loading.urls.count {
            let old = loading.urlName
            (loading.urlIndex, loading.redirectTarget) = (loading.urlIndex + 1, nil)
            loading.retry.progressed()
            tell(.switchedURL(loading.resource.key, from: old, to: loading.urlName, because: failure.error))
            return retry(loading, after: .zero)
        }
        for (other, _) in loading.fetches.inOrder { cancelFetch(loading, other) }
        loading.retry.progressed()
        fail(loading, failure.error)
    }

    private func retry(_ loading: LoadingResource, after delay: Duration) {
        if let timer = loading.retryTimer { loop.cancel(timer) }
        loading.retryTimer = schedule(loading, at: loop.now.advanced(by: delay)) { loaders, loading in
            loading.retryTimer = nil
            loaders.pump(loading)
        }
    }
}
