/// How many entries are held by spare engines, with their first frame decoded.
public struct PreRenderConfiguration: Hashable, Sendable {
    /// Entries in the direction of the viewer's motion. Allowed: `0...2`; default 1.
    public var ahead: Int
    /// Entries against it, where memory allows. Allowed: `0...1`; default 0.
    public var behind: Int

    /// One entry ahead by default. One engine of the runtime's limit stays for what plays: with fewer than asked for, those
    /// ahead come first.
    public init(ahead: Int = 1, behind: Int = 0) { (self.ahead, self.behind) = (ahead, behind) }

    /// - Throws: ``ConfigurationError`` naming the first field outside its allowed values.
    package func validate() throws(ConfigurationError) {
        guard (0...2).contains(ahead) else { throw .outOfRange(field: "ahead", allowed: "0 to 2") }
        guard (0...1).contains(behind) else { throw .outOfRange(field: "behind", allowed: "0 to 1") }
    }
}
