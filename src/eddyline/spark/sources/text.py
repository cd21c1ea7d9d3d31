"""CSV and JSON lines: plain files are cut into stretches of whole records, compressed ones are read in one go.

Whether a newline ends a record depends on all quotes before it, so cuts are found by going through the file from a cut
that is known; the planner does that as far as each micro-batch needs, and offsets keep the last one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Final

from eddyline.io.csv import CsvParser, Header
from eddyline.io.jsonl import JsonParser
from eddyline.io.source import BATCH_ROWS, SourceBatch, pruned
from eddyline.io.text import BLOCK_BYTES, BYTE_ORDER_MARK, COMPRESSIONS, Block, blocks, open_text, reader, record_ends
from eddyline.spark.sources.files import present
from eddyline.spark.sources.parts import Times
from eddyline.spark.sources.places import Mark

LENGTH_SAMPLE_BYTES: Final = 1 << 16  # from which the length of a record is estimated
MIN_SCANNED_BYTES: Final = 1 << 16  # that are scanned for the ends of records at once
COMPRESSION_RATIO: Final = 4  # assumed ratio of a file's size to that of its compressed form


@dataclass(frozen=True, slots=True)
class TextSlice:
    """The bytes ``start`` to ``stop`` of a file, None: to its end. ``names`` are those of a CSV file's columns where
    the slice does not begin with them."""

    path: Path
    parser: CsvParser | JsonParser
    start: Mark
    stop: int | None
    names: tuple[str, ...] | None
    base: int

    @property
    def first(self) -> int:
        return self.base + self.start.at

    def read(self, columns: Sequence[str]) -> Iterator[SourceBatch]:
        wanted, place = pruned(self.parser.schema, columns), self.path.name
        with open_text(present(self.path)) as stream:
            read = reader(stream, place)
            if self.start.at:
                stream.seek(self.start.at)
            if self.start.at or self.stop is not None:
                read = _stretch(read, self.start.at, self.stop)
            line = self.start.line
            if isinstance(self.parser, JsonParser):
                yield from self.parser.read(read, place, wanted, BATCH_ROWS, line=line)
            else:
                yield from self.parser.read(read, place, wanted, BATCH_ROWS, names=self.names, line=line)


def _stretch(read: Callable[[int], bytes], start: int, stop: int | None) -> Callable[[int], bytes]:
    left = None if stop is None else max(0, stop - start)
    # A reader takes a byte order mark off what it reads first, which is right at the start of a file only.
    given = b"" if start == 0 else BYTE_ORDER_MARK

    def some(size: int) -> bytes:
        nonlocal left, given
        if given:
            mark, given = given, b""
            return mark
        data = read(size if left is None else min(size, left))
        if left is not None:
            left -= len(data)
        return data

    return some


@dataclass
class TextPart:
    path: Path
    parser: CsvParser | JsonParser
    # Marks that were found, each with the records between it and the one before.
    _marks: list[tuple[Mark, float]] = field(default_factory=list, init=False, repr=False)

    @cached_property
    def size(self) -> int:
        return present(self.path).stat().st_size

    @property
    def compressed(self) -> bool:
        return self.path.suffix.lower() in COMPRESSIONS

    @cached_property
    def header(self) -> Header | None:
        if isinstance(self.parser, JsonParser):
            return None
        with open_text(present(self.path)) as stream:
            return self.parser.header(reader(stream, self.path.name), self.path.name)

    @cached_property
    def bytes_per_row(self) -> float:
        with open_text(present(self.path)) as stream:
            data = reader(stream, self.path.name)(LENGTH_SAMPLE_BYTES)
        return max(1.0, len(data) / max(1, data.count(b"\n")))

    @property
    def row_bytes(self) -> float:
        return 0.0

    def ahead(self, mark: Mark, rows: float) -> float:
        left = (self.size - mark.at) * (COMPRESSION_RATIO if self.compressed else 1)
        return max(1.0, left / self.bytes_per_row) if left > 0 else 0.0

    def times(self, mark: Mark, rows: float) -> Times | None:
        return None

    def advance(self, mark: Mark, rows: float) -> tuple[Mark | None, float]:
        if self.compressed or rows >= self.size - mark.at:  # no record is shorter than a byte
            return None, self.ahead(mark, rows)
        self._marks = [(m, n) for m, n in self._marks if m.at <= mark.at]
        found, passed = self._scan(
            mark, rows, int(min(BLOCK_BYTES, max(MIN_SCANNED_BYTES, rows * self.bytes_per_row / 4)))
        )
        return (None if found.at >= self.size else found), passed

    def cuts(self, start: Mark, stop: Mark | None, rows: float) -> list[tuple[Mark, float]]:
        end = self.size if stop is None else stop.at
        length = (end - start.at) / self.bytes_per_row
        if self.compressed or length <= rows:
            return [(start, self.ahead(start, rows) if stop is None else length)]
        known = [(m, n) for m, n in self._marks if start.at < m.at <= end]
        if not known or known[-1][0].at < end:
            # A batch that another process had planned: go through it again.
            self._marks.clear()
            self._scan(start, length * 2, int(min(BLOCK_BYTES, max(MIN_SCANNED_BYTES, rows * self.bytes_per_row))), end)
            known = [(m, n) for m, n in self._marks if start.at < m.at <= end]
        starts = [start, *(m for m, _ in known if m.at < end)]
        return [(m, n) for m, (_, n) in zip(starts, known, strict=True)]

    def slice(self, start: Mark, stop: Mark | None, base: int) -> TextSlice:
        names = self.header.names if start.at and self.header is not None else None
        return TextSlice(self.path, self.parser, start, None if stop is None else stop.at, names, base)

    def forget(self, mark: Mark) -> None:
        self._marks = [(m, n) for m, n in self._marks if m.at > mark.at]

    def _scan(self, mark: Mark, rows: float, size: int, end: int | None = None) -> tuple[Mark, float]:
        """Go through so many records, noting marks on the way. A quote that never closes ends it: from there to the end
        of the file, or of what is looked at, is one stretch."""
        stop = self.size if end is None else end
        passed = 0.0
        with open_text(present(self.path)) as stream:
            raw = reader(stream, self.path.name)
            if mark.at == 0:
                mark = self._begin(raw)
            stream.seek(mark.at)
            for block in self._blocks(_stretch(raw, mark.at, stop), size, mark.line):
                if block.broken:
                    break
                data = block.data
                count = len(self._ends(data)) if block.multiline else data.count(b"\n")
                whole = passed + count <= rows
                if not whole:
                    count = max(1, int(rows - passed))
                    data = data[: int(self._ends(data)[count - 1])]
                mark = Mark(min(stop, mark.at + len(data)), mark.line + data.count(b"\n"))
                self._marks.append((mark, float(count)))
                passed += count
                if not whole or passed >= rows:
                    return mark, passed
        if mark.at < stop:
            passed += (stop - mark.at) / self.bytes_per_row
            mark = Mark(stop, mark.line)
            self._marks.append((mark, passed))
        return mark, max(passed, 1.0)

    def _begin(self, raw: Callable[[int], bytes]) -> Mark:
        """Where the first record is: a header must not be cut off from what comes before it."""
        start = len(BYTE_ORDER_MARK) if raw(len(BYTE_ORDER_MARK)) == BYTE_ORDER_MARK else 0
        header = self.header
        if header is None:
            return Mark(start)
        return Mark(min(self.size, start + header.length), 1 + header.lines)  # its newline may be missing

    def _blocks(self, read: Callable[[int], bytes], size: int, line: int) -> Iterator[Block]:
        quote, delimiter = self._quoting
        yield from blocks(read, quote=quote, delimiter=delimiter, size=size, line=line)

    def _ends(self, data: bytes) -> Sequence[int]:
        quote, delimiter = self._quoting
        ends: Sequence[int] = record_ends(data, quote, delimiter)  # type: ignore[assignment]
        return ends

    @cached_property
    def _quoting(self) -> tuple[bytes | None, bytes]:
        if isinstance(self.parser, JsonParser):
            return None, b","
        return self.parser.dialect.quote_bytes, self.parser.dialect.delimiter.encode()
