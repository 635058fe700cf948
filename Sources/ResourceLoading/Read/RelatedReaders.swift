import EventLoop
import FeedStrategy
import FeedVocabulary
import HTTPTransport

/// The readers of what a resource refers to.
struct RelatedReaders {
    private(set) var readers: [Int: ByteReader] = [:]
    private(set) var isInterrupted = false
    /// Whether those that are added have something else to do first.
    private(set) var isNudged = false
    /// How long those that are closed had waited for bytes.
    private(set) var waited = Duration.zero
    private var tickets = 0
    /// Openings that have ended and that a thread waits for.
    private var opened: [Int: Result<ByteReader, LoadError>] = [:]

    mutating func interrupt() -> [ByteReader] {
        isInterrupted = true
        return Array(readers.values)
    }
    mutating func nudge(_ isNudged: Bool) -> [ByteReader] {
        self.isNudged = isNudged
        return Array(readers.values)
    }
    mutating func add(_ reader: ByteReader) {
        readers[reader.id] = reader
        if isNudged { reader.nudge() }
    }
    mutating func remove(_ reader: ByteReader) {
        if readers.removeValue(forKey: reader.id) != nil { waited += reader.waitedTime }
    }

    mutating func ticket() -> Int {
        tickets += 1
        return tickets
    }
    mutating func end(_ ticket: Int, _ result: Result<ByteReader, LoadError>) { opened[ticket] = result }
    mutating func result(of ticket: Int) -> Result<ByteReader, LoadError>? {
        isInterrupted ? .failure(.closed) : opened.removeValue(forKey: ticket)
    }
}

extension ByteReader {
    /// A reader of what this resource refers to as `reference`; closed with this one, or by ``closeRelated(_:)``. Blocks.
    ///
    /// - Throws: ``LoadError/refused(reason:)`` for what a resource of this origin may not refer to.
    package func openRelatedBlocking(_ reference: String) throws(LoadError) -> ByteReader {
        let ticket = related.withLock { $0.ticket() }
        loaders.loop.spawn {
            let result: Result<ByteReader, LoadError>
            do { result = .success(try await self.openRelated(reference)) } catch {
                result = .failure(error as? LoadError ?? .closed)
            }
            self.related.withLockNotifying { $0.end(ticket, result) }
        }
        return try related.waitWithLock { $0.result(of: ticket) }.get()
    }

    /// The same for a task.
    package func openRelated(_ reference: String) async throws -> ByteReader {
        let reader = try await loaders.openRelated(reference, to: key, id)
        let isWanted = related.withLock { related in
            if !related.isInterrupted { related.add(reader) }
            return !related.isInterrupted
        }
        guard isWanted else {
            await reader.close()
            throw LoadError.closed
        }
        return reader
    }

    /// Closes one of the readers that were opened by this one. Any thread.
    package func closeRelated(_ reader: ByteReader) {
        related.withLock { $0.remove(reader) }
        loaders.forget(reader.key, reader.id)
    }
}

extension ResourceLoaders {
    /// A reader that is wanted as much as the one whose resource refers to it.
    func openRelated(_ reference: String, to key: CacheKey, _ id: Int) async throws -> ByteReader {
        guard let loading = resources[key], let parent = loading.readers[id] else { throw LoadError.closed }
        let resource = try Self.related(reference, to: loading)
        let reader = try await open(
            resource, priority: parent.priority, readAhead: parent.readAhead, isReferred: true)
        if let now = resources[key]?.readers[id] {  // what was said meanwhile
            setPriority(reader.key, reader.id, now.priority)
            setReadAhead(reader.key, reader.id, now.readAhead)
            setPace(reader.key, reader.id, now.pace.bytesPerSecond)
            if now.isPlayed { markPlayed(reader.key, reader.id) }
        }
        return reader
    }

    /// What a resource may refer to: files of its own folder and below for a file, otherwise what has its scheme or is on
    /// the web. Never an address of a private network that is not the resource's own host: the server that wrote the
    /// reference can't reach it, and shall not do so through us.
    private static func related(_ reference: String, to loading: LoadingResource) throws(LoadError) -> Resource {
        let main = loading.resource
        func refused(_ why: String) -> LoadError {
            .refused(reason: "\(loading.urlName) refers to \(WebOrigin.redacted(reference)), \(why)")
        }
        if let path = main.path {
            let folder = String(path[...(path.lastIndex(of: "/") ?? path.startIndex)])
            guard let target = URLReference.path(reference, in: folder), target.hasPrefix(folder) else {
                throw refused("which is outside of its folder")
            }
            var resource = Resource(key: CacheKey(digestOf: "file", target), urls: ["file://" + target])
            resource.path = target
            return resource
        }
        let base = loading.redirectTarget ?? loading.url.url
        guard let url = URLReference.resolve(reference, against: base), (try? WebOrigin.checkCharacters(url)) != nil
        else { throw refused("which is no URL") }
        guard let origin = try? WebOrigin(url: url) else {
            // A scheme of the host's own refers to more of the same.
            guard let colon = url.firstIndex(of: ":"), main.urls[0].url.hasPrefix(url[...colon]) else {
                throw refused("which can't be fetched")
            }
            var resource = Resource(key: CacheKey(url: url), urls: [url], headers: main.headers)
            (resource.identity, resource.expectsMedia) = (main.identity, false)
            return resource
        }
        let home = try? WebOrigin(url: main.urls[0].url)
        let isTrusted = origin == home || main.furtherOrigins.contains(origin)
        // A playlist that another one named may name no private host that the first could not.
        let own = [home, try? WebOrigin(url: base)].compactMap { $0?.host }
        let hosts = main.privateHosts ?? Set(main.furtherOrigins.map(\.host) + own)
        guard hosts.contains(origin.host) || !PrivateNetwork.contains(host: origin.host) else {
            throw refused("which is in a private network")
        }
        let headers: HTTPHeaders = isTrusted ? main.headers : [:]
        var resource = Resource(key: CacheKey(url: url), urls: [url], headers: headers)
        (resource.furtherOrigins, resource.identity, resource.expectsMedia) = (
            main.furtherOrigins, main.identity, false
        )
        resource.privateHosts = hosts
        return resource
    }
}
