"""explain: the plan as text. A pure function of the plan as data (``plan_data``)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from eddyline.core.amounts import size
from eddyline.plan.candidates import JOIN
from eddyline.plan.plan_data import PlanGraph, PlanNode
from eddyline.streamon.wording import decided_line

SHOWN_DECISIONS = 20  # the newest decisions of a query that explain prints
STAR = "star-look-up"
LEGEND = "   ΔR → S → [T → U]: an element of R is joined with S, then with T and U, unless a cache has what they give"
RESULTS = {
    "istream": "a stream: the rows that enter the result (Istream)",
    "dstream": "a stream: the rows that leave the result (Dstream)",
    "rstream": "a stream: the whole result at every instant of an input element (Rstream)",
    "wstream": "a stream: the whole result whenever a window closes (Wstream)",
    "signed": "the changes of a relation: each row with _sign 1 or -1",
}


def explain(plan: PlanGraph) -> str:
    """
    >>> import eddyline as ed
    >>> session = ed.Session()
    >>> session.stream("S", [{"ts": 1, "a": 2}], timestamp="ts")
    >>> print(explain(session.query("SELECT Istream(a) FROM S [RANGE 10] WHERE a > 1").plan()))
    SELECT Istream(a) FROM S [RANGE 10] WHERE a > 1
    <BLANKLINE>
    result   a stream: the rows that enter the result (Istream)
    <BLANKLINE>
    plan
      i-stream 1
      └─ project 1
         └─ seq-window 1  [RANGE 10]
            └─ ...
    """
    lines = [plan.text.strip(), "", f"result   {RESULTS[plan.result]}", "", "plan"]
    lines += [f"  {line}" for line in _tree(plan, plan.root, "", "", set())]
    lines += ["", "state"]
    lines += [f"  {line}" for line in _kept(plan)] or ["  none: every element is evaluated once and not kept"]
    lines += _read_by_others(plan)
    lines += _adapting(plan.nodes)
    # What single shards decided is printed beside the shards.
    lines += _decided([d for d in plan.decisions if d["shard"] is None], "decided")
    return "\n".join(lines)


def _tree(plan: PlanGraph, id: str, first: str, rest: str, shown: set[str]) -> Iterator[str]:
    """The operators from a node down; what several of them read is drawn below the first."""
    node = plan.node(id)
    if id in shown and node.inputs:
        yield f"{first}{node.id}  (as above: computed once)"
        return
    shown.add(id)
    yield f"{first}{node.id}" + (f"  {node.text}" if node.text else "")
    for i, child in enumerate(node.inputs):
        last = i == len(node.inputs) - 1
        yield from _tree(plan, child, rest + ("└─ " if last else "├─ "), rest + ("   " if last else "│  "), shown)


def _kept(plan: PlanGraph) -> Iterator[str]:
    for node in plan.nodes:
        if node.kept is not None:
            kept = node.kept
            disk = f"; {rows_of(kept.spilled_rows)} on disk, {size(kept.spilled_bytes)}" if kept.spilled_rows else ""
            yield f"{node.id}: {kept.what}. Now {rows_of(kept.rows)}, {size(kept.bytes)}{disk}."
    for store in plan.shared:
        readers = store.get("readers", ())
        who = f", read by {_listed(readers)}" if len(readers) > 1 else ""
        what = f"{store['windows']} windows over the same elements keep them once ({rows_of(store['rows'])})"
        yield f"shared: {what}{who}."
        for index in store.get("indexes", ()):
            what = f"index on {', '.join(index['on'])}: kept once for {index['joins']} joins ({size(index['bytes'])})"
            yield f"shared: {what}, read by {_listed(index['readers'])}."


def _read_by_others(plan: PlanGraph) -> list[str]:
    """The operators that run once for several queries, and their readers; not the operators below them, which have no
    other readers."""
    above = {child: node.readers for node in plan.nodes for child in node.inputs}
    shown = [n for n in plan.nodes if n.readers and above.get(n.id) != n.readers]
    return ["", "shared", *(f"  {n.id}: runs once, read by {_listed(n.readers)}" for n in shown)] if shown else []


def _listed(names: Sequence[str], most: int = 8) -> str:
    more = len(names) - most
    return ", ".join(names[:most]) + (f" and {more} more" if more > 0 else "")


def _adapting(nodes: Sequence[PlanNode]) -> list[str]:
    """What operators say of how they adapt, filters, routed joins and joins apart."""
    lines: list[str] = []
    stars = [n for n in nodes if n.adapts and n.kind == STAR]
    joins = [n for n in nodes if n.adapts and n.chosen.get("subject") == JOIN and n.kind != STAR]
    filters = [n for n in nodes if n.adapts and n not in stars and n not in joins]
    for title, some in (("filters", filters), ("routed joins", stars), (f"joins{LEGEND}", joins)):
        lines += ["", title] if some else []
        for node in some:
            lines += [f"  {node.id}: {line}" if i == 0 else f"    {line}" for i, line in enumerate(node.adapts)]
    return lines


def _decided(decisions: Sequence[Mapping[str, Any]], title: str) -> list[str]:
    if not decisions:
        return []
    hidden = len(decisions) - SHOWN_DECISIONS
    shown = f" (the last {SHOWN_DECISIONS} of {len(decisions)})" if hidden > 0 else ""
    return ["", f"{title}{shown}", *(f"  {decided_line(d)}" for d in decisions[-SHOWN_DECISIONS:])]


def rows_of(count: int) -> str:
    return f"{count:,} row{'' if count == 1 else 's'}"
