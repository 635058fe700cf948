/// One feed page of a runtime.
public struct PageID: Hashable, Sendable, Comparable, CustomStringConvertible {
    /// The name that the host gave, unique in a runtime.
    public let name: String
    /// The page's name.
    public var description: String { name }
    package init(_ name: String) { self.name = name }
    /// Alphabetical, so that reports have an order.
    public static func < (left: PageID, right: PageID) -> Bool { left.name < right.name }
}

/// One place in a page's list. Two entries may hold the same source.
public struct EntryID: Hashable, Sendable, Comparable, CustomStringConvertible, ExpressibleByStringLiteral {
    /// The host's name of the entry, unique in its page.
    public let name: String
    /// The entry's name.
    public var description: String { name }
    /// An identity from the host's own name, such as the post's id.
    public init(_ name: String) { self.name = name }
    /// An identity written in the source code.
    public init(stringLiteral name: String) { self.name = name }
    /// Alphabetical, so that reports have an order.
    public static func < (left: EntryID, right: EntryID) -> Bool { left.name < right.name }
}

extension Dictionary where Key: Comparable {
    /// The elements in the order of their keys. What is done to several of them one after the other must not depend on
    /// a table's own order, which differs from run to run: a simulated run is a function of its seed alone.
    package var inOrder: [(key: Key, value: Value)] {
        count < 2 ? Array(self) : sorted { $0.key < $1.key }
    }
}

/// How urgently bytes are wanted. A fetch has the highest priority of those who wait for it.
public enum LoadPriority: Int, Hashable, Sendable, Comparable {
    /// Bytes of an entry that may be played next.
    case preload
    /// Bytes that a spare engine needs for the first frame of the next entry.
    case preRender
    /// Bytes of the entry on screen.
    case current

    /// Less urgent than.
    public static func < (left: LoadPriority, right: LoadPriority) -> Bool { left.rawValue < right.rawValue }
}
