"""The state of a graph of queries: each operator's once, and its name in each query that reads it.

A graph can be built anew from it, by the same queries, with operators shared in another way: an operator takes the
state of whatever stood in its place. So sharing is switched while queries run, and a snapshot that was made with
sharing is restored without it, and the other way round.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from eddyline.core.aligned import Aligned
from eddyline.engine.operator_graph import OperatorGraph
from eddyline.engine.renaming import Renaming
from eddyline.engine.running_query import RunningQuery
from eddyline.engine.shared_operator import SharedOperator
from eddyline.plan.rules.share_subplans import Cuts


def graph_state(graph: OperatorGraph, queries: Sequence[RunningQuery]) -> dict[str, Any]:
    """All that ``rebuild`` and ``load_graph`` need, beside the inputs' own state."""
    numbers = {o: i for i, o in enumerate(graph.operators)}
    lines = {id(line): i for i, line in enumerate(graph.lines)}
    return {
        "operators": [_operator(o) for o in graph.operators],
        "lines": [line.state() for line in graph.lines],
        "intakes": [{"input": i.stream.name.lower(), "number": i.number, **i.state()} for i in graph.intakes],
        "queries": [
            {
                "operators": {name: numbers[o] for name, o in q.operators.items()},
                "intakes": {name: i.number for name, i in q.intakes.items()},
                "line": lines[id(q.line)],
                "cuts": {str(place): list(names) for place, names in q.cuts.needs.items()},
                "by_others": list(q.cuts.by_others),
                "result": q.delivery.queue.state(),
            }
            for q in queries
        ],
    }


def load_graph(graph: OperatorGraph, queries: Sequence[RunningQuery], state: Mapping[str, Any]) -> None:
    """Add queries to an empty graph, with the state of the operators that stood in their places."""
    saved, taken = state["queries"], dict[SharedOperator, int]()

    def alike(query: RunningQuery, node: int, other: SharedOperator) -> bool:
        number = places[id(query)]["operators"].get(query.physical.nodes[node].name)
        if number is None or other not in taken:
            return False
        return number == taken[other] or _level(state["operators"][number], state["operators"][taken[other]])

    places = {id(q): s for q, s in zip(queries, saved, strict=True)}
    for query, place in zip(queries, saved, strict=True):
        graph.add(query, alike)
        for name, o in query.operators.items():
            if o not in taken:
                taken[o] = place["operators"][name]
                _load_operator(o, state["operators"][taken[o]])
        query.line.load(state["lines"][place["line"]])
        queue, root = query.delivery.queue, query.root
        queue.load(place["result"])
        queue.frontier = max(queue.frontier, root.complete_to if isinstance(root, SharedOperator) else root.frontier)
    intakes = {(i["input"], i["number"]): i for i in state["intakes"]}
    for intake in graph.intakes:
        intake.load(intakes[intake.stream.name.lower(), intake.number])


def cuts_of(saved: Mapping[str, Any]) -> Cuts:
    """How the plan of a query that was saved is made again."""
    needs = {int(place): tuple(names) for place, names in saved["cuts"].items()}
    return Cuts(needs, tuple(saved["by_others"]))


def _operator(o: SharedOperator) -> dict[str, Any]:
    return {
        "frontier": o.task.frontier,
        "statistics": o.task.statistics.totals(),
        "inputs": [q.state() for q in o.task.inputs],
        "names": _names(o),
        "passes_all_columns": o.passes_all_columns,
        "state": o.operator.state(),
    }


def _load_operator(o: SharedOperator, saved: Mapping[str, Any]) -> None:
    now = _names(o)
    by_place = len(saved["names"]) == len(now) and not (o.passes_all_columns or saved["passes_all_columns"])
    renaming = Renaming(*_aligned(saved["names"], now)) if by_place else Renaming.by_alias(saved["names"], now)
    mine = copied(saved["state"])  # another operator may take the same
    o.operator.load(renaming.state(mine) if renaming.changes else mine)
    o.task.statistics.load(saved["statistics"])
    o.task.frontier = saved["frontier"]
    for queue, waiting in zip(o.task.inputs, saved["inputs"], strict=True):
        columns = waiting.get("columns")
        queue.load(waiting if columns is None else {**waiting, "columns": renaming.columns(columns)})
    o.measure()


def _names(o: SharedOperator) -> list[str]:
    return [*(n for q in o.task.inputs for n in q.schema.names), *o.operator.schema.names]


def _aligned(before: Sequence[str], after: Sequence[str]) -> tuple[list[str], list[str]]:
    """The names of inputs come first: where an output has the same name, what is kept is the input's."""
    pairs: dict[str, str] = {}
    for a, b in zip(before, after, strict=True):
        pairs.setdefault(a, b)
    return list(pairs), list(pairs.values())


def _level(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Whether two operators that do the same are at the same instant, with nothing waiting before them."""
    waiting = [q for o in (one, other) for q in o["inputs"] if "time" in q]
    return bool(one["frontier"] == other["frontier"] and not waiting)


def copied(tree: Any) -> Any:
    """A state tree of its own: an operator writes to arrays of numpy that it loads, and never to those of Arrow."""
    if isinstance(tree, Mapping):
        return {k: copied(v) for k, v in tree.items()}
    if isinstance(tree, list | tuple):
        return [copied(v) for v in tree]
    if isinstance(tree, Aligned):
        return replace(tree, rows=copied(tree.rows))
    return tree.copy() if isinstance(tree, np.ndarray) else tree
