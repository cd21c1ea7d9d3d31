"""OVER (…) from the last rows of each partition."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import pyarrow as pa

from eddyline.core.schema import Schema
from eddyline.expr.describe import describe_aggregate
from eddyline.plan.candidates import OVER, Candidate, Planning, Refused, candidate
from eddyline.plan.deletions import Deletions
from eddyline.plan.logical import Frame, Neighbour, Over

if TYPE_CHECKING:
    from eddyline.operators.running import RunningAggregates
    from eddyline.plan.graph import Output
    from eddyline.plan.physical import Builder


@candidate
class LastRows(Candidate):
    name = "last-rows"
    subject: ClassVar[str] = OVER

    def suits(self, node: Over, planning: Planning) -> str | Refused:
        rows = "row" if node.kept == 1 else "rows"
        return f"the last {node.kept} {rows} of each partition are enough" if node.kept else "no row has to be kept"

    def cost(self, node: Over, planning: Planning) -> float:
        """A frame takes a row in and one out; a neighbour is one row."""
        return float(sum(2 if isinstance(v, Frame) else 1 for _, v in node.values))

    def build(self, node: Over, builder: Builder, need: Deletions) -> Output:
        from eddyline.operators.over import OverOperator, Shifted
        from eddyline.plan.graph import Output

        child = builder.stream(node.input, ordered=True)
        running = _running(node)
        values = []
        for name, v in node.values:
            if isinstance(v, Neighbour):
                values.append(Shifted(name, v.column, v.shift, v.default or _null(v)))
            else:
                values.append(Shifted(name, name, v.shift, running[v.rows].empty(name)))
        operator = OverOperator(
            builder.name("over"), node.schema, child.schema, node.partition, values, list(running.values()),
            node.waits, node.kept,
        )  # fmt: skip
        out = builder.add(operator, (child.node,), note=_text(node))
        return Output(out, node.schema, append_only=True)


def _running(node: Over) -> dict[int | None, RunningAggregates]:
    """The aggregates of as many rows together, by that number."""
    from eddyline.operators.running import RunningAggregates

    frames: dict[int | None, list[tuple[str, Frame]]] = {}
    for name, v in node.values:
        if isinstance(v, Frame):
            frames.setdefault(v.rows, []).append((name, v))
    made = {}
    for rows, mine in frames.items():
        read = frozenset().union(*(v.read for _, v in mine))
        schema = Schema(tuple(f for f in node.input.schema if f.name in read))
        made[rows] = RunningAggregates("running", tuple((n, v.call) for n, v in mine), schema, rows)
    return made


def _null(v: Neighbour) -> pa.Array:
    return pa.nulls(1, v.type)


def _text(node: Over) -> str:
    """For explain: the functions, and the partition whose rows they read."""
    partition = f" PARTITION BY {', '.join(node.partition)}" if node.partition else ""
    return ", ".join(_value(v) for _, v in node.values) + partition


def _value(v: Neighbour | Frame) -> str:
    if isinstance(v, Neighbour):
        return f"{'LEAD' if v.shift > 0 else 'LAG'}({v.column}, {abs(v.shift)})"
    rows = "all rows" if v.rows is None else f"{v.rows} rows"
    end = {0: "CURRENT ROW"}.get(v.shift, f"{abs(v.shift)} {'FOLLOWING' if v.shift > 0 else 'PRECEDING'}")
    return f"{describe_aggregate(v.call)} of {rows} up to {end}"
