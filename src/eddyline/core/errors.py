"""Errors that people read: one sentence that names the place and the remedy.

``EddylineError`` is the root. ``CqlError`` carries the place in the text as data, so that the command line, a
notebook and a web page can each draw it in their own way; ``str()`` draws it with an underline.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

LONGEST_MESSAGE: Final = 4000  # characters of one message, several times what our own words ever need
LONG_MESSAGE: Final = 1000  # characters from which on the data in a message are clipped if it did not do so itself
LONGEST_PART: Final = 200  # characters of one value, text or foreign message inside a message
SUGGESTED_LIKENESS: Final = 0.65  # likeness of two names (1 is the same) from which on one is suggested for the other
LONGEST_LINE: Final = 160  # characters of the line that is drawn below a message


def clipped(text: object, limit: int = LONGEST_PART) -> str:
    """A text of at most ``limit`` characters; what is too long loses its middle, because the end often says most.

    >>> clipped("a" * 50 + "z", 11)
    'aaaaa…aaaaz'
    """
    whole = str(text)
    if len(whole) <= limit:
        return whole
    tail = (limit - 1) // 2
    return f"{whole[: limit - 1 - tail]}…{whole[len(whole) - tail :]}"


def quoted(value: object, limit: int = LONGEST_PART) -> str:
    """A value in quotes, as Python writes it, clipped between its quotes.

    >>> quoted("x" * 9, 5)
    "'xx…xx'"
    """
    return repr(clipped(value, limit)) if isinstance(value, str) else clipped(repr(value), limit)


# Data in a message: a text in quotes (an apostrophe inside a word opens none), or a word longer than any of ours.
_DATA: Final = re.compile(r"(?<!\w)'[^'\n]{N,}'(?!\w)|‹[^›]{N,}›|\S{N,}".replace("N", str(LONGEST_PART + 3)))


def bounded(message: object) -> str:
    """A message of at most ``LONGEST_MESSAGE`` characters: what is too long loses data that it quotes, not its words.

    >>> words = " is bad:" + " do something about it" * 41
    >>> len("x" * 5000 + words), len(bounded("x" * 5000 + words))
    (5910, 1112)
    """
    text = str(message)
    if len(text) > LONG_MESSAGE:
        text = _DATA.sub(lambda m: f"{m[0][0]}{clipped(m[0][1:-1])}{m[0][-1]}", text)
    return clipped(text, LONGEST_MESSAGE)


class EddylineError(Exception):
    """Anything that Eddyline reports to its user. ``exit_status`` is what the command line returns.

    A message never has more than ``LONGEST_MESSAGE`` characters, whatever data it quotes. Where it quotes data, it
    should clip them (``quoted``, ``clipped``), so that its own words stay together; ``bounded`` does so for the rest.
    """

    exit_status = 1

    def __init__(self, message: object = "") -> None:
        super().__init__(bounded(message))


class JobError(EddylineError):
    """A mistake in the job (text, names, types, options, files): exit status 2."""

    exit_status = 2


class OverloadError(EddylineError):
    """A stream with ON OVERLOAD BLOCK holds as much as it may: the rows were not taken, and can be pushed again."""


class DataError(EddylineError):
    """A value in the data stopped the query: overflow, division by zero, a failing cast, a malformed row in strict."""


class MissingColumnWarning(UserWarning):
    """A declared column that the input does not seem to have."""


class DivertedRowsWarning(UserWarning):
    """Rows were left out of an answer. Given once for each stream and kind, as soon as it is known."""


class LateRowsWarning(DivertedRowsWarning):
    """Late rows were left out; the text says which slack would have kept them."""


class InvalidRowsWarning(DivertedRowsWarning):
    """Malformed rows, rows without a timestamp, or rows that made an expression fail were left out."""


class ShedRowsWarning(DivertedRowsWarning):
    """A stream was overloaded and shed rows, as it was declared to: results since then are approximate."""


class MissedRowsWarning(DivertedRowsWarning):
    """A query was registered when a source that it reads had been read to its end: it sees none of those rows."""


class ManySignalsWarning(UserWarning):
    """Most signals under ``ERROR WITHIN`` have one sample only: a column of their key is different in each sample."""


@dataclass(frozen=True, slots=True)
class Span:
    """A place in a text: ``start`` and ``end`` are character offsets, end exclusive."""

    start: int
    end: int


class CqlError(JobError):
    """A mistake in CQL text, with its place.

    >>> print(CqlError("unknown column 'sizee'. Did you mean 'size'?", "SELECT sizee FROM S", Span(7, 12)))
    unknown column 'sizee'. Did you mean 'size'?
      line 1, column 8:
      SELECT sizee FROM S
             ^^^^^
    """

    def __init__(self, message: str, text: str = "", span: Span | None = None) -> None:
        super().__init__(message)
        self.message, self.text, self.span = str(self.args[0]), text, span

    @property
    def line(self) -> int:
        return 1 if self.span is None else self.text.count("\n", 0, self.span.start) + 1

    @property
    def column(self) -> int:
        return 1 if self.span is None else self.span.start - (self.text.rfind("\n", 0, self.span.start) + 1) + 1

    def __str__(self) -> str:
        if self.span is None or not self.text:
            return self.message
        start = self.text.rfind("\n", 0, self.span.start) + 1
        stop = self.text.find("\n", self.span.start)
        line = self.text[start : stop if stop >= 0 else len(self.text)]
        low, high = self.span.start - start, min(self.span.end - start, len(line))
        line, low, high = _around(line, low, max(high, low + 1))
        pad = "".join("\t" if c == "\t" else " " for c in line[:low])
        return f"{self.message}\n  line {self.line}, column {self.column}:\n  {line}\n  {pad}{'^' * (high - low)}"


def _around(line: str, low: int, high: int) -> tuple[str, int, int]:
    """The part of a long line around a place in it, and the place in that part."""
    if len(line) <= LONGEST_LINE:
        return line, low, high
    high = min(high, low + LONGEST_LINE // 2)
    first = max(0, min(low - (LONGEST_LINE - (high - low)) // 2, len(line) - LONGEST_LINE))
    last = first + LONGEST_LINE
    before, after = "… " if first else "", " …" if last < len(line) else ""
    return f"{before}{line[first:last]}{after}", low - first + len(before), high - first + len(before)


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """The suggestion at the end of an error, or an empty text.

    >>> did_you_mean("pric", ["price", "size"])
    " Did you mean 'price'?"
    >>> did_you_mean("zzz", ["price", "size"])
    ''
    """
    by_lower = {k.lower(): k for k in known}
    near = _nearest(name.lower(), by_lower)
    return "" if near is None else f" Did you mean {by_lower[near]!r}?"


def did_you_mean_file(name: str, known: Iterable[str]) -> str:
    """The same for names of files, which are near if they are without their extensions: most files have the same one.

    >>> did_you_mean_file("nothing.cql", ["long.cql", "a.cql"]), did_you_mean_file("lonk.cql", ["long.sql", "long.cql"])
    ('', " Did you mean 'long.cql'?")
    """
    by_stem: dict[str, list[str]] = {}
    for k in known:
        by_stem.setdefault(_stem(k), []).append(k)
    near = _nearest(_stem(name), by_stem)
    if near is None:
        return ""
    best = max(by_stem[near], key=lambda k: (difflib.SequenceMatcher(None, name.lower(), k.lower()).ratio(), k))
    return f" Did you mean {best!r}?"


def _stem(name: str) -> str:
    return name.lower().lstrip(".").partition(".")[0]


def _nearest(name: str, known: Iterable[str]) -> str | None:
    near = difflib.get_close_matches(name[:LONGEST_PART], list(known), n=1, cutoff=SUGGESTED_LIKENESS)
    return near[0] if near else None
