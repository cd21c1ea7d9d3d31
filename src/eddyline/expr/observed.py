"""A conjunction evaluated in a given order, with statistics: rows in and out of each conjunct, its time, and drop bits.

The semantics are those of ``predicates``, and so is the answer. Two things are added. *Counting*: for each conjunct the
rows that were still alive, those of them that it passed, and its time. *Profiling*: for a few rows that are dropped,
some of the later conjuncts are evaluated all the same, in the same vectorised call as the other rows, so that no
conjunct is evaluated twice for a row. Their results for such a row are noted as bits and change nothing: the row is
dropped, and its errors are forgotten.

Rows are held as a selection vector, the increasing numbers of those alive, and a conjunct gets only its own columns of
only these rows. A cheap conjunct that cannot fail is computed for the whole batch as long as many are alive, because
that costs less than choosing rows; the answer is the same.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from eddyline.core.errors import DataError
from eddyline.core.time import Clock
from eddyline.expr.arrays import Bools, Int64s, from_numpy, mask_of
from eddyline.expr.members import Evaluable

_MAX_SHARE_TO_CHOOSE_ROWS = 0.1  # up to which even a cheap conjunct is faster on chosen rows
_INT64 = pa.int64()
NO_ROWS: Int64s = np.empty(0, np.int64)


@dataclass(frozen=True, slots=True)
class Observation:
    """What one pass found. Arrays by conjunct are in written order.

    ``alive`` are the rows that no conjunct dropped, those in ``errors`` included. ``rows_in`` and ``rows_out`` count
    rows that were alive, ``extra`` rows that were asked about only to learn something. ``dropped`` has a row for each
    profiled row and a column for each conjunct.
    """

    alive: Int64s
    errors: dict[int, DataError]
    rows_in: Int64s
    rows_out: Int64s
    extra: Int64s
    nanoseconds: Int64s
    dropped: Bools


def observe(
    conjuncts: Sequence[Evaluable],
    columns: Mapping[str, pa.Array],
    length: int,
    order: Sequence[int],
    clock: Clock,
    alive: Int64s | None = None,
    profile: Int64s = NO_ROWS,
    reach: Bools | None = None,
) -> Observation:
    """Ask the conjuncts in ``order`` about the rows of a batch that are ``alive`` (increasing; None: all).

    ``profile`` are those of them (increasing) whose bits are wanted; ``reach[i, j]`` is whether such a row, dropped
    by the conjunct at position i, is still shown to the one at position j.

    >>> from eddyline.core.time import SystemClock
    >>> from eddyline.expr.evaluate import compile_expr
    >>> from eddyline.expr.nodes import Call, Column, Literal
    >>> a = Column("a", pa.int64())
    >>> both = [compile_expr(Call(f, (a, Literal(2, pa.int64())), pa.bool_())) for f in ("gt", "ne")]
    >>> seen = observe(both, {"a": pa.array([1, 2, 3, None])}, 4, (1, 0), SystemClock(),
    ...                profile=np.array([1, 3]), reach=np.ones((2, 2), bool))
    >>> seen.alive.tolist(), seen.rows_in.tolist(), seen.rows_out.tolist(), seen.dropped.tolist()
    ([2], [2, 4], [1, 2], [[True, True], [True, True]])
    """
    n = len(conjuncts)
    counts = np.zeros((4, n), np.int64)  # in, out, extra, nanoseconds
    profiler = _Profiler(profile, n, reach) if len(profile) and reach is not None else None
    count = length if alive is None else len(alive)
    failures: dict[int, dict[int, DataError]] = {}
    for position, f in enumerate(order):
        extra = NO_ROWS if profiler is None else profiler.extra(position)
        asked = count + len(extra)
        if not asked:
            if profiler is None:
                break
            continue
        begin = clock.nanoseconds()
        rows = alive
        if len(extra):  # so a row was dropped, and there is a selection vector
            rows = extra if alive is None else np.concatenate([alive, extra])
        passed, errors = ask(conjuncts[f], columns, length, rows)
        spent = clock.nanoseconds() - begin
        if errors:
            failures[f] = {i if rows is None else int(rows[i]): e for i, e in errors.items() if i < count}
        if profiler is not None:
            profiler.note(f, position, alive, passed, count)
        before = count
        if count:
            living = passed[:count]
            count = int(np.count_nonzero(living))
            if count < before:
                alive = np.flatnonzero(living) if alive is None else alive[living]
        counts[:, f] = before, count, len(extra), spent
    found = np.arange(length) if alive is None else alive
    bits = np.zeros((0, n), np.bool_) if profiler is None else profiler.dropped
    rows_in, rows_out, more, spent_by = counts
    return Observation(found, lasting(found, failures), rows_in, rows_out, more, spent_by, bits)


def ask(
    compiled: Evaluable, columns: Mapping[str, pa.Array], length: int, rows: Int64s | None
) -> tuple[Bools, dict[int, DataError]]:
    """Which of the rows (None: all) a conjunct lets live, in their order; the failing ones live on."""
    if rows is None:
        values, errors = compiled.rows(columns, length)
    elif compiled.can_fail or compiled.expensive or len(rows) <= _MAX_SHARE_TO_CHOOSE_ROWS * length:
        index = from_numpy(rows, None, _INT64)
        values, errors = compiled.rows({c: columns[c].take(index) for c in compiled.columns}, len(rows))
    else:
        return mask_of(compiled(columns, length))[rows], {}
    passed = mask_of(values)
    if errors:
        passed[list(errors)] = True
    return passed, errors


def lasting(alive: Int64s, failures: dict[int, dict[int, DataError]]) -> dict[int, DataError]:
    """Of each row that lived to the end, the error of the first written conjunct that failed."""
    if not failures:
        return {}
    there = set(alive.tolist())
    errors: dict[int, DataError] = {}
    for f in sorted(failures):
        for row, error in failures[f].items():
            if row in there:
                errors.setdefault(row, error)
    return dict(sorted(errors.items()))


class _Profiler:
    """The profiled rows of one pass: where each was dropped, and its bits."""

    __slots__ = ("_asked", "dropped", "gone", "n", "reach", "rows")

    def __init__(self, rows: Int64s, n: int, reach: Bools) -> None:
        self.rows, self.n, self.reach = rows, n, reach
        self.gone = np.full(len(rows), n, np.int64)  # the position at which each was dropped; n while it lives
        self.dropped = np.zeros((len(rows), n), np.bool_)
        self._asked: Bools = np.zeros(len(rows), np.bool_)

    def extra(self, position: int) -> Int64s:
        """The rows that are gone and are to be shown to the conjunct at this position."""
        gone = self.gone
        self._asked = (gone < self.n) & self.reach[np.minimum(gone, self.n - 1), position]
        return self.rows[self._asked]

    def note(self, f: int, position: int, alive: Int64s | None, passed: Bools, count: int) -> None:
        """``passed`` holds the answers for the rows alive, then those for the extra ones."""
        self.dropped[self._asked, f] = ~passed[count:]
        if not count:
            return
        living = np.flatnonzero(self.gone == self.n)
        rows = self.rows[living]
        bits = ~passed[rows if alive is None else np.searchsorted(alive, rows)]
        self.dropped[living, f] = bits
        self.gone[living[bits]] = position
