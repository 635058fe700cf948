/// Scheme, host and port of a URL (RFC 9110 §4.3.1): the border that credentials don't cross.
public struct WebOrigin: Hashable, Sendable, CustomStringConvertible {
    /// Lower case.
    public let scheme: String
    /// Lower case; an IPv6 address keeps its brackets.
    public let host: String
    /// The explicit port, or the scheme's own.
    public let port: Int
    /// As it would start a URL.
    public var description: String { "\(scheme)://\(host):\(port)" }

    /// The origin of an absolute `http` or `https` URL.
    ///
    /// - Throws: ``WebURLError`` that says what is wrong with the URL, without its query, which may hold a secret.
    public init(url: String) throws(WebURLError) {
        guard let colon = url.firstIndex(of: ":") else { throw .noScheme }
        let scheme = url[..<colon].lowercased()
        guard scheme == "http" || scheme == "https" else { throw .unsupportedScheme(scheme) }
        guard url[colon...].hasPrefix("://") else { throw .noHost }
        for character in url.unicodeScalars where character.value <= 0x20 || character.value == 0x7f {
            throw .illegalCharacter
        }
        let rest = url[url.index(colon, offsetBy: 3)...]
        var authority = rest.prefix { $0 != "/" && $0 != "?" && $0 != "#" }
        if let at = authority.lastIndex(of: "@") { authority = authority[authority.index(after: at)...] }
        var host = authority
        var port = scheme == "https" ? 443 : 80
        let afterAddress = authority.lastIndex(of: "]") ?? authority.startIndex
        if let separator = authority[afterAddress...].lastIndex(of: ":") {
            host = authority[..<separator]
            let digits = authority[authority.index(after: separator)...]
            if !digits.isEmpty {
                guard let number = UInt16(digits) else { throw .badPort(String(digits)) }
                port = Int(number)
            }
        }
        guard !host.isEmpty else { throw .noHost }
        self.scheme = scheme
        self.host = host.lowercased()
        self.port = port
    }

    /// Refuses what is no legal URL (RFC 3986 §2): a server would see other bytes than were meant, or none.
    ///
    /// - Parameter url: With any scheme.
    public static func checkCharacters(_ url: String) throws(WebURLError) {
        var hexDigitsDue = 0
        for byte in url.utf8 {
            guard byte > 0x20, byte < 0x7f else { throw .illegalCharacter }
            if hexDigitsDue > 0 {
                guard Character(Unicode.Scalar(byte)).isHexDigit else { throw .badPercent }
                hexDigitsDue -= 1
            } else if byte == UInt8(ascii: "%") {
                hexDigitsDue = 2
            }
        }
        guard hexDigitsDue == 0 else { throw .badPercent }
    }

    /// `url` without user, password, query and fragment, fit for logs and error texts.
    public static func redacted(_ url: String) -> String {
        var text = String(url.prefix { $0 != "?" && $0 != "#" })
        if let start = text.range(of: "://") {
            let authority = text[start.upperBound...].prefix { $0 != "/" }
            if let at = authority.lastIndex(of: "@") { text.removeSubrange(start.upperBound...at) }
        }
        return text
    }
}

extension String {
    /// The first place of `text`, as the standard library has it only for single characters.
    fileprivate func range(of text: String) -> Range<String.Index>? {
        var start = startIndex
        while start < endIndex {
            if self[start...].hasPrefix(text) { return start..<index(start, offsetBy: text.count) }
            start = index(after: start)
        }
        return nil
    }
}

/// Why a text is no URL that this package fetches.
public enum WebURLError: Error, Hashable, CustomStringConvertible {
    /// No colon in it.
    case noScheme
    /// Neither `http` nor `https`.
    case unsupportedScheme(String)
    /// Nothing between the slashes.
    case noHost
    /// The port is no number from 0 to 65535.
    case badPort(String)
    /// A space, a control character or a letter outside ASCII, which a URL writes in percent-encoding.
    case illegalCharacter
    /// A percent sign without two hexadecimal digits after it.
    case badPercent

    /// One sentence that says what to change.
    public var description: String {
        switch self {
        case .noScheme: "the URL has no scheme; write http:// or https:// in front"
        case .unsupportedScheme(let scheme): "the URL scheme \"\(scheme)\" is not handled; http and https are"
        case .noHost: "the URL names no host"
        case .badPort(let port): "\"\(port)\" is no port; ports are numbers from 0 to 65535"
        case .illegalCharacter:
            "the URL has a space, a control character or a letter outside ASCII; write it percent-encoded, such as %20"
        case .badPercent: "the URL has a % without two hexadecimal digits after it; a % itself is written %25"
        }
    }
}
