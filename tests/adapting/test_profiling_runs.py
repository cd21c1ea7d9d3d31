"""When a join without a named policy profiles elements, and after which profiling runs its policies are told."""

from __future__ import annotations

from typing import Any
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pytest

import eddyline as ed
from eddyline.adapting.adaptive_join import AdaptiveJoin
from eddyline.adapting.join_ordering import JoinOrdering, deviations
from eddyline.adaptive.joins.window_growth import Settled
from eddyline.kernels import join_layout as k
from eddyline.operators.mjoin import MJoin
from eddyline.testing.clock import ManualClock

QUERY = "SELECT Istream(R.ts AS x) FROM R [RANGE {0}], S [RANGE {0}], T [RANGE {0}] WHERE R.k = S.k AND S.k = T.k"


def profiling_runs(
    count: int, rare_from: int | None = None, piece: int = 60_000, window: int = 2000, keys: int = 600
) -> tuple[list[str], ed.Query]:
    """What happens over ``count`` elements, one a tick, alternating between three streams; from ``rare_from`` on, T has
    none of the others' keys. ``piece`` elements are pushed at a time."""
    happened: list[str] = []
    ends, orders, alarms = AdaptiveJoin._reoptimize, JoinOrdering.decide, AdaptiveJoin._ends_early

    def profiling_run(self: AdaptiveJoin, *given: Any) -> None:
        happened.append("profiling_run")
        ends(self, *given)

    def told(self: JoinOrdering, *given: Any) -> Any:
        happened.append("told")
        return orders(self, *given)

    def moved(self: AdaptiveJoin, *given: Any) -> bool:
        found = alarms(self, *given)
        happened.extend(["alarm"] if found else [])
        return found

    rng = np.random.default_rng(3)
    key = rng.integers(0, keys, count)
    ts = np.arange(count)
    stream = ts % 3
    if rare_from is not None:
        key[(stream == 2) & (ts >= rare_from)] += 1_000_000
    session = ed.Session(clock=ManualClock())
    for name in "RST":
        session.stream(name, schema=pa.schema([("ts", pa.int64()), ("k", pa.int64())]), timestamp="ts")
    with (
        patch.object(AdaptiveJoin, "_reoptimize", profiling_run),
        patch.object(JoinOrdering, "decide", told),
        patch.object(AdaptiveJoin, "_ends_early", moved),
    ):
        query = session.query(QUERY.format(window))
        for begin in range(0, count, piece):
            mine = slice(begin, begin + piece)
            for i, name in enumerate("RST"):
                at = stream[mine] == i
                session.push(name, pa.table({"ts": ts[mine][at], "k": key[mine][at]}))
        session.finish()
    return happened, query


def test_where_nothing_changes_profiling_runs_get_rare_and_most_are_kept_from_the_policies() -> None:
    happened, query = profiling_runs(2_000_000)
    assert 3 <= happened.count("profiling_run") <= 6
    assert happened.count("told") < 2 * happened.count("profiling_run")  # of three pipelines
    assert not [d for d in query.decisions if d.kind.startswith("order of")]


def test_a_change_raises_an_alarm_also_if_elements_come_in_small_pieces() -> None:
    for piece in (60_000, 3_000):
        happened, query = profiling_runs(300_000, rare_from=180_000, piece=piece)
        assert "alarm" in happened
        made = [(d.time, d.after) for d in query.decisions if d.kind == "order of ΔR"]
        assert made
        assert made[-1][1] == ["T", "S"]


def test_windows_that_fill_raise_no_alarm_and_hide_no_change() -> None:
    happened, _ = profiling_runs(200_000, window=150_000, keys=100_000)
    assert "alarm" not in happened
    happened, query = profiling_runs(400_000, rare_from=60_000, window=150_000, keys=30_000)
    assert "alarm" in happened
    assert ["T", "S"] in [d.after for d in query.decisions if d.kind == "order of ΔR"]


def test_what_growth_explains() -> None:
    settled = Settled(1.1, [100, 100, 100, 100])
    assert 1.1 < settled.expected([150] * 4) < settled.expected([300] * 4) < 3
    assert abs(Settled(settled.expected([300] * 4), [300] * 4).expected([100] * 4) - 1.1) < 1e-6  # there and back
    assert settled.expected([300, 300, 300, 100]) == 1.1  # one has not grown: nothing is explained
    for rate, rows in ((1.0, [100] * 3), (2.5, [100] * 3), (1.1, [100, 0, 100])):  # where the model says nothing
        assert Settled(rate, rows).expected([200] * 3) == rate
    assert settled.expected([0] * 4) == 1.1


def test_what_is_chance_is_no_news() -> None:
    rng = np.random.default_rng(5)
    told = [[96, *rng.binomial(96, 0.5, 2).tolist()]] * 3
    assert deviations(told, [[96, *rng.binomial(96, 0.5, 2).tolist()]] * 3) < 3
    assert deviations(told, [[96, 5, 48]] * 3) > 3
    assert deviations(told, [[0] * 3] * 3) == 0  # nothing was seen


@pytest.mark.usefixtures(
    "free_profiling_runs"
)  # from the first element on: then none is left for the pieces that are counted
def test_a_quiet_run_goes_on_over_small_pieces_and_its_books_are_complete_whenever_somebody_asks() -> None:
    session = ed.Session(clock=ManualClock())  # nobody's patience ends it
    for name in "RST":
        session.stream(name, schema=pa.schema([("ts", pa.int64()), ("k", pa.int64())]), timestamp="ts")
    query = session.query(QUERY.format(3_000))
    join = next(n.operator for n in query.running.physical.nodes if isinstance(n.operator, MJoin))
    totals, told = [], {}
    for begin in range(0, 60_000, 300):
        for i, name in enumerate("RST"):
            ts = np.arange(begin + i, begin + 300, 3)
            session.push(name, pa.table({"ts": ts, "k": ts % 997}))
        if begin in (9_000, 30_000, 30_300, 59_700):
            told = join.statistics()
            totals.append((told["elements"], told["accesses"], join.adapter.state()["elements"]))
            counters = join.arrays.counters
            assert told["elements"] == int(join.arrays.tail.sum() + counters[k.CN_LEFT :].sum())
            assert told["accesses"] == int(counters[k.CN_PROBES] + counters[k.CN_LINKS])
            assert told["elements"] == join.adapter.state()["elements"]
            assert sum(h["elements"] for h in told["history"]) == told["elements"]
    assert totals == sorted(set(totals))
    assert sum(h["total"] > 31_000 for h in told["history"]) <= 10  # of nearly a hundred pieces
