"""What one driver process measures, and what it found: plain facts that travel as JSON between processes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from statistics import median
from typing import Any

OURS = ("ours", "paths")  # over DataFrames that Spark reads, and over paths that our readers read
RATE = 2_500  # events a second of all streams together


@dataclass(frozen=True, slots=True)
class Configuration:
    """One plan over one stream of events, in a driver of its own.

    ``side`` is ``"ours"`` (DataFrames in) or ``"paths"`` (our own readers), a form of Spark's own (``"native"``, …) or
    a step of the floor (``"read"``, ``"map"``, …).

    >>> c = Configuration("three-way", "native", 6_000_000, 500_000)
    >>> c.batches, c.seconds, c.title
    (12, 2400, 'three-way native hdfs, 6.0 M events by 500 k')
    >>> Configuration(**c.to_json()) == c
    True
    """

    workload: str
    side: str
    events: int
    batch: int  # events of a micro-batch
    keys: int = 100_000
    window: int = 60  # seconds
    shards: int = 4
    store: str = "hdfs"  # the state store of Spark's own operators; transformWithState runs on RocksDB alone
    memory: str = "6g"  # -Xmx
    plain: bool = False  # a JVM with Java's own choices (collector, compiler), not those of the command line's sessions
    lean: bool = False  # Spark's own with as small a heap as our side has
    extra: dict[str, str] = field(default_factory=dict)  # settings of the session beside the common ones

    @property
    def batches(self) -> int:
        return self.events // self.batch

    @property
    def seconds(self) -> int:
        """How long the stream lasts, at a constant rate."""
        return self.events // RATE

    @property
    def title(self) -> str:
        store = f" {self.store}" if self.side.startswith("native") else ""
        store += " plain JVM" if self.plain else " small heap" if self.lean else ""
        return f"{self.workload} {self.side}{store}, {self.events / 1e6:.1f} M events by {self.batch / 1e3:.0f} k"

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(slots=True)
class Outcome:
    """What a driver found. Milliseconds are Spark's own, of the micro-batches that had data."""

    configuration: Configuration
    milliseconds: list[int]  # triggerExecution of each micro-batch
    begun: list[float]  # when each began, seconds since the epoch
    phases: dict[str, float]  # the median of each part of a steady micro-batch, milliseconds
    input_rows: int
    results: int  # all rows that came out
    checked_results: int  # those at instants that every side has closed
    checksum: float
    started: float  # the process, seconds since the epoch
    seconds: float  # from then to the end of the query
    session_seconds: float  # of these, until the session was there
    state_rows: int  # Spark's numRowsTotal, the most
    state_bytes: int  # Spark's memoryUsedBytes, the most
    checkpoint_bytes: int  # the state directory at the end
    store: dict[str, float]  # what the state stores say of a steady micro-batch, medians, all operators together
    settings: dict[str, str] = field(default_factory=dict)
    memory: dict[str, float] = field(default_factory=dict)  # MB: peak, and what made it up
    processor: list[float] = field(default_factory=list)  # seconds of all processes, for each micro-batch

    @property
    def steady(self) -> float:
        """Seconds of a steady micro-batch."""
        return steady(self.milliseconds) / 1000

    def total(self, events: int) -> float:
        """Seconds from the start of the process until so many events were processed."""
        last = events // self.configuration.batch - 1
        return self.begun[last] + self.milliseconds[last] / 1000 - self.started

    @property
    def steady_processor(self) -> float:
        """Processor seconds of a steady micro-batch: what a busy machine changes least."""
        return steady(self.processor)

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "steady_seconds": self.steady}

    @classmethod
    def from_json(cls, found: dict[str, Any]) -> Outcome:
        facts = {k: v for k, v in found.items() if k != "steady_seconds"}
        return cls(**{**facts, "configuration": Configuration(**found["configuration"])})


def steady(times: Sequence[float]) -> float:
    """The median over the second half: caches are warm and windows full.

    >>> steady([9, 5, 2, 1, 3])
    2
    """
    return median(times[len(times) // 2 :])


def creep(times: Sequence[float]) -> float:
    """The median of the last third over that of the first, without the first tenth, while windows fill.

    >>> creep([50] + [2] * 4 + [3] * 5)
    1.5
    """
    rest = times[len(times) // 10 :]
    third = max(1, len(rest) // 3)
    return median(rest[-third:]) / median(rest[:third])
