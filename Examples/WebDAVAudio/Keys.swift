import Foundation

/// What the listener types, a line at a time.
final class Keys: Sendable {
    enum Key {
        case next, previous, quit
        case seek(Double)
    }
    private let lines = LineBox()

    init() {
        // A blocking read needs a thread of its own; it ends with the program.
        Thread.detachNewThread { [lines] in
            while let line = readLine() {
                switch line.trimmingCharacters(in: .whitespaces) {
                case "n": lines.put(.next)
                case "p": lines.put(.previous)
                case "q": lines.put(.quit)
                case let text:
                    if let seconds = Double(text), seconds >= 0, seconds < 1e6 { lines.put(.seek(seconds)) }
                }
            }
        }
    }
    var isWaiting: Bool { lines.isFull }
    func take() -> Key? { lines.take() }
}

private final class LineBox: @unchecked Sendable {
    // @unchecked: `key` is guarded by `lock`.
    private let lock = NSLock()
    private var key: Keys.Key?
    var isFull: Bool { lock.withLock { key != nil } }
    func put(_ new: Keys.Key) { lock.withLock { key = new } }
    func take() -> Keys.Key? {
        lock.withLock {
            defer { key = nil }
            return key
        }
    }
}
