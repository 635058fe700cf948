/// A value of a JSON5 text with the line it began on, which Foundation's reader doesn't keep.
///
/// The subset of json5.org that scripts need: comments, unquoted keys, single quotes, trailing commas, hexadecimal and
/// signed numbers.
struct JSON5Value: Sendable {
    indirect enum Content: Sendable {
        case object([(key: String, value: JSON5Value)])
        case array([JSON5Value])
        case string(String)
        case number(Double)
        case bool(Bool)
        case null
    }
    let line: Int
    let content: Content

    /// What a person would call it.
    var kind: String {
        switch content {
        case .object: "an object"
        case .array: "a list"
        case .string: "a text"
        case .number: "a number"
        case .bool: "true or false"
        case .null: "null"
        }
    }
}

/// What is wrong in a script, and where.
struct ScriptError: Error, CustomStringConvertible {
    let line: Int
    let text: String
    var description: String { "line \(line): \(text)" }
}

struct JSON5Parser {
    private let text: [Character]
    private var index = 0
    private var line = 1
    private var depth = 0
    private static let largestDepth = 64

    private init(_ text: String) { self.text = Array(text.replacing("\r\n", with: "\n")) }

    static func parse(_ text: String) throws(ScriptError) -> JSON5Value {
        var parser = JSON5Parser(text)
        let value = try parser.value()
        try parser.skipSpace()
        guard parser.current == nil else { throw parser.error("nothing may follow the end of the script") }
        return value
    }

    private var current: Character? { index < text.count ? text[index] : nil }
    private func error(_ text: String) -> ScriptError { ScriptError(line: line, text: text) }

    private mutating func advance() {
        if current == "\n" { line += 1 }
        index += 1
    }

    private mutating func skipSpace() throws(ScriptError) {
        while let character = current {
            if character.isWhitespace {
                advance()
            } else if text[index...].starts(with: "//") {
                while let character = current, character != "\n" { _ = character; advance() }
            } else if text[index...].starts(with: "/*") {
                let start = line
                advance()
                advance()
                while !text[min(index, text.count)...].starts(with: "*/") {
                    guard current != nil else {
                        throw ScriptError(line: start, text: "this comment has no end: write */")
                    }
                    advance()
                }
                advance()
                advance()
            } else {
                return
            }
        }
    }

    private mutating func value() throws(ScriptError) -> JSON5Value {
        try skipSpace()
        depth += 1
        defer { depth -= 1 }
        guard depth <= Self.largestDepth else { throw error("nested more than \(Self.largestDepth) deep") }
        let line = line
        let content: JSON5Value.Content
        switch current {
        case "{": content = .object(try object())
        case "[": content = .array(try array())
        case "\"", "'": content = .string(try string())
        case nil: throw error("the script ends where a value was expected")
        default: content = try word()
        }
        return JSON5Value(line: line, content: content)
    }

    private mutating func object() throws(ScriptError) -> [(key: String, value: JSON5Value)] {
        let start = line
        advance()
        var members: [(key: String, value: JSON5Value)] = []
        while true {
            try skipSpace()
            guard let character = current else { throw ScriptError(line: start, text: "this { has no matching }") }
            if character == "}" {
                advance()
                return members
            }
            let key = character == "\"" || character == "'" ? try string() : bareWord()
            guard !key.isEmpty else { throw error("a key was expected instead of \"\(character)\"") }
            guard !members.contains(where: { $0.key == key }) else {
                throw error("the key \"\(key)\" stands here twice")
            }
            try skipSpace()
            guard current == ":" else { throw error("a colon was expected after the key \"\(key)\"") }
            advance()
            members.append((key, try value()))
            try separator(or: "}")
        }
    }

    private mutating func array() throws(ScriptError) -> [JSON5Value] {
        let start = line
        advance()
        var elements: [JSON5Value] = []
        while true {
            try skipSpace()
            guard let character = current else { throw ScriptError(line: start, text: "this [ has no matching ]") }
            if character == "]" {
                advance()
                return elements
            }
            elements.append(try value())
            try separator(or: "]")
        }
    }

    private mutating func separator(or end: Character) throws(ScriptError) {
        try skipSpace()
        if current == "," {
            advance()
        } else if current != end, current != nil {
            throw error("a comma or \(end) was expected")
        }
    }

    private mutating func bareWord() -> String {
        var word = ""
        while let character = current, character.isLetter || character.isNumber || "_$.+-".contains(character) {
            word.append(character)
            advance()
        }
        return word
    }

    private mutating func word() throws(ScriptError) -> JSON5Value.Content {
        let word = bareWord()
        switch word {
        case "true": return .bool(true)
        case "false": return .bool(false)
        case "null": return .null
        default:
            if word.lowercased().hasPrefix("0x"), let number = UInt64(word.dropFirst(2), radix: 16) {
                return .number(Double(number))
            }
            if let number = Double(word), number.isFinite { return .number(number) }
            let shown = word.isEmpty ? current.map(String.init) ?? "" : word
            throw error("\"\(shown)\" is no value; texts stand in quotes")
        }
    }

    private mutating func string() throws(ScriptError) -> String {
        let (quote, start) = (current, line)
        advance()
        var result = ""
        while let character = current, character != quote {
            advance()
            guard character == "\\" else {
                guard character != "\n" else { throw ScriptError(line: start, text: "this text has no closing quote") }
                result.append(character)
                continue
            }
            guard let escaped = current else { break }
            advance()
            switch escaped {
            case "n": result.append("\n")
            case "t": result.append("\t")
            case "r": result.append("\r")
            case "u":
                let digits = String(text[index..<min(index + 4, text.count)])
                guard let code = UInt32(digits, radix: 16), let scalar = Unicode.Scalar(code) else {
                    throw error("\\u needs four hexadecimal digits")
                }
                index += 4
                result.unicodeScalars.append(scalar)
            case "\n": continue
            default: result.append(escaped)
            }
        }
        guard current == quote else { throw ScriptError(line: start, text: "this text has no closing quote") }
        advance()
        return result
    }
}
