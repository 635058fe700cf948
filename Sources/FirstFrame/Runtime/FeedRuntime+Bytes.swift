public import EventLoop
public import FeedVocabulary
import MediaCache
public import ResourceLoading

/// A clip in the disk cache.
public struct CachedMedia: Hashable, Sendable {
    /// The name of the bytes; a digest of name and identity for what belongs to one account.
    public let key: CacheKey
    /// Bytes of the whole clip, `nil` while unknown.
    public let length: Int64?
    /// Bytes that are stored.
    public let storedBytes: Int64
    /// Whether all of it is stored.
    public let isComplete: Bool
    /// MIME type as the server wrote it.
    public let contentType: String?
    /// When it was last used.
    public let lastUsedAt: WallTime
}

/// Bytes without a page: servers, schemes, direct reads, the cache. Any thread.
extension FeedRuntime {
    // MARK: Servers and schemes

    /// Gives the credentials of one server to the loader; it asks once for all requests that wait, again when one is
    /// refused with 401 or 403, and a minute before a known expiry.
    ///
    /// A credential goes to the origin (scheme, host, port) of `url` and to those of `further`, and nowhere else: not
    /// after a redirect to another origin, and not from https to http.
    ///
    /// - Parameters:
    ///   - provider: A ``Credential`` itself, or an object that fetches one; `nil` takes the account away.
    ///   - url: Any URL of the server.
    ///   - identity: Whose account it is; what was fetched for one identity is never served to another.
    /// - Throws: ``SourceError/url(_:)``, or ``SourceError/header(_:)`` for a credential that can't be sent.
    public func setCredentials(
        _ provider: (any CredentialProvider)?, for url: String, further: [String] = [], identity: String? = nil
    ) async throws {
        do {
            let origins = try ([url] + further).map { try WebOrigin(url: $0) }
            try (provider as? Credential)?.validate()
            await loaders.setCredentials(
                provider, for: origins[0], further: Set(origins.dropFirst()), identity: identity)
        } catch let error as WebURLError {
            throw SourceError.url(error)
        } catch {
            throw SourceError.header("\(error)")
        }
    }

    /// Gives a fixed credential to the loader; otherwise as with a provider.
    ///
    /// - Throws: ``SourceError/url(_:)``, or ``SourceError/header(_:)`` for a credential that can't be sent.
    public func setCredentials(
        _ credential: Credential, for url: String, further: [String] = [], identity: String? = nil
    ) async throws {
        try await setCredentials(
            credential as (any CredentialProvider)?, for: url, further: further, identity: identity)
    }

    /// Routes URLs of a scheme of the host's own, such as `drive:…`, to a delegate; `nil` ends that.
    ///
    /// The runtime keeps the delegate until then.
    ///
    /// - Throws: ``SchemeError`` for a name that is no scheme, or is the loader's own.
    public func register(_ delegate: (any ResourceLoaderDelegate)?, scheme: String) async throws {
        try await loaders.register(delegate, scheme: scheme)
    }

    /// What happens to the bytes of resources from now on. A listener that does not read loses the oldest of 256.
    public func loadEvents() async -> AsyncStream<LoadEvent> { await loaders.events() }

    // MARK: Direct reads

    /// A reader of a source's bytes, through loader and cache.
    ///
    /// - Parameter readAhead: Bytes fetched ahead of what was read. Allowed: 0 to 256 MB; default 1 MB.
    /// - Throws: ``ConfigurationError``, ``LoadError/closed`` after the shutdown, or `CancellationError`.
    public func open(
        _ source: MediaSource, priority: LoadPriority = .current, readAhead: Int64 = 1024 * 1024
    ) async throws -> MediaReader {
        guard (0...256 * 1024 * 1024).contains(readAhead) else {
            throw ConfigurationError.outOfRange(field: "readAhead", allowed: "0 to 256 MB")
        }
        let file = try await resolve(source, isUrgent: priority == .current)
        return MediaReader(try await loaders.open(file.resource, priority: priority, readAhead: readAhead))
    }

    /// A reader of a clip at URLs; otherwise the same.
    public func open(
        _ source: URLSource, priority: LoadPriority = .current, readAhead: Int64 = 1024 * 1024
    ) async throws -> MediaReader {
        try await open(.url(source), priority: priority, readAhead: readAhead)
    }

    // MARK: The cache

    /// What the cache holds, most recently used first.
    public func cachedMedia() async -> [CachedMedia] {
        await cache.records.map {
            CachedMedia(
                key: $0.key, length: $0.length, storedBytes: $0.ranges.count, isComplete: $0.isComplete,
                contentType: $0.contentType, lastUsedAt: $0.lastUsedAt)
        }
    }

    /// Removes cached clips, all but the `count` used last. What is in use goes as soon as it is not.
    public func clearCache(keepingMostRecent count: Int = 0) async {
        await cache.removeAll(keepingMostRecent: max(0, count))
    }

    /// Removes what was fetched for one identity.
    public func clearCache(identity: String) async { await cache.removeAll(identity: identity) }

    /// Removes one source's bytes.
    ///
    /// - Returns: Whether there were some.
    @discardableResult public func removeFromCache(_ source: URLSource) async -> Bool {
        await cache.remove(await loaders.storageKey(of: source.resource))
    }

    /// Copies a source that is cached as a whole to a file, which appears under its name when it is complete.
    ///
    /// - Throws: ``FeedError/cache(_:)`` when it is not there, not whole, or can't be written.
    public func export(_ source: URLSource, to path: String) async throws {
        do {
            try await cache.export(await loaders.storageKey(of: source.resource), to: path)
        } catch let error as CacheError {
            throw FeedError.cache("\(error)")
        }
    }
}
