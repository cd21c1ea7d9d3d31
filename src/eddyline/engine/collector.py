"""The present properties of the entities of a session: the rows of SysStream (thesis 2.4).

An entity publishes counters that it keeps anyway; nothing is counted for SysStream alone. A rate is the average since
the row before (in the first row since the start). Only properties that a query reads (``system_wanted``) are collected.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from eddyline.core.time import TimeKind
from eddyline.engine.session_protocols import DescribedQuery, DescribedSession
from eddyline.engine.system_rows_read import WantedRows

Row = tuple[str, str, str, str, float, str, int | None]  # query, entity, kind, property, value, unit, shard
Property = tuple[str, float | int | None, str]  # name, value, unit

ROWS, BYTES, SECONDS, PER_SECOND, SHARE = "rows", "bytes", "s", "rows/s", ""

PROPERTIES: Final[Mapping[str, tuple[str, ...]]] = {
    "query": ("rows", "rate", "memory", "peak memory", "seconds", "lag", "decisions"),
    "operator": ("rows in", "rows out", "rate", "selectivity", "price", "seconds"),
    "conjunct": ("rows in", "selectivity", "price"),
    "queue": ("length",),
    "synopsis": ("rows", "memory"),
    "cache": ("rows", "memory", "hit rate", "benefit", "cost"),
    "policy": ("decisions", "profiling"),
    "input": ("rows", "rate", "late", "invalid", "slack", "buffered"),
    "shard": ("rows", "rate", "memory", "seconds", "stored"),  # on Spark
}


class Collector:
    """
    >>> import eddyline as ed
    >>> session = ed.Session()
    >>> session.stream("S", schema=__import__("pyarrow").schema([("ts", "int64"), ("a", "int64")]), timestamp="ts")
    >>> query = session.query("SELECT Istream(a) FROM S [RANGE 5] WHERE a > 1", name="q")
    >>> session.push("S", [{"ts": 1, "a": 1}, {"ts": 2, "a": 5}, {"ts": 3, "a": 7}])
    >>> wanted = WantedRows(kind=frozenset({"operator"}), property=frozenset({"rows in", "rows out"}))
    >>> [(entity, name, value) for _, entity, _, name, value, *_ in Collector().rows(session, [wanted], 1)][:2]
    [('select 1', 'rows in', 2.0), ('select 1', 'rows out', 1.0)]
    """

    def __init__(self) -> None:
        self._before: dict[tuple[str, str], tuple[int, float]] = {}  # by query and entity: when, and the count then

    def rows(self, session: DescribedSession, wanted: Sequence[WantedRows], now: int) -> list[Row]:
        """What is wanted by at least one query, at ``now`` (microseconds)."""
        found: list[Row] = []
        for query, entity, kind, properties in self._entities(session, wanted, now):
            for name, value, unit in properties:
                keys = {"query": query, "entity": entity, "kind": kind, "property": name}
                if value is not None and any(w.admits(**keys) for w in wanted):
                    found.append((query, entity, kind, name, float(value), unit, None))
        return found

    def _entities(
        self, session: DescribedSession, wanted: Sequence[WantedRows], now: int
    ) -> Iterator[tuple[str, str, str, Iterable[Property]]]:
        def asked(query: str, kind: str) -> bool:
            return any(w.admits(query=query, kind=kind) and has_property(w, kind) for w in wanted)

        for stream in session.inputs.values():
            if asked("", "input"):
                yield "", stream.name, "input", self._input(stream, now)
        for q in session.queries:
            name = q.name
            sizes = q.running.sizes()
            if asked(name, "query"):
                yield name, name, "query", self._query(q, sizes, now)
            for operator, o in q.running.operators.items():
                rows, bytes = sizes[operator]
                if asked(name, "operator"):
                    yield name, operator, "operator", self._operator(name, operator, o.task, now)
                if asked(name, "queue"):
                    for i, queue in enumerate(o.task.inputs, 1):
                        yield name, f"{operator} input {i}", "queue", [("length", queue.size, ROWS)]
                if asked(name, "synopsis") and o.operator.describe():
                    yield name, operator, "synopsis", [("rows", rows, ROWS), ("memory", bytes, BYTES)]
            if any(asked(name, kind) for kind in ("conjunct", "cache", "policy")):
                for operator, known in q._statistics().items():
                    yield from ((name, *entity) for entity in adapting(operator, known))

    def _query(self, q: DescribedQuery, sizes: Mapping[str, tuple[int, int]], now: int) -> Iterator[Property]:
        r = q.running
        yield "rows", r.produced, ROWS
        yield "rate", self._rate(q.name, "", r.produced, now), PER_SECOND
        yield "memory", sum(b for _, b in sizes.values()), BYTES
        yield "peak memory", r.peak[1], BYTES
        yield "seconds", sum(t.statistics.nanoseconds for t in r.tasks) / 1e9, SECONDS
        shown = [s.shown for s in r.inputs.values() if s.shown is not None]
        if shown and r.reached is not None:
            yield "lag", max(0, max(shown) - r.reached) / r.query.time_kind.ticks_per_second, SECONDS
        yield "decisions", r.physical.context.log.taken, ""

    def _operator(self, query: str, operator: str, task: Any, now: int) -> Iterator[Property]:
        s = task.statistics
        yield "rows in", s.elements_in, ROWS
        yield "rows out", s.elements_out, ROWS
        yield "rate", self._rate(query, operator, s.elements_in, now), PER_SECOND
        estimate = s.estimate
        if estimate is not None:
            yield "selectivity", estimate.selectivity, SHARE
            yield "price", estimate.cost / 1e9, SECONDS
        yield "seconds", s.nanoseconds / 1e9, SECONDS

    def _input(self, stream: Any, now: int) -> Iterator[Property]:
        ticks = (stream.definition.time_kind or TimeKind.TIMESTAMP).ticks_per_second
        yield "rows", stream.arrived, ROWS
        yield "rate", self._rate("", stream.name, stream.arrived, now), PER_SECOND
        yield "late", stream.late.count, ROWS
        yield "invalid", stream.invalid.count, ROWS
        yield "slack", stream.widths["slack"] / ticks, SECONDS
        yield "buffered", stream.buffered, ROWS

    def _rate(self, query: str, entity: str, count: float, now: int) -> float | None:
        """Since the last time that it was asked for."""
        when, before = self._before.get((query, entity), (now, count))
        self._before[query, entity] = now, count
        return (count - before) * 1e6 / (now - when) if now > when else None


def adapting(operator: str, known: Mapping[str, Any]) -> Iterator[tuple[str, str, list[Property]]]:
    """The conjuncts, caches and the policy of an operator that adapts, from its statistics: (entity, kind, …)."""
    profiling = known.get("profiling")
    spent = sum(profiling) if isinstance(profiling, list) else profiling
    yield operator, "policy", [("decisions", known.get("decisions"), ""), ("profiling", spent, "evaluations")]
    by_filter = (known.get(n) or () for n in ("filters", "asked", "selectivity", "seconds_per_row"))
    for text, asked, passes, price in zip(*by_filter, strict=False):
        properties = [("rows in", asked, ROWS), ("selectivity", passes, SHARE), ("price", price, SECONDS)]
        yield f"{operator}: {text}", "conjunct", properties
    for cache in known.get("caches", ()):
        if cache["state"] == "used":
            hit = None if cache["miss"] is None else 1 - cache["miss"]
            worth = [("benefit", cache["benefit"], "accesses"), ("cost", cache["cost"], "accesses")]
            held = [("rows", cache.get("rows"), ROWS), ("memory", cache.get("bytes"), BYTES)]
            yield f"{operator}: {cache['cache']}", "cache", [("hit rate", hit, SHARE), *worth, *held]


def has_property(wanted: WantedRows, kind: str) -> bool:
    """Whether a kind of entity has a property that is asked for."""
    return wanted.property is None or any(p in wanted.property for p in PROPERTIES[kind])
