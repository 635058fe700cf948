import Foundation
import Glibc

/// Where the command writes: words for people to standard output, or one JSON object there and words to standard error.
struct Console: Sendable {
    let isJSON: Bool

    func say(_ text: String) { write(text + "\n", to: isJSON ? 2 : 1) }
    func complain(_ text: String) { write("firstframe: \(text)\n", to: 2) }

    func json(_ value: some Encodable) throws {
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.prettyPrinted, .sortedKeys, .withoutEscapingSlashes]
        write(String(decoding: try encoder.encode(value), as: UTF8.self) + "\n", to: 1)
    }

    /// Replaces the last line on standard error, on a terminal.
    func progress(_ text: String) { write("\r\(text)\u{1B}[K", to: 2) }

    /// Bytes to standard output.
    ///
    /// - Returns: Whether the reader is still there.
    func output(_ bytes: [UInt8]) -> Bool {
        var rest = bytes[...]
        while !rest.isEmpty {
            let count = rest.withUnsafeBytes { Glibc.write(1, $0.baseAddress, $0.count) }
            if count < 0, errno == EINTR { continue }
            guard count > 0 else { return false }
            rest = rest.dropFirst(count)
        }
        return true
    }

    /// Unbuffered, so that lines appear as things happen, also in a pipe.
    private func write(_ text: String, to descriptor: Int32) {
        var bytes = Array(text.utf8)[...]
        while !bytes.isEmpty {
            let count = bytes.withUnsafeBytes { Glibc.write(descriptor, $0.baseAddress, $0.count) }
            guard count > 0 else { return }  // the reader went away
            bytes = bytes.dropFirst(count)
        }
    }
}

extension Double {
    /// Milliseconds for people: three digits that matter.
    var shown: String {
        self < 10
            ? hundredths : self < 100 ? String(format: "%.1f", self) : String(format: "%.0f", self)
    }
    /// With two decimals, for what is compared.
    var hundredths: String { String(format: "%.2f", self) }
}

extension [String: Int] {
    /// Counts for people, the most first.
    var listed: String {
        sorted { ($1.value, $0.key) < ($0.value, $1.key) }.map { "\($0.key) \($0.value)" }.joined(separator: ", ")
    }
}
