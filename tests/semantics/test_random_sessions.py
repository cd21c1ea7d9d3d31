"""Sessions at random: queries come and go, are altered, pinned and undone at any moment, sharing and schedulers are
switched, sessions are saved and restored; whatever happens, the answer of each query is that of the reference for this
query alone.

``EDDYLINE_CASES`` scales the number of sessions (1 is 70; ``make test-deep`` has 500), ``EDDYLINE_SEED`` moves to
others. With ``-s`` a table says how often each of these happened, and another how often operators of which kind were
read by several queries.
"""

from __future__ import annotations

import os
import random
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any
from unittest.mock import patch

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import eddyline as ed
from eddyline.adapting import conjunction as adaptive_conjunction
from eddyline.adapting import join_choice as joining
from eddyline.adapting import plan_hold, tuple_router
from eddyline.core.errors import CqlError
from eddyline.core.time import TimeKind
from eddyline.synopses.shared_index import SharedIndex
from eddyline.testing.case_data import TimeScale, draw_relation, draw_scale, draw_stream
from eddyline.testing.cases import Case
from eddyline.testing.reference import Element, RelationData, StreamData
from tests.semantics.engine import HASTY, mismatch, quick_pace
from tests.semantics.steering import steer

FACTOR = float(os.environ.get("EDDYLINE_CASES", "1"))
SEED = int(os.environ.get("EDDYLINE_SEED", "2004"))
SESSIONS = round(100 * FACTOR) if FACTOR > 1 else max(10, round(70 * FACTOR))
PARTS = 10
SCHEDULERS = ("fifo", "greedy(period=2)", "chain(period=2)", "round-robin")
WINDOWS = ("[RANGE 5 SECONDS]", "[RANGE 9 SECONDS]", "[ROWS 4]", "[ROWS UNBOUNDED]", "[NOW]",
           "[RANGE 4 SECONDS SLIDE 2 SECONDS]", "[PARTITION BY a ROWS 2]", "[PARTITION BY b ROWS 3]")  # fmt: skip
FOREVER = 1 << 40  # a slack with which nothing is late

VIEWS = (
    "SELECT a, count(*) AS b FROM S {w} GROUP BY a",
    "SELECT a, b FROM S {w} WHERE odd(b)",
    "SELECT S.a, T.b FROM S {r} S, T {r} T WHERE S.a = T.a",
    "SELECT DISTINCT a, b FROM S {w} WHERE odd(a) AND b > 0",
    "SELECT Istream(a, sum(b) AS b) FROM S {r} WHERE odd(b) GROUP BY a",
    "SELECT a, b FROM S {r} UNION SELECT a, b FROM T {r}",
    "SELECT a, b FROM T {w} WHERE b IN (SELECT b FROM S {r})",
    "SELECT Istream(a, b) FROM T WHERE odd(b)",
    "SELECT S.a, k.v AS b FROM S {r} S, K k WHERE S.a = k.k",
)
# {p} and {q} are aliases, drawn anew for each query; x and y are views.
READERS = (
    "SELECT {p}.a, {p}.b FROM x {p}",
    "SELECT {p}.b FROM x {p} WHERE {p}.a > 1",
    "SELECT {p}.a, count(*) AS n, sum({p}.b) AS t FROM x {p} GROUP BY {p}.a",
    "SELECT count(*) AS n, max({p}.b) AS m FROM x {p}",
    "SELECT {p}.a, {q}.b FROM x {p}, y {q} WHERE {p}.a = {q}.a",
    "SELECT {p}.a, count(*) AS n FROM x {p}, S {w} {q} WHERE {p}.a = {q}.a GROUP BY {p}.a",
    "SELECT {p}.a, sum({p}.b) AS t FROM S {w} {p} WHERE odd({p}.b) GROUP BY {p}.a",
    "SELECT {p}.a, {p}.b FROM S {w} {p}, T {r} {q} WHERE {p}.a = {q}.a AND odd({p}.b)",
    "SELECT {p}.a, {p}.b FROM S {w} {p} WHERE odd({p}.a) AND odd({p}.b) AND {p}.a < 3 AND {p}.b < 2",
    "SELECT {p}.a, count(*) AS n FROM T {w} {p} WHERE odd({p}.a) AND {p}.b < 3 AND odd({p}.b) GROUP BY {p}.a",
    "SELECT {p}.a FROM x {p} EXCEPT SELECT {q}.b FROM y {q}",
    "SELECT {p}.a, {p}.b FROM x {p} WHERE {p}.a IN (SELECT {q}.b FROM y {q})",
)


def odd(value: int | None) -> bool | None:
    return None if value is None else value % 2 == 1


@dataclass
class Registered:
    """A query with what had come when it was registered."""

    text: str
    options: dict[str, Any]
    query: Any
    since: dict[str, int]  # by stream how many elements had come
    results: list[pa.RecordBatch] = field(default_factory=list)


class RandomSession:
    """One session: what is declared, what is pushed, and the queries that run."""

    def __init__(self, rng: random.Random, shared: Counter[str], did: Counter[str]) -> None:
        self.rng, self.shared, self.did = rng, shared, did
        self.scale: TimeScale = draw_scale(rng)
        self.streams = {n: draw_stream(rng, rng.randint(12, 30), 24, self.scale) for n in "ST"}
        self.relations: dict[str, RelationData] = {"K": draw_relation(rng, "K", 20, self.scale)}
        self.views = dict(zip("xy", rng.sample(VIEWS, 2), strict=True))
        self.views = {n: self._filled(t) for n, t in self.views.items()}
        self.texts = list(self._texts())
        self.came = dict.fromkeys(self.streams, 0)
        self.queries: list[Registered] = []
        self.checked = 0
        self.session = self._declared(sharing=rng.random() < 0.8)

    def _filled(self, text: str) -> str:
        p, q = self.rng.sample(("p", "q", "l", "r2"), 2)
        return text.format(w=self.rng.choice(WINDOWS), r=self.rng.choice(WINDOWS[:4]), p=p, q=q)

    def _texts(self) -> Iterator[str]:
        """A few queries that the language allows, some of which are equal but for their aliases."""
        made = 0
        while made < 4:
            form = self.rng.choice(READERS)
            window, other = self.rng.choice(WINDOWS), self.rng.choice(WINDOWS[:4])
            to_stream = self.rng.choice(["", "", "Istream", "Dstream", "Rstream"])
            for _ in range(2):
                p, q = self.rng.sample(("p", "q", "l", "r2"), 2)
                text = form.format(w=window, r=other, p=p, q=q)
                text = f"{to_stream}({text})" if to_stream else text
                try:
                    self._case(text, {}).bound()
                except CqlError:
                    continue
                made += 1
                yield text

    def _case(self, text: str, streams: dict[str, StreamData]) -> Case:
        return SessionCase(text, streams or self.streams, self.relations, views=self.views, scale=self.scale)

    def _declared(self, sharing: bool) -> Any:
        session = ed.Session(sharing=sharing, scheduler=self.rng.choice(SCHEDULERS))
        for name, data in self.streams.items():
            slack = timedelta(microseconds=data.slack) if self.scale.kind is TimeKind.TIMESTAMP else data.slack
            session.stream(name, schema=self.scale.schema(), timestamp="ts", slack=slack)
        rows = [dict(r) for r in self.relations["K"].rows]
        session.relation("K", pa.Table.from_pylist(rows, self.scale.relation_schema("K")))
        session.function("odd", odd, arguments=["bigint"])
        for name, text in self.views.items():
            session.view(name, text)
        return session

    # ── what may happen ───────────────────────────────────────────────────────────────────────────────────────────

    def run(self) -> None:
        for _ in range(self.rng.randint(1, 3)):
            self.register()
        while any(self.came[n] < len(d.elements) for n, d in self.streams.items()):
            what = self.rng.random()
            if what < 0.08:
                self.register()
            elif what < 0.12 and self.queries:
                self.drop(self.rng.choice(self.queries))
            elif what < 0.17:
                self.session.sharing = not self.session.sharing
                self.did["sharing"] += 1
            elif what < 0.22:
                self.did["scheduled otherwise"] += 1
                self.session.scheduler = self.rng.choice(SCHEDULERS)
                self.session.budget = self.rng.choice([None, 1, 3, 10])
                self.session.quantum = self.rng.choice([1, 3, 1 << 16])
                self.session.queue_bound = self.rng.choice([None, 1, 4])
            elif what < 0.25:
                self.save_and_restore()
            elif what < 0.37 and self.queries:
                steer(self.session, self.rng.choice(self.queries).query, self.rng, self.did)
            else:
                self.push()
        self.session.finish()
        self.count_joined()
        assert not any(t.ready for t in self.session._graph.executor.tasks)  # nothing is left to do
        for r in self.queries:
            self.did["decided by a policy"] += sum(d.applied and d.by == "policy" for d in r.query.decisions)
            self.did["not applied"] += sum(not d.applied for d in r.query.decisions)
            self.check(r, None)

    def register(self) -> None:
        for _ in range(self.rng.choice([1, 1, 2, 3])):
            text = self.rng.choice(self.texts)
            options = {"priority": self.rng.choice([0, 0, 1])}
            options |= {"filters": self.rng.choice(HASTY)} if self.rng.random() < 0.3 else {}
            query = self.session.query(text, **options)
            self.queries.append(Registered(text, options, query, dict(self.came)))
            self.did["registered, and others ran" if len(self.queries) > 1 else "registered"] += 1
        for o in self.session._graph.operators:
            if len(o.readers) > 1:
                self.shared[o.task.name.rpartition(" ")[0]] += 1

    def count_joined(self) -> None:
        """How often the window of a later query moved to the store of an older one."""
        self.did["a later window joined a store"] += self.session._graph.registry.joined

    def drop(self, r: Registered) -> None:
        self.did["removed"] += 1
        r.results += r.query.fetch()
        self.check(r, r.query.running.reached)
        r.query.drop()
        self.queries.remove(r)

    def push(self) -> None:
        name = self.rng.choice([n for n, d in self.streams.items() if self.came[n] < len(d.elements)])
        begin = self.came[name]
        part = self.streams[name].elements[begin : begin + self.rng.choice([1, 1, 2, 5])]
        self.came[name] += len(part)
        self.session.push(name, pa.RecordBatch.from_pylist([dict(row) for _, row in part], self.scale.schema()))
        stores = {id(s.store): s.store for s in self.session._graph.registry.stubs}.values()
        shared = [len(i.readers) for s in stores for i in s.indexes.values() if isinstance(i, SharedIndex)]
        self.did["pushed, and joins shared an index"] += any(n > 1 for n in shared)

    def save_and_restore(self) -> None:
        self.did["restored"] += 1
        self.count_joined()
        for r in self.queries:
            r.results += r.query.fetch()
        with tempfile.TemporaryDirectory() as folder:
            self.session.snapshot(folder)
            restored = self._declared(sharing=self.rng.random() < 0.8)
            for r in self.queries:
                r.query = restored.query(r.text, **r.options)
            restored.restore(folder)
        restored.budget, restored.quantum = self.session.budget, self.session.quantum
        self.session = restored

    # ── what it must answer ───────────────────────────────────────────────────────────────────────────────────────

    def check(self, r: Registered, reached: int | None) -> None:
        """``reached``: the last instant that was answered when the query was dropped."""
        schema = r.query.schema
        table = pa.Table.from_batches([*r.results, *r.query.fetch()], schema)
        streams = {n: StreamData(self.on_time(n)[r.since[n]], FOREVER) for n in self.streams}
        case = self._case(r.text, streams)
        expected = case.expected() if any(s.elements for s in streams.values()) else []
        if r in self.queries and reached is not None:
            expected = [row for row in expected if row.time <= reached]
        elif not self.session_ended:
            expected = []
        if reached is None:
            table = self.until_the_end(r, streams, table)
        found = mismatch(case, expected, table)
        if found is not None:
            views = "\n".join(f"{n}: {t}" for n, t in self.views.items())
            pytest.fail(f"{views}\n{r.text}\nsince {r.since}, reached {reached}\n{found}", pytrace=False)
        self.checked += len(expected)

    def until_the_end(self, r: Registered, streams: dict[str, StreamData], table: pa.Table) -> pa.Table:
        """Time ends with the inputs. Where elements that came before a query have later timestamps than those that it
        saw, its windows go on expiring up to there; the reference has not seen them and stops before."""
        read = [n for n in self.streams if n.lower() in r.query.running.intakes]
        end = max((ts for n in read for ts, _ in streams[n].elements if ts is not None), default=None)
        times = table["_time"].cast(pa.int64())
        return table if end is None else table.filter(pc.less_equal(times, end))

    @property
    def session_ended(self) -> bool:
        return all(s.finished for s in self.session.inputs.values())

    def on_time(self, name: str) -> dict[int, tuple[Element, ...]]:
        """By the number of elements that had come when a query was registered those on time that came after it."""
        data, shown = self.streams[name], None
        found: list[tuple[int, Element]] = []
        for i, (ts, row) in enumerate(data.elements[: self.came[name]]):
            if ts is not None and (shown is None or ts >= shown - data.slack):
                found.append((i, (ts, row)))
                shown = ts if shown is None else max(shown, ts)
        return {since: tuple(e for i, e in found if i >= since) for since in range(len(data.elements) + 1)}


class SessionCase(Case):
    """A case whose queries may call ``odd``."""

    def catalog(self) -> Any:
        from eddyline.core.catalog import FunctionDef
        from eddyline.cql import bind

        views, bare = dict(self.views), Case(self.text, self.streams, self.relations, scale=self.scale)
        catalog = bare.catalog()
        catalog.functions["odd"] = FunctionDef("odd", odd, pa.bool_(), (pa.int64(),))
        for name, text in views.items():
            catalog.add("views", bind(text, catalog), name)
        return catalog


_shared: Counter[str] = Counter()
_did: Counter[str] = Counter()


@pytest.fixture
def hasty() -> Iterator[None]:
    """Policies that decide after a few rows: sessions are short."""
    with ExitStack() as stack:
        stack.enter_context(patch.object(joining, "Pace", quick_pace))
        stack.enter_context(patch.multiple(plan_hold, DEVIATIONS_TO_RECONSIDER=0.2, SHARE_TO_RECONSIDER=0.0))
        stack.enter_context(
            patch.multiple(
                tuple_router, ROWS_BEFORE_ATTRIBUTES=2, FIRST_ROWS=4, MAX_ROWS=8, BATCHES_PER_PINNED_DECISION=2
            )
        )
        stack.enter_context(
            patch.multiple(adaptive_conjunction, FIRST_ROWS=1, TRIAL_ROWS=4, MIN_ROWS=1, MAX_ROWS=4, BURST_ROWS=2)
        )
        yield


@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.usefixtures("hasty")
def test_each_query_answers_as_if_it_were_alone(part: int) -> None:
    for i in range(part * SESSIONS // PARTS, (part + 1) * SESSIONS // PARTS):
        rng = random.Random(f"{SEED}/session {i}")
        one = RandomSession(rng, _shared, _did)
        _did["sessions"] += 1
        try:
            one.run()
        except Exception as e:
            e.add_note(f"seed {SEED}/session {i}: {one.views} {[r.text for r in one.queries]}")
            raise
        _did["rows compared"] += one.checked


def test_everything_happened_often() -> None:
    """Runs behind the sessions: what happened in them, and what they shared."""
    if not _did:
        pytest.fail("run the whole file: what happens is counted by the tests above")
    print()
    for what, times in sorted(_did.items()):
        print(f"  {what:<34} {times:>7,}")
    assert _did["rows compared"] > 10 * _did["sessions"]
    for what in ("registered, and others ran", "removed", "sharing", "scheduled otherwise", "alter"):
        assert _did[what] > _did["sessions"] // 5, what
    if FACTOR >= 1:  # fewer sessions may have none
        for what in ("restored", "pin", "unpin", "decided by a policy", "a later window joined a store",
                     "pushed, and joins shared an index"):  # fmt: skip
            assert _did[what] > 5, what
        assert _did["undo"] and (_did["not applied"] or FACTOR < 5)
    for kind, times in _shared.most_common():
        print(f"  {kind:<24} {times:>7,}")
    wanted = ("select", "seq-window", "aggregate", "project", "changes", "i-stream", "binary-join")
    assert all(_shared[kind] for kind in wanted), _shared
