"""explain: the plan that runs, what it keeps and why, what was decided. A pure function of a running query."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from eddyline.core.decision import Decision
from eddyline.plan.logical import StreamScan
from eddyline.runtime.progress import size
from eddyline.runtime.running import RunningQuery

SHOWN_DECISIONS = 20
SHOWN = {
    "istream": "a stream: the rows that enter the result (Istream)",
    "dstream": "a stream: the rows that leave the result (Dstream)",
    "rstream": "a stream: the whole result at every instant of an input element (Rstream)",
    "signed": "the changes of a relation: each row with _sign 1 or -1",
}


def explain(running: RunningQuery, sizes: Mapping[str, tuple[int, int]] | None = None) -> str:
    """``sizes`` (rows and bytes by operator) stand in for what the operators here hold, where others do the work.

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
    adapting = [(n.operator.name, n.operator.adapts()) for n in running.physical.nodes if n.operator is not None]
    if any(told for _, told in adapting):
        lines += ["", "filters"]
        for name, told in adapting:
            lines += [f"  {name}: {line}" if i == 0 else f"    {line}" for i, line in enumerate(told)]
    decisions = running.decisions
    if decisions:
        hidden = len(decisions) - SHOWN_DECISIONS
        lines += ["", "decided" if hidden <= 0 else f"decided (the last {SHOWN_DECISIONS} of {len(decisions)})"]
        lines += [f"  {_decided(d)}" for d in decisions[-SHOWN_DECISIONS:]]
    return "\n".join(lines)


def _tree(running: RunningQuery, node: int, first: str, rest: str) -> Iterator[str]:
    n = running.physical.nodes[node]
    if n.operator is None:
        assert n.scan is not None
        name = n.scan.stream if isinstance(n.scan, StreamScan) else n.scan.relation
        alias = f" AS {n.scan.alias}" if n.scan.alias.lower() != name.lower() else ""
        kind = "stream" if isinstance(n.scan, StreamScan) else "relation"
        columns = f" ({', '.join(n.scan.columns)})" if n.scan.columns else ""
        yield f"{first}{kind} {name}{alias}{columns}"
        return
    yield f"{first}{n.operator.name}" + (f"  {n.note}" if n.note else "")
    for i, child in enumerate(n.inputs):
        last = i == len(n.inputs) - 1
        yield from _tree(running, child, rest + ("└─ " if last else "├─ "), rest + ("   " if last else "│  "))


def _kept(running: RunningQuery, sizes: Mapping[str, tuple[int, int]] | None) -> Iterator[str]:
    for n in running.physical.nodes:
        if n.operator is None:
            continue
        what = n.operator.describe()
        if what:
            rows, bytes = n.operator.size() if sizes is None else sizes.get(n.operator.name, (0, 0))
            yield f"{n.operator.name}: {what}. Now {rows:,} rows, {size(bytes)}."
    shared = {id(s.store): s.store for s in running.physical.stubs if len(s.store.stubs) > 1}
    for store in shared.values():
        rows = store.end - store.first
        yield f"shared: {len(store.stubs)} windows over the same elements keep them once ({rows:,} rows)."


def _decided(d: Decision) -> str:
    gains = []
    if d.expected_gain is not None:
        gains.append(f"expected gain {d.expected_gain:.2f}×")
    if d.measured_gain is not None:
        gains.append(f"measured {d.measured_gain:.2f}×")
    at = "" if d.time is None else f" at {d.time}"
    return f"{d.operator}{at}: {d.kind} {_brief(d.after)} ({'; '.join([d.reason, *gains])})"


def _brief(value: Any) -> str:
    if isinstance(value, dict):
        return "; ".join(f"{k} → {_brief(v)}" for k, v in value.items())
    if isinstance(value, list | tuple):
        return ", ".join(map(_brief, value))
    return str(value)
