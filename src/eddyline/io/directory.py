"""A directory that is watched for new files.

Each complete file is read once, in name order among those that are new at a look. Its name shows whether a file is
complete: files whose names start with "." or "_" or end in ".tmp" are still being written, and get their final name by
renaming, which is atomic.

``order`` is the order in which files were read. A second pass, also in another process that goes on from a snapshot,
must read them in the same order, although a file that came later may have a smaller name.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterator, Sequence
from pathlib import Path

import pyarrow as pa

from eddyline.core.errors import EddylineError, JobError
from eddyline.core.time import Clock, SystemClock
from eddyline.io.source import BATCH_ROWS, Source, SourceBatch, pruned


def complete(path: Path) -> bool:
    """Whether a name is that of a finished data file.

    >>> [complete(Path(n)) for n in ("a.csv", ".a.csv", "_SUCCESS", "a.csv.tmp")]
    [True, False, False, False]
    """
    return not path.name.startswith((".", "_")) and path.suffix != ".tmp"


class DirectorySource:
    """Watches ``folder``; ``reader`` opens one file with a given schema (None: its own).

    Parameters
    ----------
    poll
        Seconds between two looks: shorter finds files sooner and lists the directory more often.
    until_idle
        End after so many seconds without a new file; None goes on until ``stop()``.
    """

    finite = False

    def __init__(
        self,
        folder: Path,
        reader: Callable[[Path, pa.Schema | None], Source],
        schema: pa.Schema | None = None,
        *,
        pattern: str = "*",
        poll: float = 1.0,
        until_idle: float | None = None,
        clock: Clock | None = None,
        sleep: Callable[[float], object] | None = None,
    ) -> None:
        self.folder, self.reader, self.pattern = folder, reader, pattern
        self.poll, self.until_idle = poll, until_idle
        self._clock = clock or SystemClock()
        self._stopped = threading.Event()
        self.order: list[str] = []
        self._sleep = sleep or self._stopped.wait  # so that stop() need not wait for the next look
        if schema is None:
            present = self.look(set())
            if not present:
                raise JobError(f"the watched directory {folder.name!r} holds no file yet: declare its columns.")
            # A file that has only a header shows names of columns and not their types: the next one may show both.
            schemas = [reader(path, None).schema for path in present[:10]]
            schema = next((s for s in schemas if pa.null() not in s.types), schemas[0])
        self.schema = schema

    def stop(self) -> None:
        """End after the file that is being read."""
        self._stopped.set()

    def open(self, columns: Sequence[str] | None = None, batch_rows: int = BATCH_ROWS) -> Iterator[SourceBatch]:
        wanted = pruned(self.schema, columns)
        nothing = pa.RecordBatch.from_pylist([], schema=pa.schema([self.schema.field(c) for c in wanted]))
        seen = set(self.order)
        for name in list(self.order):
            if not (self.folder / name).is_file():
                message = "it was read before, and its rows must be skipped to continue from there"
                raise EddylineError(f"{name} is not in the watched directory {self.folder.name!r} any more: {message}.")
            yield from self.reader(self.folder / name, self.schema).open(wanted, batch_rows)
        quiet_since = self._clock.nanoseconds()
        while not self._stopped.is_set():
            new = self.look(seen)
            for path in new:
                seen.add(path.name)
                self.order.append(path.name)
                yield from self.reader(path, self.schema).open(wanted, batch_rows)
                if self._stopped.is_set():
                    return
            if new:
                quiet_since = self._clock.nanoseconds()
                continue
            if self.until_idle is not None and self._clock.nanoseconds() - quiet_since >= self.until_idle * 1e9:
                return
            yield SourceBatch(nothing)
            self._sleep(self.poll)

    def look(self, seen: Collection[str]) -> list[Path]:
        """The complete files that are there and not among those seen, in order of name."""
        try:
            found = [p for p in self.folder.glob(self.pattern) if p.name not in seen and complete(p) and p.is_file()]
        except OSError as error:
            raise JobError(f"the directory {self.folder} cannot be listed: {error.strerror}.") from error
        return sorted(found, key=lambda p: p.name)
