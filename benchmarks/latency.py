"""Latency: from the push of a small batch until the results of the instants that it closed can be fetched.

A batch closes all instants before its last one, so with batches of one row the answer is that of the row before.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from benchmarks.harness import Options, Report

SIZES = (1, 10, 100, 1000)
PUSHES = 500
WARM = 20_000  # rows in the windows before anything is measured
GAP = 300  # microseconds between rows
SYMBOLS = 200

QUERIES = {
    "filter": "SELECT Istream(symbol, price * size AS value) FROM trades WHERE size > 500",
    "sliding aggregate": "SELECT Istream(symbol, avg(price), max(price)) FROM trades [RANGE 5 SECONDS] GROUP BY symbol",
    "join": "SELECT Istream(t.symbol, t.price, q.bid) FROM trades [RANGE 5 SECONDS] t, quotes [RANGE 5 SECONDS] q "
    "WHERE t.id = q.id",
}  # fmt: skip


class Latency:
    name = "latency"
    title = "latency of small batches, milliseconds from push to result"

    def run(self, options: Options) -> Report:
        report = Report(self.name, self.title)
        head = "".join(f"{f'{n} row' + 's' * (n > 1):>18s}" for n in SIZES)
        report.lines = [f"  {'':20s}{head}", f"  {'':20s}" + f"{'p50':>10s}{'p99':>8s}" * len(SIZES)]
        rows = []
        for name, text in QUERIES.items():
            cells = []
            for size in SIZES:
                spent = 1e3 * np.array(measure(name, text, size, PUSHES // 5 if options.quick else PUSHES))
                p50, p99 = np.percentile(spent, [50, 99])
                cells.append(f"{p50:10.2f}{p99:8.2f}")
                rows.append({"query": text, "rows": size, "p50_ms": float(p50), "p99_ms": float(p99)})
            report.lines.append(f"  {name:20s}{''.join(cells)}")
        report.lines.append("  join: a batch on each of its two streams")
        report.details = {"measurements": rows}
        return report


def measure(name: str, text: str, size: int, pushes: int) -> list[float]:
    import pyarrow as pa

    import eddyline as ed

    streams: dict[str, Callable[[np.random.Generator, Any], dict[str, Any]]] = {"trades": _trades}
    if name == "join":
        streams["quotes"] = _quotes
    session = ed.Session()
    rng = np.random.default_rng(1)
    for stream, columns in streams.items():
        empty = pa.RecordBatch.from_pydict({"ts": _times(0, 0), **columns(rng, 0)})
        session.stream(stream, schema=empty.schema, timestamp="ts")
    query = session.query(text)

    def batches(count: int, rows: int, start: int) -> Iterator[dict[str, Any]]:
        for i in range(count):
            times = _times(start + i * rows * GAP, rows)
            yield {s: pa.RecordBatch.from_pydict({"ts": times, **c(rng, rows)}) for s, c in streams.items()}

    def push(batch: dict[str, Any]) -> float:
        begin = time.perf_counter()
        for stream, rows in batch.items():
            session.push(stream, rows)
        query.fetch()
        return time.perf_counter() - begin

    for batch in batches(WARM // 1000, 1000, 0):
        push(batch)
    # The same sizes once more unmeasured: buffers find their sizes.
    ready = list(batches(pushes + 20, size, WARM * GAP))
    return [push(batch) for batch in ready][20:]


def _times(start: int, rows: int) -> Any:
    import pyarrow as pa

    return pa.array(start + GAP * np.arange(rows, dtype=np.int64), pa.timestamp("us"))


def _trades(rng: np.random.Generator, rows: int) -> dict[str, Any]:
    import pyarrow as pa

    names = np.array([f"S{i:03d}" for i in range(SYMBOLS)])
    return {
        "id": rng.integers(0, 10_000, rows),
        "symbol": pa.array(names[rng.integers(0, SYMBOLS, rows)].tolist(), pa.string()),
        "price": np.round(rng.uniform(10, 500, rows), 2),
        "size": rng.integers(1, 1000, rows),
    }


def _quotes(rng: np.random.Generator, rows: int) -> dict[str, Any]:
    return {"id": rng.integers(0, 10_000, rows), "bid": np.round(rng.uniform(10, 500, rows), 2)}
