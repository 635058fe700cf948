import EventLoop
import FeedVocabulary
import HTTPTransport
import MediaCache

extension ResourceLoaders {
    /// Brings the requests under way in line with what readers want.
    func pump(_ loading: LoadingResource) {
        guard loading.opening == nil, loading.retryTimer == nil, loading.failure == nil else { return }
        let stored = loading.bytes.state.withLock { $0.readable }
        let plan = FetchPlanner.plan(
            demands: loading.demands, stored: stored, running: loading.running, length: loading.information?.length)
        for id in plan.cancels { cancelFetch(loading, id) }
        for (id, priority) in plan.priorities {
            loading.fetches[id]?.priority = priority
            if let exchange = loading.fetches[id]?.exchange { loop.spawn { await exchange.setPriority(priority) } }
        }
        for start in plan.starts { startFetch(loading, start) }
    }

    private func startFetch(_ loading: LoadingResource, _ start: FetchPlanner.Start) {
        nextID += 1
        let (id, key) = (nextID, loading.resource.key)
        let starter = loading.starter(of: start.range)
        if let starter { loading.readers[starter]?.segments += 1 }
        loading.fetches[id] = LoadingResource.Fetch(
            position: start.range.lowerBound, end: start.range.upperBound, priority: start.priority, starter: starter)
        loading.fetches[id]?.task = loop.spawn { await self.run(key, id) }
    }

    func cancelFetch(_ loading: LoadingResource, _ id: Int) {
        loading.fetches.removeValue(forKey: id)?.task?.cancel()
    }

    private func run(_ key: CacheKey, _ id: Int) async {
        guard let loading = resources[key] else { return }
        do {
            try await transfer(loading, id)
            guard loading.fetches.removeValue(forKey: id) != nil else { return }
            wake(loading)
            pump(loading)
        } catch let failure as FetchFailure {
            failed(loading, id, failure)
        } catch let error as TransportError {
            failed(loading, id, FetchFailure(error))
        } catch {
            loading.fetches[id] = nil  // cancelled: whoever wanted it is gone
        }
    }

    /// One request and its answer, from the first missing byte to the end of the fetch.
    private func transfer(_ loading: LoadingResource, _ id: Int) async throws {
        guard let fetch = loading.fetches[id] else { return }
        let wanted = fetch.position..<fetch.end
        var headers = loading.resource.headers
        let hasBytes = loading.bytes.state.withLock { !$0.readable.isEmpty }
        if hasBytes, let validator = loading.information?.validator { headers.set("If-Range", validator) }
        let exchange = try await transport.start(
            HTTPRequest(
                url: loading.resource.urls[loading.urlIndex], headers: headers, range: wanted, priority: fetch.priority)
        )
        guard loading.fetches[id] != nil else { return await exchange.cancel() }
        loading.fetches[id]?.exchange = exchange
        if loading.firstAnswer == nil { loading.firstAnswer = exchange.head.timing }
        let (verdict, information): (AnswerJudge.Verdict, ContentInformation)
        do {
            (verdict, information) = try AnswerJudge(requested: wanted, known: loading.information).judge(exchange.head)
        } catch {
            await exchange.cancel()
            throw error
        }
        var position: Int64
        switch verdict {
        case .changed:
            await exchange.cancel()
            return await replace(loading)
        case .endOfResource:
            await exchange.cancel()
            return await learn(loading, information)
        case .body(let offset, let end):
            position = offset
            loading.fetches[id]?.position = offset
            // An answer shorter than asked is asked for again by the plan; one from byte 0 has more in front.
            // A server without ranges would begin at byte 0 for every segment, so the current entry takes all at once.
            let isWhole = exchange.head.status == 200 && fetch.priority == .current
            loading.fetches[id]?.end = min(isWhole ? .max : fetch.end, end ?? .max)
        }
        await learn(loading, information)
        while let end = loading.fetches[id]?.end, position < end, let chunk = try await exchange.next() {
            guard loading.fetches[id] != nil else { break }
            let bytes = Int64(chunk.count) > end - position ? Array(chunk.prefix(Int(end - position))) : chunk
            try await store(loading, bytes, at: position)
            traffic.fetched(position..<position + Int64(bytes.count), of: loading.resource.key)
            position += Int64(bytes.count)
            if !bytes.isEmpty { loading.retry.progressed() }
            loading.fetches[id]?.position = position
            wake(loading)
        }
        await exchange.cancel()
        guard let end = loading.fetches[id]?.end else { return }
        if position < end {
            // The message is whole, yet the range is not: only an answer of unknown length may end here.
            guard information.length == nil, exchange.head.status == 200 else {
                throw FetchFailure(TransportError.incomplete(host: exchange.head.url))
            }
            var known = information
            known.length = position
            guard position > 0 else {
                throw FetchFailure(.empty(url: WebOrigin.redacted(exchange.head.url)), isRetryable: false)
            }
            await learn(loading, known)
        }
    }

    private func learn(_ loading: LoadingResource, _ information: ContentInformation) async {
        guard loading.information != information else { return }
        loading.information = information
        loading.bytes.state.withLockNotifying { $0.length = information.length }
        for id in loading.fetches.keys {
            if let length = information.length, let end = loading.fetches[id]?.end {
                loading.fetches[id]?.end = min(end, length)
            }
        }
        wake(loading)
        if let cached = loading.cached {
            await cache.describe(
                cached, length: information.length, validator: information.validator,
                contentType: information.contentType)
        }
    }

    /// Stores bytes on disk, or in memory when the disk won't take them; then they can be read.
    private func store(_ loading: LoadingResource, _ bytes: [UInt8], at offset: Int64) async throws {
        let range = offset..<offset + Int64(bytes.count)
        if let cached = loading.cached {
            do {
                try await cache.write(bytes, at: offset, to: cached)
                guard loading.cached?.record.id == cached.record.id else { throw CancellationError() }
                return loading.bytes.state.withLockNotifying { $0.stored.insert(range) }
            } catch let error as CacheError {
                note(error)
            }
        }
        let reading = loading.readers.values.max { $0.priority < $1.priority }?.position ?? offset
        loading.bytes.state.withLockNotifying { $0.memory.write(bytes, at: offset, reader: reading) }
    }

    /// The server has another resource now: old bytes go before new ones come, and old readers must start anew.
    private func replace(_ loading: LoadingResource) async {
        let key = loading.resource.key
        guard resources[key] === loading else { return }
        resources[key] = nil
        for id in loading.fetches.keys { cancelFetch(loading, id) }
        fail(loading, .changed(url: WebOrigin.redacted(loading.resource.urls[loading.urlIndex])))
        loading.bytes.state.withLockNotifying { state in
            for id in state.readers.keys { state.readers[id]?.isInterrupted = true }
        }
        if let cached = loading.cached {
            loading.cached = nil
            await cache.invalidate(cached)
            await cache.checkIn(cached)
        }
    }

    private func failed(_ loading: LoadingResource, _ id: Int, _ failure: FetchFailure) {
        guard loading.fetches.removeValue(forKey: id) != nil, resources[loading.resource.key] === loading else {
            return
        }
        if let delay = loading.retry.delay(after: failure, jitter: loop.random(in: 0.5...1.5)) {
            return retry(loading, after: delay)
        }
        if loading.urlIndex + 1 < loading.resource.urls.count {
            loading.urlIndex += 1
            loading.retry.progressed()
            return retry(loading, after: .zero)
        }
        for other in loading.fetches.keys { cancelFetch(loading, other) }
        loading.retry.progressed()
        fail(loading, failure.error)
    }

    private func retry(_ loading: LoadingResource, after delay: Duration) {
        let key = loading.resource.key
        if let timer = loading.retryTimer { loop.cancel(timer) }
        loading.retryTimer = loop.schedule(at: loop.now.advanced(by: delay)) {
            self.assumeIsolated { loaders in
                guard let loading = loaders.resources[key] else { return }
                loading.retryTimer = nil
                loaders.pump(loading)
            }
        }
    }
}
