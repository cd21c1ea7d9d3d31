"""The instantaneous join of models: two pieces meet where both are defined (Pulse 2.3), keys by hashing."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from eddyline.core.delta import Bools, Int64s, combine
from eddyline.expr.nodes import Expr, columns_of
from eddyline.kernels.polynomials import HIGH_CLOSED, LOW_CLOSED
from eddyline.kernels.time_join import overlaps
from eddyline.models.arithmetic import constant
from eddyline.models.pieces import Pieces, for_kernel
from eddyline.models.solving import truths
from eddyline.synopses.keys import numbered


def joined(
    left: Pieces, right: Pieces, keys: Sequence[tuple[str, str]], scale: float, conjuncts: Sequence[Expr] = ()
) -> Pieces:
    """Pairs of pieces whose constant columns ``keys`` are equal (NULL equals nothing), where both are defined. Of
    ``conjuncts`` those that read constant columns alone are asked before the values of a pair are brought together."""
    code_left, code_right, count = _codes(left, right, keys)
    a, b = _pairs(left, right, code_left, code_right, count)
    low_a, low_b, high_a, high_b = left.low[a], right.low[b], left.high[a], right.high[b]
    closed_a, closed_b = left.closed[a], right.closed[b]
    low, high = np.maximum(low_a, low_b), np.minimum(high_a, high_b)
    # An end that both have is closed if both are; otherwise it is that of the piece that ends there.
    opens = np.where(low_a == low_b, closed_a & closed_b, np.where(low_a > low_b, closed_a, closed_b)) & LOW_CLOSED
    ends = np.where(high_a == high_b, closed_a & closed_b, np.where(high_a < high_b, closed_a, closed_b)) & HIGH_CLOSED
    closed = (opens | ends).astype(np.uint8)
    keep = (low < high) | ((low == high) & (closed == LOW_CLOSED | HIGH_CLOSED))
    keep = _constants_hold(left, right, a, b, np.flatnonzero(keep), conjuncts)
    a, b, low, high, closed = a[keep], b[keep], low[keep], high[keep], closed[keep]
    one, other = left.take(a), right.take(b)
    base = np.maximum(one.base, other.base)
    one, other = one.rebased(base, scale), other.rebased(base, scale)
    doubt = one.doubt if other.doubt is None else other.doubt if one.doubt is None else one.doubt | other.doubt
    return Pieces(low, high, closed, base, {**one.values, **other.values}, {**one.columns, **other.columns}, doubt)


def _constants_hold(
    left: Pieces, right: Pieces, a: Int64s, b: Int64s, keep: Int64s, conjuncts: Sequence[Expr]
) -> Int64s:
    """Which of the pairs ``keep`` satisfy all conjuncts on constant columns."""
    modelled = left.values.keys() | right.values.keys()
    for c in conjuncts:
        names = columns_of(c)
        if names & modelled or not len(keep):
            continue
        columns = {
            n: (left.columns[n] if n in left.columns else right.columns[n]).take(
                pa.array((a if n in left.columns else b)[keep])
            )
            for n in names
        }
        none = np.zeros(len(keep))
        keep = keep[truths(constant(c, Pieces(none, none, none.astype(np.uint8), none, {}, columns)))]
    return keep


def _pairs(left: Pieces, right: Pieces, code_left: Int64s, code_right: Int64s, count: int) -> tuple[Int64s, Int64s]:
    arrays = for_kernel(left.low, left.high, right.low, right.high)
    order_a, order_b = np.argsort(left.low, kind="stable"), np.argsort(right.low, kind="stable")
    # A row whose key is NULL or has no partner takes no part.
    order_a, order_b = order_a[code_left[order_a] >= 0], order_b[code_right[order_b] >= 0]
    room = 4 * (len(left) + len(right))
    while True:
        a, b = np.empty(room, np.int64), np.empty(room, np.int64)
        found = overlaps(
            code_left, arrays[0], arrays[1], order_a, code_right, arrays[2], arrays[3], order_b, count, a, b
        )
        if found <= room:
            return a[:found], b[:found]
        room = found


def _codes(left: Pieces, right: Pieces, keys: Sequence[tuple[str, str]]) -> tuple[Int64s, Int64s, int]:
    n, m = len(left), len(right)
    if not keys:
        return np.zeros(n, np.int64), np.zeros(m, np.int64), 1
    columns = [combine([left.columns[x], right.columns[y].cast(left.columns[x].type)]) for x, y in keys]
    columns = [c.dictionary_decode() if pa.types.is_dictionary(c.type) else c for c in columns]
    codes, count = numbered(columns, n + m)
    null: Bools = np.zeros(n + m, np.bool_)
    for c in columns:
        if c.null_count:
            null |= np.asarray(c.is_null())
    codes[null] = -1
    return codes[:n].copy(), codes[n:].copy(), max(1, count)
