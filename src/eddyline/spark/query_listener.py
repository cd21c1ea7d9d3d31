"""Warnings about lost rows of streaming queries over DataFrames, whose users look at results and rarely at metrics.

One listener for each SparkSession reads the reports of the shards and filters of our queries, and gives a warning: once
for each query, stream and kind, with the remedy. It changes nothing, and keeps the last report of each shard. A query
with ``observe=None`` sends no reports, so no warning is given for it.
"""

from __future__ import annotations

import json
import warnings
from typing import Any, ClassVar, Final
from weakref import WeakSet, WeakValueDictionary

from pyspark import SparkContext
from pyspark.sql.streaming.listener import (
    QueryIdleEvent,
    QueryProgressEvent,
    QueryStartedEvent,
    QueryTerminatedEvent,
    StreamingQueryListener,
)

from eddyline.engine.row_warnings import Notices
from eddyline.spark.filter_statistics import FILTERS_METRIC, FilterReports
from eddyline.spark.row_counts import as_dict
from eddyline.spark.statistics import OBSERVED, Account, left_out

_accounts: Final[WeakValueDictionary[str, Account]] = WeakValueDictionary()  # by the name of the metrics
_heard_in: Final[WeakSet[Any]] = WeakSet()  # sessions that have a listener


class Heard:
    """What one streaming query has turned away so far.

    >>> heard = Heard("q")
    >>> shard = {"group": 0, "shard": 0, "arrived": {"S": 9}, "queries": [],
    ...          "left_out": {"S": {"late": 3, "invalid": 0, "behind": 7, "column": "ts", "kind": "integer"}}}
    >>> for _ in range(2):
    ...     for category, text in heard.take({"eddyline": {"shards": [json.dumps(shard)]}}): print(text)
    3 late rows of S left out so far; a slack of 7 would have kept them; eds.late(query) shows such rows.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.notices = Notices()
        # By query of ours (a streaming query may hold several), group and shard.
        self.shards: dict[tuple[str, int, int], dict[str, Any]] = {}
        self.filter_reports = FilterReports()

    def take(self, observed: dict[str, Any]) -> list[tuple[type[Warning], str]]:
        """The metrics of one micro-batch; gives what is to be said now."""
        for called, metrics in ((n, as_dict(m)) for n, m in observed.items()):
            texts = metrics.get(OBSERVED) or ()
            if (account := _accounts.get(called)) is not None:
                account.add(texts)
            for text in texts:
                one = json.loads(text)
                wanted = ("group", "shard", "arrived", "left_out")
                queries = [{n: q.get(n) for n in ("query", "failed")} for q in one["queries"]]
                self.shards[called, one["group"], one["shard"]] = {**{n: one[n] for n in wanted}, "queries": queries}
            self.filter_reports.add(metrics.get(FILTERS_METRIC) or ())
        found = [*left_out(self.shards.values()), *self.filter_reports.left_out(self.name)]
        return list(self.notices.warnings(found, "eds.{}(query)"))


class _Listener(StreamingQueryListener):
    """Events come as Spark's objects from a server of Spark Connect, otherwise by ``_JavaEvents``."""

    def __init__(self) -> None:
        self.queries: dict[str, Heard] = {}

    def onQueryStarted(self, event: QueryStartedEvent) -> None:
        pass

    def onQueryProgress(self, event: QueryProgressEvent) -> None:
        progress = event.progress
        self.progressed(progress.name or str(progress.id), str(progress.runId), progress.observedMetrics)

    def onQueryIdle(self, event: QueryIdleEvent) -> None:
        pass

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:
        self.ended(str(event.runId))

    def progressed(self, name: str, run: str, observed: dict[str, Any]) -> None:
        if not any(OBSERVED in (m := as_dict(metrics)) or FILTERS_METRIC in m for metrics in observed.values()):
            return
        heard = self.queries.setdefault(run, Heard(name))
        for category, text in heard.take(observed):
            # In a thread of Spark's: no line of the user's is on the stack, so the query is named in its place.
            warnings.warn_explicit(text, category, f"StreamingQuery {name}", 0)

    def ended(self, run: str) -> None:
        self.queries.pop(run, None)

    @property
    def _jlistener(self) -> Any:
        """What ``addListener`` hands to the JVM."""
        return SparkContext._jvm.PythonStreamingQueryListenerWrapper(_JavaEvents(self))  # type: ignore[union-attr]


class _JavaEvents:
    """What the JVM calls. Spark's own form of it turns an event into objects of Python with some calls of the JVM for
    each metric of each state store, which took a tenth of the processor time of a join of three streams. Here the
    progress comes as one text, and events that are not used cause no calls."""

    def __init__(self, listener: _Listener) -> None:
        self.listener = listener

    def onQueryStarted(self, event: Any) -> None:
        pass

    def onQueryProgress(self, event: Any) -> None:
        # Spark leaves out an observation whose type has no form in JSON; ours are texts.
        progress = json.loads(event.progress().json())
        name = progress.get("name") or progress["id"]
        self.listener.progressed(name, progress["runId"], progress.get("observedMetrics") or {})

    def onQueryIdle(self, event: Any) -> None:
        pass

    def onQueryTerminated(self, event: Any) -> None:
        self.listener.ended(event.runId().toString())

    class Java:
        implements: ClassVar = ["org.apache.spark.sql.streaming.PythonStreamingQueryListener"]


def listen(spark: Any, name: str = "", account: Account | None = None) -> None:
    """Hear of the streaming queries of this session, once. Metrics of this name go to the account."""
    if account is not None:
        _accounts[name] = account
    if spark not in _heard_in:
        spark.streams.addListener(_Listener())
        _heard_in.add(spark)
