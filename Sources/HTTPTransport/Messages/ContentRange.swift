package import FeedVocabulary

/// The `Content-Range` of a 206 or 416 answer (RFC 9110 §14.4).
package struct ContentRange: Hashable, Sendable {
    /// The bytes enclosed; `nil` on a 416.
    package var range: ByteRange?
    /// Length of the whole resource; `nil` where the server wrote `*`.
    package var total: Int64?

    /// Reads `bytes 0-9/100`, `bytes 0-9/*` or `bytes */100`; anything else, also what contradicts itself, is `nil`.
    package init?(_ text: String) {
        let parts = text.split(separator: " ", maxSplits: 1)
        guard parts.count == 2, parts[0].lowercased() == "bytes" else { return nil }
        let sides = parts[1].split(separator: "/", omittingEmptySubsequences: false)
        guard sides.count == 2 else { return nil }
        if sides[1] != "*" {
            guard let total = Self.number(sides[1]) else { return nil }
            self.total = total
        }
        if sides[0] == "*" {
            guard total != nil else { return nil }
            return
        }
        let ends = sides[0].split(separator: "-", omittingEmptySubsequences: false)
        guard ends.count == 2, let first = Self.number(ends[0]), let last = Self.number(ends[1]),
            last >= first, last < Int64.max
        else { return nil }
        if let total, total <= last { return nil }
        range = first..<last + 1
    }

    /// Digits only: `Int64("+1")` would be accepted otherwise.
    static func number(_ digits: some StringProtocol) -> Int64? {
        guard !digits.isEmpty, digits.utf8.allSatisfy({ $0 >= UInt8(ascii: "0") && $0 <= UInt8(ascii: "9") }) else {
            return nil
        }
        return Int64(digits)
    }
}
