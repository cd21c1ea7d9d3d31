"""Statistics of the filters of all workers, collected on the driver.

The functions of a DataFrame cannot report to the program that made it. So the Arrow function writes into the last
answer of a task one text with all counts and decisions of its worker so far. A filter lets the row with the text pass,
Spark's ``observe`` collects the texts, and the next filter removes that row if it is no result. No job is run for it
and no additional row is shipped; and since it stands behind the Arrow function, Spark can still push filters into the
source. The last text of each worker counts, so a task that is run twice changes nothing.

Limits: a task that is stopped half-way (``limit``) reports nothing, and for a batch DataFrame Spark's ``Observation``
has the report of the *first* action (on Spark Connect of the last).
"""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from eddyline.engine.row_warnings import LeftOut
from eddyline.operators.adaptive_select import InOrder, OrdersItself
from eddyline.spark.worker_state import PlanHistory

FILTERS_METRIC: Final = "eddyline_filters"  # the metric, whatever the observation is called
DECISIONS_SENT: Final = 32  # the last ones of a worker, in each report

# ── in a worker ───────────────────────────────────────────────────────────────────────────────────────────────────


def report_text(plan: str, history: PlanHistory) -> str:
    """The report of a worker about a plan, as JSON: counts, orders, decisions."""
    selects = [{"select": f"select {n + 1}", **_facts(c)} for n, c in sorted(history.selects.items())]
    report = {
        "plan": plan,
        "worker": f"{socket.gethostname()}:{os.getpid()}",
        "token": history.token,
        "tasks": history.tasks,
        "rows": history.rows,
        "kept": history.kept,
        "invalid": history.invalid,
        "invalid_rows": list(history.invalid_rows),
        "selects": selects,
    }
    return json.dumps(report, default=_plain)


def _facts(c: OrdersItself) -> dict[str, Any]:
    if isinstance(c, InOrder):  # what it does is not measured: there is nothing to choose
        return {"policy": None, "filters": c.texts, "order": c.order, "explained": [_stays(c)]}
    known = {**c.statistics(), "last": [d.to_dict() for d in list(c.log)[-DECISIONS_SENT:]]}
    return {**known, "explained": c.adapts()}


def _stays(c: InOrder) -> str:
    first, *others = (c.texts[i] for i in c.order)
    return f"{', then '.join([first, *others])} ({c.why or 'as written'})" if others else f"{first}, alone"


def _plain(value: Any) -> Any:
    """Numbers and arrays of numpy."""
    return value.tolist() if hasattr(value, "tolist") else str(value)


# ── on the driver ─────────────────────────────────────────────────────────────────────────────────────────────────


class FilterReports:
    """The latest statistics of every worker.

    >>> reports = FilterReports()
    >>> said = {"plan": "p", "worker": "here:7", "token": "a", "tasks": 1, "rows": 9, "kept": 2, "selects": []}
    >>> reports.add([json.dumps(said), json.dumps({**said, "tasks": 2, "rows": 20, "kept": 5})])
    >>> report = reports.report()
    >>> report["rows"], report["kept"], [w["worker"] for w in report["workers"]]
    (20, 5, ['here:7'])
    """

    def __init__(self) -> None:
        self.last: dict[tuple[str, str, str], dict[str, Any]] = {}

    def add(self, texts: Iterable[str]) -> None:
        for text in texts:
            one = json.loads(text)
            key = (one["plan"], one["worker"], one["token"])
            before = self.last.get(key)
            if before is None or before["tasks"] <= one["tasks"]:
                self.last[key] = one

    @property
    def invalid(self) -> int:
        """Rows that made an expression fail, with ``on_error = 'invalid'``."""
        return sum(one.get("invalid", 0) for one in self.last.values())

    def invalid_rows(self) -> list[dict[str, Any]]:
        """The last of them, as many as the workers sent along: the columns that were shipped, and ``_reason``."""
        return [row for one in self.last.values() for row in one.get("invalid_rows", ())]

    def left_out(self, name: str) -> list[LeftOut]:
        rows = self.invalid_rows()
        return [LeftOut(name, invalid=self.invalid, reason=rows[0]["_reason"] if rows else None)]

    def workers(self) -> Iterator[dict[str, Any]]:
        """One entry for each worker: what it judged, and its selections in their current order."""
        for (_, worker, _), one in sorted(self.last.items()):
            selects = [_select(s) for s in one["selects"]]
            yield {"worker": worker, **{n: one[n] for n in ("tasks", "rows", "kept")}, "selects": selects}

    def report(self) -> dict[str, Any]:
        """Sums, every worker's figures, and each decision with the worker that took it. ``rows`` are those that came to
        Python, ``kept`` those that its filters let pass. What came in before Spark's own filters is not known here."""
        workers = list(self.workers())
        decisions = [
            {**d, "worker": worker}
            for (_, worker, _), one in sorted(self.last.items())
            for s in one["selects"]
            for d in s.get("last", ())
        ]
        return {
            "events": None,
            "results": None,
            "late": 0,
            "invalid": self.invalid,
            "rows": sum(w["rows"] for w in workers),
            "kept": sum(w["kept"] for w in workers),
            "seconds": sum(f["seconds"] or 0 for w in workers for s in w["selects"] for f in s["filters"]),
            "decisions": decisions,
            "workers": workers,
            "shards": [],
        }

    def explain(self) -> Iterator[str]:
        """Lines for people: each worker's order, its statistics, and its last decision."""
        for (_, worker, _), one in sorted(self.last.items()):
            yield f"worker {worker}: {one['rows']:,} rows in {one['tasks']:,} tasks, kept {one['kept']:,}"
            for s in one["selects"]:
                first, *others = s["explained"]
                yield f"  {s['select']}: {first}"
                yield from (f"    {line}" for line in others)
                if s.get("last"):
                    yield f"    {s['decisions']:,} decisions, the last: {_decided(s['last'][-1])}"


def _select(s: Mapping[str, Any]) -> dict[str, Any]:
    """A selection of one worker, its filters in their current order."""
    by_filter = ("asked", "passed", "profiling", "seconds", "selectivity", "seconds_per_row")
    filters = [
        {"filter": s["filters"][f], **{n: s[n][f] if n in s else None for n in by_filter}} for f in s.get("order", ())
    ]
    names = ("select", "policy", "rows", "size", "decisions", "classifiers", "by_class", "policy_statistics")
    rest = {n: s[n] for n in names if n in s}
    return {**rest, "first": s.get("first", []), "order": [f["filter"] for f in filters], "filters": filters}


def _decided(d: Mapping[str, Any]) -> str:
    gains = [f"expected gain {d['expected_gain']:.2f}×"] if d["expected_gain"] is not None else []
    gains += [f"measured {d['measured_gain']:.2f}×"] if d["measured_gain"] is not None else []
    return f"{d['kind']} {', '.join(map(str, d['after']))} ({'; '.join([d['reason'], *gains])})"
