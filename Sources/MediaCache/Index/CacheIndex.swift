internal import CSQLite
import EventLoop
import FeedVocabulary
import Glibc

/// The SQLite file that says which bytes of which file are good. Every call blocks: run it off the loop.
final class CacheIndex: Sendable {
    static let version: Int64 = 2
    private let connection: Lock<Connection>
    /// Whether the last process that had the directory open closed it.
    let wasClosed: Bool

    /// Opens or makes the index of a directory, and takes the directory's lock.
    ///
    /// - Parameters:
    ///   - directory: What the errors name; where the index is, unless `place` says otherwise.
    ///   - now: What entries of an older format count as last used at.
    ///   - boot: Names the time since the machine was started.
    init(
        directory: String, place: CacheIndexPlace = .directory, now: WallTime, boot: String
    ) throws(CacheError) {
        let opened = try Connection(directory: directory, place: place, now: now, boot: boot)
        wasClosed = opened.wasClosed
        connection = Lock(opened)
    }

    /// Every record that makes sense, and which of its ranges survive a power cut, as they were when the index was
    /// opened; gives them away.
    func takeRecords() -> [(record: CacheRecord, synced: ByteRangeSet)] {
        connection.withLock { connection in
            defer { connection.records = [] }
            return connection.records
        }
    }
    /// - Parameters:
    ///   - synced: The part of the record's ranges that survives a power cut. The rest counts as long as the machine
    ///     runs: a killed process leaves it in the system's memory.
    ///   - durably: Whether the record itself has to survive a power cut when the call returns.
    func save(
        _ record: CacheRecord, synced: ByteRangeSet, durably: Bool, checksums: [BlockChecksum] = [],
        of blocks: [ByteRange] = []
    ) throws(CacheError) {
        try connection.withLock { c throws(CacheError) in
            try c.save(record, synced, durably: durably, checksums, blocks)
        }
    }
    func checksums(of id: Int64) throws(CacheError) -> [BlockChecksum] {
        try connection.withLock { c throws(CacheError) in try c.checksums(of: id) }
    }
    func remove(_ ids: [Int64]) throws(CacheError) {
        try connection.withLock { c throws(CacheError) in try c.remove(ids) }
    }
    /// Closes the database and gives up the lock.
    ///
    /// - Parameter cleanly: Whether everything that was written is in the index.
    func close(cleanly: Bool) { connection.withLock { $0.close(cleanly: cleanly) } }
}

/// Where the index of a cache is.
package enum CacheIndexPlace: Sendable {
    /// In the cache's directory, locked against other processes.
    case directory
    /// In memory, for a simulated disk, which is not SQLite's. A shared one outlives the cache that writes it.
    case memory(SharedMemoryIndex?)
}

/// An index in memory that several caches open one after the other, as the processes of a machine would a file.
package final class SharedMemoryIndex: @unchecked Sendable {
    // @unchecked: the connection is only kept open, so that SQLite keeps the database (sqlite.org/inmemorydb.html).
    private var connection: OpaquePointer?
    let path: String

    /// - Parameter name: Unique in this process.
    package init(name: String) throws {
        path = "file:\(name)?mode=memory&cache=shared"
        let flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_URI
        let code = sqlite3_open_v2(path, &connection, flags, nil)
        guard code == SQLITE_OK else { throw CacheError.index(directory: path, SQLiteError(code, on: connection)) }
    }
    deinit { sqlite3_close_v2(connection) }
}

/// One SQLite connection and the descriptor that holds the directory's lock.
private final class Connection {
    private var database: OpaquePointer?
    private var lock: Int32 = -1
    private let directory: String

    private(set) var wasClosed = false
    var records: [(record: CacheRecord, synced: ByteRangeSet)] = []

    init(directory: String, place: CacheIndexPlace, now: WallTime, boot: String) throws(CacheError) {
        self.directory = directory
        if case .memory(let shared) = place {
            try begin(shared?.path ?? ":memory:", now, boot)
            return
        }
        lock = try Self.takeLock(of: directory)
        let path = directory + "/index.sqlite"
        do throws(CacheError) {
            try begin(path, now, boot)
        } catch {
            guard case .index(_, let cause) = error, cause.isCorruption else {
                close(cleanly: false)
                throw error
            }
            // The index is only knowledge of what was fetched: without it the cache is empty, not wrong.
            sqlite3_close_v2(database)
            for suffix in ["", "-wal", "-shm"] { Glibc.unlink(path + suffix) }
            try begin(path, now, boot)
        }
    }

    /// Opens and reads everything, since a bad page may lie anywhere.
    private func begin(_ path: String, _ now: WallTime, _ boot: String) throws(CacheError) {
        try open(path, now)
        wasClosed = try begin(boot: boot)
        records = try load()
    }

    deinit { close(cleanly: false) }

    /// Notes that the directory is open, and forgets what an earlier run of the machine may not have written.
    ///
    /// - Returns: Whether it was closed before.
    private func begin(boot: String) throws(CacheError) -> Bool {
        var wasClosed = false
        try transaction(durably: true) { database throws(SQLiteError) in
            wasClosed = try meta("closed", database) == "1"
            if try meta("boot", database) != boot {
                _ = try Statement("DELETE FROM fresh", on: database).step()
                try setMeta("boot", boot, database)
            }
            try setMeta("closed", "0", database)
        }
        return wasClosed
    }

    private func meta(_ name: String, _ database: OpaquePointer) throws(SQLiteError) -> String? {
        let statement = try Statement("SELECT value FROM meta WHERE name = ?", on: database)
        statement.bind(name, at: 1)
        return try statement.step() ? statement.text(0) : nil
    }
    private func setMeta(_ name: String, _ value: String, _ database: OpaquePointer) throws(SQLiteError) {
        let statement = try Statement("INSERT OR REPLACE INTO meta (name, value) VALUES (?, ?)", on: database)
        statement.bind(name, at: 1)
        statement.bind(value, at: 2)
        _ = try statement.step()
    }

    func close(cleanly: Bool) {
        if cleanly, let database { try? setMeta("closed", "1", database) }
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

    private func open(_ path: String, _ now: WallTime) throws(CacheError) {
        let code = sqlite3_open_v2(
            path, &database, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_URI, nil)
        guard code == SQLITE_OK else { throw .index(directory: directory, SQLiteError(code, on: database)) }
        let version = try run { database throws(SQLiteError) in
            for pragma in ["journal_mode=WAL", "busy_timeout=2000"] {
                _ = try Statement("PRAGMA \(pragma)", on: database).step()
            }
            let statement = try Statement("PRAGMA user_version", on: database)
            _ = try statement.step()
            return statement.int64(0)
        }
        guard (0...CacheIndex.version).contains(version) else {
            throw .newerVersion(directory: directory, version: version)
        }
        for step in Int(version)..<Self.steps.count {
            try transaction(durably: true) { database throws(SQLiteError) in
                for sql in Self.steps[step] { _ = try Statement(sql, on: database).step() }
                if step == 1 {
                    _ = try Statement("UPDATE entry SET used_at = \(now.secondsSince1970)", on: database).step()
                }
                _ = try Statement("PRAGMA user_version = \(step + 1)", on: database).step()
            }
        }
    }

    /// What makes a directory of each version one of the next.
    private static let steps = [
        [
            """
            CREATE TABLE IF NOT EXISTS entry (id INTEGER PRIMARY KEY, key TEXT NOT NULL UNIQUE, length INTEGER,
              validator TEXT, type TEXT, last_use INTEGER NOT NULL)
            """,
            """
            CREATE TABLE IF NOT EXISTS span (entry INTEGER NOT NULL REFERENCES entry(id), start INTEGER NOT NULL,
              end INTEGER NOT NULL, PRIMARY KEY (entry, start)) WITHOUT ROWID
            """,
        ],
        [
            "ALTER TABLE entry ADD COLUMN identity TEXT",
            "ALTER TABLE entry ADD COLUMN used_at INTEGER NOT NULL DEFAULT 0",
            """
            CREATE TABLE block (entry INTEGER NOT NULL REFERENCES entry(id), start INTEGER NOT NULL,
              end INTEGER NOT NULL, checksum INTEGER NOT NULL, PRIMARY KEY (entry, start)) WITHOUT ROWID
            """,
            """
            CREATE TABLE fresh (entry INTEGER NOT NULL REFERENCES entry(id), start INTEGER NOT NULL,
              end INTEGER NOT NULL, PRIMARY KEY (entry, start)) WITHOUT ROWID
            """,
            "CREATE TABLE meta (name TEXT PRIMARY KEY, value TEXT NOT NULL)",
        ],
    ]

    private func run<Answer>(
        _ body: (OpaquePointer) throws(SQLiteError) -> Answer
    ) throws(CacheError) -> Answer {
        guard let database else { throw .closed }
        do throws(SQLiteError) { return try body(database) } catch { throw .index(directory: directory, error) }
    }

    /// - Parameter durably: FULL makes a commit, and with it all before, durable when it returns; with NORMAL a power cut
    ///   may lose the newest, and never tears one (sqlite.org/pragma.html#pragma_synchronous, WAL mode).
    private func transaction(
        durably: Bool, _ body: (OpaquePointer) throws(SQLiteError) -> Void
    ) throws(CacheError) {
        try run { database throws(SQLiteError) in
            _ = try Statement("PRAGMA synchronous=\(durably ? "FULL" : "NORMAL")", on: database).step()
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
    private func load() throws(CacheError) -> [(record: CacheRecord, synced: ByteRangeSet)] {
        try run { database throws(SQLiteError) in
            var records: [Int64: CacheRecord] = [:]
            var fresh: [Int64: ByteRangeSet] = [:]
            let entries = try Statement(
                "SELECT id, key, length, validator, type, last_use, identity, used_at FROM entry", on: database)
            while try entries.step() {
                guard let key = entries.text(1).flatMap({ try? CacheKey($0) }) else { continue }
                let length = entries.optionalInt64(2)
                if let length, length <= 0 { continue }
                records[entries.int64(0)] = CacheRecord(
                    id: entries.int64(0), key: key, identity: entries.text(6), length: length,
                    validator: entries.text(3), contentType: entries.text(4), lastUse: entries.int64(5),
                    lastUsedAt: WallTime(secondsSince1970: entries.int64(7)))
            }
            for table in ["span", "fresh"] {
                let spans = try Statement("SELECT entry, start, end FROM \(table)", on: database)
                while try spans.step() {
                    let (start, end) = (spans.int64(1), spans.int64(2))
                    guard start >= 0, start < end else { continue }
                    records[spans.int64(0)]?.ranges.insert(start..<end)
                    if table == "fresh" { fresh[spans.int64(0), default: ByteRangeSet()].insert(start..<end) }
                }
            }
            return records.values.map { ($0, fresh[$0.id].map($0.ranges.subtracting) ?? $0.ranges) }
        }
    }

    func save(
        _ record: CacheRecord, _ synced: ByteRangeSet, durably: Bool, _ checksums: [BlockChecksum],
        _ blocks: [ByteRange]
    ) throws(CacheError) {
        try transaction(durably: durably) { database throws(SQLiteError) in
            let entry = try Statement(
                """
                INSERT OR REPLACE INTO entry (id, key, length, validator, type, last_use, identity, used_at)
                  VALUES (?, ?, ?, ?, ?, ?, ?, ?)
                """, on: database)
            entry.bind(record.id, at: 1)
            entry.bind(record.key.text, at: 2)
            entry.bind(record.length, at: 3)
            entry.bind(record.validator, at: 4)
            entry.bind(record.contentType, at: 5)
            entry.bind(record.lastUse, at: 6)
            entry.bind(record.identity, at: 7)
            entry.bind(record.lastUsedAt.secondsSince1970, at: 8)
            _ = try entry.step()
            let parts = [("span", record.ranges.intersection(synced)), ("fresh", record.ranges.subtracting(synced))]
            for (table, ranges) in parts {
                _ = try Statement("DELETE FROM \(table) WHERE entry = ?", on: database).run(record.id)
                let insert = try Statement("INSERT INTO \(table) (entry, start, end) VALUES (?, ?, ?)", on: database)
                for range in ranges.ranges { _ = try insert.run(record.id, range.lowerBound, range.upperBound) }
            }
            let old = try Statement("DELETE FROM block WHERE entry = ? AND start >= ? AND start < ?", on: database)
            for block in blocks { _ = try old.run(record.id, block.lowerBound, block.upperBound) }
            let new = try Statement(
                "INSERT OR REPLACE INTO block (entry, start, end, checksum) VALUES (?, ?, ?, ?)", on: database)
            for block in checksums {
                _ = try new.run(record.id, block.range.lowerBound, block.range.upperBound, Int64(block.checksum))
            }
        }
    }

    func checksums(of id: Int64) throws(CacheError) -> [BlockChecksum] {
        try run { database throws(SQLiteError) in
            let statement = try Statement("SELECT start, end, checksum FROM block WHERE entry = ?", on: database)
            statement.bind(id, at: 1)
            var checksums: [BlockChecksum] = []
            while try statement.step() {
                let (start, end) = (statement.int64(0), statement.int64(1))
                guard start >= 0, start < end else { continue }
                checksums.append(
                    BlockChecksum(range: start..<end, checksum: UInt32(truncatingIfNeeded: statement.int64(2))))
            }
            return checksums
        }
    }

    func remove(_ ids: [Int64]) throws(CacheError) {
        try transaction(durably: false) { database throws(SQLiteError) in
            for (table, column) in [("span", "entry"), ("fresh", "entry"), ("block", "entry"), ("entry", "id")] {
                let statement = try Statement("DELETE FROM \(table) WHERE \(column) = ?", on: database)
                for id in ids { _ = try statement.run(id) }
            }
        }
    }
}
