"""A short join with little to gain: what adapting costs where a run is over before it could pay.

Some 85,000 departures are joined with themselves: the flights of one aircraft within a day. A better order exists and
saves a few per cent of the accesses, so profiling runs find something, and must not cost more than that is worth.
Nights are silent, so windows empty and fill again, which looks like a change of the data.

Processor time is compared, in pairs: both plans get the same piece of the data, one after the other, before the next
piece comes.
"""

from __future__ import annotations

import gc
import time
from itertools import pairwise
from statistics import median
from typing import Any

import numpy as np
import pyarrow as pa

from benchmarks.adaptive_join import STAYS
from benchmarks.harness import Limit, Options, Report
from benchmarks.interval import interval

FLIGHTS, AIRCRAFT, A_DAY = 85_000, 3_950, 920
PIECES = 16
HOUR = 3_600_000_000  # microseconds
QUERIES = {
    "aircraft": """SELECT Istream(a.flight AS x, b.flight AS y, c.flight AS z)
FROM F [RANGE 1 DAY] a, F [RANGE 1 DAY] b, F [RANGE 1 DAY] c
WHERE a.aircraft = b.aircraft AND b.aircraft = c.aircraft""",
    "chain": """SELECT Istream(a.flight AS x, b.flight AS y, c.flight AS z)
FROM F [RANGE 12 HOURS] a, F [RANGE 12 HOURS] b, F [RANGE 30 MINUTES] c
WHERE a.aircraft = b.aircraft AND b.destination = c.destination""",
}


def flights(count: int, seed: int = 5) -> pa.Table:
    """Departures of the days' 18 hours, in order of time; an aircraft flies again after some of them.

    >>> flights(3)["flight"].to_pylist()
    [0, 1, 2]
    """
    rng = np.random.default_rng(seed)
    days = np.arange(count) // A_DAY
    hours = rng.uniform(5, 23, count)
    ts = np.sort((days * 24 + hours) * HOUR).astype(np.int64)
    return pa.table(
        {
            "ts": pa.array(ts, pa.timestamp("us")),
            "flight": np.arange(count),
            "aircraft": (rng.random(count) ** 1.5 * AIRCRAFT).astype(np.int64),
            "destination": (rng.random(count) ** 2 * 100).astype(np.int64),
        }
    )


class Short:
    name = "join-short"
    title = "a short self-join with little to gain: processor time against the plan that stays"

    def run(self, options: Options) -> Report:
        report = Report(self.name, self.title)
        data = flights(options.scaled(FLIGHTS))
        for name, query in QUERIES.items():
            ratios = paired(data, query, 3 if options.quick else 15)
            low, high = interval(ratios)
            report.lines.append(f"  {name}: {median(ratios):.3f} × the plan that stays [{low:.3f}, {high:.3f}]")
            report.limits.append(Limit(f"time of a short join, {name}", median(ratios), 1.05))
            report.details[name] = ratios
        return report


def paired(data: pa.Table, query: str, rounds: int) -> list[float]:
    """Processor time of adapting over that of staying, by round; the first round warms up."""
    cuts = [len(data) * i // PIECES for i in range(PIECES + 1)]
    pieces = [data.slice(a, b - a) for a, b in pairwise(cuts)]
    ratios = []
    for n in range(rounds + 1):
        took = {False: 0.0, True: 0.0}
        sides = [(stays, *_started(data.schema, query, STAYS if stays else {})) for stays in (n % 2 == 0, n % 2 == 1)]
        gc.collect()
        for at, piece in enumerate(pieces):
            for stays, session, running in sides if at % 2 else reversed(sides):
                start = time.process_time()
                session.push("F", piece)
                running.fetch()
                took[stays] += time.process_time() - start
        ratios.append(took[False] / took[True])
    return ratios[1:]


def _started(schema: pa.Schema, query: str, options: dict[str, Any]) -> tuple[Any, Any]:
    import eddyline as ed

    session = ed.Session()
    session.stream("F", schema=schema, timestamp="ts")
    return session, session.query(query, **options)
