"""What a join that adapts keeps: between two questions of somebody who watches, over a restart, and under other options
than those that it learned under."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pytest

import eddyline as ed
from eddyline.adapting import join_pacing
from eddyline.adapting.adaptive_join import AdaptiveJoin
from eddyline.adapting.join_ordering import JoinOrdering
from eddyline.adapting.join_pacing import PROFILING_RUN_ELEMENTS
from eddyline.adapting.join_sampling import SAMPLES_FOR_ORDERS
from eddyline.adaptive.filters.default import Default
from eddyline.adaptive.joins.window_growth import Settled
from eddyline.core.errors import EddylineError
from eddyline.operators.mjoin import MJoin

pytestmark = pytest.mark.usefixtures("free_profiling_runs")

QUERY = "SELECT Istream(R.ts AS x) FROM R [RANGE {0}], S [RANGE {0}], T [RANGE {0}] WHERE R.k = S.k AND S.k = T.k"
GREEDY = {"joins": "a-greedy(p=0.2, window=100)", "caches": "none"}


def join_of(query: ed.Query) -> MJoin:
    """The join that runs now: a session that is restored builds its operators anew."""
    return next(n.operator for n in query.running.physical.nodes if isinstance(n.operator, MJoin))


class Job:
    """Three streams of one key in turn, an element a tick; from ``rare`` on T has none of the others' keys."""

    def __init__(self, window: int = 3000, keys: int = 600, rare: int = 0, **options: Any) -> None:
        self.session, self.keys, self.rare, self.at = ed.Session(), keys, rare, 0
        for name in "RST":
            schema = pa.schema([("ts", pa.int64()), ("k", pa.int64())])
            self.session.stream(name, schema=schema, timestamp="ts")
        self.query = self.session.query(QUERY.format(window), **options)

    @property
    def join(self) -> MJoin:
        return join_of(self.query)

    def push(self, count: int, piece: int = 3000) -> Job:
        for begin in range(self.at, self.at + count, piece):
            ts = np.arange(begin, begin + piece)
            key = np.random.default_rng(begin).integers(0, self.keys, piece) + 10**6 * (
                (ts >= self.rare) & (ts % 3 == 2)
            )
            for i, name in enumerate("RST"):
                mine = ts % 3 == i
                self.session.push(name, pa.table({"ts": ts[mine], "k": key[mine]}))
        self.at += count
        return self

    def restored(self, folder: Path, **options: Any) -> Job:
        self.session.snapshot(folder)
        other = Job(keys=self.keys, rare=self.rare, **options)
        other.session.restore(folder)
        other.at = self.at
        return other

    @property
    def adapter(self) -> AdaptiveJoin:
        assert isinstance(self.join.adapter, AdaptiveJoin)
        return self.join.adapter

    def reordered(self) -> set[str]:
        return {d.kind for d in self.query.decisions if d.kind.startswith("order of")}


@pytest.mark.parametrize("asks", [False, True])
def test_a_change_is_noticed_whoever_asks(asks: bool) -> None:
    job = Job(rare=90_000)
    with patch.object(join_pacing, "QUIET_RUN_SECONDS", 1e6):
        for _ in range(60):
            job.push(3000)
            if asks:
                job.query.statistics()
    assert {"order of ΔR", "order of ΔS"} <= job.reordered()


def test_orders_that_have_just_been_changed_are_saved(tmp_path: Path) -> None:
    job = Job(**GREEDY)
    while not job.reordered():
        job.push(1, 1)  # a run ends with the last element of a piece
    assert job.at < 20_000
    other = job.restored(tmp_path, **GREEDY)
    assert other.join.orders == job.join.orders
    filters, policies = other.adapter.ordering.filters, other.adapter.policies
    assert [f.order_of(p.order) for f, p in zip(filters, policies, strict=True)] == other.join.orders


def test_a_policy_by_name_profiles_what_comes_after_a_restart_whoever_ran_before(tmp_path: Path) -> None:
    other = Job().push(30_000).restored(tmp_path, **GREEDY)
    assert other.adapter.pacing.in_profiling_run
    assert other.push(30_000).reordered()


@pytest.mark.parametrize(
    ("before", "operator"),
    [({"tree": "((R, S), T)"}, "tree-join"), ({"joins": "static", "caches": "none"}, "fixed-join")],
)
def test_another_operator_does_not_take_over_the_state(tmp_path: Path, before: dict[str, str], operator: str) -> None:
    job = Job(rare=10**9, **before).push(3000)
    said = f"the join of R, S, T was run by {operator} and would now be run by adaptive-join: use the options"
    with pytest.raises(EddylineError, match=said):
        job.restored(tmp_path)
    same = job.restored(tmp_path, **before)
    for j in (job, same):
        j.query.fetch()
        j.push(6000).session.finish()
    rows = [sorted(v for b in j.query.fetch() for v in b["x"].to_pylist()) for j in (job, same)]
    assert rows[0] == rows[1] != []


def test_a_cache_policy_does_not_take_over_what_another_has_learned(tmp_path: Path) -> None:
    options = {"joins": "static", "caches": "global(interval=2000, W_d=64, W=2, memory=65536)"}
    job = Job(**options).push(30_000)
    same, less = (
        job.restored(tmp_path, **options),
        job.restored(tmp_path, **{**options, "caches": "prefix(memory=8192)"}),
    )
    assert same.adapter.caching.state() == job.adapter.caching.state()
    prefix = job.restored(tmp_path, **{**options, "caches": options["caches"].replace("global", "prefix")})
    assert not any(c.support for c in prefix.adapter.caching.states)
    caching = less.push(3000).adapter.caching
    assert caching.memory.budget * caching.memory.page_bytes == 8192
    assert not any(c.support for c in caching.states)


def test_a_restored_session_forgets_what_was_going_on(tmp_path: Path) -> None:
    job = Job().push(2000, 2000)  # in the middle of a profiling run
    job.session.snapshot(tmp_path)
    run, elements, at = job.adapter.state()["run"], job.adapter.elements, job.at
    job.push(9000)
    job.session.restore(tmp_path)
    job.at = at
    assert (job.adapter.state()["run"], job.adapter.elements) == (run, elements)
    job.push(1000, 1000)
    other = Job().push(2000, 2000).push(1000, 1000)
    assert job.adapter.elements == other.adapter.elements
    assert job.adapter.state()["run"] == other.adapter.state()["run"]


@pytest.mark.parametrize("piece", [6, 300, PROFILING_RUN_ELEMENTS])
def test_a_profiling_run_takes_as_many_samples_however_its_elements_come(piece: int) -> None:
    seen: list[int] = []
    news = JoinOrdering.news

    def note(self: JoinOrdering, profiles: Any, routine: bool) -> bool:
        seen.extend(int((rows[:, 0] >= 0).sum()) for rows in profiles)
        return news(self, profiles, routine)

    with patch.object(JoinOrdering, "news", note):
        Job(window=100).push(-(-(PROFILING_RUN_ELEMENTS + 600) // piece) * piece, piece)
    assert len(seen) >= 3
    # Those that the policy draws come on top of them: a fifth of all at the most, until its purse is empty.
    assert all(SAMPLES_FOR_ORDERS // 2 <= n <= 5 * SAMPLES_FOR_ORDERS for n in seen[:3]), seen


def test_nothing_is_profiled_in_a_quiet_run_even_if_its_kernel_could() -> None:
    text = QUERY.replace("AND S.k", "AND R.ts <= S.ts AND S.k")
    with patch(f"{__name__}.QUERY", text):
        job = Job().push(12_000)
    assert job.join.arrays.needs_full_kernel and not job.adapter.pacing.in_profiling_run
    learned = job.adapter.run_history.profiling
    job.push(12_000)
    job.query.statistics()
    assert not job.adapter.pacing.in_profiling_run and job.adapter.run_history.profiling == learned > 0


@pytest.mark.parametrize("changed", [False, True])
def test_a_quiet_run_that_ends_because_it_is_time_still_tells_of_a_change(changed: bool) -> None:
    raised: list[int] = []
    job = Job(rare=10**9).push(30_000)
    assert not job.adapter.pacing.in_profiling_run and job.adapter.pacing.probe_monitor.settled is not None
    if changed:
        job.adapter.pacing.probe_monitor.settled = Settled(9.0)
    with (
        patch.object(join_pacing, "QUIET_RUN_SECONDS", 0.0),
        patch.object(Default, "alarm", lambda policy: raised.append(1)),
    ):
        job.push(30_000, 30_000)
    assert bool(raised) == changed


@pytest.mark.parametrize("policy", ["a-greedy", "sweep", "independent", "local-swaps", "default"])
@pytest.mark.parametrize(("before", "after"), [(500, 50), (50, 500)])
def test_what_was_learned_under_other_parameters_is_learned_anew(
    policy: str, before: int, after: int, tmp_path: Path
) -> None:
    job = Job(joins=f"{policy}(p=0.5, window={before})").push(6000)
    other = job.restored(tmp_path, joins=f"{policy}(p=0.5, window={after})")
    assert other.push(6000).query.statistics()["mjoin 1"]["elements"] > 0


def test_rows_that_leave_can_end_a_quiet_run_before_an_element_comes() -> None:
    """After a gap windows empty before the first element comes, and that alone takes the probes of a check."""
    session, rng = ed.Session(), np.random.default_rng(1)
    for name in "RST":
        session.stream(name, schema=pa.schema([("ts", pa.int64()), ("k", pa.int64())]), timestamp="ts")
    query = session.query(f"{QUERY.format(90_000).replace('Istream(R.ts AS x)', 'count(*) AS n')} AND T.k >= 0")
    for begin in (*range(0, 60_000, 3000), 10**7):
        ts, key = np.arange(begin, begin + 3000), rng.integers(0, 300_000, 3000)
        key[-1] = -1  # so that time goes on where the join sees nothing
        for i, name in enumerate("RST"):
            session.push(name, pa.table({"ts": ts[i::3], "k": key[i::3]}))
    session.finish()
    assert query.to_arrow().num_rows > 0


@pytest.mark.parametrize("same", [False, True])
def test_caches_stay_within_their_memory_after_a_restart(same: bool, tmp_path: Path) -> None:
    text = (
        "SELECT Istream(R.k AS k) FROM T [RANGE 100], S [RANGE 30000], R [RANGE 30000] WHERE R.k = S.k AND S.j = T.j"
        " WITH (joins = 'static', caches = 'global(interval=2000, W_d=64, W=2, memory=4096, page=512)')"
    )

    def begin() -> tuple[ed.Session, Any]:
        session = ed.Session()
        for name in "RST":
            schema = pa.schema([("ts", pa.int64()), ("k", pa.int64()), ("j", pa.int64())])
            session.stream(name, schema=schema, timestamp="ts")
        query = session.query(text)
        return session, lambda: join_of(query).arrays.cache_operators.caches

    def push(start: int, count: int) -> None:
        for at in range(start, start + count, 3000):
            ts, rng = np.arange(at, at + 3000), np.random.default_rng(at)
            k, j, of = rng.integers(0, 20_000, 3000), rng.integers(0, 100, 3000), np.minimum(ts % 20, 2)
            for i, name in enumerate("RST"):
                session.push(name, pa.table({"ts": ts[of == i], "k": k[of == i], "j": j[of == i]}))
            assert not caches().ids or caches().cells.nbytes <= 4096

    session, caches = begin()
    push(0, 60_000)
    assert caches().ids
    session.snapshot(tmp_path)
    if not same:
        session, caches = begin()
    session.restore(tmp_path)
    assert caches().ids and caches().cells.nbytes <= 4096
    push(60_000, 15_000)
