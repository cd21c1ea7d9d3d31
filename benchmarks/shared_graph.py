"""The graph of a session: what 100 equal queries cost beside one, counted and in processor time, and what it costs one
query alone that it could share: the same batches go in turn to a session that shares and to one that does not."""

from __future__ import annotations

import time
from statistics import median

from benchmarks.harness import Limit, Options, Report
from benchmarks.interleaved import Steps, block_ratios, spelled

TEXT = "SELECT symbol, sum(price) AS total FROM trades [RANGE 500] WHERE price > 2 GROUP BY symbol"
READERS = (1, 2, 10, 100)
ROWS, BATCH, BLOCK = 200_000, 2_000, 50
ALONE_ROWS = 8_000_000
WIDTHS = (100_000, 90_000, 80_000, 70_000)  # of the windows of joins that share, in ticks of a row each


class SharedGraph:
    name = "shared_graph"
    title = "equal queries in one session: work, processor time and rows kept"

    def run(self, options: Options) -> Report:
        report = Report(self.name, self.title)
        report.lines = [
            f"  {'readers':>8s}{'runs':>9s}{'elements':>12s}{'CPU s':>9s}{'delivery s':>12s}{'rows kept':>11s}"
        ]
        rows = []
        measure(1, BATCH)  # kernels are loaded
        for readers in READERS:
            one = measure(readers, ROWS // 10 if options.quick else ROWS)
            rows.append(one)
            report.lines.append(
                f"  {readers:8d}{one['runs']:9,d}{one['elements']:12,d}{one['seconds']:9.2f}{one['delivery']:12.2f}"
                f"{one['kept']:11,d}"
            )
        whole, first = rows[-1]["seconds"] - rows[-1]["delivery"], rows[0]["seconds"] - rows[0]["delivery"]
        report.lines.append(f"  {READERS[-1]} equal queries take {whole / first:.2f} times one, beside delivery")
        report.limits.append(Limit(f"{READERS[-1]} equal queries over one, beside delivery", whole / first, 1.2))
        report.details = {"measurements": rows}
        many = ALONE_ROWS // 40 if options.quick else ALONE_ROWS
        ratios = block_ratios(lambda: alone(many, True), lambda: alone(many, False), BLOCK if not options.quick else 10)
        report.lines.append(f"  one query in a session that shares, over one that does not: {spelled(ratios)}")
        report.limits.append(Limit("one query in a session that shares", median(ratios), 1.01))
        report.details["alone"] = ratios
        sides = Joins(many // 4, True), Joins(many // 4, False)
        ratios = block_ratios(sides[0].steps, sides[1].steps, BLOCK if not options.quick else 10)
        if sides[0].results != sides[1].results:
            raise AssertionError(f"different answers: {sides[0].results} and {sides[1].results} rows")
        report.lines.append(
            f"  {len(WIDTHS)} joins that share their indexes, over joins that do not: {spelled(ratios)};"
            f" memory of the joins {sides[0].memory / sides[1].memory:.2f} ×"
        )
        report.details["joins"] = ratios
        return report


class Joins:
    """Joins with windows of different widths over the same streams, each registered a little later."""

    def __init__(self, rows: int, sharing: bool) -> None:
        self.rows, self.sharing = rows, sharing
        self.results = self.memory = 0

    def steps(self) -> Steps:
        import numpy as np
        import pyarrow as pa

        import eddyline as ed

        rng = np.random.default_rng(1)
        session = ed.Session(sharing=self.sharing)
        schema = pa.schema([("ts", pa.int64()), ("k", pa.int64())])
        for name in "ST":
            session.stream(name, schema=schema, timestamp="ts")
        queries = []
        for at in range(0, self.rows, BATCH):
            if len(queries) < len(WIDTHS):
                w = WIDTHS[len(queries)]
                queries.append(session.query(f"SELECT count(*) AS n FROM S [RANGE {w}], T [RANGE {w}] WHERE S.k = T.k"))
            for name in "ST":
                columns = [np.arange(at, at + BATCH), rng.integers(0, 1_000_000, BATCH)]
                session.push(name, pa.RecordBatch.from_arrays([pa.array(c) for c in columns], schema=schema))
            self.results += sum(b.num_rows for q in queries for b in q.fetch())
            yield True
        operators = [o for q in queries for o in q.report()["operators"]]
        self.memory = sum(o["bytes"] for o in operators if "join" in o["name"])


def alone(rows: int, sharing: bool) -> Steps:
    """One query, batch by batch."""
    import numpy as np
    import pyarrow as pa

    import eddyline as ed

    rng = np.random.default_rng(1)
    session = ed.Session(sharing=sharing)
    schema = pa.schema([("ts", pa.int64()), ("symbol", pa.int64()), ("price", pa.float64())])
    session.stream("trades", schema=schema, timestamp="ts")
    query = session.query(TEXT)
    drawn = [rng.integers(0, 50, BATCH), rng.random(BATCH) * 10]
    for at in range(0, rows, BATCH):
        columns = [np.arange(at, at + BATCH), *drawn]
        session.push("trades", pa.RecordBatch.from_arrays([pa.array(c) for c in columns], schema=schema))
        yield sum(b.num_rows for b in query.fetch()) + 1


def measure(readers: int, rows: int) -> dict[str, float]:
    import numpy as np
    import pyarrow as pa

    import eddyline as ed
    from eddyline.engine.delivery import Delivery

    rng = np.random.default_rng(1)
    session = ed.Session()
    schema = pa.schema([("ts", pa.int64()), ("symbol", pa.int64()), ("price", pa.float64())])
    session.stream("trades", schema=schema, timestamp="ts")
    queries = [session.query(TEXT) for _ in range(readers)]
    delivery, collect = [0.0], Delivery.collect

    def timed(one: Delivery) -> None:
        begin = time.process_time()
        collect(one)
        delivery[0] += time.process_time() - begin

    Delivery.collect = timed  # type: ignore[method-assign]
    try:
        begin = time.process_time()
        for at in range(0, rows, BATCH):
            columns = [np.arange(at, at + BATCH), rng.integers(0, 50, BATCH), rng.random(BATCH) * 10]
            session.push("trades", pa.RecordBatch.from_arrays([pa.array(c) for c in columns], schema=schema))
        kept = session.store_size[0]
        session.finish()
        seconds = time.process_time() - begin
    finally:
        Delivery.collect = collect  # type: ignore[method-assign]
    told = [o.task.statistics for o in session._graph.operators]
    assert queries[-1].report()["results"]
    return {
        "readers": readers,
        "runs": sum(t.runs for t in told),
        "elements": sum(t.elements_in for t in told),
        "seconds": seconds,
        "delivery": delivery[0],
        "kept": kept,
    }
