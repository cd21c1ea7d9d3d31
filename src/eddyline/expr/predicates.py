"""Conjunctions over batches: which rows pass, whatever the order in which the conjuncts are evaluated.

The law (one error rule, so that reordering is invisible): each conjunct is asked at most once for a row, and only while
the row is alive. FALSE or NULL drops the row and forgets its errors. A conjunct that fails leaves the row alive for the
others; if none of them drops it, the error of the first *written* failing conjunct is the row's error.

Cheap conjuncts cost less than choosing rows for them, so they run on the whole batch and their masks are combined as
bits. Expensive ones (users' functions, regular expressions, row-wise functions), ones that can fail, and any once few
rows are left, run on the surviving rows only, with only their own columns filtered.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from eddyline.core.errors import DataError
from eddyline.expr.arrays import Bools, array_of, mask_of
from eddyline.expr.members import Conjunct, Evaluable, answering

_MAX_SHARE_TO_CHOOSE_ROWS = 0.1  # up to which even a cheap conjunct is faster on filtered columns


@dataclass(frozen=True, slots=True)
class Selection:
    """``keep`` marks the rows for which every conjunct is TRUE; the rows in ``errors`` are not among them."""

    keep: Bools
    errors: dict[int, DataError] = field(default_factory=dict)


class _Survivors:
    """The rows still alive, as Arrow bits as long as possible: unpacking them costs more than a cheap conjunct."""

    __slots__ = ("_bits", "_mask", "length")

    def __init__(self, length: int) -> None:
        self.length = length
        self._bits: pa.Array | None = None
        self._mask: Bools | None = None

    def meet(self, values: pa.Array) -> None:
        """Keep what is alive and TRUE in a result for the whole batch."""
        if self._mask is not None:
            self._mask &= mask_of(values)
        else:
            self._bits = values if self._bits is None else pc.and_(self._bits, values)

    def mask(self) -> Bools:
        """The caller may change it."""
        if self._mask is None:
            self._mask = np.ones(self.length, np.bool_) if self._bits is None else mask_of(self._bits)
            self._bits = None
        return self._mask


class Conjunction:
    """Conjuncts in written order, compiled once.

    >>> from eddyline.expr.nodes import Call, Column, Literal
    >>> a, b = Column("a", pa.int64()), Column("b", pa.int64())
    >>> both = Conjunction([
    ...     Call("gt", (a, Literal(2, pa.int64())), pa.bool_()), Call("lt", (b, Literal(9, pa.int64())), pa.bool_())
    ... ])
    >>> both.evaluate({"a": pa.array([1, 3, 5]), "b": pa.array([1, 1, None])}, 3).keep.tolist()
    [False, True, False]
    """

    __slots__ = ("columns", "compiled")

    def __init__(self, conjuncts: Sequence[Conjunct]) -> None:
        self.compiled: tuple[Evaluable, ...] = tuple(map(answering, conjuncts))
        self.columns: frozenset[str] = frozenset[str]().union(*(c.columns for c in self.compiled))

    def __len__(self) -> int:
        return len(self.compiled)

    def evaluate(self, columns: Mapping[str, pa.Array], length: int, order: Sequence[int] | None = None) -> Selection:
        """Try the conjuncts in the given order (a permutation of their positions; as written by default)."""
        alive = _Survivors(length)
        failures: dict[int, dict[int, DataError]] = {}  # written position → row → error
        for position in range(len(self.compiled)) if order is None else order:
            compiled = self.compiled[position]
            if compiled.can_fail or compiled.expensive or alive._mask is not None:
                errors = _evaluate_alive(compiled, columns, alive)
                if errors:
                    failures[position] = errors
            else:
                alive.meet(compiled(columns, length))
        return _conclude(alive.mask(), failures)


def _evaluate_alive(compiled: Evaluable, columns: Mapping[str, pa.Array], alive: _Survivors) -> dict[int, DataError]:
    """Ask one conjunct about the surviving rows; update them, and return its errors by row."""
    mask = alive.mask()
    count = int(np.count_nonzero(mask))
    if not count:
        return {}
    if count == alive.length or (not compiled.expensive and count > _MAX_SHARE_TO_CHOOSE_ROWS * alive.length):
        values, errors = compiled.rows(columns, alive.length, mask if compiled.can_fail else None)
        passed = mask_of(values)
        passed[list(errors)] = True
        mask &= passed
        return errors
    chosen = array_of(mask)
    part = {name: columns[name].filter(chosen) for name in compiled.columns}
    values, errors = compiled.rows(part, count)
    passed = mask_of(values)
    if not errors:
        mask[mask] = passed
        return {}
    passed[list(errors)] = True
    rows = np.flatnonzero(mask)
    mask[rows[~passed]] = False
    return {int(rows[i]): e for i, e in errors.items()}


def _conclude(mask: Bools, failures: dict[int, dict[int, DataError]]) -> Selection:
    errors: dict[int, DataError] = {}
    for position in sorted(failures):
        for row, error in failures[position].items():
            if mask[row]:
                errors.setdefault(row, error)
    if errors:
        mask[list(errors)] = False
        errors = dict(sorted(errors.items()))
    return Selection(mask, errors)
