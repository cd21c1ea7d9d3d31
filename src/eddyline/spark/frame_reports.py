"""A registry of the DataFrames that were made here, with their reports. No DataFrame is kept alive for it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final
from weakref import WeakKeyDictionary

from pyspark.sql import Column, Observation
from pyspark.sql import functions as F

from eddyline.core.errors import JobError
from eddyline.plan.plan_data import PlanGraph
from eddyline.spark.filter_statistics import FILTERS_METRIC, FilterReports
from eddyline.spark.requirements import is_connect
from eddyline.spark.row_counts import as_dict
from eddyline.spark.statistics import NAME, Account

DataFrame = Any  # classic or Connect: the two share an interface, not a class


@dataclass(slots=True)
class FrameObservation:
    """The observations of one DataFrame: by name where it is streaming, else as objects that answer after an action.

    ``name`` is the user's, if there is one.
    """

    name: str = NAME
    streaming: bool = False
    reports: FilterReports = field(default_factory=FilterReports)
    _observations: list[Any] = field(default_factory=list)

    def see(self, df: DataFrame, text: Column, plan: str) -> DataFrame:
        """Collect the texts as they pass. Names differ from plan to plan: Spark wants them unique in a query."""
        name = f"{self.name}:filters:{plan[:8]}"
        metric = F.collect_list(text).alias(FILTERS_METRIC)
        if self.streaming:
            return df.observe(name, metric)
        seen = observation(df, name)
        self._observations.append(seen)
        return df.observe(seen, metric)

    @property
    def ran(self) -> bool:
        """Whether a batch DataFrame has reported something. It does not wait."""
        return any(map(answered, self._observations))

    def read(self, observed: Iterable[Mapping[str, Any]] = ()) -> FilterReports:
        """All that was reported: with the metrics of micro-batches, or by an action on a batch DataFrame."""
        for metrics in observed:
            self.reports.add(texts(metrics, self.name))
        for seen in self._observations:
            if answered(seen):
                self.reports.add(seen.get[FILTERS_METRIC] or ())
        return self.reports


def texts(observed: Mapping[str, Any], name: str = NAME) -> list[str]:
    """What the workers reported in one micro-batch, of all filters whose observations have this name."""
    found: list[str] = []
    for called, metrics in observed.items():
        if called.startswith(f"{name}:filters:"):
            found += as_dict(metrics).get(FILTERS_METRIC) or ()
    return found


def observation(df: DataFrame, name: str | None = None) -> Any:
    """One that suits the session; without a name it gets one that is unique."""
    if is_connect(df.sparkSession):
        from pyspark.sql.connect.observation import Observation as Remote

        return Remote(name)
    return Observation(name)


def answered(observation: Any) -> bool:
    """``get`` would wait for an action on classic Spark; on Connect it has what has come."""
    java = getattr(observation, "_jo", None)
    if java is not None:
        return bool(java.future().isCompleted())
    return bool(observation.get)


# ── which DataFrame is which ──────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class FrameRecord:
    """A DataFrame of ours: what explain says, who observes its filters (None where none run in Python), what the
    shards of a query with state have reported (None: nothing yet), and its plan where it is that of a query."""

    explain: Callable[[], str]
    observation: FrameObservation | None = None
    account: Callable[[], Account] | None = None
    streaming: bool = False
    plan: Callable[[], PlanGraph] | None = None


_records: Final[WeakKeyDictionary[Any, FrameRecord]] = WeakKeyDictionary()


def remember(df: DataFrame, record: FrameRecord) -> DataFrame:
    _records[df] = record
    return df


def record_of(df: DataFrame) -> FrameRecord:
    found = _records.get(df)
    if found is None:
        raise JobError(
            "this DataFrame did not come from eds.adaptive_filter or eds.query; pass the one that they returned,"
            " not one that was made from it."
        )
    return found


def report(df: DataFrame) -> dict[str, Any]:
    """What the workers reported of a batch DataFrame."""
    mine = _reported(df)
    if mine.observation is not None:
        return mine.observation.read().report()
    assert mine.account is not None
    return mine.account().report(0, 0)


def rows(df: DataFrame, which: str) -> list[dict[str, Any]]:
    """The late or invalid rows of a batch DataFrame, as many as were sent along."""
    mine = _reported(df)
    failed = [] if mine.observation is None or which != "invalid" else mine.observation.read().invalid_rows()
    return [*([] if mine.account is None else mine.account().rows(which)), *failed]


def _reported(df: DataFrame) -> FrameRecord:
    """What is known of a batch DataFrame that has reported something; an error says why it has not."""
    mine = record_of(df)
    if mine.streaming:
        raise JobError("a streaming DataFrame has no report of its own: pass the StreamingQuery that writes it.")
    if mine.observation is None and mine.account is None:
        raise JobError("nothing of this DataFrame is counted: no filter of it runs in Python, or observe is None.")
    if not (mine.observation is not None and mine.observation.ran) and not (
        mine.account is not None and mine.account().shards
    ):
        raise JobError(
            "nothing of this DataFrame was reported yet: take an action on it, or on one made from it, first."
        )
    return mine
