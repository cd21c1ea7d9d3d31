"""What is known of a constrained join: for people (``explain``) and as data (``statistics``, ``report``).

Of each synopsis: how many rows its window holds, how many of them constraints let it keep, how many it has, in memory
and spilled, and which constraint made how many useless.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from typing import Any, Protocol

from eddyline.adapting.clustered_arrival import ClusteredArrival
from eddyline.adapting.directed_edges import DirectedEdges
from eddyline.adapting.followed_children import FollowedChildren
from eddyline.adapting.ordered_arrival import OrderedArrival
from eddyline.adaptive.constraints.forms import ARRIVALS, CHOSEN, TICKS, Forms
from eddyline.adaptive.constraints.missed import MissedResults
from eddyline.adaptive.constraints.no_rows import Prediction
from eddyline.kernels import constrained_layout as k
from eddyline.operators.constrained_join import ConstrainedJoin

USED, UNUSED = "used", "not used"
NAMES = {k.BY_FILTER: "filter", k.BY_EXPIRY: "window of the child", k.BY_RIDS: "RIDS", k.BY_OAC: "OAC", k.BY_CA: "CA",
         k.BY_OAP: "OAP", k.BY_MANY_ONE: "many-one join"}  # fmt: skip


class Labelled(Protocol):
    """A port, as people call it."""

    @property
    def label(self) -> str: ...


class Watched(Protocol):
    """As much of a control as is reported. Monitors are by port."""

    size: int
    edges: DirectedEdges
    other: dict[int, int]
    rids: dict[int, Forms]
    clustered: dict[int, ClusteredArrival]
    ordered: dict[int, OrderedArrival]
    followed: dict[int, FollowedChildren]
    removed: Counter[tuple[int, int]]
    predicted: dict[int, Prediction]
    drops_no: dict[int, bool]
    losses: MissedResults
    unwatched: set[int]

    @property
    def facts(self) -> Mapping[int, Labelled]: ...
    def in_window(self, join: ConstrainedJoin, i: int) -> float: ...
    def usable(self, join: ConstrainedJoin, forms: Forms, counting: int) -> bool: ...
    def unique(self, join: ConstrainedJoin, q: int) -> bool: ...
    def input_of(self, q: int) -> int: ...


def describe(watch: Watched, join: ConstrainedJoin) -> list[str]:
    lines = [f"join graph: {', '.join(_graph(watch)) or 'not known yet'}"]
    if join.deletes:
        lines.append("rows of current results stay until they leave their windows, because deletions can show")
    for s in synopses(watch, join):
        removed = sorted(s["removed"].items(), key=lambda x: -x[1])
        by = ", ".join(f"{name} {many:,}" for name, many in removed) or "none"
        spilled = "" if join.spill is None else f", {s['spilled']:,} spilled ({_bytes(s['spilled_bytes'])})"
        lines.append(
            f"{s['input']}: {_bounds(s)}; Yes {s['yes']:,}, Unknown {s['unknown']:,}, No {s['no']:,} rows"
            f" ({_bytes(s['bytes'])}){spilled}; made useless by {by}"
        )
    told = constraints(watch, join)
    both = any("_t on " not in c["constraint"] for c in told)
    # Of two forms, the one in ticks is shown where it is used.
    lines += [
        f"{c['constraint']}: {c['text']}" for c in told if c["used"] or not (both and "_t on " in c["constraint"])
    ]
    for i, found in sorted(watch.predicted.items()):
        way = "dropped" if watch.drops_no[i] else "kept"
        lines.append(
            f"No rows of {join.labels[i]} are {way}: {found.dropped:,.0f} rows for each arrival of one if dropped,"
            f" {found.kept:,.0f} if kept (predicted)"
        )
    if join.spill is None:
        missed = watch.losses.report()
        lines.append(
            f"approximate: about {missed['missed']:,.0f} results are missing (95 %: {missed['low']:,.0f} to"
            f" {missed['high']:,.0f})"
        )
    return lines


def _graph(watch: Watched) -> list[str]:
    return [] if watch.edges.graph is None else watch.edges.spelled(watch.edges.graph)


def _bounds(s: dict[str, Any]) -> str:
    window = "the window has no bound yet" if s["window_rows"] is None else f"{s['kind']} {s['window_rows']:,} rows"
    by = "" if s["constraint_rows"] is None else f", by constraints about {s['constraint_rows']:,}"
    return window + by


def _bytes(many: int) -> str:
    return f"{many / 1e6:,.1f} MB" if many >= 1e6 else f"{many / 1e3:,.1f} kB"


def synopses(watch: Watched, join: ConstrainedJoin) -> list[dict[str, Any]]:
    """Of each input: bounds, rows and bytes in memory and spilled, and what made how many rows useless."""
    counts = join.row_counts()
    spilled = [(0, 0)] * watch.size if join.spill is None else join.spill.by_input()
    made: list[dict[str, Any]] = []
    known = constraints(watch, join)
    for i, label in enumerate(join.labels):
        unknown, yes, no = counts[i].tolist()
        counted = join.counted_in_window(i)  # arrivals are not counted while the plain join runs
        window = watch.in_window(join, i) if counted is None else counted
        made.append({
            "input": label, "kind": "relation" if join.sides[i].is_relation else "window",
            "rows": unknown + yes + no, "unknown": unknown, "yes": yes, "no": no, "bytes": join.bytes_of(i),
            "spilled": spilled[i][0], "spilled_bytes": spilled[i][1],
            "window_rows": None if math.isinf(window) else int(window),
            "constraint_rows": expected_rows(watch, join, i), "removed": removed_from(watch, i),
            "constraints": [{n: c[n] for n in ("constraint", "k_u", "k_e", "used")} for c in known if c["input"] == i],
        })  # fmt: skip
    return made


def expected_rows(watch: Watched, join: ConstrainedJoin, i: int) -> int | None:
    """About how many rows of an input constraints leave; None: they set no bound, or rows of results stay anyway.

    A row of a root waits for at most k_e arrivals of each child. A row of another input stays until its parents have
    come, which is measured on a sample.
    """
    graph = watch.edges.graph
    if graph is None or join.deletes:
        return None
    mine = [q for q in watch.facts if watch.input_of(q) == i]
    arrived = join.slots.arrived
    if i in graph.roots:
        waits = []
        for q in mine:
            child = watch.input_of(watch.other[q])
            rids = watch.rids.get(q)
            if rids is None or not watch.usable(join, rids, child):
                return None
            waits.append(rids.length * float(arrived[i]) / max(1.0, float(arrived[child])))
        return int(max(waits)) if waits else None
    upper = [watch.other[q] for q in mine if watch.edges.is_parent(watch.other[q])]
    seen = [watch.followed[q].seen() for q in upper if q in watch.followed]
    if not upper or len(seen) < len(upper) or any(s.samples == 0 for s in seen):
        return None
    return int(max(s.stay for s in seen))


def removed_from(watch: Watched, i: int) -> dict[str, int]:
    """How many rows of an input each kind of constraint made useless."""
    found: dict[str, int] = {}
    for (stream, why), many in sorted(watch.removed.items()):
        if stream == i:
            found[NAMES[why % k.KINDS]] = found.get(NAMES[why % k.KINDS], 0) + many
    return found


def constraints(watch: Watched, join: ConstrainedJoin) -> list[dict[str, Any]]:
    """Every constraint that is watched, in both of its forms."""
    found: list[tuple[str, str, Forms, int, int]] = []  # … the input that is counted, the one whose rows may go
    for q, rids in watch.rids.items():
        if watch.unique(join, watch.other[q]):
            found.append(("RIDS", watch.edges.label(q), rids, watch.input_of(watch.other[q]), watch.input_of(q)))
    found += [
        ("CA", watch.facts[q].label, ca.forms, watch.input_of(q), watch.input_of(watch.other[q]))
        for q, ca in watch.clustered.items() if watch.edges.is_parent(q) and q not in watch.unwatched
    ]  # fmt: skip
    found += [
        ("OAP" if watch.edges.is_parent(q) else "OAC", watch.facts[q].label, oa.forms, watch.input_of(q),
         watch.input_of(watch.other[q]))
        for q, oa in watch.ordered.items()
    ]  # fmt: skip
    made = []
    for name, where, forms, counting, going in found:
        usable = watch.usable(join, forms, counting)
        for in_ticks, a in ((False, forms.arrivals), (True, forms.ticks)):
            if forms.given not in (CHOSEN, TICKS if in_ticks else ARRIVALS):
                continue
            used = usable and in_ticks == forms.in_ticks
            k_u = None if math.isinf(a.k_u) else int(a.k_u)
            shown = "k unknown" if k_u is None else f"k_u = {k_u:,}, k_e = {int(a.k_e):,}{' ticks' if in_ticks else ''}"
            text = f"{shown}, {USED if used else UNUSED}; {a.increases} increases"
            made.append({"constraint": f"{name}{'_t' if in_ticks else ''} on {where}", "k_u": k_u,
                         "k_e": None if k_u is None else int(a.k_e), "used": used, "increases": a.increases,
                         "text": text, "input": going})  # fmt: skip
    return made


def statistics(watch: Watched, join: ConstrainedJoin) -> dict[str, Any]:
    spilled, disk = join.spilled()
    known = constraints(watch, join)
    return {
        "graph": _graph(watch),
        "synopses": synopses(watch, join),
        "constraints": [{n: c[n] for n in c if n not in ("text", "input")} for c in known],
        "predicted": {join.labels[i]: {"dropped": p.dropped, "kept": p.kept, "drops": watch.drops_no[i]}
                      for i, p in watch.predicted.items()},
        "collections": join.collections,
        "missed": None if join.spill is not None else watch.losses.report(),
        "spill": {"rows": spilled, "disk": disk, "memory": 0 if join.spill is None else join.spill.nbytes,
                  "brought back": join.fetches},
    }  # fmt: skip
