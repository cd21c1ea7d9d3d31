"""Text files as blocks of whole records, so that a bad record affects one block at most.

Records end at newlines outside quoted values. The invariant: joined together, the blocks are the file (without byte
order mark, with a final newline), and no record is cut.
"""

from __future__ import annotations

import bz2
import codecs
import gzip
import lzma
import re
import select
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Final, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from eddyline.core.errors import DataError, clipped

BLOCK_BYTES: Final = 8 << 20
MAX_QUOTED_BYTES: Final = 128 << 20  # of a quoted value: the quote of a longer one was never closed
COMPRESSIONS: Final = (".gz", ".bz2", ".zst", ".xz")
BYTE_ORDER_MARK: Final = b"\xef\xbb\xbf"

Int64s = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Block:
    """Whole records. ``line`` is the number of the first line; ``broken`` marks a record whose quote never closes,
    ``multiline`` that a record may span lines."""

    data: bytes
    line: int
    broken: bool = False
    multiline: bool = True


def utf16(data: bytes, place: str) -> str | None:
    """The sentence for a text that begins as UTF-16 does, as some programs write it; None for others."""
    if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return f"{place} is UTF-16 text: save it as UTF-8."
    return None


def open_text(path: Path) -> BinaryIO:
    """The bytes of a file, decompressed by its last suffix."""
    match path.suffix.lower():
        case ".gz":
            return cast(BinaryIO, gzip.open(path, "rb"))
        case ".bz2":
            return cast(BinaryIO, bz2.open(path, "rb"))
        case ".xz":
            return cast(BinaryIO, lzma.open(path, "rb"))
        case ".zst":
            return cast(BinaryIO, pa.CompressedInputStream(pa.OSFile(str(path)), "zstd"))
        case _:
            return path.open("rb")


def reader(stream: BinaryIO, place: str, live: bool = False) -> Callable[[int], bytes]:
    """A function that reads at most so many bytes; b'' is the end. A live stream returns what is there, at once."""

    def read(size: int) -> bytes:
        try:
            return read_available(stream, size) if live else stream.read(size)
        except (OSError, EOFError, lzma.LZMAError, zlib.error, pa.ArrowException) as error:
            raise DataError(f"{place} is damaged: {clipped(error)}") from error

    return read


def read_available(stream: BinaryIO, size: int) -> bytes:
    """Waits for the first byte only: a slow producer's lines are answered at once, a fast one's in large blocks."""
    read_some = getattr(stream, "read1", stream.read)
    parts = [read_some(size)]
    got = len(parts[0])
    while parts[-1] and got < size and _ready(stream):
        parts.append(read_some(size - got))
        got += len(parts[-1])
    return b"".join(parts)


def _ready(stream: BinaryIO) -> bool:
    try:
        return bool(select.select([stream.fileno()], [], [], 0)[0])
    except (OSError, ValueError):  # no file descriptor (a buffer in a test), or a platform without select on it
        return False


def blocks(
    read: Callable[[int], bytes],
    *,
    quote: bytes | None,
    delimiter: bytes = b",",
    size: int = BLOCK_BYTES,
    line: int = 1,
) -> Iterator[Block]:
    """Cut a stream of bytes into blocks of whole records.

    >>> import io
    >>> [b.data for b in blocks(io.BytesIO(b'a,"x\\ny"\\nb,c').read, quote=b'"', size=7)]
    [b'a,"x\\ny"\\n', b'b,c\\n']
    """
    pending, ended, want = b"", False, size
    first = True
    while not ended or pending:
        if not ended:
            piece = read(want)
            ended = not piece
            pending += piece
        if first and pending:
            pending, first = pending.removeprefix(BYTE_ORDER_MARK), False
        if ended and pending and not pending.endswith(b"\n"):
            pending += b"\n"
        cut, records = last_record_end(pending, quote, delimiter)
        if cut > 0:
            data, lines = pending[:cut], pending.count(b"\n", 0, cut)
            yield Block(data, line, multiline=records is not None and records < lines)
            line, pending, want = line + lines, pending[cut:], size
        elif pending and (ended or len(pending) > MAX_QUOTED_BYTES):
            cut = pending.find(b"\n") + 1
            if cut == 0:
                want = len(pending)
                continue  # one very long line that is still growing
            yield Block(pending[:cut], line, broken=True)
            line, pending = line + 1, pending[cut:]
        else:
            want = max(size, len(pending))  # doubling keeps one huge record linear


def last_record_end(data: bytes, quote: bytes | None, delimiter: bytes) -> tuple[int, int | None]:
    """The position after the last newline that ends a record (0 if there is none), and the number of records up to
    there (None: one for each line)."""
    if quote is None or quote not in data:
        return data.rfind(b"\n") + 1, None
    ends = record_ends(data, quote, delimiter)
    return (int(ends[-1]), len(ends)) if len(ends) else (0, 0)


def record_ends(data: bytes, quote: bytes | None, delimiter: bytes) -> Int64s:
    """The positions after the newlines that end records.

    A quote opens a value only where the value begins; elsewhere it stands for itself.

    >>> record_ends(b'a,"x\\ny"\\n5" pipe,b\\n', b'"', b",").tolist()
    [8, 18]
    """
    codes = np.frombuffer(data, np.uint8)
    newlines: Int64s = np.flatnonzero(codes == ord("\n"))
    if quote is None or quote not in data:
        return newlines + 1
    quotes = np.flatnonzero(codes == quote[0])
    openers = quotes[::2]
    before = codes[openers - 1]  # position 0 looks at the last byte, which is corrected below
    regular = (before == delimiter[0]) | (before == ord("\n")) | (before == quote[0]) | (openers == 0)
    if regular.all():
        # Every other quote opens (or is the second half of a doubled one): inside means an odd number before it.
        inside = np.searchsorted(quotes, newlines) % 2 == 1
        outside: Int64s = newlines[~inside]
        return outside + 1
    return _record_ends_field_by_field(data, quote, delimiter)


def _record_ends_field_by_field(data: bytes, quote: bytes, delimiter: bytes) -> Int64s:
    q, d = re.escape(quote), re.escape(delimiter)
    field = re.compile(rb"(?:%b(?:[^%b]++|%b%b)*+%b)?+([^%b\n]*+)([%b\n])" % (q, q, q, q, q, d, d))
    ends, at = [], 0
    while at < len(data):
        found = field.match(data, at)
        if found is None or (data[at : at + 1] == quote and found.start(1) == at):
            break  # an opening quote that nothing closes: what follows is undecided
        at = found.end()
        if found.group(2) == b"\n":
            ends.append(at)
    return np.asarray(ends, np.int64)
