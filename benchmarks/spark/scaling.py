"""Cost against the number of events, of keys and of shards, and over a long run; drawn."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from benchmarks.harness import HERE, Limit, Options, Report
from benchmarks.spark.configuration import Configuration, Outcome, creep
from benchmarks.spark.contests import check
from benchmarks.spark.fresh import measure
from benchmarks.spark.plots import course, drawn, scaling

RESULTS = HERE / "results"
EVENTS = (20_000, 50_000, 100_000, 200_000, 500_000)
KEYS = (12_500, 25_000, 50_000, 100_000, 200_000)
SHARDS = (1, 2, 4, 8, 16, 32)


class Scaling:
    """Three curves of the three-way join. With the number of keys the window grows as well (60 s for 100,000 keys), so
    that an event finds as many partners: what grows is the state, not the answer."""

    name = "scaling"
    title = "three-way join: a steady micro-batch against its events, the keys (and the state), the shards"

    def run(self, options: Options) -> Report:
        together = options.quick or not options.fresh
        points: list[dict[str, Any]] = []
        for axis, asked in self.configurations(options).items():
            found = measure(asked, together)
            check(found)
            points += [_point(axis, o) for o in found]
        report = Report(self.name, self.title, details={"points": points})
        for axis in dict.fromkeys(p["axis"] for p in points):
            mine = [p for p in points if p["axis"] == axis]
            values = sorted({p["value"] for p in mine})
            report.lines.append(f"  {axis:24s}" + "".join(f"{v:>10,}" for v in values))
            for side in dict.fromkeys(p["side"] for p in mine):
                seconds = {p["value"]: p["seconds"] for p in mine if p["side"] == side}
                report.lines.append(f"    {side:22s}" + "".join(f"{seconds[v]:10.2f}" for v in values))
        stem = RESULTS / ("spark-scaling-quick" if options.quick else "spark-scaling")
        write_csv(points, stem.with_suffix(".csv"))
        report.lines += drawn(scaling, points, stem)
        return report

    def configurations(self, options: Options) -> dict[str, list[Configuration]]:
        if options.quick:
            c = Configuration("three-way", "ours", 60_000, 20_000, memory="2g")
            return {
                "keys": [_keyed(c, 25_000), replace(_keyed(c, 25_000), side="native")],
                "shards": [replace(c, shards=1)],
            }
        ours = Configuration("three-way", "ours", 1_500_000, 100_000)
        both = [ours, replace(ours, side="native")]
        return {
            # Six micro-batches at least, and long enough for windows to fill.
            "events": [replace(c, batch=n, events=max(600_000, 6 * n)) for n in EVENTS for c in both],
            "keys": [_keyed(c, n) for n in KEYS for c in both],
            "shards": [replace(ours, shards=n) for n in SHARDS],
        }


class Creep:
    name = "creep"
    title = "three-way join in micro-batches of 20,000 events: does one take longer late in a run?"

    def run(self, options: Options) -> Report:
        batches, batch = (6, 5_000) if options.quick else (120, 20_000)
        first = Configuration("three-way", "ours", batches * batch, batch, memory="2g" if options.quick else "6g")
        sides = [first] if options.quick else [first, replace(first, side="native")]
        found = measure(sides, options.quick or not options.fresh)
        check(found)
        report = Report(self.name, self.title, details={"outcomes": [o.to_json() for o in found]})
        for o in found:
            thirds = creep(o.milliseconds)
            side = o.configuration.side
            count = len(o.milliseconds)
            report.lines.append(f"  {side:8s} {count} micro-batches, {o.steady:.2f} s, last third ÷ first {thirds:.2f}")
            if side == "ours":
                report.limits.append(Limit(f"last third of {batches} micro-batches against the first", thirds, 1.2))
        stem = RESULTS / ("spark-creep-quick" if options.quick else "spark-creep")
        rows = [
            {"side": o.configuration.side, "micro_batch": i, "milliseconds": t}
            for o in found
            for i, t in enumerate(o.milliseconds)
        ]
        write_csv(rows, stem.with_suffix(".csv"))
        report.lines += drawn(course, rows, stem)
        return report


def _keyed(c: Configuration, keys: int) -> Configuration:
    return replace(c, keys=keys, window=60 * keys // 100_000)


def _point(axis: str, o: Outcome) -> dict[str, Any]:
    c = o.configuration
    value = {"events": c.batch, "keys": c.keys, "shards": c.shards}[axis]
    return {"axis": axis, "value": value, "side": c.side, "seconds": o.steady, "state_bytes": o.state_bytes}


def write_csv(rows: Sequence[dict[str, Any]], path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="") as out:
        writer = csv.DictWriter(out, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
