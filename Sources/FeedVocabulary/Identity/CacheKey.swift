/// The name under which a resource's bytes are cached: `[A-Za-z0-9]+`, compared case-sensitively.
///
/// Two resources with different bytes need different keys; one resource under many URLs keeps one key.
public struct CacheKey: Hashable, Sendable, CustomStringConvertible {
    /// The letters and digits of the key.
    public let text: String
    /// The key itself.
    public var description: String { text }

    /// A key chosen by the host.
    ///
    /// - Throws: ``CacheKeyError`` naming the first character that is not a letter or a digit.
    public init(_ text: String) throws(CacheKeyError) {
        guard !text.isEmpty else { throw .empty }
        for character in text.unicodeScalars {
            switch character {
            case "a"..."z", "A"..."Z", "0"..."9": continue
            case _: throw .illegalCharacter(Character(character), in: text)
            }
        }
        self.text = text
    }

    /// The key of the bytes that `identity` sees under another key.
    package init(_ key: CacheKey, of identity: String) { text = MD5.hexDigest(of: "\(key.text)\n\(identity)".utf8) }

    /// The key of a name that is no URL: the MD5 of all of it.
    package init(digestOf parts: String...) { text = MD5.hexDigest(of: parts.joined(separator: "\n").utf8) }

    /// Query parameters that sign or date a URL without naming other bytes; ``init(url:)`` leaves them out.
    ///
    /// From the URL signing rules of the services named: AWS (`X-Amz-…`), Google (`X-Goog-…`), Azure SAS
    /// (`sig`, `se`, `sv`, `st`, `sp`, `sr`), CDN tokens (`auth_key`, `token`, `hdnts`, `Expires`, `Signature`,
    /// `Key-Pair-Id`, `Policy`), Volcengine (`x-expires`, `x-signature`).
    private static let signatureParameters: Set<String> = [
        "sig", "signature", "sign", "token", "access_token", "expires", "expire", "expiry", "policy", "key-pair-id",
        "auth_key", "hdnts", "hdnea", "se", "sv", "st", "sp", "sr", "skoid", "sktid", "skt", "ske", "sks", "skv",
        "x-expires", "x-signature", "deadline",
    ]

    /// The default key of a URL: the MD5 of the URL without fragment and without signature parameters.
    public init(url: String) {
        let withoutFragment = url.prefix { $0 != "#" }
        let parts = withoutFragment.split(separator: "?", maxSplits: 1, omittingEmptySubsequences: false)
        var name = String(parts[0])
        if parts.count == 2 {
            let kept = parts[1].split(separator: "&", omittingEmptySubsequences: false).filter { parameter in
                let field = parameter.prefix { $0 != "=" }.lowercased()
                return !field.hasPrefix("x-amz-") && !field.hasPrefix("x-goog-")
                    && !Self.signatureParameters.contains(field)
            }
            if !kept.isEmpty { name += "?" + kept.joined(separator: "&") }
        }
        text = MD5.hexDigest(of: name.utf8)
    }
}

/// Why a text is no cache key.
public enum CacheKeyError: Error, Hashable, CustomStringConvertible {
    /// The text has no characters.
    case empty
    /// The text has a character that is neither a letter nor a digit.
    case illegalCharacter(Character, in: String)

    /// One sentence that says what to change.
    public var description: String {
        switch self {
        case .empty: "a cache key needs at least one letter or digit"
        case .illegalCharacter(let character, let text):
            "cache key \"\(text)\" has \"\(character)\"; only the letters A-Z, a-z and the digits 0-9 are allowed"
        }
    }
}
