"""The results of a checkpointed run so far, kept beside its state, so that a resumed run writes each of them once.

Layout: ``results/<query>/<segment>.arrow``, the query by its place in the job, and ``results/journal``, a line for each
segment number: which files belong to it, with the length and the digest of each. A segment is what came between two
snapshots, or on Spark in one micro-batch.

Invariant: *only what the journal names is a result*. Files are on the disk before their line is written, and a line
before a snapshot refers to it (``mark``) or Spark notes its micro-batch as done. Every line has a digest of itself and
of all lines before it, and the mark of a snapshot is the digest of its last line: so a file or a line that is missing,
altered, or of another time is found out. A start compares all files with the journal before anything runs, and removes
what came after the mark; the files are compared again when they are written to the sinks.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

from eddyline.core.errors import EddylineError
from eddyline.io import durable

JOURNAL: Final = "journal"


@dataclass(frozen=True, slots=True)
class File:
    length: int
    digest: str


@dataclass(frozen=True, slots=True)
class Line:
    """The files of one segment by query, and the digest of the journal up to here."""

    files: Mapping[int, File]
    chain: str


class Spools:
    """The results of ``count`` queries in one folder.

    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp())
    >>> rows = pa.record_batch({"x": [1, 2]})
    >>> spools = Spools(folder, 1)
    >>> spools.add(0, rows)
    >>> mark = spools.cut()
    >>> again = Spools(folder, 1)
    >>> again.keep(mark)
    >>> [b.to_pydict() for b in again.batches(0)]
    [{'x': [1, 2]}]
    """

    def __init__(self, folder: Path, count: int) -> None:
        self.folder, self.count = folder, count
        self.lines: list[Line] = []
        self._length = 0  # bytes of the journal
        self._waiting: dict[int, list[pa.RecordBatch]] = {}

    # ── writing ───────────────────────────────────────────────────────────────────────────────────────────────────

    def add(self, query: int, batch: pa.RecordBatch) -> None:
        self._waiting.setdefault(query, []).append(batch)

    def cut(self) -> dict[str, Any]:
        """Put what waits into a segment of its own; returns the mark by which ``keep`` finds this state again."""
        if self._waiting:
            self.put(len(self.lines), self._waiting)
            self._waiting = {}
        return {"segments": len(self.lines), "chain": self._chain}

    def put(self, segment: int, found: Mapping[int, Sequence[pa.RecordBatch]]) -> None:
        """Write a segment, in place of what was there under this number and after it."""
        if segment > len(self.lines):
            raise self._damage(f"{JOURNAL} ends before segment {segment}")
        try:
            self._put(segment, found)
        except OSError as error:
            raise EddylineError(
                f"results cannot be kept in {str(self.folder)!r}: {error.strerror or error}; what was saved before"
                " stands."
            ) from error

    def _put(self, segment: int, found: Mapping[int, Sequence[pa.RecordBatch]]) -> None:
        durable.make_folder(self.folder)
        if segment < len(self.lines):
            self._shorten(segment)
        files: dict[int, File] = {}
        fresh: list[Path] = []
        for query, batches in found.items():
            if batches:
                path = self._path(query, segment)
                durable.make_folder(path.parent)
                data = memoryview(_ipc(batches))
                durable.write(path, data, synced=False)
                fresh += [path, path.parent]
                files[query] = File(data.nbytes, hashlib.sha256(data).hexdigest())
        durable.sync(fresh)
        text, chain = _written(files, self._chain)
        with open(self._journal, "ab", opener=durable.private) as journal:
            journal.truncate(self._length)  # of a line that could not be written whole
            journal.write(text)
            journal.flush()
            os.fsync(journal.fileno())
        if not self.lines:
            durable.sync([self.folder])
        self._length += len(text)
        self.lines.append(Line(files, chain))

    # ── reading ───────────────────────────────────────────────────────────────────────────────────────────────────

    def keep(self, mark: Mapping[str, Any] | None) -> None:
        """Go on from a snapshot's mark (None: from nothing): check all that it covers, and remove everything else."""
        lines = self._read() if mark is not None else []
        count = 0 if mark is None else int(mark["segments"])
        if mark is not None and count and (len(lines) < count or lines[count - 1].chain != mark["chain"]):
            raise self._damage(f"{JOURNAL} does not match the snapshot")
        self._settle(lines[:count])

    def keep_first(self, count: int) -> None:
        """Go on from the first segments, as many as are known to be done: check them, and remove everything else."""
        if count and not self._journal.exists():
            raise EddylineError(
                f"{str(self._journal)!r} is missing: either the checkpoint is not whole, or an older version of"
                " Eddyline made it, which kept no record of its results; continue with a complete copy or with that"
                " version, or start with an empty directory."
            )
        lines = self._read()
        if len(lines) < count:
            raise self._damage(f"{JOURNAL} does not hold what was written")
        self._settle(lines[:count])

    def batches(self, query: int) -> Iterator[pa.RecordBatch]:
        """The results of one query from the first to the last, each file checked as it is read."""
        for segment, line in enumerate(self.lines):
            if query in line.files:
                reader = pa.ipc.open_file(self._checked(query, segment, line.files[query]))
                for n in range(reader.num_record_batches):
                    yield reader.get_batch(n)

    def _settle(self, lines: list[Line]) -> None:
        for segment, line in enumerate(lines):
            for query, file in line.files.items():
                if query >= self.count:
                    raise EddylineError(
                        f"{str(self.folder)!r} holds results of a job with more queries; use the job that it was"
                        " made with, or start with an empty directory."
                    )
                self._checked(query, segment, file)
        self.lines, self._waiting = lines, {}
        try:
            self._shorten(len(lines))
        except OSError as error:
            raise EddylineError(
                f"what a run left in {str(self.folder)!r} cannot be removed: {error.strerror or error}; remove it by"
                " hand, or start with an empty directory."
            ) from error

    def _checked(self, query: int, segment: int, file: File) -> pa.Buffer:
        """The content of a file, which is what was written."""
        path = self._path(query, segment)
        name = f"{path.parent.name}/{path.name}"
        try:
            with pa.memory_map(str(path)) as mapped:
                data = mapped.read_buffer()
        except FileNotFoundError as error:
            raise self._damage(f"{name} is missing") from error
        except OSError as error:
            raise self._damage(f"{name} cannot be read") from error
        if data.size != file.length or hashlib.sha256(data).hexdigest() != file.digest:
            raise self._damage(f"{name} does not hold what was written")
        return data

    def _read(self) -> list[Line]:
        """The lines of the journal up to the first that is not as it was written; a killed write leaves half of one."""
        try:
            data = self._journal.read_bytes()
        except OSError:
            return []
        lines: list[Line] = []
        for text in data.split(b"\n")[:-1]:
            line = _parsed(text, lines[-1].chain if lines else "")
            if line is None:
                break
            lines.append(line)
        return lines

    def _shorten(self, count: int) -> None:
        """Forget the segments from this number on, their files and what killed writes have left."""
        self.lines = self.lines[:count]
        chains = ["", *(line.chain for line in self.lines)]
        text = b"".join(_written(line.files, chain)[0] for line, chain in zip(self.lines, chains, strict=False))
        self._length = len(text)
        if self._journal.exists() and self._journal.read_bytes() != text:
            durable.write(self._journal, text)
            durable.sync([self.folder])
        durable.remove(self.folder, JOURNAL + durable.HALF)
        for place in self.folder.glob("*"):
            if place.is_dir() and place.name.isdecimal():
                query = int(place.name) - 1
                kept = {f"{n}.arrow" for n, line in enumerate(self.lines) if query in line.files}
                durable.remove(place, rf"\d+\.arrow({durable.HALF})?", but=kept)

    @property
    def _journal(self) -> Path:
        return self.folder / JOURNAL

    @property
    def _chain(self) -> str:
        return self.lines[-1].chain if self.lines else ""

    def _path(self, query: int, segment: int) -> Path:
        return self.folder / str(query + 1) / f"{segment}.arrow"

    def _damage(self, what: str) -> EddylineError:
        return EddylineError(
            f"the results in {str(self.folder)!r} are damaged: {what}; take a copy of the checkpoint that is"
            " whole, or run the job from the start with an empty directory."
        )


def _written(files: Mapping[int, File], chain: str) -> tuple[bytes, str]:
    """A line of the journal as it is written, and the digest of the journal with it."""
    content = json.dumps({str(query + 1): [file.length, file.digest] for query, file in files.items()})
    chain = hashlib.sha256(f"{chain} {content}".encode()).hexdigest()
    return f"{chain} {content}\n".encode(), chain


def _parsed(text: bytes, chain: str) -> Line | None:
    """The line that was written; None if this is another one, or half of it."""
    try:
        content = json.loads(text.partition(b" ")[2])
        files = {int(query) - 1: File(int(length), str(digest)) for query, (length, digest) in content.items()}
    except (ValueError, TypeError, AttributeError, RecursionError):
        return None
    written, chain = _written(files, chain)
    return Line(files, chain) if written == text + b"\n" else None


def _ipc(batches: Sequence[pa.RecordBatch]) -> pa.Buffer:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, batches[0].schema) as writer:
        for batch in batches:
            writer.write_batch(batch)
    return sink.getvalue()
