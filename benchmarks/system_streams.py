"""What SysStream and Decisions cost with everything on, once a second: a three-way join with and without a query that
reads all properties of all entities, and one that reads all decisions.

Both sides take the same batches in turn (``benchmarks.interleaved``): reported is the median of the blocks' ratios of
processor time, with the interval of ``filters-equal``. The clock goes on while the other side works, so what is read
every two seconds is read once in a second of the join's own time.
"""

from __future__ import annotations

from statistics import median

import numpy as np
import pyarrow as pa

from benchmarks.harness import Limit, Options, Report
from benchmarks.interleaved import Steps, block_ratios, spelled

EVENTS, BATCH, BLOCK = 12_000_000, 20_000, 10
JOIN = "SELECT count(*) AS n FROM R [RANGE 60], S [RANGE 60], T [RANGE 60] WHERE R.k = S.k AND S.k = T.k"
SYSTEM = (
    "SELECT Istream(*) FROM SysStream [NOW] WITH (every = '2 seconds')",
    "SELECT Istream(*) FROM Decisions [NOW]",
)


class System:
    name = "system-streams"
    title = "a join with SysStream and Decisions read once a second, over the join alone"

    def run(self, options: Options) -> Report:
        report = Report(self.name, self.title)
        sides = Side(options.scaled(EVENTS), False), Side(options.scaled(EVENTS), True)
        ratios = block_ratios(sides[1].steps, sides[0].steps, BLOCK)
        if sides[0].rows != sides[1].rows:
            raise AssertionError(f"different answers: {sides[0].rows} and {sides[1].rows} rows")
        published = sides[1].published
        report.lines.append(f"  processor time: {spelled(ratios)}, {published:,} rows published")
        report.details["ratios"] = ratios
        report.details["published"] = published
        report.limits.append(Limit("processor time with system streams", median(ratios), 1.02))
        return report


class Side:
    """A session that takes a stream batch by batch, and is watched or not."""

    def __init__(self, events: int, watched: bool) -> None:
        self.each, self.watched = events // 3, watched
        self.rows = self.published = 0

    def steps(self) -> Steps:
        import eddyline as ed

        rng = np.random.default_rng(7)
        times = {n: np.sort(rng.integers(0, max(1, self.each // 1000), self.each)) for n in "RST"}
        keys = {n: rng.integers(0, 100_000, self.each) for n in "RST"}
        tables = {n: pa.table({"ts": times[n], "k": keys[n]}) for n in "RST"}
        session = ed.Session()
        for name, table in tables.items():
            session.stream(name, schema=table.schema, timestamp="ts")
        query = session.query(JOIN)
        system = [session.query(t) for t in SYSTEM] if self.watched else []
        for at in range(0, self.each, BATCH):
            for name, table in tables.items():
                session.push(name, table.slice(at, BATCH))
            self.rows += sum(b.num_rows for b in query.fetch())
            self.published += sum(b.num_rows for q in system for b in q.fetch())
            yield True


if __name__ == "__main__":
    print("\n".join(System().run(Options()).lines))
