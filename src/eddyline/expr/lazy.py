"""The lazy forms, which do not read all their operands: AND, OR, CASE, COALESCE.

Operands that cannot fail and are cheap are computed for all rows; the others only for the rows that need them.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from eddyline.expr.arrays import Bools, Kernel, Value, array_of, broadcast, mask_of, null_where, scatter
from eddyline.expr.frames import Frame, Node, Part, Retry
from eddyline.expr.types import BOOLEAN

_MAX_SHARE_TO_CHOOSE_ROWS = 0.25  # of rows wanted; above, computing all is cheaper


def on_rows(frame: Frame, part: Part, wanted: Bools) -> pa.Array:
    """Evaluate for the wanted rows only; the values elsewhere are arbitrary.

    Most rows wanted and nothing expensive: compute all of them and forget the errors of the others, which costs less
    than taking rows out and putting results back. Otherwise the columns are filtered.
    """
    if frame.wanted is not None:
        wanted = wanted & frame.wanted
    count = int(np.count_nonzero(wanted))
    if count == frame.length:
        return broadcast(part.run(frame), frame.length)
    if not count:
        return pa.nulls(frame.length, part.type)
    if not part.expensive and count > _MAX_SHARE_TO_CHOOSE_ROWS * frame.length:
        whole = Frame(frame.columns, frame.length, wanted)
        whole.errors = frame.errors
        try:
            return broadcast(part.run(whole), frame.length)
        except Retry:
            pass
    rows = np.flatnonzero(wanted)
    chosen = array_of(wanted)
    inner = Frame({n: frame.columns[n].filter(chosen) for n in part.names}, len(rows))
    if frame.errors:
        place = {int(row): i for i, row in enumerate(rows.tolist())}
        inner.errors = {place[row]: e for row, e in frame.errors.items() if row in place}
    values = broadcast(part.run(inner), len(rows))
    for row, error in inner.errors.items():
        frame.errors.setdefault(int(rows[row]), error)
    return scatter(values, rows, frame.length)


def _is(values: pa.Array, what: bool) -> Bools:
    """Where a Boolean array is TRUE (or FALSE), not NULL."""
    return mask_of(values if what else pc.invert(values))


def facts(parts: Sequence[Part]) -> tuple[frozenset[str], bool, bool]:
    names = frozenset[str]().union(*(p.names for p in parts))
    return names, any(p.can_fail for p in parts), any(p.expensive for p in parts)


def junction(name: str, parts: Sequence[Part]) -> Part:
    """AND and OR from left to right: FALSE (TRUE) on the left keeps the right from failing."""
    combine = pc.and_kleene if name == "and" else pc.or_kleene
    decided_by = name == "or"
    first, *others = parts

    def run(frame: Frame) -> Value:
        value = first.run(frame)
        for part in others:
            if part.can_fail or part.expensive:
                known = broadcast(value, frame.length)
                right: Value = on_rows(frame, part, ~_is(known, decided_by))
                value = combine(known, right)
            else:
                value = combine(value, part.run(frame))
        return value

    return Part(run, BOOLEAN, *facts(parts))


def find_first(tested: Part, listed: Sequence[Part], equal: Sequence[Kernel]) -> Node:
    """``x IN (…)`` where some of the list may fail: each element is asked for the rows without a match so far."""

    def run(frame: Frame) -> pa.Array:
        x = broadcast(tested.run(frame), frame.length)
        asked = mask_of(pc.is_valid(x))
        found = array_of(np.zeros(frame.length, np.bool_))
        for part, same in zip(listed, equal, strict=True):
            found = pc.or_kleene(found, same(x, on_rows(frame, part, asked)))
            asked = asked & ~mask_of(found)
        return null_where(found, ~mask_of(pc.is_valid(x)))

    return run


def case(whens: Sequence[tuple[Part, Part]], default: Part, returns: pa.DataType) -> Part:
    everything = [p for pair in whens for p in pair] + [default]
    known = facts(everything)
    after_first = everything[1:]
    if any(p.can_fail or p.expensive for p in after_first):
        return Part(_lazy_case(whens, default, returns), returns, *known)

    def run(frame: Frame) -> Value:
        value = default.run(frame)
        for condition, then in reversed(whens):
            test = condition.run(frame)
            if isinstance(test, pa.Scalar):
                value = then.run(frame) if test.as_py() else value
                continue
            if test.null_count:
                test = pc.fill_null(test, False)
            value = pc.if_else(test, then.run(frame), value)
        return broadcast(value, frame.length)

    return Part(run, returns, *known)


def _value(frame: Frame, part: Part, wanted: Bools) -> Value:
    return on_rows(frame, part, wanted) if part.constant is None else part.constant


def _lazy_case(whens: Sequence[tuple[Part, Part]], default: Part, returns: pa.DataType) -> Node:
    def run(frame: Frame) -> pa.Array:
        left = np.ones(frame.length, np.bool_)  # rows that no branch has taken yet
        outcomes: list[tuple[Bools, Value]] = []
        for condition, then in whens:
            taken = mask_of(on_rows(frame, condition, left)) & left
            if taken.any():
                left &= ~taken
                outcomes.append((taken, _value(frame, then, taken)))
        if left.any() or not outcomes:
            outcomes.append((left, _value(frame, default, left)))
        (_, result), *others = outcomes
        for taken, values in others:
            result = pc.if_else(array_of(taken), values, result)
        return broadcast(result, frame.length)

    return run


def coalesce(parts: Sequence[Part], returns: pa.DataType) -> Part:
    lazy = any(p.can_fail or p.expensive for p in parts[1:])

    def run(frame: Frame) -> Value:
        if not lazy:
            return pc.coalesce(*(p.run(frame) for p in parts))
        result = broadcast(parts[0].run(frame), frame.length)
        for part in parts[1:]:
            if not result.null_count:
                break
            missing = mask_of(pc.is_null(result))
            result = pc.if_else(array_of(missing), on_rows(frame, part, missing), result)
        return result

    return Part(run, returns, *facts(parts))
