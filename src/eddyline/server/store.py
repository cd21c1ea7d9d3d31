"""What survives a restart: the catalog, the results and the number of the snapshot that they belong to, in SQLite.

Invariant. One transaction moves the server from one consistent state to the next: it holds the declarations, the
results that followers may see, what each producer has pushed, and the number of the session's snapshot. The snapshot
is written before the transaction commits. A kill before the commit leaves a snapshot that nothing refers to, and the
one before it; ``forget_uncommitted`` removes the former. So results and state are never of different moments.
"""

from __future__ import annotations

import json
import sqlite3
import threading
from collections.abc import Generator, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from eddyline.core.errors import EddylineError

FORMAT: Final = 1
_TABLES: Final = """
CREATE TABLE IF NOT EXISTS meta (key TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS entries (
    id INTEGER PRIMARY KEY AUTOINCREMENT, kind TEXT NOT NULL, name TEXT NOT NULL, body TEXT NOT NULL,
    status TEXT NOT NULL DEFAULT 'running', message TEXT NOT NULL DEFAULT '');
CREATE TABLE IF NOT EXISTS chunks (
    entry INTEGER NOT NULL, first INTEGER NOT NULL, last INTEGER NOT NULL, data BLOB NOT NULL,
    PRIMARY KEY (entry, last)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS producers (name TEXT PRIMARY KEY, sequence INTEGER NOT NULL);
"""


@dataclass(frozen=True, slots=True)
class Entry:
    """A declaration. ``body`` is what it was declared with; a query has ``status`` running or failed."""

    id: int
    kind: str
    name: str
    body: Mapping[str, Any]
    status: str = "running"
    message: str = ""


class Store:
    """One connection writes (the engine's thread), another reads what is committed.

    >>> import tempfile
    >>> store = Store(Path(tempfile.mkdtemp()) / "catalog.sqlite")
    >>> entry = store.add("stream", "S", {"columns": [["ts", "bigint"]]})
    >>> store.commit(1); [(e.id, e.name) for e in store.entries()], store.snapshot
    ([(1, 'S')], 1)
    >>> store.remove(entry.id); store.rollback(); len(store.entries())
    1
    >>> store.close()
    """

    def __init__(self, path: Path) -> None:
        try:
            if not path.is_dir():  # before it is opened: SQLite makes its other files with the rights of this one
                path.touch(0o600)
                path.chmod(0o600)
            self._writer = self._connect(path)
            self._writer.executescript(_TABLES)
            self._reader = self._connect(path)
        except (sqlite3.Error, OSError) as error:
            raise EddylineError(f"the catalog {str(path)!r} cannot be opened: {error}.") from error
        self._reading = threading.Lock()
        found = self.get("format")
        if found is None:
            self.put("format", str(FORMAT))
            self._writer.commit()
        elif found != str(FORMAT):
            raise EddylineError(f"the catalog {str(path)!r} has format {found}, this version reads {FORMAT}.")

    @staticmethod
    def _connect(path: Path) -> sqlite3.Connection:
        found = sqlite3.connect(path, check_same_thread=False, timeout=10)
        found.execute("PRAGMA journal_mode = WAL")
        found.execute("PRAGMA synchronous = FULL")
        return found

    def close(self) -> None:
        self._writer.close()
        with self._reading:
            self._reader.close()

    # ── the writer's side: nothing is seen by readers before commit ───────────────────────────────────────────────

    def get(self, key: str) -> str | None:
        row = self._writer.execute("SELECT value FROM meta WHERE key = ?", (key,)).fetchone()
        return None if row is None else str(row[0])

    def put(self, key: str, value: str) -> None:
        self._writer.execute("INSERT OR REPLACE INTO meta VALUES (?, ?)", (key, value))

    @property
    def snapshot(self) -> int:
        return int(self.get("snapshot") or 0)

    def entries(self) -> list[Entry]:
        rows = self._writer.execute("SELECT id, kind, name, body, status, message FROM entries ORDER BY id")
        return [
            Entry(i, kind, name, json.loads(body), status, message) for i, kind, name, body, status, message in rows
        ]

    def add(self, kind: str, name: str, body: Mapping[str, Any]) -> Entry:
        text = json.dumps(body)
        number = self._writer.execute("INSERT INTO entries (kind, name, body) VALUES (?, ?, ?)", (kind, name, text))
        assert number.lastrowid is not None
        return Entry(number.lastrowid, kind, name, json.loads(text))

    def fail(self, entry: int, message: str) -> None:
        self._writer.execute("UPDATE entries SET status = 'failed', message = ? WHERE id = ?", (message, entry))

    def remove(self, entry: int) -> None:
        self._writer.execute("DELETE FROM entries WHERE id = ?", (entry,))
        self._writer.execute("DELETE FROM chunks WHERE entry = ?", (entry,))

    def append(self, entry: int, first: int, last: int, data: bytes) -> None:
        self._writer.execute("INSERT INTO chunks VALUES (?, ?, ?, ?)", (entry, first, last, data))

    def oldest(self, entry: int) -> Generator[tuple[int, int, int], None, None]:
        """First row, last row and bytes of each chunk, oldest first, with those that are not committed yet."""
        sql = "SELECT first, last, length(data) FROM chunks WHERE entry = ? ORDER BY last"
        with closing(self._writer.execute(sql, (entry,))) as chunks:
            yield from chunks

    def prune(self, entry: int, before: int) -> None:
        """Forget the chunks that end before a row."""
        self._writer.execute("DELETE FROM chunks WHERE entry = ? AND last < ?", (entry, before))

    def produced(self, producer: str) -> int:
        """The last sequence number that a producer has pushed."""
        row = self._writer.execute("SELECT sequence FROM producers WHERE name = ?", (producer,)).fetchone()
        return -1 if row is None else int(row[0])

    def produce(self, producer: str, sequence: int) -> None:
        self._writer.execute("INSERT OR REPLACE INTO producers VALUES (?, ?)", (producer, sequence))

    @contextmanager
    def savepoint(self) -> Iterator[None]:
        """All changes within, or none."""
        if not self._writer.in_transaction:
            self._writer.execute("BEGIN")
        self._writer.execute("SAVEPOINT command")
        try:
            yield
        except BaseException:
            self._writer.execute("ROLLBACK TO command")
            self._writer.execute("RELEASE command")
            raise
        self._writer.execute("RELEASE command")

    def commit(self, snapshot: int | None = None) -> None:
        if snapshot is not None:
            self.put("snapshot", str(snapshot))
        self._writer.commit()

    def rollback(self) -> None:
        self._writer.rollback()

    # ── the readers' side ─────────────────────────────────────────────────────────────────────────────────────────

    def chunks(self, entry: int, after: int, most: int) -> list[tuple[int, int, bytes]]:
        """The committed chunks with rows after a row, oldest first, until they have ``most`` rows."""
        found: list[tuple[int, int, bytes]] = []
        with self._reading:
            rows = self._reader.execute(
                "SELECT first, last, data FROM chunks WHERE entry = ? AND last > ? ORDER BY last", (entry, after)
            )
            for first, last, data in rows:
                found.append((first, last, data))
                if last - after >= most:
                    break
            rows.close()
        return found

    def extent(self, entry: int) -> tuple[int, int, int]:
        """First and last row that are committed, and the bytes of all; ``(1, 0, 0)`` where there are none."""
        with self._reading:
            sql = "SELECT min(first), max(last), sum(length(data)) FROM chunks WHERE entry = ?"
            first, last, size = self._reader.execute(sql, (entry,)).fetchone()
            return (1, 0, 0) if first is None else (first, last, size)


def forget_uncommitted(directory: Path, committed: int) -> None:
    """Remove the snapshots that were written and not committed: the session goes on from ``committed``."""
    for path in directory.glob("*.json"):
        if path.stem.isdecimal() and int(path.stem) > committed:
            path.unlink()
