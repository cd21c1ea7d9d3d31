"""Moving objects on straight legs: the workload of Pulse's experiments (2.7), with its dials.

An object goes straight for a while, then turns and changes its speed. A tuple is an observation of it: its place and
its speed. The number of tuples that one line describes is the rate of tuples times the length of a leg, or less with
noise.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np
import pyarrow as pa

from eddyline.core.errors import JobError
from eddyline.datasets.generate import CHUNK, START, Float64s, Generated

SIDE: Final = 10_000.0  # metres: objects start within a square of this side
SCHEMA: Final = pa.schema(
    [("ts", pa.timestamp("us")), ("id", pa.int64()), *((n, pa.float64()) for n in ("x", "y", "vx", "vy"))]
)


def moving(
    objects: int = 20, seconds: float = 60.0, rate: float = 100.0, leg: float = 5.0, speed: float = 20.0,
    noise: float = 0.0, seed: int = 1,
) -> Generated:  # fmt: skip
    """Positions of objects: ``ts``, ``id``, ``x``, ``y`` (metres), ``vx``, ``vy`` (metres a second).

    ``rate`` is tuples a second over all objects, which take turns; ``leg`` the mean seconds between two turns,
    ``speed`` the mean speed, ``noise`` the standard deviation of a noted position in metres.

    >>> moving(objects=2, seconds=1, rate=10).table().num_rows
    10
    """
    for name, value in {"objects": objects, "seconds": seconds, "rate": rate, "leg": leg, "speed": speed}.items():
        if not value > 0:
            raise JobError(f"generate:moving needs a {name} above 0, not {value}.")

    def chunks() -> Iterator[pa.RecordBatch]:
        legs = [_legs(np.random.default_rng([seed, i]), seconds, leg, speed) for i in range(objects)]
        tuples = int(seconds * rate)
        for number, first in enumerate(range(0, tuples, CHUNK)):
            turn = np.arange(first, min(first + CHUNK, tuples))
            t, who = turn / rate, turn % objects
            columns = np.empty((4, len(turn)))
            for i in range(objects):
                mine = np.flatnonzero(who == i)
                begins, places, speeds = legs[i]
                at = np.searchsorted(begins, t[mine], "right") - 1
                columns[:2, mine] = places[at].T + speeds[at].T * (t[mine] - begins[at])
                columns[2:, mine] = speeds[at].T
            if noise > 0:
                columns[:2] += np.random.default_rng([seed, objects, number]).normal(scale=noise, size=(2, len(turn)))
            stamps = pa.array(START + np.rint(t * 1e6).astype(np.int64)).view(pa.timestamp("us"))
            yield pa.RecordBatch.from_arrays([stamps, pa.array(who), *map(pa.array, columns)], schema=SCHEMA)

    return Generated(SCHEMA, chunks)


def _legs(rng: np.random.Generator, seconds: float, leg: float, speed: float) -> tuple[Float64s, Float64s, Float64s]:
    """Of one object: when its legs begin, where, and how fast it goes on each."""
    lengths = [float(rng.exponential(leg))]
    while sum(lengths) < seconds:
        lengths.append(float(rng.exponential(leg)))
    angle, fast = rng.uniform(0, 2 * np.pi, len(lengths)), rng.uniform(0.5, 1.5, len(lengths)) * speed
    speeds = np.column_stack([np.cos(angle), np.sin(angle)]) * fast[:, None]
    moved = np.cumsum(speeds * np.array(lengths)[:, None], axis=0)
    places = rng.uniform(0, SIDE, 2) + np.vstack([np.zeros(2), moved[:-1]])
    return np.r_[0.0, np.cumsum(lengths)[:-1]], places, speeds
