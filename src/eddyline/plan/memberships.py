"""Which memberships (IN, EXISTS) can be conjuncts of a selection like any other: asked about a row once, in any order.

A selection above mark joins is *flattened*: its base, the mark joins, and all conjuncts. The mark of a row may be asked
for at any time within the row's own instant, and nothing has to be kept of the row, if

- the right side never changes: then the mark is a function of the tuple; or
- the row is there at one instant only: the base is ``[NOW]`` over a stream. Then the elements of the stream are judged,
  and ``[NOW]`` is put on those that pass.

Otherwise a change on the right changes the mark of rows that came earlier, and a semijoin must keep both sides.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from eddyline.core.schema import Field, Schema
from eddyline.core.time import TimeKind
from eddyline.core.window import Range, Stepping, Unbounded, is_time_based, spelled
from eddyline.expr.describe import describe
from eddyline.expr.nodes import Call, Column, Expr, columns_of, substitute
from eddyline.plan.conjuncts import split_conjuncts
from eddyline.plan.deletions import is_constant
from eddyline.plan.logical import MarkJoin, Plan, Project, RelationScan, Select, StreamScan, Window, WithArrivals
from eddyline.plan.membership_keys import lift
from eddyline.plan.traverse import each


@dataclass(frozen=True, slots=True)
class Sought:
    """A mark by keys: TRUE for left rows whose ``lefts`` equal the ``rights`` of some right row. ``unknown``: whether
    it matters that it can be NULL."""

    join: MarkJoin
    lefts: tuple[Expr, ...]
    rights: tuple[Expr, ...]
    unknown: bool

    @property
    def schema(self) -> Schema:
        """The right side as keys."""
        return Schema(tuple(Field(f"_k{j}", e.type) for j, e in enumerate(self.rights)))


@dataclass(frozen=True, slots=True)
class Flat:
    """``base`` filtered by ``conjuncts`` (in written order), which read the marks of ``joins``."""

    base: Plan
    joins: tuple[MarkJoin, ...]
    conjuncts: tuple[Expr, ...]

    @property
    def constant(self) -> bool:
        """Whether no right side changes."""
        return all(is_constant(j.right) for j in self.joins)

    def stream(self) -> tuple[Plan, Window] | None:
        """The stream whose elements can be judged in place of the base's rows, and the window that follows; None where
        the rows of the base itself are judged."""
        if isinstance(self.base, Window) and self.constant:
            below = is_time_based(self.base.spec) and not isinstance(self.base.spec, Stepping)
            return (self.base.input, self.base) if below else None
        below_now = _elements(self.base)
        return None if below_now is None else (below_now, Window(below_now, Range(0)))

    def sought(self, kind: TimeKind) -> tuple[Sought, ...] | str:
        """The marks by keys, or why some mark cannot be had so."""
        marks = frozenset(j.mark for j in self.joins)
        found = []
        for join in self.joins:
            if not is_constant(join.right) and self.stream() is None:
                return f"{_name(join.right, kind)} changes while rows of {_name(self.base, kind)} are there"
            lifted = lift(join, Numbered())
            if lifted.items and not lifted.total:
                return f"whether a row fails depends on which rows of {_name(join.right, kind)} it is compared with"
            schema = Schema((*self.base.schema, *(f for i in lifted.items for f in i.fields)))
            keys, equalities, residual = split_conjuncts(lifted.conditions, [schema, join.right.schema])
            pairs = [(a, b) if a.input == 0 else (b, a) for a, b in equalities]
            lefts = tuple(lifted.written(keys[0][a.key]) for a, _ in pairs)
            rights = tuple(keys[1][b.key] for _, b in pairs)
            if residual or any(columns_of(e) & marks for e in lefts):
                return f"{_name(join.right, kind)} is compared by more than equality of columns"
            unknown = bool(join.operands) and not all(_positive(c, join.mark) for c in self.conjuncts)
            if unknown and (join.on or len(join.operands) > 1):
                return f"the NULLs of {_name(join.right, kind)} must be compared pair by pair"
            found.append(Sought(join, lefts, rights, unknown))
        return tuple(found)


class Numbered:
    """Names for columns that are only spoken of."""

    def __init__(self) -> None:
        self.count = 0

    def __call__(self, kind: str) -> str:
        self.count += 1
        return f"_{kind}{self.count}"


def flatten(p: Select) -> Flat | None:
    """None where a selection reads no mark."""
    below: Plan = p
    conjuncts: tuple[Expr, ...] = ()
    joins: tuple[MarkJoin, ...] = ()
    while True:
        if isinstance(below, Select):
            conjuncts, below = (*below.conjuncts, *conjuncts), below.input
        elif isinstance(below, MarkJoin) and any(below.mark in columns_of(c) for c in conjuncts):
            joins, below = (below, *joins), below.left
        else:
            break
    if not joins:
        return None
    flat = Flat(below, joins, conjuncts)
    stream = flat.stream()
    if stream is not None and isinstance(stream[0], Select):
        # What was pushed below the window takes part as well. Its conjuncts are written before.
        selected = stream[0]
        window = below.spec if isinstance(below, Window) else Range(0)
        flat = Flat(Window(selected.input, window), joins, (*selected.conjuncts, *conjuncts))
    return flat


def flattened(p: Select) -> Flat:
    """A selection that is known to read a mark."""
    flat = flatten(p)
    assert flat is not None
    return flat


def _elements(base: Plan) -> Plan | None:
    """The stream on which a relation is ``[NOW]``."""
    match base:
        case Window(spec=Range(width=0)):
            return base.input
        case Project():
            below = _elements(base.input)
            return None if below is None else Project(below, base.items)
        case _:
            return None


def _positive(e: Expr, mark: str) -> bool:
    """Whether a condition is TRUE for the same rows if a mark is FALSE where it is NULL."""
    if mark not in columns_of(e) or isinstance(e, Column):
        return True
    return isinstance(e, Call) and e.function in ("and", "or") and all(_positive(a, mark) for a in e.args)


def membership_text(conjunct: Expr, joins: Sequence[MarkJoin], kind: TimeKind) -> str:
    """A conjunct as text, its marks as they are written: ``S.a IN (SELECT a FROM S1 [ROWS 2])``."""
    for j in joins:
        if conjunct == Call("not", (Column(j.mark, pa.bool_()),), pa.bool_()):
            return _mark_text(j, kind, "NOT ")
    by: dict[str, Expr] = {j.mark: Column(_mark_text(j, kind), pa.bool_()) for j in joins}
    return describe(substitute(conjunct, by))


def _mark_text(p: MarkJoin, kind: TimeKind, negated: str = "") -> str:
    where = f" WHERE {' AND '.join(brief(c) for c in p.on)}" if p.on else ""
    source = f"FROM {_source(p.right, kind)}{where}"
    if not p.operands:
        return f"{negated}EXISTS (SELECT * {source})"
    left = ", ".join(describe(x) for x, _ in p.operands)
    right = ", ".join(brief(q).rpartition(".")[2] for _, q in p.operands)
    return f"{left if len(p.operands) == 1 else f'({left})'} {negated}IN (SELECT {right} {source})"


def brief(e: Expr) -> str:
    """Columns of a subquery carry a prefix of their own."""
    return describe(
        substitute(e, {c: Column(c.rpartition("/")[2], pa.null()) for c in columns_of(e) if c.startswith("_sub")})
    )


def _source(p: Plan, kind: TimeKind) -> str:
    names = []
    for n in each(p):
        if isinstance(n, Window) and (scan := _scan(n.input)) is not None:
            names.append(f"{scan.alias} {spelled(n.spec, kind)}")
        elif isinstance(n, RelationScan):
            names.append(n.alias)
    return ", ".join(names) or "…"


def _scan(p: Plan) -> StreamScan | None:
    while isinstance(p, Select | Project | WithArrivals):
        p = p.input
    return p if isinstance(p, StreamScan) else None


def _name(p: Plan, kind: TimeKind) -> str:
    """What people call a part of a plan: its first input, with its window."""
    for n in each(p):
        if isinstance(n, Window):
            scan = _scan(n.input)
            if scan is not None:
                return (
                    scan.alias
                    if isinstance(n.spec, Unbounded) and n.spec.implicit
                    else f"{scan.alias} {spelled(n.spec, kind)}"
                )
        if isinstance(n, StreamScan | RelationScan):
            return n.alias
    return "the subquery"
