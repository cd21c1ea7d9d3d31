"""explain: the plan that runs, what it keeps and why, what was decided. A pure function of a running query."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from eddyline.engine.progress import size
from eddyline.engine.running_query import RunningQuery
from eddyline.plan.logical import StreamScan
from eddyline.streamon.decision import Decision

SHOWN_DECISIONS = 20
JOINS = ("mjoin ", "binary-join ")
LEGEND = "   ΔR → S → [T → U]: an element of R is joined with S, then with T and U, unless a cache has what they give"
SHOWN = {
    "istream": "a stream: the rows that enter the result (Istream)",
    "dstream": "a stream: the rows that leave the result (Dstream)",
    "rstream": "a stream: the whole result at every instant of an input element (Rstream)",
    "signed": "the changes of a relation: each row with _sign 1 or -1",
}


def explain(running: RunningQuery, sizes: Mapping[str, tuple[int, int]] | None = None, *, adapts: bool = True) -> str:
    """``sizes`` (rows and bytes by operator) stand in for what the operators here hold, where others do the work; what
    the operators here know of their orders is then left out (``adapts``), since it is where they began.

    >>> import eddyline as ed
    >>> session = ed.Session()
    >>> session.stream("S", [{"ts": 1, "a": 2}], timestamp="ts")
    >>> print(session.query("SELECT Istream(a) FROM S [RANGE 10] WHERE a > 1").explain())
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
    lines = [running.query.text.strip(), "", f"result   {SHOWN[running.physical.kind]}", "", "plan"]
    lines += [f"  {line}" for line in _tree(running, running.physical.root, "", "")]
    kept = list(_kept(running, sizes))
    lines += ["", "state"]
    lines += [f"  {line}" for line in kept] or ["  none: every element is judged once and forgotten"]
    if adapts:
        operators = [n.operator for n in running.physical.nodes if n.operator is not None]
        lines += adapting([(o.name, o.adapts()) for o in operators])
    decisions = running.decisions
    if decisions:
        hidden = len(decisions) - SHOWN_DECISIONS
        lines += ["", "decided" if hidden <= 0 else f"decided (the last {SHOWN_DECISIONS} of {len(decisions)})"]
        lines += [f"  {decided_line(d)}" for d in decisions[-SHOWN_DECISIONS:]]
    return "\n".join(lines)


def adapting(told: Sequence[tuple[str, Sequence[str]]]) -> list[str]:
    """What operators say of how they adapt, filters and joins apart."""
    lines: list[str] = []
    joins = [t for t in told if t[1] and t[0].startswith(JOINS)]
    filters = [t for t in told if t[1] and not t[0].startswith(JOINS)]
    for title, some in (("filters", filters), (f"joins{LEGEND}", joins)):
        lines += ["", title] if some else []
        for name, said in some:
            lines += [f"  {name}: {line}" if i == 0 else f"    {line}" for i, line in enumerate(said)]
    return lines


def _tree(running: RunningQuery, node: int, first: str, rest: str, shown: set[int] | None = None) -> Iterator[str]:
    """The operators from a node down; what several of them read is drawn below the first."""
    n, shown = running.physical.nodes[node], set() if shown is None else shown
    if n.operator is None:
        assert n.scan is not None
        name = n.scan.stream if isinstance(n.scan, StreamScan) else n.scan.relation
        alias = f" AS {n.scan.alias}" if n.scan.alias.lower() != name.lower() else ""
        kind = "stream" if isinstance(n.scan, StreamScan) else "relation"
        columns = f" ({', '.join(n.scan.columns)})" if n.scan.columns else ""
        yield f"{first}{kind} {name}{alias}{columns}"
        return
    if node in shown and n.inputs:
        yield f"{first}{n.operator.name}  (as above: computed once)"
        return
    shown.add(node)
    yield f"{first}{n.operator.name}" + (f"  {n.note}" if n.note else "")
    for i, child in enumerate(n.inputs):
        last = i == len(n.inputs) - 1
        yield from _tree(running, child, rest + ("└─ " if last else "├─ "), rest + ("   " if last else "│  "), shown)


def _kept(running: RunningQuery, sizes: Mapping[str, tuple[int, int]] | None) -> Iterator[str]:
    for n in running.physical.nodes:
        if n.operator is None:
            continue
        what = n.operator.describe()
        if what:
            rows, bytes = n.operator.size() if sizes is None else sizes.get(n.operator.name, (0, 0))
            yield f"{n.operator.name}: {what}. Now {_rows(rows)}, {size(bytes)}."
    shared = {id(s.store): s.store for s in running.physical.stubs if len(s.store.stubs) > 1}
    for store in shared.values():
        rows = store.end - store.first
        yield f"shared: {len(store.stubs)} windows over the same elements keep them once ({_rows(rows)})."


def _rows(count: int) -> str:
    return f"{count:,} row{'' if count == 1 else 's'}"


def decided_line(d: Decision | Mapping[str, Any]) -> str:
    """A decision in one line; as plain data it may come from elsewhere."""
    told = d.to_dict() if isinstance(d, Decision) else d
    gains = []
    if told["expected_gain"] is not None:
        gains.append(f"expected gain {told['expected_gain']:.2f}×")
    if told["measured_gain"] is not None:
        gains.append(f"measured {told['measured_gain']:.2f}×")
    at = "" if told["time"] is None else f" at {told['time']}"
    return f"{told['operator']}{at}: {told['kind']} {_brief(told['after'])} ({'; '.join([told['reason'], *gains])})"


def _brief(value: Any) -> str:
    if isinstance(value, dict):
        return "; ".join(f"{k} → {_brief(v)}" for k, v in value.items())
    if isinstance(value, list | tuple):
        return ", ".join(map(_brief, value)) or "none"
    return str(value)
