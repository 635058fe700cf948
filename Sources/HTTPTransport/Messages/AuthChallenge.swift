/// One challenge of a `WWW-Authenticate` field (RFC 9110 §11.6.1): what a server wants to see.
package struct AuthChallenge: Hashable, Sendable {
    /// Lower case, such as `basic`, `digest`, `bearer`.
    package let scheme: String
    /// Lower-case names.
    package private(set) var parameters: [String: String] = [:]
    package var realm: String? { parameters["realm"] }

    /// The challenges of one field, in the order of the server's preference; what can't be read ends the list.
    package static func parse(_ text: String) -> [AuthChallenge] {
        var scanner = FieldScanner(text)
        var challenges: [AuthChallenge] = []
        while true {
            scanner.skip(" \t,")
            guard let word = scanner.token() else { return challenges }
            let afterWord = scanner
            scanner.skip(" \t")
            // "name = value" belongs to the last challenge; any other word begins a new one.
            if scanner.take("="), let value = scanner.value(), !challenges.isEmpty {
                challenges[challenges.count - 1].parameters[word.lowercased()] = value
            } else {
                scanner = afterWord
                challenges.append(AuthChallenge(scheme: word.lowercased()))
                scanner.skip(" \t")
                scanner.skipToken68()
            }
        }
    }

    private init(scheme: String) { self.scheme = scheme }
}

/// Walks over a structured field value byte by byte.
struct FieldScanner {
    private let bytes: [UInt8]
    private var position = 0
    init(_ text: String) { bytes = Array(text.utf8) }

    var isAtEnd: Bool { position >= bytes.count }

    mutating func skip(_ characters: String) {
        while position < bytes.count, characters.utf8.contains(bytes[position]) { position += 1 }
    }

    mutating func take(_ character: Unicode.Scalar) -> Bool {
        guard position < bytes.count, bytes[position] == UInt8(ascii: character) else { return false }
        position += 1
        return true
    }

    /// One or more token characters (RFC 9110 §5.6.2).
    mutating func token() -> String? {
        let start = position
        while position < bytes.count, HTTPHeaders.isTokenCharacter(bytes[position]) { position += 1 }
        return start == position ? nil : String(decoding: bytes[start..<position], as: UTF8.self)
    }

    /// A token or a quoted string, after optional space.
    mutating func value() -> String? {
        skip(" \t")
        guard take("\"") else { return token() }
        var text: [UInt8] = []
        while position < bytes.count {
            let byte = bytes[position]
            position += 1
            if byte == UInt8(ascii: "\"") { return String(decoding: text, as: UTF8.self) }
            if byte == UInt8(ascii: "\\"), position < bytes.count {
                text.append(bytes[position])
                position += 1
            } else {
                text.append(byte)
            }
        }
        return nil  // the quote never ends
    }

    /// Base64-like credentials that some schemes put in place of parameters, such as `Negotiate YII=`.
    mutating func skipToken68() {
        let start = position
        while position < bytes.count,
            HTTPHeaders.isTokenCharacter(bytes[position]) || bytes[position] == UInt8(ascii: "/")
        {
            position += 1
        }
        let end = position
        while position < bytes.count, bytes[position] == UInt8(ascii: "=") { position += 1 }
        let isAlone = position == bytes.count || bytes[position] == UInt8(ascii: ",")
        // "name=value" looks like it up to the sign, and has a value after it.
        if !isAlone || end == start { position = start }
    }
}
