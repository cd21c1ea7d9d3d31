"""DataFrames that were made here, and how to learn what became of them. No DataFrame is kept alive for it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final
from weakref import WeakKeyDictionary

from pyspark.sql import Column, Observation
from pyspark.sql import functions as F

from eddyline.core.errors import JobError
from eddyline.runtime.spark.counting import as_dict
from eddyline.runtime.spark.requirements import is_connect
from eddyline.runtime.spark.statistics import NAME
from eddyline.runtime.spark.telling import TOLD, Told

DataFrame = Any  # classic or Connect: the two share an interface, not a class


@dataclass(slots=True)
class Watch:
    """The observations of one DataFrame: by name where it is streaming, else as objects that answer after an action.

    ``name`` is the user's, if there is one.
    """

    name: str = NAME
    streaming: bool = False
    told: Told = field(default_factory=Told)
    _observations: list[Any] = field(default_factory=list)

    def see(self, df: DataFrame, text: Column, plan: str) -> DataFrame:
        """Collect the texts as they pass. Names differ from plan to plan: Spark wants them unique in a query."""
        name = f"{self.name}:filters:{plan[:8]}"
        metric = F.collect_list(text).alias(TOLD)
        if self.streaming:
            return df.observe(name, metric)
        observation = _observation(df, name)
        self._observations.append(observation)
        return df.observe(observation, metric)

    @property
    def ran(self) -> bool:
        """Whether a batch DataFrame has told something. Waits for nothing."""
        return any(map(_answered, self._observations))

    def read(self, observed: Iterable[Mapping[str, Any]] = ()) -> Told:
        """All that was told: with the metrics of micro-batches, or by an action on a batch DataFrame."""
        for metrics in observed:
            self.told.add(texts(metrics, self.name))
        for observation in self._observations:
            if _answered(observation):
                self.told.add(observation.get[TOLD] or ())
        return self.told


def texts(observed: Mapping[str, Any], name: str = NAME) -> list[str]:
    """What the workers told in one micro-batch, of all filters whose observations have this name."""
    found: list[str] = []
    for called, metrics in observed.items():
        if called.startswith(f"{name}:filters:"):
            found += as_dict(metrics).get(TOLD) or ()
    return found


def _observation(df: DataFrame, name: str) -> Any:
    if is_connect(df.sparkSession):
        from pyspark.sql.connect.observation import Observation as Remote

        return Remote(name)
    return Observation(name)


def _answered(observation: Any) -> bool:
    """``get`` would wait for an action on classic Spark; on Connect it has what has come."""
    java = getattr(observation, "_jo", None)
    if java is not None:
        return bool(java.future().isCompleted())
    return bool(observation.get)


# ── which DataFrame is which ──────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class Made:
    """A DataFrame of ours: what explain says, and who watches its filters (nobody, where none run in Python)."""

    explain: Callable[[], str]
    watch: Watch | None = None


_made: Final[WeakKeyDictionary[Any, Made]] = WeakKeyDictionary()


def remember(df: DataFrame, made: Made) -> DataFrame:
    _made[df] = made
    return df


def made(df: DataFrame) -> Made:
    found = _made.get(df)
    if found is None:
        raise JobError(
            "this DataFrame did not come from eds.adaptive_filter or eds.query; pass the one that they returned,"
            " not one that was made from it."
        )
    return found


def report(df: DataFrame) -> dict[str, Any]:
    """What the workers told of a batch DataFrame."""
    watch = made(df).watch
    if watch is None:
        raise JobError(
            "nothing of this DataFrame is counted: no filter of it runs in Python, or observe is None; a query with"
            " state is counted by an Observation: make one, pass it as observe, and then pass it here."
        )
    if watch.streaming:
        raise JobError("a streaming DataFrame has no report of its own: pass the StreamingQuery that writes it.")
    if not watch.ran:
        raise JobError("nothing was told of this DataFrame yet: take an action on it, or on one made from it, first.")
    return watch.read().report()
