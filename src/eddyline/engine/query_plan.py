"""The plan of a running query as data."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from eddyline.core.time import TimeKind
from eddyline.engine.running_query import RunningQuery
from eddyline.operators.base import Operator
from eddyline.plan.graph import Node
from eddyline.plan.logical import StreamScan
from eddyline.plan.plan_data import KeptState, PlanEdge, PlanGraph, PlanNode, Property
from eddyline.synopses.store import Store

if TYPE_CHECKING:
    from eddyline.synopses.shared_index import SharedIndex

Totals = Mapping[str, Mapping[str, Any]]  # by operator: elements_in, elements_out, seconds, rows, bytes, spilled


def plan_of(running: RunningQuery, name: str = "", *, decisions: bool = True) -> PlanGraph:
    """What runs here, as it is now; with all decisions of the log, or without."""
    log = running.context.log if decisions else ()
    return graph_of(running, name, operator_totals(running), decisions=tuple(d.to_dict() for d in log))


def graph_of(
    running: RunningQuery, name: str, totals: Totals, *, decisions: tuple[Mapping[str, Any], ...] = ()
) -> PlanGraph:
    """The plan with given totals: those of this process, or those of all shards."""
    nodes = running.physical.nodes
    ids = _ids(nodes)
    readers = {name: tuple(q.name for q in o.readers) for name, o in running.operators.items() if len(o.readers) > 1}
    found = tuple(
        _node(n, ids[i], tuple(ids[j] for j in n.inputs), totals, readers.get(n.name, ()), running.query.time_kind)
        for i, n in enumerate(nodes)
    )
    shared = {id(s.store): s.store for s in running.physical.stubs if len(s.store.stubs) > 1}
    return PlanGraph(
        query=name,
        text=running.query.text,
        result=running.physical.kind,
        nodes=found,
        edges=tuple(_edges(nodes, ids, totals)),
        root=ids[running.physical.root],
        decisions=decisions,
        shared=tuple(map(_store, shared.values())),
    )


def _store(store: Store) -> dict[str, Any]:
    from eddyline.synopses.shared_index import SharedIndex  # with numba, which a query without joins does not need

    readers = dict.fromkeys(name for s in store.stubs for name in s.readers())
    indexes = [i for i in store.indexes.values() if isinstance(i, SharedIndex) and len(i.readers) > 1]
    shown = {"windows": len(store.stubs), "rows": len(store), "readers": list(readers)}
    return {**shown, "indexes": list(map(_index, indexes))} if indexes else shown


def _index(index: SharedIndex) -> dict[str, Any]:
    stubs = next(iter(index.readers)).stub.store.stubs  # in the order in which their queries came
    joined = {id(r.stub) for r in index.readers}
    readers = dict.fromkeys(name for s in stubs if id(s) in joined for name in s.readers())
    return {"on": index.on, "joins": len(index.readers), "bytes": index.nbytes, "readers": list(readers)}


def operator_totals(running: RunningQuery) -> dict[str, dict[str, Any]]:
    """What each operator did and holds in this process."""
    sizes = running.sizes()
    return {
        name: {
            "elements_in": o.task.statistics.elements_in,
            "elements_out": o.task.statistics.elements_out,
            "seconds": o.task.statistics.nanoseconds / 1e9,
            "rows": sizes[name][0],
            "bytes": sizes[name][1],
            "spilled": o.spilled(),
            "waiting": [q.size for q in o.task.inputs],
        }
        for name, o in running.operators.items()
    }


def _ids(nodes: list[Node]) -> list[str]:
    """Operators have names; a source is called by its kind, name and alias, and numbered if it is read twice."""
    ids: list[str] = []
    for node in nodes:
        called = node.name if node.operator is not None else _source(node)
        again = ids.count(called)
        ids.append(f"{called} ({again + 1})" if again else called)
    return ids


def _source(node: Node) -> str:
    assert node.scan is not None
    stream = isinstance(node.scan, StreamScan)
    name = node.scan.stream if isinstance(node.scan, StreamScan) else node.scan.relation
    alias = f" AS {node.scan.alias}" if node.scan.alias.lower() != name.lower() else ""
    columns = f" ({', '.join(node.scan.columns)})" if node.scan.columns else ""
    return f"{'stream' if stream else 'relation'} {name}{alias}{columns}"


def _node(
    node: Node, id: str, inputs: tuple[str, ...], totals: Totals, readers: tuple[str, ...], kind: TimeKind
) -> PlanNode:
    operator = node.operator
    if operator is None:
        return PlanNode(id, "stream" if isinstance(node.scan, StreamScan) else "relation", inputs)
    mine = totals.get(node.name, {})
    what = operator.describe()
    rows, bytes, spilled = int(mine.get("rows", 0)), int(mine.get("bytes", 0)), mine.get("spilled", (0, 0))
    kept = KeptState(what, rows, bytes, operator.bounds(), *spilled) if what else None
    statistics = operator.statistics()
    return PlanNode(
        id,
        node.name.rpartition(" ")[0],
        inputs,
        node.note,
        kept,
        tuple(_properties(operator, kind)),
        {k: mine[k] for k in ("elements_in", "elements_out", "seconds") if k in mine},
        statistics.get("policy") or statistics.get("ordering"),
        tuple(operator.adapts()),
        {k: v for k, v in statistics.items() if k != "history"},
        {} if node.chosen is None else node.chosen.shown(),
        readers,
    )


def _properties(operator: Operator, kind: TimeKind) -> Iterator[Property]:
    for label, bound in operator.bounds().items():
        if bound.rows is not None:
            yield Property(f"bound of {label}", bound.rows, "rows")
        if bound.ticks is not None:
            if kind is TimeKind.TIMESTAMP:
                yield Property(f"bound of {label}", bound.ticks / kind.ticks_per_second, "seconds")
            else:
                yield Property(f"bound of {label}", bound.ticks, "ticks")


def _edges(nodes: list[Node], ids: list[str], totals: Totals) -> Iterator[PlanEdge]:
    for i, node in enumerate(nodes):
        waiting = totals.get(ids[i], {}).get("waiting", [])
        for place, j in enumerate(node.inputs):
            made = totals.get(ids[j], {}).get("elements_out")
            if made is None and len(node.inputs) == 1:
                made = totals.get(ids[i], {}).get("elements_in")
            yield PlanEdge(ids[j], ids[i], made, waiting[place] if place < len(waiting) else None)
