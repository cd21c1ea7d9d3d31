"""Rows of which any may go: what a join keeps of an input when constraints, not only the window, decide.

Rows are numbered in order of arrival, also those that are not kept, so a number says how old a row is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from eddyline.core.bound import Bound
from eddyline.core.delta import Bools, Int64s, combine
from eddyline.core.schema import Schema

MAX_CHUNKS = 8  # to look through for a row; more spare rewriting


class KeptRows:
    """
    >>> from eddyline.core.schema import Field
    >>> rows = KeptRows(Schema((Field("a", pa.string()),)))
    >>> rows.insert({"a": pa.array(["x", "y", "z"])}, 3), rows.insert({"a": pa.array(["w"])}, 1)
    (0, 3)
    >>> rows.retain(np.array([1, 3]))
    >>> rows.probe(np.array([3, 1]), ["a"])["a"].to_pylist()
    ['w', 'y']
    """

    def __init__(self, schema: Schema) -> None:
        self.schema = schema
        self.end = 0
        self.bound = Bound()  # the owner says which: that of its window
        self.chunks: list[tuple[Int64s, dict[str, pa.Array]]] = []  # numbers, increasing, and columns

    def __len__(self) -> int:
        return sum(len(numbers) for numbers, _ in self.chunks)

    def insert(self, columns: Mapping[str, pa.Array], length: int) -> int:
        """Bring the next rows; returns the number of the first."""
        start = self.end
        self.end += length
        self.chunks.append((np.arange(start, self.end), {n: columns[n] for n in self.schema.names}))
        return start

    def bring_back(self, numbers: Int64s, columns: Mapping[str, pa.Array]) -> None:
        """Rows that were kept elsewhere for a while, by increasing number; those that are here are not taken twice."""
        new = ~self.has(numbers)
        if not new.all():
            columns = {n: c.filter(pa.array(new)) for n, c in columns.items()}
        if new.any():
            self.chunks.append((numbers[new], dict(columns)))
        if len(self.chunks) > 2 * MAX_CHUNKS:
            self._merge_small()

    def _merge_small(self) -> None:
        """Make one chunk of all but the largest."""
        largest = max(range(len(self.chunks)), key=lambda i: len(self.chunks[i][0]))
        rest = [c for i, c in enumerate(self.chunks) if i != largest]
        numbers = np.concatenate([n for n, _ in rest])
        order = np.argsort(numbers, kind="stable")
        columns = {n: combine([c[n] for _, c in rest]).take(pa.array(order)) for n in self.schema.names}
        self.chunks = [self.chunks[largest], (numbers[order], columns)]

    def has(self, numbers: Int64s) -> Bools:
        """Which of the rows are here."""
        found = np.zeros(len(numbers), np.bool_)
        for mine, _ in self.chunks:
            found |= _places(mine, numbers) >= 0
        return found

    def probe(self, numbers: Int64s, names: Sequence[str]) -> dict[str, pa.Array]:
        """Columns of the rows with these numbers, all of which are here."""
        if len(numbers) == 0:
            return {n: pa.array([], self.schema[n].type) for n in names}
        picks: list[tuple[dict[str, pa.Array], Int64s]] = []
        order: list[Int64s] = []
        left = np.arange(len(numbers))
        for mine, columns in reversed(self.chunks):
            place = _places(mine, numbers[left])
            here = place >= 0
            if here.any():
                picks.append((columns, place[here]))
                order.append(left[here])
                left = left[~here]
            if len(left) == 0:
                break
        assert len(left) == 0, "a row is needed that was given away"
        if len(picks) == 1:
            columns, place = picks[0]
            return {n: columns[n].take(pa.array(place)) for n in names}
        back = np.empty(len(numbers), np.int64)
        back[np.concatenate(order)] = np.arange(len(numbers))
        where = pa.array(back)
        return {n: combine([c[n].take(pa.array(p)) for c, p in picks]).take(where) for n in names}

    def retain(self, numbers: Int64s) -> None:
        """Rows that are not among these, which increase, may go."""
        wanted, held = len(numbers), len(self)
        if held <= wanted + max(256, wanted // 4) and len(self.chunks) <= MAX_CHUNKS:
            return
        columns = self.probe(numbers, self.schema.names)
        self.chunks = [(numbers.copy(), columns)] if wanted else []

    expire = retain

    def give_back(self, bytes: int) -> int:
        """Nothing: every row that is here is needed."""
        return 0

    @property
    def nbytes(self) -> int:
        return sum(numbers.nbytes + sum(c.nbytes for c in columns.values()) for numbers, columns in self.chunks)

    def state(self, numbers: Int64s | None = None) -> dict[str, Any]:
        """All rows, or those with increasing ``numbers``."""
        if numbers is None:
            numbers = np.sort(np.concatenate([n for n, _ in self.chunks])) if self.chunks else np.empty(0, np.int64)
        return {"end": self.end, "numbers": numbers, "rows": self.probe(numbers, self.schema.names)}

    def load(self, state: dict[str, Any]) -> None:
        self.end = int(state["end"])
        numbers = np.array(state["numbers"], np.int64)
        self.chunks = [(numbers, dict(state["rows"]))] if len(numbers) else []


def _places(mine: Int64s, numbers: Int64s) -> Int64s:
    """Where numbers are among increasing ones; −1: nowhere."""
    if len(mine) == 0:
        return np.full(len(numbers), -1, np.int64)
    at = np.minimum(np.searchsorted(mine, numbers), len(mine) - 1)
    return np.where(mine[at] == numbers, at, -1).astype(np.int64)
