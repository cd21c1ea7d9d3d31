"""Warnings about rows that are missing from the answer: each is given once, during the run, and names the remedy.

Late and invalid rows are counted exactly and can be read (``late(q)``, ``invalid(q)``), but users do not look for rows
that they do not expect. So the command line writes a note, and a session in Python gives a warning of a category of its
own (``LateRowsWarning``, ``InvalidRowsWarning``), which can be silenced, counted or made an error like any other. If
most rows of a stream are late, its column of time is probably wrong; a warning says so while the query runs.
"""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from eddyline.core.errors import (
    LONGEST_PART,
    DivertedRowsWarning,
    InvalidRowsWarning,
    LateRowsWarning,
    MissedRowsWarning,
    ShedRowsWarning,
    clipped,
)
from eddyline.core.time import TimeKind

if TYPE_CHECKING:
    from eddyline.engine.input_manager import InputStream
    from eddyline.engine.side_output import SideOutput

LATE_SHARE_TO_WARN: Final = 0.5  # of the rows late: then a warning says that the column of time may be wrong
ROWS_BEFORE_WARNING: Final = 100  # of a stream, before a share of them means something
_UNITS: Final = (
    ("days", 86_400_000_000),
    ("hours", 3_600_000_000),
    ("minutes", 60_000_000),
    ("seconds", 1_000_000),
    ("milliseconds", 1_000),
)
APPROXIMATE: Final = " (ON OVERLOAD), so results are approximate"
_PACKAGE: Final = os.path.dirname(os.path.dirname(__file__)) + os.sep  # noqa: PTH120 - compared with names of code


@dataclass(frozen=True, slots=True)
class LeftOut:
    """What one stream, relation or query has turned away so far.

    ``behind`` is how far the latest of its late rows came too late, in ticks (0: it is not known, or slack would not
    have helped); ``reason`` is that of an invalid row. Rows of constant relations are counted, and not ``readable``.
    ``disordered`` rows were kept, because on Spark the rows of a micro-batch are put in order first; one after another
    they would have been late, ``back`` being how far the latest of them lies behind.
    """

    name: str
    arrived: int = 0
    late: int = 0
    invalid: int = 0
    behind: int = 0
    column: str | None = None
    kind: TimeKind = TimeKind.INTEGER
    reason: str | None = None
    readable: bool = True
    disordered: int = 0
    back: int = 0
    auto: bool = False  # whether the slack is chosen while the stream runs
    shed: int = 0  # rows left out under overload

    @staticmethod
    def of(stream: InputStream) -> LeftOut:
        """Of a stream or timed relation in this process."""
        d, kept = stream.definition, stream.invalid.parts
        return LeftOut(
            d.name,
            stream.arrived,
            stream.late.count,
            stream.invalid.count,
            stream.behind,
            d.timestamp,
            d.time_kind or TimeKind.INTEGER,
            kept[0].reason[0].as_py() if kept else None,
            auto=stream.auto is not None,
            shed=stream.shed.count,
        )

    @staticmethod
    def by(name: str, failed: SideOutput) -> LeftOut:
        """Of a query whose expressions failed."""
        return LeftOut(name, invalid=failed.count, reason=failed.parts[0].reason[0].as_py() if failed.parts else None)

    @property
    def mostly_late(self) -> bool:
        return self.arrived >= ROWS_BEFORE_WARNING and self.late >= LATE_SHARE_TO_WARN * self.arrived

    @property
    def mostly_disordered(self) -> bool:
        return self.arrived >= ROWS_BEFORE_WARNING and self.disordered >= LATE_SHARE_TO_WARN * self.arrived

    def remedy(self) -> str:
        """What would have kept the late rows; an empty text where nothing is known that would.

        >>> LeftOut("S", late=3, behind=7).remedy()
        '; a slack of 7 would have kept them'
        >>> LeftOut("S", late=1, behind=90_500_000, kind=TimeKind.TIMESTAMP).remedy()
        '; a slack of 91 seconds would have kept it'
        >>> LeftOut("S", late=3, auto=True).remedy()
        '; SLACK FOR a higher percentage than now keeps more of them'
        """
        if self.auto:
            return f"; SLACK FOR a higher percentage than now keeps more of {'such rows' if self.late == 1 else 'them'}"
        if not self.behind:
            return ""
        return f"; a slack of {_width(self.behind, self.kind)} would have kept {'it' if self.late == 1 else 'them'}"

    def why(self) -> str:
        """The reason of an invalid row, in parentheses; an empty text where it is not known."""
        return f" ({clipped(self.reason, 2 * LONGEST_PART).rstrip('.')})" if self.reason else ""

    def wrong_time(self) -> str:
        """The sentence for a stream most of whose rows are late."""
        share = f"{100 * self.late // self.arrived} % of the first {self.arrived:,} rows of {self.name} are late"
        if self.column is None:
            return f"{share}{self.remedy()}."
        return (
            f"{share}: is {self.column!r} its column of time? Its times go back by up to"
            f" {_width(self.behind, self.kind)}. Name another column (TIMESTAMP BY), sort the rows by time,"
            " or declare a slack of that width."
        )

    def wrong_order(self) -> str:
        """The sentence for a stream most of whose rows are out of order, though not late.

        >>> LeftOut("S", 200, column="k", disordered=150, back=7).wrong_order().partition("?")[0]
        "75 % of the first 200 rows of S are out of order: is 'k' its column of time"
        """
        return (
            f"{100 * self.disordered // self.arrived} % of the first {self.arrived:,} rows of {self.name} are out of"
            f" order: is {self.column!r} its column of time? Its times go back by up to {_width(self.back, self.kind)}."
            " On Spark the rows of one micro-batch are put in order; inline, or cut into other micro-batches, these"
            " rows would be late. Name another column (TIMESTAMP BY), sort the rows by time, or declare a"
            " slack of that width."
        )


def _width(ticks: int, kind: TimeKind) -> str:
    """
    >>> _width(5, TimeKind.INTEGER), _width(1_500_000, TimeKind.TIMESTAMP), _width(7_200_000_001, TimeKind.TIMESTAMP)
    ('5', '1500 milliseconds', '3 hours')
    """
    if kind is TimeKind.INTEGER:
        return str(ticks)
    for unit, size in _UNITS:
        if ticks >= 2 * size:
            return f"{-(-ticks // size)} {unit}"
    return f"{ticks} microseconds"


def notes(found: Iterable[LeftOut], named: bool = True) -> Iterator[str]:
    """The sentences of a run that has ended; ``named`` is whether a query of the job has a name.

    >>> list(notes([LeftOut("S", late=2, behind=7, invalid=1, reason="s.csv, line 3: 'x' is not a number")]))
    ['2 late rows of S left out; a slack of 7 would have kept them; late(q) shows such rows.',
     "1 invalid row of S left out (s.csv, line 3: 'x' is not a number); invalid(q) shows such rows."]
    >>> list(notes([LeftOut("S", late=1)], named=False))
    ['1 late row of S left out; name the query (q: SELECT …), and SELECT * FROM late(q) shows such rows.']
    """
    for one in found:
        kinds = (("late", one.late, one.remedy()), ("invalid", one.invalid, one.why()), ("shed", one.shed, APPROXIMATE))
        for what, count, more in kinds:
            if count:
                how = f"{what}(q)" if named else f"name the query (q: SELECT …), and SELECT * FROM {what}(q)"
                shows = f"; {how} shows such rows" if one.readable else ""
                yield f"{_rows(count, what)} of {one.name} left out{more}{shows}."


class Notices:
    """Says each thing once, however often it looks."""

    def __init__(self) -> None:
        self._said: set[tuple[str, str]] = set()

    def wrong_times(self, found: Iterable[LeftOut]) -> Iterator[str]:
        """A sentence for each stream most of whose rows are late, or out of order, by now."""
        for one in found:
            if one.mostly_late and self._first(one, "time"):
                yield one.wrong_time()
            elif one.mostly_disordered and self._first(one, "time"):
                yield one.wrong_order()

    def warnings(
        self, found: Iterable[LeftOut], shows: str = "query.{}()"
    ) -> Iterator[tuple[type[DivertedRowsWarning], str]]:
        """Categories and texts. ``shows`` is what brings the rows, with a place for ``late`` or ``invalid``."""
        for one in found:
            if one.mostly_late and self._first(one, "time"):
                self._first(one, "late")
                yield LateRowsWarning, f"{one.wrong_time()} {shows.format('late')} shows some of them."
            elif one.mostly_disordered and self._first(one, "time"):
                yield LateRowsWarning, one.wrong_order()
            elif one.late and self._first(one, "late"):
                count = _rows(one.late, "late")
                yield (
                    LateRowsWarning,
                    (f"{count} of {one.name} left out so far{one.remedy()}; {shows.format('late')} shows such rows."),
                )
            if one.invalid and self._first(one, "invalid"):
                where = f"; {shows.format('invalid')} shows such rows" if one.readable else ""
                yield (
                    InvalidRowsWarning,
                    f"{_rows(one.invalid, 'invalid')} of {one.name} left out so far{one.why()}{where}.",
                )
            if one.shed and self._first(one, "shed"):
                count = _rows(one.shed, "shed")
                yield (
                    ShedRowsWarning,
                    f"{count} of {one.name} left out so far{APPROXIMATE}; {shows.format('shed')} shows such rows.",
                )

    def warn(self, found: Iterable[LeftOut], shows: str = "query.{}()") -> None:
        for category, text in self.warnings(found, shows):
            warnings.warn(text, category, stacklevel=outside())

    def _first(self, one: LeftOut, what: str) -> bool:
        key = (one.name, what)
        if key in self._said:
            return False
        self._said.add(key)
        return True


def _rows(count: int, what: str) -> str:
    return f"{count:,} {what} row{'' if count == 1 else 's'}"


def outside() -> int:
    """The ``stacklevel`` of the nearest caller that is not ours: his line is the one to name."""
    level, frame = 1, sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_PACKAGE):
        level, frame = level + 1, frame.f_back
    return level


def warn_of_missed(query: str, streams: Sequence[str]) -> None:
    """Warn that a new query reads sources that are at their end."""
    if streams:
        text = (
            f"{query} sees no rows of {', '.join(streams)}: what it reads was read to its end before. Register all "
            "queries first, or read the source in a new session."
        )
        warnings.warn(text, MissedRowsWarning, stacklevel=outside())
