"""The base of generators: seeded chunks, skewed keys, and batches cut to any size.

Randomness is drawn per chunk of a fixed number of events, from the seed and the chunk's number. So a stream is the same
however it is cut into batches, and producing its tenth million does not need the first nine in memory.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from eddyline.core.errors import JobError

CHUNK: Final = 65_536
START: Final = 1_700_000_000_000_000  # microseconds: 2023-11-14 22:13:20 UTC, where generated time starts by default

Int64s = npt.NDArray[np.int64]
Float64s = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Generated:
    """A lazily generated stream. ``chunks`` starts afresh at each call; ``finite`` False never ends."""

    schema: pa.Schema
    chunks: Callable[[], Iterator[pa.RecordBatch]]
    finite: bool = True

    def batches(self, rows: int = CHUNK) -> Iterator[pa.RecordBatch]:
        for chunk in self.chunks():
            for start in range(0, len(chunk), rows):
                yield chunk.slice(start, rows)

    def table(self) -> pa.Table:
        if not self.finite:
            raise JobError("this stream has no end: give it 'events' or 'seconds' to make a table of it.")
        return pa.Table.from_batches(self.chunks(), self.schema)


@dataclass(frozen=True, slots=True)
class Span:
    """How long a stream goes on. Events are evenly paced at ``rate`` a second with random jitter within their slot,
    so timestamps never decrease and an event's time needs no memory of the ones before."""

    rate: float
    events: int | None

    @staticmethod
    def of(rate: float, seconds: float | None, events: int | None) -> Span:
        """
        >>> Span.of(1000.0, 2.0, None).events
        2000
        """
        if not rate > 0:
            raise JobError(f"rate = {rate}: a number of events a second greater than 0 is wanted.")
        if (seconds is not None and seconds < 0) or (events is not None and events < 0):
            raise JobError("seconds and events cannot be negative.")
        if events is None and seconds is not None:
            events = round(rate * seconds)
        return Span(rate, events)

    @property
    def finite(self) -> bool:
        return self.events is not None

    def chunks(self) -> Iterator[tuple[int, Int64s]]:
        """Chunk numbers with the numbers of their events."""
        chunk = 0
        while self.events is None or chunk * CHUNK < self.events:
            stop = (chunk + 1) * CHUNK if self.events is None else min((chunk + 1) * CHUNK, self.events)
            yield chunk, np.arange(chunk * CHUNK, stop, dtype=np.int64)
            chunk += 1

    def times(self, index: Int64s, jitter: Float64s) -> Int64s:
        """Microseconds since the start of the stream."""
        return np.floor((index + jitter) * (1e6 / self.rate)).astype(np.int64)

    def progress(self, index: Int64s, default_seconds: float = 600.0) -> Float64s:
        """How far the stream is at each event, 0 at its start and 1 at its end (of ten minutes, if it has none)."""
        total = self.events if self.events is not None else self.rate * default_seconds
        return index / max(total, 1)


def random(seed: int, name: str, chunk: int) -> np.random.Generator:
    """The randomness of one chunk of one stream."""
    return np.random.default_rng([seed, zlib.crc32(name.encode()), chunk])


def zipf_table(keys: int, skew: float) -> Float64s:
    """Cumulative probabilities of ``keys`` values with weights 1/rank^skew (0: uniform, 1: Zipf's law).

    >>> zipf_table(4, 0.0).tolist()
    [0.25, 0.5, 0.75, 1.0]
    """
    if keys < 1:
        raise JobError(f"keys = {keys}: at least one is wanted.")
    weights = np.arange(1, keys + 1, dtype=np.float64) ** -skew
    cumulative: Float64s = np.cumsum(weights / weights.sum())
    cumulative[-1] = 1.0
    return cumulative


def draw(table: Float64s, uniform: Float64s) -> Int64s:
    """Values 0… with the probabilities of a ``zipf_table``.

    >>> draw(zipf_table(4, 0.0), np.array([0.1, 0.3, 0.99])).tolist()
    [0, 1, 3]
    """
    found: Int64s = np.searchsorted(table, uniform, side="right")
    return np.minimum(found, len(table) - 1)


def timestamps(micros: Int64s, start: int = START) -> pa.Array:
    return pa.array(micros + start, pa.int64()).cast(pa.timestamp("us"))
