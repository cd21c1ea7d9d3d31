"""A layout: how the rows below a node lie along one dimension, and what equalities of columns add to it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from eddyline.expr.nodes import Call, Cast, Column, Expr
from eddyline.plan.logical import Project, RelationScan, StreamScan
from eddyline.plan.partitioning.grid import ANY, Choice

MAX_LAYOUTS = 256  # layouts kept for a node; plans that people write have a few dozen

Columns = frozenset[str]


@dataclass(frozen=True, slots=True)
class Scans:
    """How the scans at some places lie."""

    choice: Choice
    places: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Layout:
    """``visible`` are the columns whose hash is a row's coordinate, None where the rows are copied; ``choice`` says how
    the scans below lie, those at ``places`` (``partitioning.places``), from left to right.

    ``sides`` is for full joins, where the coordinate is the hash of one side's columns or, where those are padded, of
    the other's: rows that agree in a column of each side meet. It is () where there is no such knowledge.
    """

    visible: Columns | None
    choice: Choice = ()
    sides: tuple[Columns, ...] = ()
    places: tuple[int, ...] = ()

    def beside(self, other: Layout) -> Scans | None:
        """The scans below both, and how they lie; None where a scan that both read would have to lie in two ways."""
        if self.places[-1] < other.places[0]:  # places grow
            return Scans((*self.choice, *other.choice), (*self.places, *other.places))
        mine = dict(zip(self.places, self.choice, strict=True))
        if any(mine.get(p, c) != c for p, c in zip(other.places, other.choice, strict=True)):
            return None
        mine |= dict(zip(other.places, other.choice, strict=True))
        both = tuple(sorted(mine))
        return Scans(tuple(mine[p] for p in both), both)

    def on(self, scans: Scans) -> Layout:
        """The same layout of a node that reads more."""
        return replace(self, choice=scans.choice, places=scans.places)

    def meets(self, columns: Iterable[str] | None = None) -> bool:
        """Whether rows that agree in these columns (None: in all) are at one coordinate. Not asked of copied rows."""
        visible = self.visible or frozenset()
        if columns is None:
            return bool(visible or self.sides)
        given = frozenset(columns)
        return bool(visible & given) or (bool(self.sides) and all(side & given for side in self.sides))

    def renamed(self, names: Iterable[tuple[str, str | None]]) -> Layout:
        """With new names for old ones, each as often as it is given; the others are left out."""
        if self.visible is None:
            return self
        pairs = list(names)
        visible, *sides = (frozenset(n for n, old in pairs if old in k) for k in (self.visible, *self.sides))
        return Layout(visible, self.choice, tuple(sides) if all(sides) else (), self.places)

    def closed(self, equal: Iterable[Columns]) -> Layout:
        """Knowing that columns are equal."""
        return self if self.visible is None else replace(self, visible=closure(self.visible, equal))


def lying_by(p: StreamScan | RelationScan, column: str, place: int) -> Layout:
    """A scan by one of its source's columns."""
    visible = frozenset(n for n, c in zip(p.schema.names, p.columns, strict=True) if c == column)
    return Layout(visible, (column,), places=(place,))


def projected(p: Project, x: Layout) -> Layout:
    return x.renamed((n, hashed_like(e)) for n, e in p.items)


def met(x: Layout, y: Layout, equal: Sequence[Columns]) -> Layout | None:
    """Two inputs of a join: if both are split, equal columns must say the same of where their rows are."""
    scans = x.beside(y)
    if scans is None:
        return None
    if x.visible is None or y.visible is None:
        return (x if y.visible is None else y).on(scans)
    together = closure(x.visible, equal) & closure(y.visible, equal)
    return Layout(x.visible | y.visible).on(scans) if together else None


def hashed_like(e: Expr) -> str | None:
    """The column whose hash is that of the expression: numbers that a cast only widens keep theirs.

    >>> narrow = Column("a", pa.int32())
    >>> hashed_like(narrow), hashed_like(Cast(narrow, pa.int64())), hashed_like(Cast(narrow, pa.float64()))
    ('a', 'a', None)
    """
    match e:
        case Column(name=name):
            return name
        case Cast(operand=Column(name=name, type=narrow), type=wide) if widens(narrow, wide):
            return name
        case _:
            return None


def widens(narrow: pa.DataType, wide: pa.DataType) -> bool:
    kinds = (pa.types.is_signed_integer, pa.types.is_floating)
    return any(k(narrow) and k(wide) and narrow.bit_width <= wide.bit_width for k in kinds)


def classes(conjuncts: Iterable[Expr]) -> tuple[Columns, ...]:
    """The columns that a conjunction equates, as disjoint classes.

    >>> a, b, c = (Column(n, pa.int64()) for n in "abc")
    >>> [sorted(k) for k in classes([Call("eq", (a, b), pa.bool_()), Call("eq", (c, b), pa.bool_())])]
    [['a', 'b', 'c']]
    """
    found: list[Columns] = []
    for e in conjuncts:
        if not isinstance(e, Call) or e.function != "eq" or e.args[0].type != e.args[1].type:
            continue
        a, b = map(hashed_like, e.args)
        if a is not None and b is not None:
            joined = frozenset((a, b)).union(*(k for k in found if k & {a, b}))
            found = [*(k for k in found if not k & joined), joined]
    return tuple(found)


def closure(visible: Columns, equal: Iterable[Columns]) -> Columns:
    return visible.union(*(k for k in equal if k & visible))


def best(layouts: Iterable[Layout]) -> list[Layout]:
    """Without those that another one beats: it shows at least as much, and no scan is worse off.

    Every rule asks only for more visible columns, and only copies cost anything, so nothing is lost.
    """
    kept: list[Layout] = []
    for x in sorted(layouts, key=_rank):  # what beats another comes before it
        if len(kept) == MAX_LAYOUTS:
            break
        if not any(_beats(k, x) for k in kept):
            kept.append(x)
    return kept


def _rank(x: Layout) -> tuple[bool, int, int, int, bool]:
    return x.visible is not None, x.choice.count(None), -x.choice.count(ANY), -len(x.visible or ()), not x.sides


def _beats(a: Layout, b: Layout) -> bool:
    if a.visible is None or b.visible is None:
        return a == b
    return a.visible >= b.visible and all(x in (y, ANY) or y is None for x, y in zip(a.choice, b.choice, strict=True))
