import EventLoop
import FeedVocabulary
import Glibc

/// The bytes of one resource that can be read now, as threads of one's own see them.
///
/// The loop adds to it; an engine's decode thread takes from it without a hop to the loop, and blocks only for bytes
/// that have not come. Any thread.
final class ResourceBytes: Sendable {
    struct State {
        var file: (any OpenFile)?
        var stored = ByteRangeSet()  // in `file`
        var lost = ByteRangeSet()  // no longer in `file`, and the cache does not know
        var memory = MemoryBytes()
        var length: Int64?
        var readers: [Int: ReaderState] = [:]
        var readable: ByteRangeSet {
            guard !memory.ranges.isEmpty else { return stored }
            var all = stored
            for range in memory.ranges.ranges { all.insert(range) }
            return all
        }
    }
    struct ReaderState {
        var isInterrupted = false
        /// Its thread has something else to do: the read that waits, or the next one, fails.
        var isNudged = false
        /// A failure that this reader has not been told yet; told once, and then the bytes are asked for again.
        var failure: LoadError?
        var consumed = ByteRangeSet()
        /// Time that blocking reads have waited for bytes.
        var waited = Duration.zero
        /// Where the reader last said it was.
        var announced: Int64 = 0
    }
    enum Piece {
        case file(any OpenFile, count: Int)
        case copied(count: Int)
        case end
        case failed(LoadError)
    }

    let state: Lock<State>
    init() { state = Lock(State()) }

    /// Reads at most `target.count` bytes at `offset`; 0 at the end of the resource. Blocks.
    ///
    /// - Parameter demand: Called without the lock when bytes have to be fetched, or read-ahead has to move on.
    func read(
        at offset: Int64, into target: UnsafeMutableRawBufferPointer, reader: Int, clock: any LoopExecutor,
        demand: (Int64) -> Void
    ) throws(LoadError) -> Int {
        if offset == .max { return 0 }  // no resource reaches there, and no range ends after it
        var waitStart: LoopInstant?
        let mustAsk = state.withLock { state -> Bool in
            guard let known = state.readers[reader], !known.isInterrupted, known.failure == nil else { return false }
            let isMissing = Self.available(state, at: offset) == 0
            let hasMoved = offset - known.announced >= Self.announceEvery || offset < known.announced
            guard isMissing || hasMoved else { return false }
            state.readers[reader]?.announced = offset
            return true
        }
        if mustAsk { demand(offset) }
        let piece = state.waitWithLock { state -> Piece? in
            guard let known = state.readers[reader] else { return .failed(.closed) }
            if known.isInterrupted { return .failed(known.failure ?? .closed) }
            if known.isNudged { return .failed(.closed) }
            if let length = state.length, offset >= length { return .end }
            let inFile = Int(min(Int64(target.count), state.stored.contiguousEnd(from: offset) - offset))
            if inFile > 0, let file = state.file {
                state.readers[reader]?.consumed.insert(offset..<offset + Int64(inFile))
                return .file(file, count: inFile)
            }
            let inMemory = Int(min(Int64(target.count), state.memory.ranges.contiguousEnd(from: offset) - offset))
            if inMemory > 0 {
                state.readers[reader]?.consumed.insert(offset..<offset + Int64(inMemory))
                state.memory.copy(from: offset, into: UnsafeMutableRawBufferPointer(rebasing: target[..<inMemory]))
                return .copied(count: inMemory)
            }
            if waitStart == nil { waitStart = clock.now }
            return state.readers[reader]?.failure.take().map { .failed($0) }
        }
        if let waitStart {
            state.withLock { $0.readers[reader]?.waited += waitStart.duration(to: clock.now) }
        }
        switch piece {
        case .end: return 0
        case .failed(let error): throw error
        case .copied(let count): return count
        case .file(let file, let count):
            guard let descriptor = file.descriptor else { throw .closed }
            let got = pread(descriptor, target.baseAddress, count, off_t(offset))
            // A file cut short behind our back has lost bytes that the index promised: they are fetched again.
            if got <= 0 { lose(offset..<offset + Int64(count)) }
            // And bytes that were given up meanwhile to make room may have been zeros already.
            guard got > 0, isStored(offset..<offset + Int64(got)) else {
                return try read(at: offset, into: target, reader: reader, clock: clock, demand: demand)
            }
            return got
        }
    }

    /// The failure that `reader` has not been told yet.
    func takeFailure(_ reader: Int) -> LoadError? { state.withLock { $0.readers[reader]?.failure.take() } }

    /// Whether all of `range` is in the file; asked after a read, because room may have been made during it.
    func isStored(_ range: ByteRange) -> Bool { state.withLock { $0.stored.contains(range) } }

    /// The file does not have these bytes, although they were stored in it.
    func lose(_ range: ByteRange) {
        state.withLock { state in
            state.stored.remove(range)
            state.lost.insert(range)
        }
    }

    /// Bytes read on before the loop is told where the reader is.
    private static let announceEvery: Int64 = 64 * 1024

    private static func available(_ state: State, at offset: Int64) -> Int64 {
        if let length = state.length, offset >= length { return 1 }
        return max(state.stored.contiguousEnd(from: offset), state.memory.ranges.contiguousEnd(from: offset)) - offset
    }

    /// What an asynchronous reader gets at once: bytes from memory, or the file to read from; `nil` when it must wait.
    func piece(at offset: Int64, count: Int, reader: Int) -> (bytes: [UInt8]?, file: (any OpenFile)?, count: Int)? {
        state.withLock { state -> (bytes: [UInt8]?, file: (any OpenFile)?, count: Int)? in
            let inFile = Int(min(Int64(count), state.stored.contiguousEnd(from: offset) - offset))
            if inFile > 0, let file = state.file {
                state.readers[reader]?.consumed.insert(offset..<offset + Int64(inFile))
                return (nil, file, inFile)
            }
            let inMemory = Int(min(Int64(count), state.memory.ranges.contiguousEnd(from: offset) - offset))
            guard inMemory > 0 else { return nil }
            state.readers[reader]?.consumed.insert(offset..<offset + Int64(inMemory))
            var bytes = [UInt8](repeating: 0, count: inMemory)
            bytes.withUnsafeMutableBytes { state.memory.copy(from: offset, into: $0) }
            return (bytes, nil, inMemory)
        }
    }
}
