internal import CSQLite
import EventLoop
package import FeedVocabulary
import Glibc

/// What the index says of one resource. Its bytes are in the file named after `id`.
package struct CacheRecord: Hashable, Sendable {
    /// Drawn at random and never used again, so that a lost deletion can't point at another resource's file.
    package let id: Int64
    package let key: CacheKey
    package var length: Int64?
    /// Strong validator (an ETag) under which all the bytes were fetched.
    package var validator: String?
    package var contentType: String?
    /// Counts uses, not seconds: the least recently used has the lowest.
    package var lastUse: Int64
    package var ranges = ByteRangeSet()
}

/// The SQLite file that says which bytes of which file are good. Every call blocks: run it off the loop.
final class CacheIndex: Sendable {
    static let version: Int64 = 1
    private let connection: Lock<Connection>

    /// Opens or makes the index of a directory, and takes the directory's lock.
    ///
    /// - Parameter directory: `nil` for an index in memory, without a lock.
    init(directory: String?) throws(CacheError) {
        connection = Lock(try Connection(directory: directory))
    }

    func load() throws(CacheError) -> [CacheRecord] { try connection.withLock { c throws(CacheError) in try c.load() } }
    func save(_ records: [CacheRecord]) throws(CacheError) {
        try connection.withLock { c throws(CacheError) in try c.save(records) }
    }
    func remove(_ ids: [Int64]) throws(CacheError) {
        try connection.withLock { c throws(CacheError) in try c.remove(ids) }
    }
    /// Closes the database and gives up the lock.
    func close() { connection.withLock { $0.close() } }
}

/// One SQLite connection and the descriptor that holds the directory's lock.
private final class Connection {
    private var database: OpaquePointer?
    private var lock: Int32 = -1
    private let directory: String

    init(directory: String?) throws(CacheError) {
        self.directory = directory ?? ":memory:"
        guard let directory else {
            try open(":memory:")
            return
        }
        lock = try Self.takeLock(of: directory)
        let path = directory + "/index.sqlite"
        do throws(CacheError) {
            try open(path)
        } catch {
            guard case .index(_, let cause) = error, cause.isCorruption else {
                close()
                throw error
            }
            // The index is only knowledge of what was fetched: without it the cache is empty, not wrong.
            sqlite3_close_v2(database)
            for suffix in ["", "-wal", "-shm"] { Glibc.unlink(path + suffix) }
            try open(path)
        }
    }

    deinit { close() }

    func close() {
        sqlite3_close_v2(database)
        database = nil
        if lock >= 0 { Glibc.close(lock) }
        lock = -1
    }

    private static func takeLock(of directory: String) throws(CacheError) -> Int32 {
        let path = directory + "/lock"
        let descriptor = Glibc.open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0o600)
        guard descriptor >= 0 else { throw .unusable(directory: directory, reason: String(cString: strerror(errno))) }
        guard flock(descriptor, LOCK_EX | LOCK_NB) == 0 else {
            var digits = [UInt8](repeating: 0, count: 20)
            let count = max(0, pread(descriptor, &digits, digits.count, 0))
            Glibc.close(descriptor)
            throw .inUse(directory: directory, process: Int32(String(decoding: digits[..<count], as: UTF8.self)) ?? 0)
        }
        let owner = Array("\(getpid())".utf8)
        if ftruncate(descriptor, 0) != 0 || pwrite(descriptor, owner, owner.count, 0) < 0 {
            // Only the name of the owner is lost, which a full disk may cost; the lock itself holds.
        }
        return descriptor
    }

    private func open(_ path: String) throws(CacheError) {
        let code = sqlite3_open_v2(
            path, &database, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX, nil)
        guard code == SQLITE_OK else { throw .index(directory: directory, SQLiteError(code, on: database)) }
        let version = try run { database throws(SQLiteError) in
            // NORMAL in WAL mode: a power cut may lose the newest commits, never tear one (sqlite.org/pragma.html).
            for pragma in ["journal_mode=WAL", "synchronous=NORMAL", "busy_timeout=2000"] {
                _ = try Statement("PRAGMA \(pragma)", on: database).step()
            }
            let statement = try Statement("PRAGMA user_version", on: database)
            _ = try statement.step()
            return statement.int64(0)
        }
        switch version {
        case 0: try create()
        case CacheIndex.version: break
        default: throw .newerVersion(directory: directory, version: version)
        }
    }

    private func create() throws(CacheError) {
        try run { database throws(SQLiteError) in
            for sql in [
                """
                CREATE TABLE IF NOT EXISTS entry (id INTEGER PRIMARY KEY, key TEXT NOT NULL UNIQUE, length INTEGER,
                  validator TEXT, type TEXT, last_use INTEGER NOT NULL)
                """,
                """
                CREATE TABLE IF NOT EXISTS span (entry INTEGER NOT NULL REFERENCES entry(id), start INTEGER NOT NULL,
                  end INTEGER NOT NULL, PRIMARY KEY (entry, start)) WITHOUT ROWID
                """,
                "PRAGMA user_version = \(CacheIndex.version)",
            ] { _ = try Statement(sql, on: database).step() }
        }
    }

    private func run<Answer>(
        _ body: (OpaquePointer) throws(SQLiteError) -> Answer
    ) throws(CacheError) -> Answer {
        guard let database else { throw .closed }
        do throws(SQLiteError) { return try body(database) } catch { throw .index(directory: directory, error) }
    }

    private func transaction(_ body: (OpaquePointer) throws(SQLiteError) -> Void) throws(CacheError) {
        try run { database throws(SQLiteError) in
            _ = try Statement("BEGIN IMMEDIATE", on: database).step()
            do throws(SQLiteError) {
                try body(database)
                _ = try Statement("COMMIT", on: database).step()
            } catch {
                _ = try? Statement("ROLLBACK", on: database).step()
                throw error
            }
        }
    }

    /// Records that make no sense alone are left out; the rest is served.
    func load() throws(CacheError) -> [CacheRecord] {
        try run { database throws(SQLiteError) in
            var records: [Int64: CacheRecord] = [:]
            let entries = try Statement("SELECT id, key, length, validator, type, last_use FROM entry", on: database)
            while try entries.step() {
                guard let key = entries.text(1).flatMap({ try? CacheKey($0) }) else { continue }
                let length = entries.optionalInt64(2)
                if let length, length <= 0 { continue }
                records[entries.int64(0)] = CacheRecord(
                    id: entries.int64(0), key: key, length: length, validator: entries.text(3),
                    contentType: entries.text(4), lastUse: entries.int64(5))
            }
            let spans = try Statement("SELECT entry, start, end FROM span", on: database)
            while try spans.step() {
                let (start, end) = (spans.int64(1), spans.int64(2))
                guard start >= 0, start < end else { continue }
                records[spans.int64(0)]?.ranges.insert(start..<end)
            }
            return Array(records.values)
        }
    }

    func save(_ records: [CacheRecord]) throws(CacheError) {
        try transaction { database throws(SQLiteError) in
            let entry = try Statement(
                "INSERT OR REPLACE INTO entry (id, key, length, validator, type, last_use) VALUES (?, ?, ?, ?, ?, ?)",
                on: database)
            let forget = try Statement("DELETE FROM span WHERE entry = ?", on: database)
            let span = try Statement("INSERT INTO span (entry, start, end) VALUES (?, ?, ?)", on: database)
            for record in records {
                entry.bind(record.id, at: 1)
                entry.bind(record.key.text, at: 2)
                entry.bind(record.length, at: 3)
                entry.bind(record.validator, at: 4)
                entry.bind(record.contentType, at: 5)
                entry.bind(record.lastUse, at: 6)
                _ = try entry.step()
                entry.reset()
                forget.bind(record.id, at: 1)
                _ = try forget.step()
                forget.reset()
                for range in record.ranges.ranges {
                    span.bind(record.id, at: 1)
                    span.bind(range.lowerBound, at: 2)
                    span.bind(range.upperBound, at: 3)
                    _ = try span.step()
                    span.reset()
                }
            }
        }
    }

    func remove(_ ids: [Int64]) throws(CacheError) {
        try transaction { database throws(SQLiteError) in
            let spans = try Statement("DELETE FROM span WHERE entry = ?", on: database)
            let entries = try Statement("DELETE FROM entry WHERE id = ?", on: database)
            for id in ids {
                spans.bind(id, at: 1)
                _ = try spans.step()
                spans.reset()
                entries.bind(id, at: 1)
                _ = try entries.step()
                entries.reset()
            }
        }
    }
}
