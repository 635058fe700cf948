#pragma once
#include <sqlite3.h>

/* SQLITE_TRANSIENT is a cast that Swift can't see: SQLite copies the bytes before the call returns. */
static inline int ff_sqlite_bind_text(sqlite3_stmt *statement, int index, const char *text, int count) {
    return sqlite3_bind_text(statement, index, text, count, SQLITE_TRANSIENT);
}
