"""What SysStream and Decisions cost with everything on, once a second: a three-way join with and without a query that
reads all properties of all entities, and one that reads all decisions.

Processor time is paired: in each round both sides run one after the other, first the one, then the other in turn;
reported is the median of the rounds' ratios with the interval of ``filters-equal``.
"""

from __future__ import annotations

import time
from statistics import median

import numpy as np
import pyarrow as pa

from benchmarks.filters_equal import interval
from benchmarks.harness import Limit, Options, Report

EVENTS, BATCH, ROUNDS = 3_000_000, 20_000, 11
JOIN = "SELECT count(*) AS n FROM R [RANGE 60], S [RANGE 60], T [RANGE 60] WHERE R.k = S.k AND S.k = T.k"


class System:
    name = "system-streams"
    title = "a join with SysStream and Decisions read once a second, over the join alone"

    def run(self, options: Options) -> Report:
        report = Report(self.name, self.title)
        ratios, published = paired(options.scaled(EVENTS), 3 if options.quick else ROUNDS)
        low, high = interval(ratios)
        report.lines.append(
            f"  processor time: {median(ratios):.3f} × [{low:.3f}, {high:.3f}], {published:,} rows published"
        )
        report.details["ratios"] = ratios
        report.details["published"] = published
        report.limits.append(Limit("processor time with system streams", median(ratios), 1.02))
        return report


def paired(events: int, rounds: int) -> tuple[list[float], int]:
    """Seconds with the system's streams over those without, in each round; and how many rows were published."""
    rng = np.random.default_rng(7)
    each = events // 3
    tables = {
        name: pa.table({"ts": np.sort(rng.integers(0, each // 1000, each)), "k": rng.integers(0, 100_000, each)})
        for name in "RST"
    }
    ratios, published = [], 0
    for turn in range(rounds + 1):
        seconds, answers = {}, {}
        for watched in (False, True) if turn % 2 else (True, False):
            seconds[watched], answers[watched], rows = _run(tables, watched)
            published += rows if turn else 0
        if answers[True] != answers[False]:
            raise AssertionError(f"different answers: {answers}")
        if turn:  # the first round warms both up
            ratios.append(seconds[True] / seconds[False])
    return ratios, published


def _run(tables: dict[str, pa.Table], watched: bool) -> tuple[float, int, int]:
    import eddyline as ed

    session = ed.Session()
    for name, table in tables.items():
        session.stream(name, schema=table.schema, timestamp="ts")
    query = session.query(JOIN)
    system = []
    if watched:
        texts = ("SELECT Istream(*) FROM SysStream [NOW]", "SELECT Istream(*) FROM Decisions [NOW]")
        system = [session.query(t) for t in texts]
    begin = time.process_time()
    rows = len(next(iter(tables.values())))
    for at in range(0, rows, BATCH):
        for name, table in tables.items():
            session.push(name, table.slice(at, BATCH))
    session.finish()
    spent = time.process_time() - begin
    return spent, query.to_arrow().num_rows, sum(q.to_arrow().num_rows for q in system)


if __name__ == "__main__":
    print("\n".join(System().run(Options()).lines))
