/// Header fields in the order sent or received; names compare without case (RFC 9110 §5.1).
package struct HTTPHeaders: Hashable, Sendable, ExpressibleByDictionaryLiteral {
    package struct Field: Hashable, Sendable {
        package let name: String, value: String
    }
    package private(set) var fields: [Field] = []

    package init() {}
    package init(_ fields: [(String, String)]) { self.fields = fields.map { Field(name: $0.0, value: $0.1) } }
    /// In the order of the names, as a dictionary has none.
    package init(_ fields: [String: String]) { self.init(fields.sorted { $0.key < $1.key }.map { ($0.key, $0.value) }) }
    package init(dictionaryLiteral elements: (String, String)...) { self.init(elements) }

    /// The first field of that name.
    package subscript(name: String) -> String? {
        let name = name.lowercased()
        return fields.first { $0.name.lowercased() == name }?.value
    }

    package func all(_ name: String) -> [String] {
        let name = name.lowercased()
        return fields.filter { $0.name.lowercased() == name }.map(\.value)
    }

    package mutating func append(_ name: String, _ value: String) { fields.append(Field(name: name, value: value)) }

    /// Replaces every field of that name.
    package mutating func set(_ name: String, _ value: String) {
        let lowered = name.lowercased()
        fields.removeAll { $0.name.lowercased() == lowered }
        append(name, value)
    }

    /// Refuses what would break the request apart on the wire (RFC 9110 §5.1, §5.5).
    package func validate() throws(TransportError) {
        for field in fields {
            guard !field.name.isEmpty, field.name.utf8.allSatisfy(Self.isTokenCharacter) else {
                throw .invalidHeader(name: field.name, reason: "a name has letters, digits and !#$%&'*+-.^_`|~ only")
            }
            guard field.value.utf8.allSatisfy({ $0 >= 0x20 && $0 != 0x7f || $0 == 0x09 }) else {
                throw .invalidHeader(name: field.name, reason: "a value has no line break, NUL or control character")
            }
        }
    }

    static func isTokenCharacter(_ byte: UInt8) -> Bool {
        switch byte {
        case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
            UInt8(ascii: "0")...UInt8(ascii: "9"):
            true
        default: "!#$%&'*+-.^_`|~".utf8.contains(byte)
        }
    }

    /// Fields that tell nothing of who asks; all others stay with the origin they were given for.
    private static let forwardable: Set<String> = [
        "accept", "accept-encoding", "accept-language", "range", "if-range", "user-agent",
    ]

    /// What is bound to an origin, and may be a credential.
    package var withoutForwarded: HTTPHeaders {
        var kept = HTTPHeaders()
        kept.fields = fields.filter { !Self.forwardable.contains($0.name.lowercased()) }
        return kept
    }

    /// What may be sent on to another origin after a redirect (RFC 9110 §15.4).
    package var forwardedAcrossOrigins: HTTPHeaders {
        var kept = HTTPHeaders()
        kept.fields = fields.filter { Self.forwardable.contains($0.name.lowercased()) }
        return kept
    }
}
