"""SysStream and Decisions on Spark: the statistics of all shards, published on the driver.

Shards send their statistics with every micro-batch. A query that reads the system's streams needs no shard: it runs in
an inline session on the driver, which publishes the last statistics of every shard.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from eddyline.core.time import Clock
from eddyline.engine.collector import BYTES, PER_SECOND, ROWS, SECONDS, SHARE, Property, Row, adapting, has_property
from eddyline.engine.session import Session
from eddyline.engine.session_protocols import DescribedSession
from eddyline.engine.system_rows_read import WantedRows
from eddyline.engine.system_streams import decision_rows
from eddyline.spark.statistics import Account
from eddyline.streamon.decision import Decision


class Monitor:
    """``accounts`` gives the accounts of all queries by name."""

    def __init__(self, clock: Clock, accounts: Callable[[], Mapping[str, Account]]) -> None:
        self.session = Session(clock=clock)
        self._accounts = accounts
        self._before: dict[tuple[str, int | None, str], tuple[int, float]] = {}
        self._published: dict[tuple[str, int, int], int] = {}  # by query, group and shard: the last decision
        self.session.system.collect_from(self.rows, self.decisions)

    def shards_reported(self) -> None:
        """Shards have reported: publish what is due."""
        self.session.tick()

    def rows(self, _: DescribedSession, wanted: Sequence[WantedRows], now: int) -> list[Row]:
        """What is wanted by at least one query, of all shards."""
        found: list[Row] = []
        for query, shard, entity, kind, properties in self._entities(wanted, now):
            for name, value, unit in properties:
                keys = {"query": query, "entity": entity, "kind": kind, "property": name}
                if value is not None and any(w.admits(**keys) for w in wanted):
                    found.append((query, entity, kind, name, float(value), unit, shard))
        return found

    def _entities(self, wanted: Sequence[WantedRows], now: int) -> Iterator[tuple[str, int, str, str, list[Property]]]:
        def asked(query: str, kind: str) -> bool:
            return any(w.admits(query=query, kind=kind) and has_property(w, kind) for w in wanted)

        for name, account in self._accounts().items():
            for said in list(account.shards.values()):
                shard, report = said["shard"], said["queries"][0]
                if asked(name, "shard"):
                    yield name, shard, f"shard {shard}", "shard", self._shard(name, shard, said, now)
                for source, rows in said["arrived"].items() if asked(name, "input") else ():
                    left = said["left_out"].get(source, {})
                    counts = [(n, left.get(n), ROWS) for n in ("late", "invalid")]
                    slack = left.get("slack")
                    wait = None if slack is None else slack / (1 if left.get("kind") == "integer" else 1e6)
                    yield name, shard, source, "input", [("rows", rows, ROWS), *counts, ("slack", wait, SECONDS)]
                for o in report["operators"]:
                    if asked(name, "operator"):
                        yield name, shard, o["name"], "operator", self._operator(name, shard, o, now)
                    if asked(name, "synopsis") and o["rows"]:
                        held = [("rows", o["rows"], ROWS), ("memory", o["bytes"], BYTES)]
                        yield name, shard, o["name"], "synopsis", held
                for known in report.get("adapting", ()):
                    for entity, kind, properties in adapting(known["operator"], known):
                        yield name, shard, entity, kind, properties

    def _shard(self, query: str, shard: int, said: Mapping[str, Any], now: int) -> list[Property]:
        report = said["queries"][0]
        return [
            ("rows", report["results"], ROWS),
            ("rate", self._rate(query, shard, "", report["results"], now), PER_SECOND),
            ("memory", report["state"]["bytes"], BYTES),
            ("seconds", report["seconds"], SECONDS),
            ("stored", said.get("stored"), BYTES),
        ]

    def _operator(self, query: str, shard: int, o: Mapping[str, Any], now: int) -> list[Property]:
        entered = o["elements_in"]
        return [
            ("rows in", entered, ROWS),
            ("rows out", o["elements_out"], ROWS),
            ("rate", self._rate(query, shard, o["name"], entered, now), PER_SECOND),
            ("selectivity", o["elements_out"] / entered if entered else None, SHARE),
            ("price", o["seconds"] / entered if entered else None, SECONDS),
            ("seconds", o["seconds"], SECONDS),
        ]

    def _rate(self, query: str, shard: int, entity: str, count: float, now: int) -> float | None:
        when, before = self._before.get((query, shard, entity), (now, count))
        self._before[query, shard, entity] = now, count
        return (count - before) * 1e6 / (now - when) if now > when else None

    def decisions(self) -> Iterator[tuple[Any, ...]]:
        """Rows of Decisions about records that were not published yet."""
        for name, account in self._accounts().items():
            for (group, shard), said in list(account.shards.items()):
                key = (name, group, shard)
                last = self._published.get(key, 0)
                fresh = [d for d in said["queries"][0]["decisions"] if (d["sequence"] or 0) > last]
                if fresh:
                    self._published[key] = max(d["sequence"] for d in fresh)
                    yield from decision_rows(name, [Decision.load({**d, "shard": shard}) for d in fresh])
