#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""sqlite_writers.py FILE JOURNAL WRITERS ROWS: concurrent writers on one database, each row accounted for afterwards."""

import sqlite3
import sys
from multiprocessing import Process


def connect(path):
    db = sqlite3.connect(path, timeout=240, isolation_level=None)
    db.execute("PRAGMA synchronous=FULL")
    return db


def write(path, who, rows):
    db = connect(path)
    for i in range(rows):
        db.execute("BEGIN IMMEDIATE")
        db.execute("INSERT INTO t VALUES (?, ?, ?)", (who, i, bytes([who]) * (i * 37 % 3000)))
        db.execute("UPDATE total SET n = n + 1")
        # Every fifth transaction is taken back: its bytes were in the journal and perhaps in the file.
        db.execute("ROLLBACK" if i % 5 == 4 else "COMMIT")
    db.close()


def main():
    path, journal, writers, rows = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
    db = connect(path)
    mode = db.execute("PRAGMA journal_mode=" + journal).fetchone()[0]
    assert mode == journal, "journal_mode is " + mode
    db.execute("CREATE TABLE t (who INTEGER, i INTEGER, data BLOB, PRIMARY KEY (who, i))")
    db.execute("CREATE TABLE total (n INTEGER)")
    db.execute("INSERT INTO total VALUES (0)")
    db.close()

    workers = [Process(target=write, args=(path, who, rows)) for who in range(writers)]
    for w in workers:
        w.start()
    for w in workers:
        w.join()
    assert all(w.exitcode == 0 for w in workers), "a writer failed"

    db = connect(path)
    check = db.execute("PRAGMA integrity_check").fetchall()
    assert check == [("ok",)], check
    want = {(who, i) for who in range(writers) for i in range(rows) if i % 5 != 4}
    got = {(who, i): data for who, i, data in db.execute("SELECT * FROM t")}
    assert set(got) == want, "rows: %d, expected %d" % (len(got), len(want))
    for (who, i), data in got.items():
        assert data == bytes([who]) * (i * 37 % 3000), (who, i)
    total = db.execute("SELECT n FROM total").fetchone()[0]
    assert total == len(want), "total: %d, expected %d" % (total, len(want))
    db.close()


main()
