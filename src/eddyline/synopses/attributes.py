"""The keys of a join's input over the stream's own columns, without the query's alias: comparable between joins."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from eddyline.expr.nodes import Column, Expr, columns_of, substitute, walk


@dataclass(frozen=True, slots=True)
class Attribute:
    """A join attribute: an expression over the stream's own columns. Codes of ``ordered`` ones order as the values do.
    ``use`` distinguishes attributes that one join has twice."""

    expr: Expr
    ordered: bool = False
    use: int = 0


def attributes_of(keys: Sequence[Expr], ordered: frozenset[int], prefix: str) -> tuple[Attribute, ...]:
    """The keys of a join input, independent of its alias, which the names of its columns begin with.

    >>> import pyarrow as pa
    >>> attributes_of([Column("S.a", pa.int64())], frozenset(), "S.")[0].expr.name
    'a'
    """
    found: list[Attribute] = []
    uses: Counter[Expr] = Counter()
    for j, key in enumerate(keys):
        expr = renamed(key, lambda name: name.removeprefix(prefix))
        found.append(Attribute(expr, j in ordered, uses[expr]))
        uses[expr] += 1
    return tuple(found)


def renamed(e: Expr, rename: Callable[[str], str]) -> Expr:
    types = {x.name: x.type for x in walk(e) if isinstance(x, Column)}
    return substitute(e, {n: Column(rename(n), types[n]) for n in columns_of(e)})
