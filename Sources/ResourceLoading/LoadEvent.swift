public import FeedVocabulary

/// What happens to the bytes of resources, for logs and statistics; without secrets.
public enum LoadEvent: Hashable, Sendable {
    /// A URL failed for good, and the next one is used.
    case switchedURL(CacheKey, from: String, to: String, because: LoadError)
    /// The refresher gave new URLs.
    case refreshedURLs(CacheKey)
    /// The file on the server is another one than the one on disk, whose bytes were dropped.
    case replaced(CacheKey)
    /// All bytes are there.
    case loadedWhole(CacheKey)
    /// Those who waited for bytes were told this.
    case failed(CacheKey, LoadError)
    /// Bytes could not be stored on disk; they are served from memory.
    case cacheFailed(String)
}
