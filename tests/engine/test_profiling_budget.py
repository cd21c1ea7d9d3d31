"""Profiling runs cost what they can win: short joins have none, bad plans soon have one, and a change is still seen."""

from __future__ import annotations

from typing import Any
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pytest

import eddyline as ed
from eddyline.adapting.adaptive_join import AdaptiveJoin
from eddyline.adaptive.joins import profiling_budget as join_budget
from eddyline.adaptive.joins.profiling_budget import ProfilingBudget
from eddyline.operators.mjoin import MJoin
from eddyline.testing.clock import ManualClock

QUERY = """SELECT Istream(R.ts AS x) FROM R [RANGE {0}], S [RANGE {0}], T [RANGE {0}]
WHERE R.a = S.a AND R.b = T.b"""


def join(count: int, window: int, a: int, b: int, piece: int = 5_000) -> tuple[list[int], ed.Query]:
    """Three streams, an element a tick; ``a`` and ``b`` keys of S and T. After which elements profiling
    runs ended."""
    profiled_at: list[int] = []
    over = AdaptiveJoin._reoptimize

    def noted(self: AdaptiveJoin, *given: Any) -> None:
        if self.pacing.in_profiling_run:
            profiled_at.append(self.elements)
        over(self, *given)

    rng = np.random.default_rng(7)
    session = ed.Session(clock=ManualClock())
    for name in "RST":
        session.stream(name, schema=pa.schema([(c, pa.int64()) for c in ("ts", "a", "b")]), timestamp="ts")
    with patch.object(AdaptiveJoin, "_reoptimize", noted):
        query = session.query(QUERY.format(window))
        for begin in range(0, count, piece):
            ts = np.arange(begin, min(count, begin + piece))
            keys = {"a": rng.integers(0, a, len(ts)), "b": rng.integers(0, b, len(ts))}
            for i, name in enumerate("RST"):
                at = ts % 3 == i
                session.push(name, pa.table({"ts": ts[at], **{n: key[at] for n, key in keys.items()}}))
        session.finish()
    return profiled_at, query


def operator(query: ed.Query) -> MJoin:
    return next(n.operator for n in query.running.physical.nodes if isinstance(n.operator, MJoin))


@pytest.mark.parametrize("count", [5_000, 100_000])
@pytest.mark.parametrize(("window", "keys"), [(3_000, 1_000), (3_000, 100_000)])
def test_a_short_join_pays_at_most_its_share(count: int, window: int, keys: int) -> None:
    profiled_at, query = join(count, window, keys, keys)
    told = operator(query).statistics()
    worth = told["accesses"] + join_budget.ACCESSES_PER_ELEMENT * told["elements"]
    assert len(profiled_at) * 3 * join_budget.ACCESSES_PER_INPUT <= join_budget.BUDGET_SHARE * worth
    if worth < 3 * join_budget.ACCESSES_PER_INPUT / join_budget.BUDGET_SHARE:
        assert not profiled_at and not told["profiling"]


def test_what_takes_many_accesses_is_profiled_soon_and_what_takes_few_is_not() -> None:
    """An element of S finds 250 partners in R, and none of them has one in T."""
    profiled_at, _ = join(30_000, 3_000, a=4, b=1_000_000)
    assert profiled_at and profiled_at[0] < 40_000  # elements that came or left
    profiled_at, _ = join(30_000, 3_000, a=1_000_000, b=1_000_000)
    assert not profiled_at


def test_what_was_earned_is_part_of_a_snapshot() -> None:
    _, query = join(20_000, 300, 100, 100)
    adapter, arrays = operator(query).adapter, operator(query).arrays
    assert isinstance(adapter, AdaptiveJoin)
    state = adapter.state()
    assert state["budget"] == adapter.pacing.budget.held != 0
    for saved in (state, {name: value for name, value in state.items() if name != "budget"}):
        adapter.pacing.budget.held = 1.0
        adapter.load(saved, arrays)
        assert adapter.pacing.budget.held == saved.get("budget", 0.0)


def test_an_alarm_is_profiled_on_credit_but_not_for_nothing() -> None:
    budget = ProfilingBudget(3)
    budget.earn(int(0.31 * budget.price / join_budget.BUDGET_SHARE), 0)
    assert budget.affords_profiling_run(alarmed=True) and not budget.affords_profiling_run()
    budget.spend(0)
    assert not budget.affords_profiling_run(alarmed=True)
    budget.earn(budget.missing(alarmed=True), 0)
    assert budget.affords_profiling_run(alarmed=True)


def test_a_new_plan_pays_for_more_profiling_runs_from_what_it_saves() -> None:
    budget = ProfilingBudget(3)
    for saved, runs in ((budget.price, 0), (budget.price / join_budget.SAVINGS_SHARE, 1), (float("inf"), 3)):
        budget.held = 0.0
        budget.win(saved)
        count = 0
        while budget.affords_profiling_run():
            budget.spend(0)
            count += 1
        assert count == runs


def test_a_plan_that_saves_little_is_not_followed_by_profiling_runs() -> None:
    """Elements probe the input with fewer partners first, which saves a fifth of an access for each."""
    profiled_at, query = join(120_000, 300, a=150, b=600)
    assert [d for d in query.decisions if d.kind.startswith("order of") and d.by == "policy"]
    assert len(profiled_at) == 2 and profiled_at[1] - profiled_at[0] > 100_000  # runs in a row are 8,000 apart
