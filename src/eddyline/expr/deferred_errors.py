"""Errors that were noted when a row came, and count only where the value that failed is read.

A value that is computed once for a row and used later, or lazily, is kept in two columns: the value, and a *note*, the
text of the error where there is no value. ``noted(value, note)`` reads the value as if it were computed at that place:
it fails for the rows that have a note; a row whose value is not read does not fail.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import numpy as np
import pyarrow as pa

from eddyline.core.errors import DataError
from eddyline.expr.arrays import broadcast, mask_of, null_where
from eddyline.expr.frames import Frame, Part
from eddyline.expr.nodes import Call, Column, Expr

NOTED: Final = "noted"  # no name that a query could call
NOTE: Final = pa.string()


def noted(value: Expr, note: str) -> Call:
    """The value, or the error in the column ``note``."""
    return Call(NOTED, (value, Column(note, NOTE)), value.type)


def noted_part(value: Part, note: Part) -> Part:
    """How ``noted`` runs.

    >>> from eddyline.expr.evaluate import compile_expr
    >>> read = compile_expr(noted(Column("x", pa.int64()), "why"))
    >>> values, errors = read.rows({"x": pa.array([1, None]), "why": pa.array([None, "it was 0"])}, 2)
    >>> values.to_pylist(), {row: str(e) for row, e in errors.items()}
    ([1, None], {1: 'it was 0'})
    """

    def run(frame: Frame) -> pa.Array:
        values, texts = broadcast(value.run(frame), frame.length), broadcast(note.run(frame), frame.length)
        if texts.null_count == frame.length:
            return values
        failing = mask_of(texts.is_valid())
        if frame.wanted is not None:
            failing &= frame.wanted
        for row, error in errors_in(texts.filter(pa.array(failing)), np.flatnonzero(failing).tolist()).items():
            frame.errors.setdefault(row, error)
        return null_where(values, failing)

    return Part(run, value.type, value.names | note.names, can_fail=True, expensive=value.expensive)


def notes_of(errors: Mapping[int, DataError], length: int) -> pa.Array:
    """A column of notes.

    >>> notes_of({1: DataError("it was 0")}, 3).to_pylist()
    [None, 'it was 0', None]
    """
    if not errors:
        return pa.nulls(length, NOTE)
    texts: list[str | None] = [None] * length
    for row, error in errors.items():
        texts[row] = str(error)
    return pa.array(texts, NOTE)


def errors_in(texts: pa.Array, rows: list[int]) -> dict[int, DataError]:
    """The errors of rows, from their notes."""
    return {row: DataError(text) for row, text in zip(rows, texts.to_pylist(), strict=True)}
