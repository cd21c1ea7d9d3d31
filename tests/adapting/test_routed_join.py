"""Multi-route joins in queries: answers inline, restored and on shards, what explain says, and what is refused."""

from __future__ import annotations

import random
import re
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import eddyline as ed
from eddyline.core.errors import EddylineError, JobError
from eddyline.engine.state_codec import encode
from eddyline.operators.routed_join import RoutedJoin
from eddyline.testing.case_data import draw_scale, draw_stream
from eddyline.testing.cases import Case
from tests.engine.test_state_codec import Memory
from tests.scale import scaled
from tests.semantics.engine import Way, mismatch, run_engine
from tests.shards import shards

QUICK = "window=40, periodic=80, triggered=100, partition=5, batch=4, costs=counted"
INDEXES = (f"amri({QUICK}, migration=partial)", f"hash(count=2, {QUICK}, routes=random)", "single(batch=3)",
           f"fitting({QUICK}, memory=300)")  # fmt: skip


def draw(rng: random.Random) -> Case:
    windows = ["[RANGE 4 SECONDS]", "[ROWS 3]", "[RANGE 3 SECONDS SLIDE 2 SECONDS]", "[RANGE 6 SECONDS]"]
    sources = ", ".join(f"{n} {rng.choice(windows)}" for n in "RST")
    edges = "R.a = S.a AND S.b = T.b" + rng.choice(["", " AND T.a = R.a", " AND R.b < T.b", " AND R.b <> S.b"])
    joined = f"FROM {sources} WHERE {edges}"
    tops = ("SELECT R.a, count(*) AS n, sum(S.b) AS x {} GROUP BY R.a", "SELECT max(R.b) AS x {}", "SELECT R.b, S.s {}")
    scale = draw_scale(rng)
    return Case(rng.choice(tops).format(joined), {n: draw_stream(rng, 40, 30, scale) for n in "RST"}, {}, scale=scale)


def test_answers_are_those_of_the_reference_inline_restored_and_on_shards() -> None:
    rows = 0
    for i in range(24):
        rng = random.Random(f"routed join/{i}")
        case = draw(rng)
        expected = case.expected()
        rows += bool(expected)
        options = {"joins": "routes", "index": INDEXES[i % len(INDEXES)]}
        for way in (Way(i, options=options), Way(i, small=True, snapshot=True, options=options)):
            assert mismatch(case, expected, run_engine(case, way)) is None, case.snippet()
        sharded = shards.Way(shards=rng.choice([1, 4]), batches=3, seed=i, hot=0.5, options=options)
        assert shards.check(case, sharded) is None, case.snippet()
    assert rows > 16


def draw_istream(rng: random.Random) -> Case:
    """Few values and narrow windows: of the results that enter and leave at one instant many are equal."""
    windows = ["[ROWS 1]", "[ROWS 2]", "[RANGE 1 SECONDS]", "[RANGE 2 SECONDS SLIDE 2 SECONDS]"]
    sources = ", ".join(f"{n} {rng.choice(windows)}" for n in "RST")
    edges = "R.a = S.a AND S.b = T.b" + rng.choice(["", " AND R.b <= T.b", " AND R.s <> T.s"])
    text = f"SELECT Istream({rng.choice(['R.a', 'S.b, T.a', 'R.a + S.a AS x'])}) FROM {sources} WHERE {edges}"
    scale = draw_scale(rng)
    return Case(text, {n: draw_stream(rng, 40, 12, scale) for n in "RST"}, {}, scale=scale)


@pytest.mark.parametrize("seed", range(scaled(30, least=8)))
def test_of_deletions_only_those_that_cancel_an_insertion_are_searched_for(seed: int) -> None:
    rng = random.Random(f"istream/{seed}")
    case = draw_istream(rng)
    expected = case.expected()
    options = {"joins": "routes", "index": rng.choice(INDEXES)}
    for way in (Way(seed, options=options), Way(seed, small=True, snapshot=True, options=options)):
        assert mismatch(case, expected, run_engine(case, way)) is None, case.snippet()


def table(seed: int, columns: str, rows: int = 3000) -> pa.Table:
    rng = np.random.default_rng(seed)
    values = {c: rng.integers(0, 40, rows) for c in columns}
    return pa.table({"ts": np.sort(rng.integers(0, 20_000, rows)), **values})


def start(index: str | None = None, window: str = "[RANGE 800]", joins: str = "routes") -> tuple[ed.Session, ed.Query]:
    session = ed.Session()
    for seed, (name, columns) in enumerate({"A": "xy", "B": "xz", "C": "yz"}.items()):
        session.stream(name, schema=table(seed, columns, 1).schema, timestamp="ts")
    options = {"joins": joins} | ({} if index is None else {"index": index})
    joined = f"FROM A {window}, B {window}, C {window} WHERE A.x = B.x AND A.y = C.y AND B.z = C.z"
    return session, session.query(f"SELECT count(*) AS n {joined}", **options)


def feed(session: ed.Session, after: int, upto: int) -> None:
    for seed, (name, columns) in enumerate({"A": "xy", "B": "xz", "C": "yz"}.items()):
        whole = table(seed, columns)
        ts = whole["ts"].to_numpy()
        session.push(name, whole.filter(pa.array((ts > after) & (ts <= upto))))


def test_explain_shows_bits_patterns_and_decisions() -> None:
    session, query = start("amri(window=500, periodic=2000, triggered=2000, partition=20, costs=counted)")
    feed(session, -1, 20_000)
    session.finish()
    text = query.explain()
    assert "routes are greedy, indexes amri" in text
    assert "A [RANGE 800]: " in text and "by bits A.x: " in text and "searched by ⟨" in text
    assert query.plan().node("routed-join 1").chosen["operator"] == "routes"
    changes = [d for d in query.decisions if d.kind == "index bits"]
    assert changes and all(d.reason.startswith("searches by ⟨") and d.expected_gain >= 1.05 for d in changes)
    (told,) = query.statistics().values()
    assert told["changes"] == len(changes)
    assert sum(s["comparisons"] for s in told["states"].values()) > 1000


OTHER_METHODS = "amri(window=300, assessment=cdia, scheduling=periodic, costs=counted)"


@pytest.mark.parametrize("then", ["fitting(window=300, costs=counted)", "hash(2)", "single", OTHER_METHODS])
@pytest.mark.parametrize(
    "now", ["amri(window=300, costs=counted)", "hash(3)", "fitting(memory=3000, window=300, costs=counted)"]
)
def test_another_index_takes_over_the_stored_rows(then: str, now: str, tmp_path: Path) -> None:
    session, query = start()
    feed(session, -1, 20_000)
    session.finish()
    whole = query.to_arrow()

    session, query = start(then)
    feed(session, -1, 9_000)
    before = query.fetch()
    session.snapshot(tmp_path)
    session, query = start(now)
    session.restore(tmp_path)
    feed(session, 9_000, 20_000)
    session.finish()
    assert pa.Table.from_batches([*before, *query.fetch()], query.schema).equals(whole)


def test_a_snapshot_writes_the_partitions_that_changed() -> None:
    session, _ = start("amri(partition=2500)", window="[ROWS 40000]")
    (join,) = (o.operator for o in session._graph.operators if isinstance(o.operator, RoutedJoin))
    kept = Memory()

    def written() -> int:
        """The bytes of a state module that were not saved before."""
        now = Memory()
        encode(join.state()["0"]["rows"], now)
        added = sum(len(data) for name, data in now.items() if name not in kept)
        kept.update(now)
        return added

    def push(low: int, high: int) -> None:
        for seed, (name, columns) in enumerate({"A": "xy", "B": "xz", "C": "yz"}.items()):
            rng = np.random.default_rng([seed, low])
            values = {c: rng.integers(0, 10**6, high - low) for c in columns}
            session.push(name, pa.table({"ts": np.arange(low, high), **values}))

    push(0, 51_000)
    whole = written()
    push(51_000, 54_000)  # a partition is complete, and another one has left
    assert 0 < written() < whole / 6
    assert written() == 0


def test_another_operator_does_not_take_over_the_stored_rows(tmp_path: Path) -> None:
    session, _ = start()
    session.snapshot(tmp_path)
    other, _ = start(joins="a-greedy")
    with pytest.raises(EddylineError, match="was run by routes and would now be run by adaptive-join"):
        other.restore(tmp_path)


def test_what_the_join_cannot_keep_is_refused_with_the_reason() -> None:
    with pytest.raises(JobError, match="A is neither constant nor a stream under a RANGE or ROWS window"):
        start(window="[PARTITION BY ts ROWS 3]")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"index": "amri"}, "write joins = 'routes' beside it"),
        ({"joins": "routes", "index": "amr"}, "unknown index policy 'amr'. Did you mean 'amri'"),
        ({"joins": "routes", "index": "amri(theta=2)"}, "'theta' of 'amri' must be a number above 0 and at most 1"),
        ({"joins": "routes", "index": "amri(migration=some)"}, "must be one of expected, nothing, all, partial, not"),
        ({"joins": "route"}, "unknown join policy 'route'. Did you mean 'routes'?"),
        (
            {"joins": "routes(explore=3)"},
            "write joins = 'routes', not 'routes(explore=3)': the parameters of an operator",
        ),
        ({"joins": "routes", "index": 3}, "the option 'index' is a text such as 'amri'"),
    ],
)
def test_mistakes_in_options_get_a_sentence(options: dict, message: str) -> None:
    session = ed.Session()
    session.stream("A", table(1, "xy"), timestamp="ts")
    with pytest.raises(JobError, match=re.escape(message)):
        session.query("SELECT p.x FROM A [RANGE 5] p, A [RANGE 5] q WHERE p.x = q.x", **options)
