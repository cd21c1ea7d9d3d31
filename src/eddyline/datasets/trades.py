"""Trades with random-walk prices: ts, symbol, price, size."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np
import pyarrow as pa

from eddyline.datasets.generate import START, Float64s, Generated, Int64s, Span, draw, random, timestamps, zipf_table

SCHEMA: Final = pa.schema(
    [("ts", pa.timestamp("us")), ("symbol", pa.string()), ("price", pa.float64()), ("size", pa.int64())]
)


def trades(
    events: int | None = None,
    rate: float = 1000.0,
    seconds: float | None = None,
    symbols: int = 200,
    skew: float = 0.0,
    volatility: float = 0.0005,
    correlation: float = 0.0,
    drift: float = 1.0,
    seed: int = 1,
    start: int = START,
) -> Generated:
    """
    Parameters
    ----------
    symbols, skew
        How many symbols, and how unevenly they trade (Zipf's exponent; 0 is even).
    volatility
        The standard deviation of one step of log price.
    correlation
        How much of a step is common to all symbols (0 to 1).
    drift
        Where in the stream (0 to 1) volatility rises tenfold (1: never).

    >>> t = trades(events=1000, symbols=3).table()
    >>> t.schema.names, len(t), sorted(set(t["symbol"].to_pylist()))
    (['ts', 'symbol', 'price', 'size'], 1000, ['S000', 'S001', 'S002'])
    """
    span = Span.of(rate, seconds, events)
    table = zipf_table(symbols, skew)
    names = pa.array([f"S{i:0{max(3, len(str(symbols - 1)))}d}" for i in range(symbols)])
    opening = np.log(random(seed, "opening", 0).uniform(10.0, 500.0, symbols))

    def chunks() -> Iterator[pa.RecordBatch]:
        level, market = opening.copy(), 0.0
        for chunk, index in span.chunks():
            own, n = random(seed, "trades", chunk), len(index)
            time = span.times(index, own.random(n))
            symbol = draw(table, own.random(n))
            scale = volatility * np.where(span.progress(index) >= drift, 10.0, 1.0)
            common = market + np.cumsum(own.standard_normal(n) * scale) * np.sqrt(correlation / symbols)
            steps = own.standard_normal(n) * scale * np.sqrt(1.0 - correlation)
            price = np.exp(_walk(symbol, steps, level) + common)
            market = float(common[-1])
            size = 100 * (1 + np.floor(own.exponential(3.0, n)).astype(np.int64))
            yield pa.RecordBatch.from_arrays(
                [
                    timestamps(time, start),
                    names.take(pa.array(symbol)),
                    pa.array(np.maximum(np.round(price, 2), 0.01)),
                    pa.array(size),
                ],
                schema=SCHEMA,
            )

    return Generated(SCHEMA, chunks, span.finite)


def _walk(symbol: Int64s, steps: Float64s, level: Float64s) -> Float64s:
    """Add each symbol's steps up from its level, in order; ``level`` is left at the last values."""
    order = np.argsort(symbol, kind="stable")
    sums = np.cumsum(steps[order])
    ordered = symbol[order]
    first = np.flatnonzero(np.r_[True, ordered[1:] != ordered[:-1]])
    before = np.where(first > 0, sums[first - 1], 0.0)
    lengths = np.diff(np.r_[first, len(ordered)])
    walked = sums - np.repeat(before, lengths) + level[ordered]
    level[ordered[first]] = walked[first + lengths - 1]
    result: Float64s = np.empty(len(walked))
    result[order] = walked
    return result
