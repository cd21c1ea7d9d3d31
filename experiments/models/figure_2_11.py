"""Figure 2.11: who is near whom, on stored segments and on tuples, with the same spatial grid on both sides.

Aircraft over Switzerland (``adsb_switzerland``, a position every 10 s, fitted within 200 m, pairs within 10 km; the day
is run eight times over) and moving objects of the generator (10 positions a second, legs of 20 s, fitted within 1 m,
pairs within 100 m). The paper asks which of its vessels follow each other; we have none whose tracks hold more than 8
samples a segment. Precision and recall are those of the pairs at the instants of the samples.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta

import matplotlib.pyplot as plt
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

import eddyline as ed
from eddyline.datasets.moving import moving
from experiments.models.grid import samples_on_grid, segments_on_grid
from experiments.models.harness import medians, real, rows
from experiments.report import Claim, NotHereError, Number, Options, Outcome, Verdict, main

TEXT = (
    "SELECT {0}a.id, b.id AS other, a.x - b.x AS dx, a.y - b.y AS dy{1} FROM S {2} a, S {2} b "
    "WHERE a.cell = b.cell AND a.id < b.id "
    "AND (a.x - b.x) * (a.x - b.x) + (a.y - b.y) * (a.y - b.y) < {3}"
)
EARTH = 6_371_000.0  # metres
DAYS = (
    8  # times that the day of the aircraft is run, one behind the other: to plan a query takes as long as one of them
)


@dataclass(frozen=True)
class Objects:
    """Positions in metres; ``window`` holds one of each object; ``cell`` is that of the grid; ``every`` µs apart."""

    name: str
    table: pa.Table
    error: float
    reach: float
    cell: float
    window: str
    every: int


def run(options: Options) -> Outcome:
    lines, claims, numbers = [], [], []
    rate: dict[str, float] = {}
    for objects in given(options):
        found = measured(objects)
        lines.append({"objects": objects.name, **found})
        faster = found["tuples_s"] / found["stored_s"]
        claims.append(Claim(f"{objects.name}: stored segments are at least 4 times as fast", faster >= 4))
        claims.append(
            Claim(f"{objects.name}: precision and recall of the pairs are at least 0.9",
                  min(found["precision"], found["recall"]) >= 0.9)
        )  # fmt: skip
        numbers += [
            Number(f"{objects.name}: stored segments over tuples", 4.4, faster, "×"),
            Number(f"{objects.name}: the same with rows at every instant of a sample", None,
                   found["tuples_s"] / found["sampled_s"], "×"),
            Number(f"{objects.name}: samples of a segment", None, found["samples_a_segment"], ""),
            Number(f"{objects.name}: copies of a sample in the grid", None, found["copies_of_sample"], ""),
            Number(f"{objects.name}: copies of a segment", None, found["copies_of_segment"], ""),
            Number(f"{objects.name}: precision", None, found["precision"]),
            Number(f"{objects.name}: recall", None, found["recall"]),
        ]  # fmt: skip
        rate |= {
            f"{objects.name}, tuples": len(objects.table) / found["tuples_s"],
            f"{objects.name}, stored": len(objects.table) / found["stored_s"],
        }
    figure, axis = plt.subplots(figsize=(6, 2.6))
    axis.barh(list(rate), list(rate.values()))
    axis.set(xscale="log", xlabel="positions a second of processor time")
    figure.tight_layout()
    note = (
        "Processor time of the query; the grid is laid over samples and over segments before. The paper's 1,000 and "
        "4,400 tuples a second are those of a join without a grid and of an engine whose queues are full. A "
        "segment of an aircraft holds a dozen positions, and is in two to three cells: on a grid a position "
        "meets few others, and costs less than half a microsecond on tuples."
    )
    return Outcome(lines, Verdict("Figure 2.11", claims, numbers, note), figure)


def given(options: Options) -> list[Objects]:
    made = moving(objects=200, seconds=options.tuples(1_200_000, 16_000) / 2000, rate=2000.0, leg=20.0).table()
    found = [Objects("generator", made, 1.0, 100.0, 400.0, "[RANGE 0.1 SECONDS]", 100_000)]
    try:
        table = real(options, "adsb_switzerland", ["ts", "icao24", "latitude", "longitude"])
    except NotHereError:
        return found
    latitude, longitude = (np.radians(table[n].to_numpy()) for n in ("latitude", "longitude"))
    x, y = EARTH * longitude * np.cos(np.radians(46.9)), EARTH * latitude
    stamps = table["ts"].cast(pa.timestamp("us", "UTC")).cast(pa.timestamp("us"))
    flat = pa.table({"ts": stamps, "id": table["icao24"], "x": x, "y": y})
    days = options.times(DAYS, 1)
    by = [pa.scalar(timedelta(days=d), pa.duration("us")) for d in range(days)]
    flat = pa.concat_tables([flat.set_column(0, "ts", pc.add(flat["ts"], d)) for d in by]).combine_chunks()
    return [Objects("aircraft", flat, 200.0, 10_000.0, 40_000.0, "[NOW]", 10_000_000), *found]


def measured(o: Objects) -> dict[str, float]:
    gap = f"{3 * o.every // 1000} milliseconds"
    segments = ed.fit(o.table, key="id", time="ts", value=["x", "y"], error=o.error, max_gap=gap)
    samples, pieces = samples_on_grid(o.table, o.cell, o.reach), segments_on_grid(segments, o.cell, o.reach)
    on_tuples = TEXT.format("Istream(", ")", o.window, o.reach**2)
    on_models = TEXT.format("", "", "", o.reach**2)
    sampled = f"{on_models} SAMPLE EVERY {o.every // 1000} MILLISECONDS"
    ways: list[Callable[[], pa.Table]] = [
        lambda: rows({"S": samples}, on_tuples),
        lambda: rows({"S": pieces}, on_models),
        lambda: rows({"S": pieces}, sampled),
    ]
    tuples, stored, at_instants = medians(*ways)
    mine, theirs = pairs(ways[2](), o.every), pairs(ways[0](), o.every)
    both = len(mine & theirs)
    return {
        "tuples_s": tuples, "stored_s": stored, "sampled_s": at_instants,
        "samples_a_segment": len(o.table) / len(segments),
        "copies_of_sample": len(samples) / len(o.table), "copies_of_segment": len(pieces) / len(segments),
        "precision": both / max(1, len(mine)), "recall": both / max(1, len(theirs)),
    }  # fmt: skip


def pairs(found: pa.Table, every: int) -> set[tuple[int, object, object]]:
    """Who was near whom, by the period of the samples."""
    t = (found["_time"].cast(pa.int64()).to_numpy() // every).tolist()
    return set(zip(t, found["id"].to_pylist(), found["other"].to_pylist(), strict=True))


if __name__ == "__main__":
    main(run)
