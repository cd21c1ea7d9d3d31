"""The instantaneous join of models: two pieces meet where both are defined (Pulse 2.3), keys by hashing."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from eddyline.core.delta import Bools, Int64s, combine
from eddyline.expr.nodes import Call, Column, Expr, columns_of
from eddyline.kernels.time_join import ABOVE, BELOW, EQUAL, common, overlaps
from eddyline.models.arithmetic import constant
from eddyline.models.pieces import Grid, Pieces, for_kernel
from eddyline.models.solving import truths
from eddyline.synopses.keys import numbered

_COMPARED: Final[Mapping[str, int]] = {
    "lt": BELOW, "le": BELOW | EQUAL, "eq": EQUAL, "ne": BELOW | ABOVE, "ge": ABOVE | EQUAL, "gt": ABOVE,
}  # fmt: skip
_TURNED: Final[Mapping[str, str]] = {"lt": "gt", "le": "ge", "eq": "eq", "ne": "ne", "ge": "le", "gt": "lt"}


_LEFT, _RIGHT = "\x00left", "\x00right"  # columns of the rows that a pair is of, until the other columns are taken


def joined(
    left: Pieces, right: Pieces, keys: Sequence[tuple[str, str]], scale: float, conjuncts: Sequence[Expr] = (),
    restrict: Callable[[Pieces, Sequence[Expr], float], Pieces] | None = None, grid: Grid | None = None,
) -> Pieces:  # fmt: skip
    """Pairs of pieces whose constant columns ``keys`` are equal (NULL equals nothing), where both are defined. Of
    ``conjuncts`` those that read constant columns alone are asked before the values of a pair are brought together.
    ``restrict`` applies the others before columns that they do not read are taken: few pairs satisfy them as a rule,
    and texts are dear to copy. Pairs without an instant of the ``grid`` are left out, if one is given."""
    ranks, rest = _ranks(left, right, conjuncts)
    a, b = _pairs(left, right, _codes(left, right, keys), ranks)
    low, high, closed = np.empty(len(a)), np.empty(len(a)), np.empty(len(a), np.uint8)
    arrays = for_kernel(left.low, left.high, left.closed, right.low, right.high, right.closed)
    kept = common(a, b, *arrays, low, high, closed)
    a, b, low, high, closed = a[:kept], b[:kept], low[:kept], high[:kept], closed[:kept]
    if grid is not None:
        held = grid.held(low, high, closed)
        a, b, low, high, closed = a[held], b[held], low[held], high[held], closed[held]
    keep = _constants_hold(left, right, a, b, rest)
    if keep is not None:
        a, b, low, high, closed = a[keep], b[keep], low[keep], high[keep], closed[keep]
    modelled = left.values.keys() | right.values.keys()
    asked = [c for c in conjuncts if columns_of(c) & modelled] if restrict is not None else []
    read = {n for c in asked for n in columns_of(c)}
    one, other = (
        p.with_columns(p.values, {n: c for n, c in p.columns.items() if n in read}).take(i)
        for p, i in ((left, a), (right, b))
    )
    base = np.maximum(one.base, other.base)
    one, other = one.rebased(base, scale), other.rebased(base, scale)
    doubt = one.doubt if other.doubt is None else other.doubt if one.doubt is None else one.doubt | other.doubt
    columns = {**one.columns, **other.columns, _LEFT: pa.array(a), _RIGHT: pa.array(b)}
    found = Pieces(low, high, closed, base, {**one.values, **other.values}, columns, doubt)
    if restrict is not None and asked:
        found = restrict(found, asked, scale)
    rows = [(p, found.columns[n]) for p, n in ((left, _LEFT), (right, _RIGHT))]
    return found.with_columns(found.values, {n: c.take(i) for p, i in rows for n, c in p.columns.items()})


def _constants_hold(left: Pieces, right: Pieces, a: Int64s, b: Int64s, conjuncts: Sequence[Expr]) -> Int64s | None:
    """Which of the pairs satisfy all conjuncts on constant columns; None: there is no such conjunct."""
    modelled = left.values.keys() | right.values.keys()
    keep: Int64s | None = None
    for c in conjuncts:
        names = columns_of(c)
        if names & modelled or not len(a):
            continue
        keep = np.arange(len(a)) if keep is None else keep
        columns = {
            n: (left.columns[n] if n in left.columns else right.columns[n]).take(
                pa.array((a if n in left.columns else b)[keep])
            )
            for n in names
        }
        none = np.zeros(len(keep))
        keep = keep[truths(constant(c, Pieces(none, none, none.astype(np.uint8), none, {}, columns)))]
    return keep


@dataclass(frozen=True, slots=True)
class _Ranks:
    """A number for each row of both sides, −1 for NULL, and how the left one has to compare with the right one."""

    left: Int64s
    right: Int64s
    compared: int


def _ranks(left: Pieces, right: Pieces, conjuncts: Sequence[Expr]) -> tuple[_Ranks, list[Expr]]:
    """The first conjunct that compares a column of each side, as ranks that the join itself can compare, and the other
    conjuncts. A self-join has one such as a rule (``a.id < b.id``), and it drops more than half of the pairs."""
    rest = list(conjuncts)
    for c in conjuncts:
        match c:
            case Call(function=function, args=(Column() as x, Column() as y)) if function in _COMPARED:
                if x.name in right.columns and y.name in left.columns:
                    x, y, function = y, x, _TURNED[function]
                if x.name in left.columns and y.name in right.columns:
                    one, other = left.columns[x.name], right.columns[y.name]
                    if one.type == other.type and (pa.types.is_string(one.type) or pa.types.is_integer(one.type)):
                        rest.remove(c)
                        return _Ranks(*_ranked(one, other), _COMPARED[function]), rest
    return _Ranks(np.zeros(len(left), np.int64), np.zeros(len(right), np.int64), EQUAL), rest


def _ranked(one: pa.Array, other: pa.Array) -> tuple[Int64s, Int64s]:
    """The places of values in the order of all that occur; −1 for NULL."""
    same = one.equals(other)
    found = (one if same else combine([one, other])).dictionary_encode()
    place = np.empty(len(found.dictionary) + 1, np.int64)
    place[pc.sort_indices(found.dictionary).to_numpy()] = np.arange(len(found.dictionary))
    place[-1] = -1
    ranks = place[found.indices.fill_null(len(found.dictionary)).to_numpy(zero_copy_only=False)]
    return (ranks, ranks) if same else (ranks[: len(one)], ranks[len(one) :])


def _pairs(left: Pieces, right: Pieces, codes: tuple[Int64s, Int64s, int], ranks: _Ranks) -> tuple[Int64s, Int64s]:
    code_left, code_right, count = codes
    a_side = for_kernel(code_left, left.low, left.high, left.closed, ranks.left)
    b_side = for_kernel(code_right, right.low, right.high, right.closed, ranks.right)
    # A row whose key is NULL or has no partner takes no part, nor does one without a rank.
    order_a, order_b = _order(left, code_left, ranks.left), _order(right, code_right, ranks.right)
    room = 4 * (len(left) + len(right))
    while True:
        a, b = np.empty(room, np.int64), np.empty(room, np.int64)
        found = overlaps(*a_side, order_a, *b_side, order_b, count, ranks.compared, a, b)
        if found <= room:
            return a[:found], b[:found]
        room = found


def _order(pieces: Pieces, code: Int64s, rank: Int64s) -> Int64s:
    order: Int64s = np.argsort(pieces.low, kind="stable")
    takes_part = (code[order] >= 0) & (rank[order] >= 0)
    return order if takes_part.all() else order[takes_part]


def _codes(left: Pieces, right: Pieces, keys: Sequence[tuple[str, str]]) -> tuple[Int64s, Int64s, int]:
    n, m = len(left), len(right)
    if not keys:
        return np.zeros(n, np.int64), np.zeros(m, np.int64), 1
    one = [decoded(left.columns[x]) for x, _ in keys]
    other = [decoded(right.columns[y]).cast(a.type) for (_, y), a in zip(keys, one, strict=True)]
    if n == m and all(a.equals(b) for a, b in zip(one, other, strict=True)):  # a self-join
        codes, count = _numbered(one, n)
        return codes, codes, max(1, count)
    codes, count = _numbered([combine([a, b]) for a, b in zip(one, other, strict=True)], n + m)
    return codes[:n].copy(), codes[n:].copy(), max(1, count)


def _numbered(columns: Sequence[pa.Array], length: int) -> tuple[Int64s, int]:
    """Equal keys get equal numbers, a key that is NULL −1."""
    codes, count = numbered(columns, length)
    null: Bools = np.zeros(length, np.bool_)
    for c in columns:
        if c.null_count:
            null |= np.asarray(c.is_null())
    codes[null] = -1
    return codes, count


def decoded(column: pa.Array) -> pa.Array:
    return column.dictionary_decode() if pa.types.is_dictionary(column.type) else column
