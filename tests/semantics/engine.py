"""Runs a random case through the engine in one of many ways that must not matter."""

from __future__ import annotations

import itertools
import math
import random
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any
from unittest.mock import patch

import pyarrow as pa

import eddyline
from eddyline.adapting import conjunction as adaptive_conjunction
from eddyline.adapting import join_choice as joining
from eddyline.adapting import tuple_router
from eddyline.adapting.join_pacing import Pace
from eddyline.core.time import TimeKind
from eddyline.engine import operator_graph
from eddyline.operators.mjoin import MJoin
from eddyline.operators.panes import Panes
from eddyline.operators.rank import RankOperator
from eddyline.operators.rstream import RStream
from eddyline.operators.star_look_up import StarLookUp
from eddyline.testing.cases import Case
from eddyline.testing.reference import ResultRow
from eddyline.testing.tables import comparable
from eddyline.testing.values import ticks

# Policies that profile and decide within a dozen rows.
HASTY = tuple(f"{n}(p=0.5, window=12)" for n in ("independent", "a-greedy", "sweep", "local-swaps", "default"))

# Orders and caches of joins that change after a few elements.
JOINS: tuple[dict[str, Any], ...] = (
    *({"joins": p, "caches": "none"} for p in HASTY),
    {"joins": HASTY[1], "caches": "global(interval=8, W=1, W_d=2, threshold=0.001)"},
    {"joins": HASTY[4], "caches": "prefix(interval=8, W=1, W_d=2, threshold=0.001, memory=1024, page=64)"},
)

ROUTES = ("sbr", "content-learns(P=0.5, R=8, trial=4, gamma=0.0001, d=3)", "default(R=8, confidence=0.1, d=4)")

# A sample's spread is computed by different formulas: equal up to rounding, and compared to nine digits.
ROUNDED = ("stddev", "variance", "var_pop")


@dataclass(frozen=True, slots=True)
class Way:
    """A way to run a case: how batches are cut and interleaved, when the session is saved and restored or shares."""

    seed: int = 0
    batch: int | None = None  # None: sizes at random
    interleave: bool = True
    snapshot: bool = False
    toggle: bool = False  # switch sharing off and on while the query runs
    small: bool = False  # operators get a few elements at once and have room for few results
    heartbeats: bool = False  # promises as strong as the data allow, between the batches
    twins: int = 0  # further copies of the query in the same session, whose windows may be shared
    encoded: bool = False  # some batches bring their strings dictionary-encoded, as Parquet files do
    options: dict[str, Any] = field(default_factory=dict)  # of the query


def schedule(case: Case, way: Way) -> list[tuple[str, pa.RecordBatch]]:
    """The batches of all streams in the order in which they are pushed; each stream keeps its order of arrival."""
    rng = random.Random(way.seed)
    queues: dict[str, list[pa.RecordBatch]] = {}
    for name, data in case.streams.items():
        rows = [row for _, row in data.elements]
        queues[name] = [_batch(part, case.scale.schema()) for part in _cut(rows, way.batch, rng)]
    for name, relation in case.relations.items():
        if relation.timestamp is not None:
            schema = case.scale.relation_schema(name)
            queues[name] = [_batch(part, schema) for part in _cut(relation.rows, way.batch, rng)]
    pushes: list[tuple[str, pa.RecordBatch]] = []
    while any(queues.values()):
        name = (
            rng.choice([n for n, q in queues.items() if q])
            if way.interleave
            else next(n for n, q in queues.items() if q)
        )
        batch = queues[name].pop(0)
        pushes.append((name, _encoded(batch) if way.encoded and rng.random() < 0.7 else batch))
    return pushes


def _cut(rows: Sequence[Any], size: int | None, rng: random.Random) -> Iterator[list[Any]]:
    start = 0
    while start < len(rows):
        step = size or rng.choice([1, 1, 2, 3, 5, 8, 100])
        yield list(rows[start : start + step])
        start += step


def _batch(rows: Sequence[Any], schema: pa.Schema) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist([dict(r) for r in rows], schema)


def _encoded(batch: pa.RecordBatch) -> pa.RecordBatch:
    columns = [c.dictionary_encode() if pa.types.is_string(c.type) else c for c in batch.columns]
    return pa.RecordBatch.from_arrays(columns, names=batch.schema.names)


def start(case: Case, way: Way) -> tuple[Any, Any]:
    """A session with the case's streams, relations and query (and its twins)."""
    session = eddyline.Session()
    for name, data in case.streams.items():
        slack: Any = timedelta(microseconds=data.slack) if case.scale.kind is TimeKind.TIMESTAMP else data.slack
        slack = slack if data.auto is None else data.auto
        within: Any = data.within
        if within is not None and case.scale.kind is TimeKind.TIMESTAMP:
            within = timedelta(microseconds=within)
        keys = {"unique": data.unique, "within": within}
        session.stream(name, schema=case.scale.schema(), timestamp="ts", slack=slack, **keys)
    for name, relation in case.relations.items():
        schema = case.scale.relation_schema(name)
        if relation.timestamp is None:
            session.relation(name, pa.Table.from_pylist([dict(r) for r in relation.rows], schema))
        else:
            session.relation(name, timestamp=relation.timestamp, key=relation.key, sign=relation.sign, schema=schema)
    for name, text in case.views.items():
        session.view(name, text)
    queries = [session.query(case.text, **way.options) for _ in range(1 + way.twins)]
    return session, queries[way.seed % len(queries)]


def run_engine(case: Case, way: Way | None = None) -> pa.Table:
    """The engine's answer: the query's columns, ``_time`` and, for relations, ``_sign``."""
    way = way or Way()
    with ExitStack() as stack:
        stack.enter_context(patch.multiple(Panes, min_elements=way.seed % 4, rest=way.seed % 2))
        if way.small:
            stack.enter_context(patch.object(operator_graph, "ELEMENTS_AT_ONCE", 3))
            stack.enter_context(patch.object(MJoin, "ROOM", 1))
            stack.enter_context(patch.object(StarLookUp, "RESULTS_AT_ONCE", 2))
            stack.enter_context(patch.object(RStream, "ROOM", 1))
            stack.enter_context(patch.object(RankOperator, "ROOM", 1))
            stack.enter_context(patch.object(joining, "Pace", quick_pace))
            stack.enter_context(patch.multiple(tuple_router, ROWS_BEFORE_ATTRIBUTES=2, FIRST_ROWS=4, MAX_ROWS=8))
            stack.enter_context(
                patch.multiple(adaptive_conjunction, FIRST_ROWS=1, TRIAL_ROWS=4, MIN_ROWS=1, MAX_ROWS=4, BURST_ROWS=2)
            )
        return _run(case, way)


def quick_pace(profiling_run: int = 5, quiet_run: int = 3, longest_quiet_run: int = 12) -> Pace:
    """Looks and quiet runs of a few elements, so that plans change in the middle of batches."""
    return Pace(min(profiling_run, 5), min(quiet_run, 3), longest_quiet_run and 12)


def _run(case: Case, way: Way) -> pa.Table:
    rng = random.Random(way.seed)
    session, query = start(case, way)
    schema = query.schema
    batches: list[pa.RecordBatch] = []
    pushes = schedule(case, way)
    stop = rng.randint(0, len(pushes)) if way.snapshot else None
    for i in range(len(pushes) + 1):
        if i == stop:
            batches += query.fetch()
            session, query = save_and_restore(case, way, session)
        if way.toggle and rng.random() < 0.3:
            session.sharing = not session.sharing
        if i < len(pushes):
            session.push(*pushes[i])
        if way.heartbeats:
            for name, time in promises(case, pushes[i + 1 :]).items():
                session.heartbeat(name, time)
    session.finish()
    return pa.Table.from_batches([*batches, *query.fetch()], schema)


def promises(case: Case, pushes: Sequence[tuple[str, pa.RecordBatch]]) -> dict[str, int]:
    """The strongest heartbeats that make none of the pushes late that is not, nor prolong time."""
    reference = case.reference()
    found: dict[str, int] = {}
    for name, data in case.streams.items():
        ahead = Counter(t for n, batch in pushes if n == name for t in batch.column(0).to_pylist() if t is not None)
        ahead -= Counter(case.scale.value(ts) for ts, _ in reference.late.get(name, []))
        found[name] = min([ticks(t) + data.slack for t in ahead], default=reference.end)
    return {n: t for n, t in found.items() if reference.start <= t <= reference.end}


def save_and_restore(case: Case, way: Way, session: Any) -> tuple[Any, Any]:
    """Go on with a new session that read the state of the old one from its snapshot."""
    with tempfile.TemporaryDirectory() as folder:
        session.snapshot(folder)
        restored, query = start(case, way)
        restored.restore(folder)
        return restored, query


def mismatch(case: Case, expected: Sequence[ResultRow], table: pa.Table) -> str | None:
    """What differs from the reference, or None. Rows are compared as bags per instant, times must not decrease."""
    columns = [c.to_pylist() for c in table.columns]
    signed = table.schema.names[-1] == "_sign"
    values = columns[: -2 if signed else -1]
    times = [ticks(t) for t in columns[-2 if signed else -1]]
    signs = columns[-1] if signed else [None] * len(times)
    rows = list(zip(times, zip(*values, strict=True) if values else [()] * len(times), signs, strict=True))
    if any(a > b for a, b in itertools.pairwise(times)):
        return "the times of the results decrease"
    if any(r[0] == s[0] and (r[2] or 0) > (s[2] or 0) for r, s in itertools.pairwise(rows)):
        return "within an instant + comes before −"
    digits = 9 if any(word in case.text for word in ROUNDED) else None
    have = Counter(_key(*row, digits) for row in rows)
    want = Counter(_key(r.time, r.values, r.sign, digits) for r in expected)
    if have == want:
        return None
    lines = [f"  missing    {row}" for row in sorted((want - have).elements(), key=repr)[:12]]
    lines += [f"  unexpected {row}" for row in sorted((have - want).elements(), key=repr)[:12]]
    return "\n".join(["(time, values, sign)", *lines])


def _key(time: int, values: Sequence[Any], sign: int | None, digits: int | None) -> tuple[Any, ...]:
    shown = tuple(comparable(v, digits if isinstance(v, float) and math.isfinite(v) else None) for v in values)
    return time, shown, sign


def check(case: Case, way: Way | None = None) -> str | None:
    return mismatch(case, case.expected(), run_engine(case, way))


def check_three_ways(
    case: Case, expected: Sequence[ResultRow], rng: random.Random, options: Sequence[dict[str, Any]]
) -> int:
    """Compare the answers of three runs: plain, cut or restored in another way, and in small steps with some options;
    the seed that they ran with."""
    seed = rng.randrange(1 << 30)
    other = rng.choice([Way(seed, batch=1), Way(seed, snapshot=True, encoded=True), Way(seed, twins=1, toggle=True)])
    for way in (Way(seed), other, Way(seed, small=True, snapshot=True, options=rng.choice(options))):
        assert mismatch(case, expected, run_engine(case, way)) is None, f"{way}\n{case.snippet()}"
    return seed
