internal import CSQLite

/// Owns one prepared statement; finalized exactly once, when the value goes away.
struct Statement: ~Copyable {
    private let handle: OpaquePointer

    init(_ sql: String, on database: OpaquePointer) throws(SQLiteError) {
        var handle: OpaquePointer?
        let code = sqlite3_prepare_v2(database, sql, -1, &handle, nil)
        guard code == SQLITE_OK, let handle else { throw SQLiteError(code, on: database) }
        self.handle = handle
    }
    deinit { sqlite3_finalize(handle) }

    /// Moves to the next row; false after the last one.
    func step() throws(SQLiteError) -> Bool {
        switch sqlite3_step(handle) {
        case SQLITE_ROW: return true
        case SQLITE_DONE: return false
        case let code: throw SQLiteError(code, on: sqlite3_db_handle(handle))
        }
    }

    /// Executes it once with these values, and makes it ready for the next time.
    func run(_ values: Int64...) throws(SQLiteError) -> Bool {
        for (index, value) in values.enumerated() { bind(value, at: Int32(index) + 1) }
        defer { sqlite3_reset(handle) }
        return try step()
    }

    func bind(_ value: Int64?, at index: Int32) {
        if let value { sqlite3_bind_int64(handle, index, value) } else { sqlite3_bind_null(handle, index) }
    }
    func bind(_ value: String?, at index: Int32) {
        guard let value else {
            sqlite3_bind_null(handle, index)
            return
        }
        _ = ff_sqlite_bind_text(handle, index, value, Int32(value.utf8.count))
    }
    func int64(_ column: Int32) -> Int64 { sqlite3_column_int64(handle, column) }
    func optionalInt64(_ column: Int32) -> Int64? {
        sqlite3_column_type(handle, column) == SQLITE_NULL ? nil : int64(column)
    }
    func text(_ column: Int32) -> String? { sqlite3_column_text(handle, column).map { String(cString: $0) } }
}

/// What SQLite said. `code` is its result code.
package struct SQLiteError: Error, Hashable, CustomStringConvertible {
    package let code: Int32, message: String
    package var description: String { "\(message) (SQLite \(code))" }

    init(_ code: Int32, on database: OpaquePointer?) {
        self.code = code
        message =
            database.flatMap { sqlite3_errmsg($0) }.map { String(cString: $0) } ?? String(cString: sqlite3_errstr(code))
    }
    /// Whether the file is no usable database, so that starting anew is the only way on.
    var isCorruption: Bool { code == SQLITE_CORRUPT || code == SQLITE_NOTADB }
}
