"""The aggregate operator alone: 2 million trades of 200 symbols through a one-minute window, warm.

    python benchmarks/micro_aggregate.py [events] [batch]

Prints seconds for signed output, for insertions only, and for each aggregate on its own.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from eddyline.core.delta import Delta
from eddyline.core.schema import Field, Schema
from eddyline.expr.nodes import AggregateCall, Column
from eddyline.operators.aggregate import AggregateOperator
from eddyline.operators.base import Context

SCHEMA = Schema((Field("symbol", pa.string()), Field("price", pa.float64()), Field("size", pa.int64())))
PRICE, SIZE = Column("price", pa.float64()), Column("size", pa.int64())
CALLS = {
    "avg": AggregateCall("avg", (PRICE,), pa.float64()),
    "min": AggregateCall("min", (PRICE,), pa.float64()),
    "max": AggregateCall("max", (PRICE,), pa.float64()),
    "sum": AggregateCall("sum", (SIZE,), pa.int64()),
    "stddev": AggregateCall("stddev", (PRICE,), pa.float64()),
    "count distinct": AggregateCall("count", (SIZE,), pa.int64(), distinct=True),
    "first": AggregateCall("first", (PRICE,), pa.float64()),
}
TRADES = ("avg", "min", "max", "sum")


def window(events: int, batch: int) -> Iterator[Delta]:
    """Insertions and, a minute later, deletions of random walks; all leave in the end."""
    rng = np.random.default_rng(1)
    ts = np.sort(rng.integers(0, 600_000_000, events))
    symbol = rng.integers(0, 200, events)
    price = np.round(100 + np.cumsum(rng.normal(0, 0.01, events)) + symbol, 2)
    size = rng.integers(1, 1000, events)
    row = np.concatenate([np.arange(events), np.arange(events)])
    when = np.concatenate([ts, ts + 60_000_001])
    weight = np.repeat(np.array([1, -1]), events)
    order = np.lexsort((weight, when))
    row, when, weight = row[order], when[order], weight[order]
    names = pa.array([f"S{i:03d}" for i in range(200)])
    start = 0
    while start < len(row):
        stop = min(start + batch, len(row))
        while stop < len(row) and when[stop] == when[stop - 1]:
            stop += 1
        r = row[start:stop]
        columns = {"symbol": names.take(pa.array(symbol[r])), "price": pa.array(price[r]), "size": pa.array(size[r])}
        yield Delta(when[start:stop], columns, weight[start:stop], r)
        start = stop


def run(
    deltas: list[Delta], calls: tuple[str, ...], inserts_only: bool = False, fifo: bool = True
) -> tuple[float, int]:
    aggregates = tuple((name, CALLS[name]) for name in calls)
    keys = (("symbol", Column("symbol", pa.string())),)
    operator = AggregateOperator("a", keys, aggregates, SCHEMA, True, Context(0), fifo, inserts_only)
    begin = time.perf_counter()
    rows = sum(len(operator.process([d], int(d.time[-1]))) for d in deltas)
    return time.perf_counter() - begin, rows


def main() -> None:
    events = int(sys.argv[1]) if len(sys.argv) > 1 else 2_000_000
    batch = int(sys.argv[2]) if len(sys.argv) > 2 else 262_144
    deltas = list(window(events, batch))
    print(f"{sum(map(len, deltas)):,} elements in {len(deltas)} batches")
    for title, calls, inserts_only, fifo in (
        ("avg, min, max, sum; signed", TRADES, False, True),
        ("avg, min, max, sum; insertions only", TRADES, True, True),
        ("avg, min, max, sum; insertions only, not FIFO", TRADES, True, False),
        *((name, (name,), True, True) for name in CALLS),
    ):
        seconds, rows = run(deltas, calls, inserts_only, fifo)
        print(f"{title:48s} {seconds:6.2f} s {rows:12,} rows")


if __name__ == "__main__":
    main()
