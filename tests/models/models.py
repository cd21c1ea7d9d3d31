"""Random piecewise models, and a reference that knows nothing but values at instants."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from eddyline.models.pieces import LOW_CLOSED, Pieces, Value


def random_pieces(rng: np.random.Generator, alias: str, keys: int, count: int, degree: int, gaps: bool) -> Pieces:
    """Pieces of several keys over about the same time, with small coefficients so that they cross each other."""
    low, high, code, c, d = [], [], [], [], []
    for k in range(keys):
        t = float(rng.integers(0, 10))
        for _ in range(count):
            width = float(rng.integers(1, 25))
            low.append(t)
            high.append(t + width)
            code.append(k)
            powers = np.arange(degree + 1)
            c.append(rng.normal(size=degree + 1) * 3.0 / np.maximum(1.0, width) ** powers * 2.0)
            d.append(rng.normal(size=2) * np.array([2.0, 0.2]))
            t += width + (float(rng.integers(0, 6)) if gaps and rng.random() < 0.4 else 0.0)
    order = np.argsort(low, kind="stable")
    starts = np.array(low)[order]
    return Pieces(
        starts, np.array(high)[order], np.full(len(low), LOW_CLOSED, np.uint8), starts,
        {f"{alias}.x": Value(np.array(c)[order]), f"{alias}.y": Value(np.array(d)[order])},
        {f"{alias}.k": pa.array(np.array(code)[order])},
    )  # fmt: skip


def defined(p: Pieces, t: float) -> Any:
    """The rows whose interval contains t."""
    inside = (p.low < t) & (t < p.high)
    inside |= (p.low == t) & (p.closed & 1 > 0) & ((t < p.high) | (p.closed & 2 > 0))
    inside |= (p.high == t) & (p.closed & 2 > 0) & (p.low < t)
    return np.flatnonzero(inside)


def rows_at(p: Pieces, t: float, scale: float = 1.0) -> list[dict[str, Any]]:
    """All columns and values at an instant."""
    index = defined(p, t)
    columns = {n: c.take(pa.array(index)).to_pylist() for n, c in p.columns.items()}
    values = {n: v.take(index).at((t - p.base[index]) * scale).tolist() for n, v in p.values.items()}
    every = {**columns, **values}
    return [{n: every[n][i] for n in every} for i in range(len(index))]
