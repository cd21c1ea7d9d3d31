"""A source as a list of parts that can be read independently of each other.

The planner (one process, beside Spark's driver) decides with them how far a micro-batch goes and cuts it into slices; a
slice goes to a worker and says all that is needed to read it.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, Protocol

import numpy as np

from eddyline.core.delta import Int64s
from eddyline.core.errors import EddylineError
from eddyline.io.source import SourceBatch
from eddyline.spark.sources.places import PART_BITS, START, Mark, Place


class Slice(Protocol):
    """A stretch of one part, readable in any process. ``first`` is the position of its first row."""

    @property
    def first(self) -> int: ...

    def read(self, columns: Sequence[str]) -> Iterator[SourceBatch]: ...


class Times(NamedTuple):
    """How far time has come (``ticks``, never decreasing) when so many ``rows`` are read."""

    ticks: Int64s
    rows: Int64s


class Part(Protocol):
    @property
    def row_bytes(self) -> float:
        """What a slice carries with it for each row; 0 where it only names a file."""

    def ahead(self, mark: Mark, rows: float) -> float:
        """About how many rows follow; it is enough to look at the first ``rows`` of them (infinity: there may be more
        and it is not known)."""

    def times(self, mark: Mark, rows: float) -> Times | None:
        """The times of the next rows, about ``rows`` of them; None if they are not known."""

    def advance(self, mark: Mark, rows: float) -> tuple[Mark | None, float]:
        """The mark after about so many more rows and their number; None is the end of the part."""

    def cuts(self, start: Mark, stop: Mark | None, rows: float) -> list[tuple[Mark, float]]:
        """Marks between the two (None: the end) at which they can be divided, about every so many rows, and the number
        of rows from one to the next, beginning with ``start``."""

    def slice(self, start: Mark, stop: Mark | None, base: int) -> Slice: ...

    def forget(self, mark: Mark) -> None:
        """Nothing before the mark will be asked for again."""


@dataclass(frozen=True, slots=True)
class Piece:
    """A stretch of a part, not yet made into a slice."""

    part: int
    start: Mark
    stop: Mark | None
    rows: float
    size: float = 0.0  # bytes that its slice carries

    def joined(self, other: Piece) -> Piece | None:
        """Both as one, if the other goes on where this one stops."""
        if other.part != self.part or self.stop != other.start:
            return None
        return Piece(self.part, self.start, other.stop, self.rows + other.rows, self.size + other.size)


@dataclass(frozen=True, slots=True)
class Outlook:
    """What lies ahead of a place. ``times`` is None where they are not known."""

    rows: float
    times: Times | None = None


@dataclass(slots=True)
class Parts:
    """The parts of a source. ``endless``: whatever one asks for is there. ``names`` are those of files."""

    parts: list[Part]
    endless: bool = False
    names: tuple[str, ...] = ()

    def first(self) -> Place:
        return Place()

    def look(self, place: Place) -> None:
        """Find what has come since, where a source grows."""
        self.known(place)

    def freeze(self) -> None:
        """From now on nothing new exists."""

    def _ended(self, place: Place) -> bool:
        return place.part >= len(self.parts)

    def known(self, place: Place) -> None:
        """Make sure that everything up to here is known and the same, also in a process that has just started."""
        if place.files and place.files != self._checksum(place):
            last = self.names[min(place.part, len(self.names) - 1)]
            raise EddylineError(
                f"the files up to {last} are not those that were read before the checkpoint was made: restore"
                " them; where files are added later, watch their directory (watch = true)."
            )

    def _checksum(self, place: Place) -> int:
        return zlib.crc32("/".join(self.names[: place.begun]).encode()) if self.names else 0

    def settled(self, place: Place) -> Place:
        """The place with all that an offset must say about it."""
        return replace(place, ended=self._ended(place), files=self._checksum(place))

    def outlook(self, place: Place, rows: float) -> Outlook:
        """As far as the next ``rows`` rows. Times count only if all of them are known."""
        found: list[Times] | None = []
        total = 0.0
        mark, latest = place.mark, None
        for part in self.parts[place.part :]:
            count = part.ahead(mark, rows - total)
            if count and found is not None:
                times = part.times(mark, rows - total)
                if times is None or not len(times.ticks):
                    found = None
                else:
                    ticks = times.ticks if latest is None else np.maximum(times.ticks, latest)
                    latest = ticks[-1]
                    found.append(Times(ticks, times.rows + int(total)))
            total += count
            mark = START
            if total >= rows:
                break
        if not found:
            return Outlook(total)
        return Outlook(total, Times(np.concatenate([t.ticks for t in found]), np.concatenate([t.rows for t in found])))

    def remaining(self, place: Place) -> float:
        """About how many rows follow in all that is known."""
        if place.part >= len(self.parts):
            return 0.0
        rest = sum(p.ahead(START, math.inf) for p in self.parts[place.part + 1 :])
        return rest + self.parts[place.part].ahead(place.mark, math.inf)

    def advance(self, place: Place, rows: float) -> Place:
        """The place after about so many more rows, past parts that are empty."""
        number, mark = place.part, place.mark
        while number < len(self.parts):
            part = self.parts[number]
            if rows <= 0 and part.ahead(mark, 1) > 0:
                break
            stop, passed = part.advance(mark, rows)
            rows -= passed
            if stop is not None:
                return self.settled(replace(place, part=number, mark=stop))
            number, mark = number + 1, START
        return self.settled(replace(place, part=number, mark=mark))

    def pieces(self, start: Place, end: Place, rows: float) -> list[Piece]:
        """What lies between two places, in pieces of about so many rows."""
        out = []
        for number in range(start.part, min(end.part + 1, len(self.parts))):
            begin = start.mark if number == start.part else START
            stop = end.mark if number == end.part else None
            if stop == begin:
                continue
            part = self.parts[number]
            cuts = part.cuts(begin, stop, rows)
            stops = [*(m for m, _ in cuts[1:]), stop]
            out += [Piece(number, m, s, n, n * part.row_bytes) for (m, n), s in zip(cuts, stops, strict=True)]
        return out

    def slice(self, piece: Piece) -> Slice:
        return self.parts[piece.part].slice(piece.start, piece.stop, piece.part << PART_BITS)

    def forget(self, place: Place) -> None:
        if place.part < len(self.parts):
            self.parts[place.part].forget(place.mark)
