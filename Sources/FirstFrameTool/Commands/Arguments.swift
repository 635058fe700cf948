/// The words after the command's name.
struct Arguments {
    private(set) var values: [String] = []
    private var options: [String: [String]] = [:]
    private var flags: Set<String> = []

    /// - Parameters:
    ///   - options: Names of options that take a value.
    ///   - flags: Names of options that don't.
    ///   - letters: Short names, such as `-o` for `--output`.
    init(
        _ words: some Sequence<String>, options known: [String], flags knownFlags: [String],
        letters: [Character: String] = [:]
    ) throws(UsageError) {
        var words = Array(words)[...]
        while let word = words.popFirst() {
            if word.count >= 2, word.first == "-", let name = letters[word.dropFirst().first ?? "-"] {
                let rest = String(word.dropFirst(2))
                guard let value = rest.isEmpty ? words.popFirst() : rest else {
                    throw UsageError(text: "\(word) needs a value")
                }
                options[name, default: []].append(value)
                continue
            }
            guard word.hasPrefix("--"), word != "--" else {
                if word == "--" {
                    values += words
                    return
                }
                values.append(word)
                continue
            }
            let parts = word.dropFirst(2).split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
            let name = String(parts[0])
            if knownFlags.contains(name), parts.count == 1 {
                flags.insert(name)
            } else if known.contains(name) {
                guard let value = parts.count == 2 ? String(parts[1]) : words.popFirst() else {
                    throw UsageError(text: "--\(name) needs a value")
                }
                options[name, default: []].append(value)
            } else {
                let allowed = (known + knownFlags).sorted().map { "--\($0)" }.joined(separator: ", ")
                throw UsageError(text: "\(word) is not known here; options: \(allowed)")
            }
        }
    }

    func has(_ flag: String) -> Bool { flags.contains(flag) }
    /// The value of an option; the last one when it was given more than once.
    subscript(option: String) -> String? { options[option]?.last }
    /// Every value of an option that may be given more than once.
    func all(_ option: String) -> [String] { options[option] ?? [] }

    func number(_ option: String, in range: ClosedRange<Double>) throws(UsageError) -> Double? {
        guard let text = self[option] else { return nil }
        guard let number = Double(text), range.contains(number) else {
            throw UsageError(
                text: "--\(option) \(text): a number from \(range.lowerBound) to \(range.upperBound) is allowed")
        }
        return number
    }
}

/// A wrong command line; ends with exit status 2.
struct UsageError: Error, CustomStringConvertible {
    let text: String
    var description: String { "\(text)\ntry: firstframe help" }
}
