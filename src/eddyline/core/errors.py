"""Errors that people read: one sentence that names the place and the remedy.

``EddylineError`` is the root. ``CqlError`` carries the place in the text as data, so that the command line, a
notebook and a web page can each draw it in their own way; ``str()`` draws it with an underline.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from dataclasses import dataclass


class EddylineError(Exception):
    """Anything that Eddyline reports to its user. ``exit_status`` is what the command line returns."""

    exit_status = 1


class JobError(EddylineError):
    """A mistake in the job (text, names, types, options, files): exit status 2."""

    exit_status = 2


class DataError(EddylineError):
    """A value in the data stopped the query: overflow, division by zero, a failing cast, a malformed row in strict."""


class DivertedRowsWarning(UserWarning):
    """Rows were left out of an answer. Given once for each stream and kind, as soon as it is known."""


class LateRowsWarning(DivertedRowsWarning):
    """Late rows were left out; the text says which slack would have kept them."""


class InvalidRowsWarning(DivertedRowsWarning):
    """Malformed rows, rows without a timestamp, or rows that made an expression fail were left out."""


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
        self.message, self.text, self.span = message, text, span
        super().__init__(message)

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
        width = max(1, min(self.span.end, start + len(line)) - self.span.start)
        pad = "".join("\t" if c == "\t" else " " for c in line[: self.span.start - start])
        return f"{self.message}\n  line {self.line}, column {self.column}:\n  {line}\n  {pad}{'^' * width}"


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """The suggestion at the end of an error, or an empty text.

    >>> did_you_mean("pric", ["price", "size"])
    " Did you mean 'price'?"
    >>> did_you_mean("zzz", ["price", "size"])
    ''
    """
    by_lower = {k.lower(): k for k in known}
    near = difflib.get_close_matches(name.lower(), list(by_lower), n=1, cutoff=0.6)
    return f" Did you mean {by_lower[near[0]]!r}?" if near else ""
