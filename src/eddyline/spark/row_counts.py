"""Counting rows as they pass, without a job of its own: Spark's ``observe`` around a stateless plan.

Rows that come in are counted before any filter, results and diverted rows behind the last expression, so there are two
observations for each branch of a plan. Counting what comes in has a price: Spark cannot push a filter into the source
below it, since a row that is never read cannot be counted.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pyspark.sql import Column, DataFrame, Observation
from pyspark.sql import functions as F


@dataclass(frozen=True, slots=True)
class Counts:
    """``events`` came in, ``results`` went out; ``invalid`` had no timestamp, or failed (``on_error = 'invalid'``)."""

    events: int = 0
    results: int = 0
    invalid: int = 0

    def __add__(self, other: Counts) -> Counts:
        return Counts(self.events + other.events, self.results + other.results, self.invalid + other.invalid)


@dataclass(slots=True)
class Counting:
    """The observations of one query, all named after it: ``name.0.in``, ``name.0.out``, and so on.

    A streaming query reports them with its progress (``read(progress.observedMetrics)``); a ``batch`` needs objects of
    its own, which answer when the first action on the DataFrame is done (``read()`` waits for it).
    """

    name: str
    batch: bool = False
    _observations: dict[str, Observation] = field(default_factory=dict)

    def arriving(self, df: DataFrame, place: int, stamp: Column | None) -> DataFrame:
        """Count the rows, and those without a timestamp."""
        without = [] if stamp is None else [F.count_if(stamp.isNull()).alias("invalid")]
        return df.observe(self._observation(f"{place}.in"), F.count(F.lit(1)).alias("events"), *without)

    def leaving(self, df: DataFrame, place: int, keep: Column | None, error: Column | None) -> DataFrame:
        """Count the rows that are kept (all, without ``keep``) and those with an error."""
        results = F.count(F.lit(1)) if keep is None else F.count_if(keep)
        failed = [] if error is None else [F.count(error).alias("invalid")]
        return df.observe(self._observation(f"{place}.out"), results.alias("results"), *failed)

    def read(self, observed: Mapping[str, Any] | None = None) -> Counts:
        """The sum over all observations of this query among those given (or over its own, of a batch).

        >>> Counting("q").read({"q.0.in": {"events": 9, "invalid": 1}, "q.0.out": {"results": 4}, "other": {"n": 1}})
        Counts(events=9, results=4, invalid=1)
        """
        if observed is None:
            observed = {name: o.get for name, o in self._observations.items()}
        total = Counts()
        for name, metrics in observed.items():
            if name.startswith(f"{self.name}."):
                total += Counts(**as_dict(metrics))
        return total

    def _observation(self, part: str) -> Any:
        name = f"{self.name}.{part}"
        if not self.batch:
            return name
        self._observations[name] = Observation(name)
        return self._observations[name]


def as_dict(metrics: Any) -> dict[str, Any]:
    """One observation's metrics by name: a batch has them as a dictionary, a streaming query as a Row, and on Spark
    Connect (PySpark 4.3) as a Row of their values and their schema.

    >>> as_dict({"values": [3], "schema": {"type": "struct", "fields": [{"name": "events"}]}})
    {'events': 3}
    """
    found: dict[str, Any] = metrics if isinstance(metrics, dict) else metrics.asDict()
    if found.keys() == {"values", "schema"}:
        names = [f["name"] for f in found["schema"]["fields"]]
        return dict(zip(names, found["values"], strict=True))
    return found
