"""In which shard the rows of a query on models are, if its inputs are split by columns of their keys.

A signal is in one shard if its stream is split by a column of its key: its segments, its fit and its windows depend on
no other signal then. So filters, maps, windows over single signals and joins on equal keys are known where their
signals are; a join may also have one side copied. An operator that combines several signals needs them in one shard:
an extreme over keys, or a join of two split sides without an equality of their keys.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa

from eddyline.expr.nodes import Call, Column
from eddyline.plan.logical import ModelQuery, Plan, StreamScan
from eddyline.plan.partitioning.layout import Columns, Layout, Scans, classes, closure, hashed_like


class NotTogether(Exception):
    """Rows that must meet would not; the message says which."""


def layouts_of_models(p: ModelQuery, given: Sequence[Sequence[Layout]]) -> tuple[list[Layout], str]:
    """The correct layouts of a query on models, given those of its inputs, and the obstacle to others."""
    obstacle = _needs_all(p)
    ways = [Layout(None)]
    lying: list[tuple[Columns | None, ...]] = [()]
    for i, layouts in enumerate(given):
        key = _key_columns(p, i)
        fit = [x for x in layouts if x.visible is None or (not obstacle and x.visible & key)]
        pairs = [
            (before.on(scans), (*places, None if y.visible is None else y.visible & key))
            for before, places in zip(ways, lying, strict=True)
            for y in fit
            if (scans := before.beside(y) if before.places else Scans(y.choice, y.places)) is not None
        ]
        ways, lying = [w for w, _ in pairs], [v for _, v in pairs]
    found = []
    for way, places in zip(ways, lying, strict=True):
        try:
            visible = _place(p, p.program.root, places)
        except NotTogether as reason:
            obstacle = obstacle or str(reason)
        else:
            found.append(Layout(visible, way.choice, places=way.places))
    return found, obstacle or "the signals of a query on models have no key to split them by"


def _key_columns(p: ModelQuery, i: int) -> Columns:
    """The columns of an input that are of its key."""
    scan, key = p.inputs[i], p.models[i].key
    assert isinstance(scan, StreamScan)
    return frozenset(n for n, c in zip(scan.schema.names, scan.columns, strict=True) if c in key)


def _needs_all(p: ModelQuery) -> str:
    """What a result depends on besides its own signals; empty: nothing."""
    from eddyline.models.inverting import Inverter
    from eddyline.models.sources import DeclaredRows, FittedRows

    if p.predict:
        return "predictions are computed again at the instants at which any signal is corrected"
    if p.horizon is None and any(isinstance(m, DeclaredRows) for m in p.models):
        return "declared models without HORIZON hold until all signals end"
    if any(isinstance(m, FittedRows) for m in p.models):
        aliases = [s.alias for s in p.inputs if isinstance(s, StreamScan)]
        if Inverter(p.program, p.models, aliases).changes:
            return "the bounds of samples follow the magnitudes or the slopes of all signals"
    return ""


def _place(p: ModelQuery, node: object, lying: Sequence[Columns | None]) -> Columns | None:
    """The columns of a node whose hash is the coordinate of a row, given those of the inputs; None: it is copied."""
    from eddyline.models import program as pg

    match node:
        case pg.Source(input=i):
            return lying[i]
        case pg.Restrict(input=below):
            return _place(p, below, lying)
        case pg.Map(input=below, items=items):
            found = _place(p, below, lying)
            return None if found is None else frozenset(n for n, e in items if hashed_like(e) in found)
        case pg.Join(left=left, right=right, keys=keys):
            one, other = _place(p, left, lying), _place(p, right, lying)
            if one is None or other is None:
                return other if one is None else one
            types = {**_types(p.inputs, left), **_types(p.inputs, right)}
            pairs = (Call("eq", (Column(a, types[a]), Column(b, types[b])), pa.bool_()) for a, b in keys)
            equal = classes(pairs)
            one, other = closure(one, equal), closure(other, equal)
            if one & other:
                return one | other
            raise NotTogether("a join of models has no equality of the columns that its signals are split by")
        case pg.Aggregate(input=below, groups=groups, functions=functions):
            found = _place(p, below, lying)
            kept = frozenset(n for n, e in groups if found is not None and hashed_like(e) in found)
            if found is None or kept:
                return None if found is None else kept
            raise NotTogether(f"{functions[0][0]} is over the signals of several keys")
    raise AssertionError("a program on models has no other operators")


def _types(inputs: Sequence[Plan], node: object) -> Mapping[str, pa.DataType]:
    """The types of the columns of a node."""
    from eddyline.models import program as pg

    match node:
        case pg.Source(input=i):
            return {f.name: f.type for f in inputs[i].schema}
        case pg.Restrict(input=below):
            return _types(inputs, below)
        case pg.Map(items=items):
            return {n: e.type for n, e in items}
        case pg.Join(left=left, right=right):
            return {**_types(inputs, left), **_types(inputs, right)}
        case pg.Aggregate(groups=groups, functions=functions):
            return {**{n: e.type for n, e in groups}, **{n: pa.float64() for n, _, _ in functions}}
    raise AssertionError("a program on models has no other operators")
