"""The statistics of all shards: tagged rows on the workers, one account on the driver.

Every shard sends one row of totals with each micro-batch. They are collected on the way (``observe``) and filtered out
before the user's DataFrame, so that they cost no action of their own.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from eddyline.core.time import TimeKind
from eddyline.engine.learned import Learned
from eddyline.engine.row_warnings import LeftOut
from eddyline.streamon.log import merged

NAME: Final = "eddyline"  # of the metrics, unless the user names them
OBSERVED: Final = "shards"


def metrics_name() -> str:
    """Of no other query: Spark wants names unique in a streaming query, which may hold the same query twice.

    >>> is_of(metrics_name(), NAME), metrics_name() == metrics_name()
    (True, False)
    """
    return f"{NAME}:query:{uuid.uuid4().hex[:8]}"


def is_of(called: str, name: str) -> bool:
    """Whether metrics are those of the shards of a query, where the user asks for ``name``."""
    return called == name or called.startswith(f"{name}:query:")


class Account:
    """The latest statistics of every shard, by group. A micro-batch that is run again sends the same again."""

    def __init__(self) -> None:
        self.shards: dict[tuple[int, int], dict[str, Any]] = {}
        self.turned_away: list[dict[str, Any]] = []
        self.batches = 0
        self.on_report: Callable[[], None] | None = None  # called when shards have reported
        self._seen: set[tuple[int, int, int]] = set()

    def add(self, texts: Iterable[str]) -> None:
        """The tagged rows of one micro-batch."""
        for text in texts:
            one = json.loads(text)
            key = (one["group"], one["shard"])
            number = one.get("batch", 1)
            before = self.shards.get(key)
            if before is not None and before.get("batch", 0) > number:
                continue
            self.shards = {**self.shards, key: one}  # others may be reading the old one
            if (*key, number) not in self._seen:
                self._seen.add((*key, number))
                self.turned_away = [*self.turned_away, *one["turned_away"]][-10_000:]
                self.batches = max(self.batches, number)
        if self.on_report is not None:
            self.on_report()

    def of(self, group: int, query: int) -> Account:
        """What was said of one query of a job, as if it ran alone.

        >>> job = Account()
        >>> job.shards = {(1, 0): {"group": 1, "shard": 0, "queries": [{"query": "q"}, {"query": "r"}]}}
        >>> job.of(1, 1).group(0)
        [{'group': 0, 'shard': 0, 'queries': [{'query': 'r'}]}]
        """
        mine = Account()
        mine.shards = {
            (0, k[1]): {**s, "group": 0, "queries": [s["queries"][query]]}
            for k, s in self.shards.items()
            if k[0] == group
        }
        return mine

    def rows(self, which: str) -> list[dict[str, Any]]:
        """Rows that were turned away: as many as the shards sent along."""
        return [{**r["row"], "_reason": r["_reason"], "_at": r["_at"]} for r in self.turned_away if r["which"] == which]

    def teach(self, learned: Learned) -> None:
        """What the shards have learned, for the next run of the same queries: of each that of the busiest shard."""
        for g in sorted({g for g, _ in self.shards}):
            busy = max(self.group(g), key=lambda s: sum(s["arrived"].values()))
            for q in busy["queries"]:
                statistics = {a["operator"]: a for a in q.get("adapting", ())}
                learned.remember(q["fingerprint"], q["query"], busy["arrived"], statistics)

    def arrived(self) -> dict[str, int]:
        """Rows by source: one that several groups read is counted in one of them."""
        out: dict[str, int] = {}
        for g in sorted({g for g, _ in self.shards}):
            mine: dict[str, int] = {}
            for s in self.group(g):
                for name, count in s["arrived"].items():
                    mine[name] = mine.get(name, 0) + count
            out = {n: max(out.get(n, 0), mine.get(n, 0)) for n in {**out, **mine}}
        return out

    def left_out(self, called: Mapping[tuple[int, int], str] | None = None) -> list[LeftOut]:
        """What was turned away of each source, and by the expressions of each query."""
        return left_out(list(self.shards.values()), called)  # micro-batches come in another thread

    def group(self, number: int) -> list[dict[str, Any]]:
        return [s for (g, _), s in sorted(self.shards.items()) if g == number]

    def report(self, group: int, query: int) -> dict[str, Any]:
        """What ``Query.report`` says, over all shards: counts added up, operators by name."""
        shards = self.group(group)
        mine = [s["queries"][query] for s in shards]
        arrived: dict[str, int] = {}
        for s in shards:
            for name, count in s["arrived"].items():
                arrived[name] = arrived.get(name, 0) + count
        operators: dict[str, dict[str, Any]] = {}
        for one in mine:
            for o in one["operators"]:
                total = operators.setdefault(o["name"], dict.fromkeys(o, 0) | {"name": o["name"]})
                for n, v in o.items():
                    if n != "name":
                        total[n] += v
        state = {k: sum(one["state"][k] for one in mine) for k in ("rows", "bytes", "peak_rows", "peak_bytes")}
        return {
            "query": mine[0]["query"] if mine else "the query",
            "events": sum(arrived.values()),
            "results": sum(one["results"] for one in mine),
            "seconds": sum(one["seconds"] for one in mine),
            "late": sum(one["late"] for one in mine),
            "invalid": sum(one["invalid"] for one in mine),
            "streams": streams(shards),
            "operators": list(operators.values()),
            "state": state | {"stored_bytes": sum(s.get("stored", 0) for s in shards)},
            "decisions": decisions(shards, query),
            "adapting": [
                {"shard": s["shard"], **one} for s in shards for one in s["queries"][query].get("adapting", ())
            ],
            "shards": [
                {
                    "shard": s["shard"],
                    "results": s["queries"][query]["results"],
                    "rows": s["queries"][query]["state"]["rows"],
                    "bytes": s["queries"][query]["state"]["bytes"],
                    "seconds": s["queries"][query]["seconds"],
                    "reached": s["queries"][query]["reached"],
                    "panes": s["panes"],
                    "written": s.get("written", 0),
                }
                for s in shards
            ],
        }


def left_out(shards: Iterable[Mapping[str, Any]], called: Mapping[tuple[int, int], str] | None = None) -> list[LeftOut]:
    """What all shards have turned away, by source and by query (``called``: its name, by group and number).

    Of a source that several groups read one group counts, which is what all of them saw.

    >>> one = {"group": 0, "shard": 0, "arrived": {"S": 9}, "queries": [{"query": "q", "failed": 2}],
    ...        "left_out": {"S": {"late": 3, "invalid": 0, "behind": 7, "column": "ts", "kind": "integer",
    ...                           "reason": None}}}
    >>> [(x.name, x.arrived, x.late, x.behind, x.invalid) for x in left_out([one, {**one, "shard": 1}])]
    [('S', 18, 6, 7, 0), ('q', 0, 0, 0, 4)]
    >>> one["left_out"]["S"] |= {"invalid": 1, "reason": "'x' is not a value of type bigint"}
    >>> left_out([one])[0].reason
    "'x' is not a value of type bigint"
    """
    sources: dict[tuple[int, str], LeftOut] = {}
    failed: dict[tuple[int, int], LeftOut] = {}
    for s in shards:
        for name, one in s.get("left_out", {}).items():
            found = sources.get((s["group"], name), LeftOut(name))
            sources[s["group"], name] = LeftOut(
                name,
                found.arrived + s["arrived"].get(name, 0),
                found.late + one["late"],
                found.invalid + one["invalid"],
                max(found.behind, one["behind"]),
                one["column"],
                TimeKind(one["kind"]),
                found.reason or one.get("reason"),
                disordered=found.disordered + one.get("disordered", 0),
                back=max(found.back, one.get("back", 0)),
                auto=one.get("auto", False),
            )
        for number, q in enumerate(s["queries"]):
            place = (s["group"], number)
            name = (called or {}).get(place, q["query"])
            before = failed[place].invalid if place in failed else 0
            failed[place] = LeftOut(name, invalid=before + q.get("failed", 0))
    whole: dict[str, LeftOut] = {}
    for (_, name), found in sources.items():
        if name not in whole or whole[name].arrived < found.arrived:
            whole[name] = found
    return [*whole.values(), *failed.values()]


def streams(shards: Iterable[Mapping[str, Any]]) -> dict[str, dict[str, int]]:
    """Of each source what was counted in all shards, and the slack (ticks), on which they agree."""
    found: dict[str, dict[str, int]] = {}
    for s in shards:
        for name, one in s.get("left_out", {}).items():
            mine = found.setdefault(name, dict.fromkeys(("arrived", "late", "invalid", "implausible"), 0))
            mine["arrived"] += s["arrived"].get(name, 0)
            for n in ("late", "invalid", "implausible"):
                mine[n] += one.get(n, 0)
            mine["slack"] = one.get("slack", 0)
    return found


def decisions(shards: Iterable[Mapping[str, Any]], query: int) -> list[dict[str, Any]]:
    """The logs of all shards as one: first what the planner decided, which is the same in every shard and stands once,
    without one; then the records of the shards, each with its shard, by the clock on the wall.

    >>> plan = {"kind": "join order", "time": None, "sequence": 1, "wall": 5}
    >>> shards = [{"shard": s, "queries": [{"decisions": [plan, {"kind": "filter order", "time": 9, "sequence": 2,
    ...     "wall": 20 - s}]}]} for s in (0, 1)]
    >>> [(d["kind"], d["shard"], d["sequence"]) for d in decisions(shards, 0)]
    [('join order', None, 1), ('filter order', 1, 2), ('filter order', 0, 2)]
    """
    logs = [[{**d, "shard": s["shard"]} for d in s["queries"][query]["decisions"]] for s in shards]
    planned = [{**d, "shard": None} for log in logs[:1] for d in log if d["time"] is None]
    return [*planned, *merged([d for d in log if d["time"] is not None] for log in logs)]
