/// What the device is connected by, as far as strategies care. The host says so; see ``FeedRuntime/setNetwork(_:)``.
public enum NetworkKind: String, Hashable, Sendable, CaseIterable {
    /// Bytes cost nothing.
    case unmetered
    /// Bytes cost money, or come out of a volume.
    case metered
    /// There is no network: strategies wait, what plays goes on with what it has.
    case none
}

/// What strategies may take of a network. The current entry is exempt.
public struct NetworkLimits: Hashable, Sendable {
    /// Bytes a second of preloads and pre-renders together. Allowed: 1 KB and more; `nil`, the default, for no limit.
    public var bytesPerSecond: Int64?
    /// Bytes of preloads and pre-renders, from the call that sets it on. Allowed: 0 and more; `nil`, the default, for no
    /// limit.
    public var byteBudget: Int64?

    /// No limits by default.
    public init(bytesPerSecond: Int64? = nil, byteBudget: Int64? = nil) {
        (self.bytesPerSecond, self.byteBudget) = (bytesPerSecond, byteBudget)
    }

    /// - Throws: ``ConfigurationError`` naming the first field outside its allowed values.
    package func validate() throws(ConfigurationError) {
        if let bytesPerSecond, bytesPerSecond < 1024 {
            throw .outOfRange(field: "bytesPerSecond", allowed: "1024 and more, or nil")
        }
        if let byteBudget, byteBudget < 0 { throw .outOfRange(field: "byteBudget", allowed: "0 and more, or nil") }
    }
}
