"""Files of spilled rows: segments are appended to one, and it is removed when none of its segments is left.

To make a file costs as much as to write a hundred thousand bytes, and segments of little state are small: so they share
files of at most ``FILE_BYTES``. What was written is never changed.
"""

from __future__ import annotations

import contextlib
import os
import weakref
import zlib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from eddyline.core.errors import EddylineError

FILE_BYTES = 8 << 20


@dataclass(frozen=True, slots=True)
class Block:
    """Bytes of a file, with the checksum of what was written: CRC-32, which notices every change of up to 32 bits in a
    row, and of others all but one in four thousand million."""

    start: int
    length: int
    checksum: int


class SpillFile:
    """``append`` writes a segment, ``extend`` more of the last one.

    >>> import tempfile
    >>> folder = tempfile.TemporaryDirectory()
    >>> file = SpillFile(Path(folder.name, "0.rows"))
    >>> file.append(b"some"), file.append(b"rows"), file.path.read_bytes()
    (0, 4, b'somerows')
    >>> file.release(), file.path.exists(), file.release(), file.path.exists()
    (None, True, None, False)
    """

    def __init__(self, path: Path) -> None:
        self.path, self.bytes = path, 0
        self.segments = 0  # that are in use
        try:
            self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise self._refused(error) from error
        self._close = weakref.finalize(self, os.close, self._file)

    def has_room(self, more: int, most: int = FILE_BYTES) -> bool:
        """Whether a segment of so many bytes may be appended to a file of at most so many."""
        return self._close.alive and (self.bytes == 0 or self.bytes + more <= most)

    def append(self, data: bytes | memoryview) -> int:
        """Write a segment; returns where it begins."""
        self.segments += 1
        return self.extend(data)

    def extend(self, data: bytes | memoryview) -> int:
        start, view = self.bytes, memoryview(data)
        try:
            while view:
                done = os.pwrite(self._file, view, self.bytes)
                self.bytes, view = self.bytes + done, view[done:]
        except OSError as error:
            raise self._refused(error) from error
        return start

    def read(self, blocks: Iterable[Block]) -> list[memoryview]:
        """The bytes of blocks, as they were written: nothing is returned before its checksum is right. Blocks that
        follow one another are read at once."""
        spans: list[list[Block]] = []
        for b in blocks:
            if spans and spans[-1][-1].start + spans[-1][-1].length == b.start:
                spans[-1].append(b)
            else:
                spans.append([b])
        found = []
        try:
            with self.path.open("rb", buffering=0) as file:
                number = file.fileno()
                for span in spans:
                    start = span[0].start
                    data = memoryview(os.pread(number, span[-1].start + span[-1].length - start, start))
                    for b in span:
                        part = data[b.start - start : b.start - start + b.length]
                        if len(part) != b.length or zlib.crc32(part) != b.checksum:
                            raise self._damaged(f"{b.length:,} bytes at {b.start:,} are not those that were written")
                        found.append(part)
        except OSError as error:
            raise self._damaged(error.strerror or str(error)) from error
        return found

    def release(self) -> None:
        """A segment is needed no longer."""
        self.segments -= 1
        if self.segments == 0:
            self.close()
            with contextlib.suppress(OSError):
                self.path.unlink()

    def close(self) -> None:
        """Nothing more is written."""
        self._close()

    def _damaged(self, what: str) -> EddylineError:
        return EddylineError(
            f"{self.path} cannot be read, or was damaged while the query ran ({what}): the rows spilled to it are lost."
            " Continue from a snapshot, with a spill directory to which no other program writes."
        )

    def _refused(self, error: OSError) -> EddylineError:
        return EddylineError(f"rows cannot be spilled to {self.path.parent}: {error.strerror or error}.")
