"""Which inputs of a join may share their hash indexes with other joins, and what two of them must have in common."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from eddyline.core.window import Stepping
from eddyline.expr.nodes import Column, Expr, UserCall, columns_of, walk
from eddyline.operators.join_side import JoinSide
from eddyline.synopses.attributes import attributes_of
from eddyline.synopses.shared_index import IndexReader


def index_readers(join: object, sides: Sequence[JoinSide], keys: Sequence[Sequence[Expr]]) -> None:
    """Give the inputs readers where another join may put the same rows into an index, under the same codes.

    Which rows are in an index follows from the elements, from all keys of the input (a row with a NULL among them joins
    with nothing), from the filters above a tuple-based window, and for a window that changes in steps from the window.
    Functions of users may answer otherwise when they are asked again. Two inputs of one join are numbered: an index is
    not shared between them.
    """
    met: list[Hashable] = []
    for side, exprs in zip(sides, keys, strict=True):
        stub, spec = side.stub, side.spec
        if stub is None or stub.what is None or spec.passing:
            continue
        if any(isinstance(x, UserCall) for e in (*exprs, *spec.filters) for x in walk(e)):
            continue
        attributes = attributes_of(exprs, side.ordered, stub.prefix)
        filters = attributes_of(spec.filters, frozenset(), stub.prefix)
        kind = (attributes, filters, spec.window if isinstance(spec.window, Stepping) else None)
        side.reader = IndexReader(stub, (kind, met.count(kind)), join, [_named(a.expr) for a in attributes])
        met.append(kind)


def _named(key: Expr) -> str:
    """A key as explain calls it."""
    return key.name if isinstance(key, Column) else f"an expression of {' and '.join(sorted(columns_of(key)))}"
