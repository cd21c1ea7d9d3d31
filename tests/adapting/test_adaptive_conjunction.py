"""Conjunctions that order themselves: the answers of any order, one call a row, decisions that pay, lasting state."""

from __future__ import annotations

import json
import pickle
from collections import Counter
from collections.abc import Callable
from typing import Any
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eddyline.adapting import conjunction as module
from eddyline.adapting.conjunction import AdaptiveConjunction
from eddyline.adaptive.filters.bounds import optimal_order, order_cost
from eddyline.adaptive.filters.pipeline import Pipeline
from eddyline.adaptive.filters.policies import POLICIES, defaults, make_policy
from eddyline.adaptive.filters.simulate import draw
from eddyline.core.catalog import FunctionDef
from eddyline.core.delta import Bools
from eddyline.engine.state_codec import decode, encode
from eddyline.expr.nodes import Expr, UserCall
from eddyline.expr.predicates import Conjunction
from eddyline.testing.clock import ManualClock
from tests.expr.build import B, call, col, error_of, lit
from tests.expr.test_predicates import builtin, predicate

QUICK: dict[str, Any] = {"p": 0.3, "burst": 0.5, "window": 40, "overhead": 0.5}


def quick(name: str, pipeline: Pipeline) -> Any:
    return make_policy(name, pipeline, **{k: v for k, v in QUICK.items() if k in defaults(name)})


@settings(max_examples=150)
@given(st.data())
def test_answers_and_errors_are_those_of_the_written_order(data: st.DataObject) -> None:
    """Whatever the policy, the sub-batches, the batches and the kinds of conjuncts; no row function is asked twice."""
    n = data.draw(st.integers(1, 5))
    kinds = data.draw(st.lists(st.sampled_from(["row", "arrow", "builtin"]), min_size=n, max_size=n))
    seed = data.draw(st.integers(0, 10_000))
    rng = np.random.default_rng(seed)
    rows = data.draw(st.integers(0, 300))
    table = rng.choice(4, (rows, n), p=[0.3, 0.1, 0.5, 0.1])
    seen: list[tuple[int, Any]] = []

    def conjuncts(calls: list[tuple[int, Any]] | None) -> list[Expr]:
        return [builtin(i) if k == "builtin" else predicate(i, calls, k) for i, k in enumerate(kinds)]

    columns = {f"c{i}": pa.array(table[:, i]) for i in range(n)} | {"row": pa.array(np.arange(rows))}
    columns["a"] = pa.array(rng.integers(0, 10, rows))
    first = [call("gt", col("a"), lit(data.draw(st.sampled_from([-1, 4, 99]))))] if data.draw(st.booleans()) else []
    pinned = frozenset(data.draw(st.sets(st.integers(0, n - 1))))
    size = data.draw(st.sampled_from([None, 1, 3, 20]))
    policy = quick(data.draw(st.sampled_from(sorted(POLICIES))), Pipeline(n, pinned))
    adaptive = AdaptiveConjunction(conjuncts(seen), policy, first=first, size=size)
    want = Conjunction([*first, *conjuncts(None)]).evaluate(columns, rows)
    keep, errors, start = [], {}, 0
    small = {"FIRST_ROWS": 5, "TRIAL_ROWS": 20, "MIN_ROWS": 3, "MAX_ROWS": 40, "BURST_ROWS": 7}
    with patch.multiple(module, **small) if size is None else patch.multiple(module, FIRST_ROWS=64):
        while start < rows:
            stop = min(rows, start + data.draw(st.sampled_from([1, 7, 60, 300])))
            got = adaptive.evaluate({c: a.slice(start, stop - start) for c, a in columns.items()}, stop - start)
            keep += got.keep.tolist()
            errors |= {start + row: e for row, e in got.errors.items()}
            start = stop
    assert keep == want.keep.tolist() and error_of(errors) == error_of(want.errors)
    by_row = Counter(s for s in seen if kinds[s[0]] == "row")
    assert not by_row or max(by_row.values()) == 1
    alive = np.ones(rows, np.bool_) if not first else np.asarray(columns["a"]) > first[0].args[1].value  # type: ignore[union-attr]
    for f in range(n):
        if f in pinned and kinds[f] == "row":  # exactly those that survive what is written before
            survives = alive & (table[:, :f] >= 2).all(1)
            assert sorted(row for g, row in by_row if g == f) == np.flatnonzero(survives).tolist()


def test_a_vectorised_function_is_shown_a_row_once_unless_it_fails() -> None:
    shown: Counter[int] = Counter()

    def even(row: pa.Array) -> pa.Array:
        shown.update(row.to_pylist())
        return pa.array([r % 2 == 0 for r in row.to_pylist()])

    def third(row: pa.Array) -> pa.Array:
        shown.update((1, r) for r in row.to_pylist())
        return pa.array([r % 3 == 0 for r in row.to_pylist()])

    both = [UserCall(FunctionDef(f.__name__, f, B, kind="arrow"), (col("row"),), B) for f in (even, third)]
    adaptive = AdaptiveConjunction(both, quick("a-greedy", Pipeline(2)))
    found = [r for s in range(0, 3000, 500) for r in kept(adaptive, np.arange(s, s + 500))]
    assert found == list(range(0, 3000, 6))
    assert max(shown.values()) == 1


def kept(adaptive: AdaptiveConjunction, rows: Any) -> list[int]:
    selection = adaptive.evaluate({"row": pa.array(rows)}, len(rows))
    assert not selection.errors
    return [int(r) for r in rows[selection.keep]]


class Counting:
    """Row functions over known drop bits, which move the clock by their price."""

    def __init__(self, drops: Bools, prices: tuple[int, ...], **functions: Any) -> None:
        self.drops, self.clock = drops, ManualClock()
        self.asked = np.zeros(drops.shape, np.int64)
        self.conjuncts = [self._conjunct(f, p, functions) for f, p in enumerate(prices)]

    def _conjunct(self, f: int, price: int, more: dict[str, Any]) -> Expr:
        def ask(row: int) -> bool:
            self.clock.advance(price)
            self.asked[row, f] += 1
            return not self.drops[row, f]

        return UserCall(FunctionDef(f"f{f}", ask, B, **more), (col("row"),), B)

    def run(self, adaptive: AdaptiveConjunction, batch: int = 5_000, start: int = 0) -> None:
        for low in range(start, len(self.drops), batch):
            rows = np.arange(low, min(low + batch, len(self.drops)))
            assert kept(adaptive, rows) == rows[~self.drops[rows].any(1)].tolist()
        assert self.asked.max() <= 1


def test_the_default_finds_the_better_order_within_a_large_batch_and_follows_a_change() -> None:
    rates = [0.1, 0.2, 0.5, 0.9]
    drops = np.concatenate([draw(10_000, rates, seed=1), draw(10_000, rates[::-1], seed=2)])
    case = Counting(drops, (20, 20, 20, 20))
    adaptive = AdaptiveConjunction(case.conjuncts, make_policy("default", Pipeline(4)), clock=case.clock)
    case.run(adaptive, batch=20_000)  # one Arrow batch
    assert adaptive.policy.order[0] == 0
    best = sum(order_cost(d, optimal_order(d)) for d in np.split(drops, 2))
    assert case.asked.sum() < 1.15 * best
    assert case.asked.sum() == sum(adaptive.statistics()["asked"]) + sum(adaptive.statistics()["profiling"])
    assert adaptive.size <= 1024  # 20 µs a row


def test_prices_count_and_can_be_declared() -> None:
    """A filter that drops twice as much for ten times the price comes second; a clock that stands leaves what was
    declared."""
    drops = draw(6_000, [0.8, 0.4], seed=2)
    measured = Counting(drops, (500, 50))
    adaptive = AdaptiveConjunction(measured.conjuncts, make_policy("default", Pipeline(2)), clock=measured.clock)
    measured.run(adaptive)
    assert adaptive.policy.order == (1, 0)
    declared = Counting(drops, (0, 0))
    pipeline = Pipeline(2, costs=(5e-4, 5e-5))
    adaptive = AdaptiveConjunction(declared.conjuncts, make_policy("default", pipeline), clock=declared.clock)
    declared.run(adaptive)
    assert adaptive.policy.order == (1, 0)


def test_what_a_decision_gained_is_measured() -> None:
    drops = draw(20_000, [0.05, 0.9], seed=3)
    case = Counting(drops, (100, 100))
    adaptive = AdaptiveConjunction(case.conjuncts, make_policy("default", Pipeline(2)), clock=case.clock)
    case.run(adaptive)
    decision = next(iter(adaptive.log))
    assert decision.before == ["f0(row)", "f1(row)"] and decision.after == ["f1(row)", "f0(row)"]
    # 1.95 calls a row became 1.1.
    assert decision.measured_gain == pytest.approx(1.95 / 1.1, rel=0.1)
    assert decision.expected_gain is not None and decision.expected_gain > 1.2
    json.dumps([d.to_dict() for d in adaptive.log])


def test_one_conjunct_or_none_that_can_move_costs_one_pass() -> None:
    case = Counting(draw(5_000, [0.5], seed=4), (10,))
    adaptive = AdaptiveConjunction(case.conjuncts, make_policy("default", Pipeline(1)), clock=case.clock)
    case.run(adaptive)
    assert adaptive.seen.batches == 1 and case.asked.sum() == 5_000
    pinned = Pipeline(2, pinned=frozenset({0, 1}))
    case = Counting(draw(5_000, [0.1, 0.9], seed=4), (10, 10))
    adaptive = AdaptiveConjunction(case.conjuncts, make_policy("a-greedy", pinned), clock=case.clock)
    case.run(adaptive)
    assert adaptive.seen.batches == 1 and not adaptive.log


@pytest.mark.parametrize("name", sorted(POLICIES))
@pytest.mark.parametrize("way", ["state", "pickle"])
def test_what_was_learned_goes_on_elsewhere(name: str, way: str) -> None:
    """With the state of one, another makes the same calls and the same decisions as the first would have made."""
    rates = [0.1, 0.3, 0.6, 0.8]
    drops = np.concatenate([draw(4_000, rates, seed=5), draw(4_000, rates[::-1], seed=6)])

    def started() -> tuple[Counting, AdaptiveConjunction]:
        case = Counting(drops, (20, 30, 40, 25))
        return case, AdaptiveConjunction(case.conjuncts, quick(name, Pipeline(4)), clock=case.clock)

    case, whole = started()
    case.run(whole, batch=1_000)
    there, second = started()
    before, first = started()
    before.drops = drops[:3_000]
    before.run(first, batch=1_000)
    before.drops = drops
    if way == "state":
        second.load(decode(encode(first.state(), Pieces()), PIECES))
        there.run(second, batch=1_000, start=3_000)
        asked = before.asked + there.asked
    else:
        assert pickle.loads(pickle.dumps(first.policy.state()))
        copied = first.__getstate__()
        assert not {"compiled", "before"} & copied.keys()
        second.__setstate__(copied)
        before.run(second, batch=1_000, start=3_000)
        asked = before.asked
    assert np.array_equal(asked, case.asked)
    assert second.policy.order == whole.policy.order
    assert len(second.log) == len(whole.log)
    assert second.statistics()["asked"] == whole.statistics()["asked"]


PIECES: Any = {}


class Pieces:
    def put(self, name: str, data: bytes) -> None:
        PIECES[name] = data


def test_a_state_of_other_conjuncts_or_another_policy_or_other_parameters_is_of_no_use() -> None:
    case = Counting(draw(3_000, [0.1, 0.9], seed=7), (10, 10))
    learned = AdaptiveConjunction(case.conjuncts, make_policy("default", Pipeline(2)), clock=case.clock)
    case.run(learned)
    other = AdaptiveConjunction(case.conjuncts, make_policy("sweep", Pipeline(2)))
    other.load(learned.state())
    assert other.policy.order == (0, 1) and other.seen.rows == 0
    turned = AdaptiveConjunction(case.conjuncts[::-1], make_policy("default", Pipeline(2)))
    turned.load(learned.state())
    assert turned.seen.rows == 0
    narrow = make_policy("default", Pipeline(2), window=50)
    asked = AdaptiveConjunction(case.conjuncts, narrow, asked={"window": 50})
    asked.load(learned.state())
    assert asked.seen.rows == 0


def test_it_can_be_pickled() -> None:
    conjuncts = [call("gt", col("a"), lit(1)), call("lt", col("a"), lit(5))]
    adaptive = AdaptiveConjunction(conjuncts, make_policy("a-greedy", Pipeline(2)))
    columns = {"a": pa.array(np.arange(2_000) % 8)}
    adaptive.evaluate(columns, 2_000)
    copy = pickle.loads(pickle.dumps(adaptive))
    assert copy.statistics() == adaptive.statistics()
    assert copy.evaluate(columns, 2_000).keep.sum() == 750


@pytest.mark.parametrize(("price", "least", "most"), [(10_000, 32, 32), (100, 64, 128), (0, 64, 64)])
def test_sub_batches_are_small_where_rows_are_dear(price: int, least: int, most: int) -> None:
    case = Counting(draw(2_000, [0.5, 0.5], seed=8), (price, price))
    adaptive = AdaptiveConjunction(case.conjuncts, make_policy("default", Pipeline(2)), clock=case.clock)
    case.run(adaptive)
    assert least <= adaptive.size <= most


def slow_calls(clock: ManualClock, drops: Bools, f: int, call_price: int, nanos: int) -> Callable[[pa.Array], pa.Array]:
    def ask(row: pa.Array) -> pa.Array:
        clock.advance(call_price + nanos * len(row) // 1000)
        return pa.array(~drops[row.to_numpy(), f])

    return ask


def test_what_a_call_costs_does_not_make_a_filter_dear() -> None:
    """Two filters of equal calls; the one written last drops most and costs least a row, but sees few rows at first."""
    drops = draw(400_000, [0.97, 0.5], seed=9)
    clock = ManualClock()
    functions = [slow_calls(clock, drops, 0, 100, 400), slow_calls(clock, drops, 1, 100, 20)]
    conjuncts = [UserCall(FunctionDef(f"f{i}", f, B, kind="arrow"), (col("row"),), B) for i, f in enumerate(functions)]
    adaptive = AdaptiveConjunction(conjuncts, make_policy("default", Pipeline(2)), clock=clock)
    for start in range(0, 400_000, 50_000):
        adaptive.evaluate({"row": pa.array(np.arange(start, start + 50_000))}, 50_000)
    assert adaptive.policy.order == (1, 0)
    assert adaptive.size >= 8192
    assert adaptive.times.marginal[1] == pytest.approx(20e-9, rel=0.3)


def first_call_loads(clock: ManualClock, drops: Bools, f: int, loading: int, kind: str) -> FunctionDef:
    """A predicate that takes 20 µs a row, and ``loading`` µs more at its first call."""
    calls: list[int] = []

    def ask(row: Any) -> Any:
        rows = np.atleast_1d(row.to_numpy() if kind == "arrow" else row)
        clock.advance((0 if calls else loading) + 20 * len(rows))
        calls.append(len(rows))
        passes = ~drops[rows, f]
        return pa.array(passes) if kind == "arrow" else bool(passes[0])

    return FunctionDef(f"f{f}", ask, B, kind=kind)


@pytest.mark.parametrize("kind", ["row", "arrow"])
@pytest.mark.parametrize("rates", [(0.7, 0.68, 0.66), (0.2, 0.9, 0.5), (0.66, 0.7, 0.1)])
@pytest.mark.parametrize("slow", [0, 1, 2])
@pytest.mark.parametrize("name", sorted(set(POLICIES) - {"static"}))
def test_a_model_that_is_loaded_at_the_first_row_misleads_no_gain(
    name: str, slow: int, rates: tuple[float, ...], kind: str
) -> None:
    """The first call takes two seconds, each row 20 µs. What decisions promise is what they bring, and what explain
    calls the price of a row is that of a row."""
    drops, clock = draw(30_000, rates, seed=4), ManualClock()
    functions = [first_call_loads(clock, drops, f, 2_000_000 if f == slow else 0, kind) for f in range(len(rates))]
    conjuncts = [UserCall(function, (col("row"),), B) for function in functions]
    options: dict[str, Any] = {} if name == "default" else {"p": 0.2}
    adaptive, other = (
        AdaptiveConjunction(conjuncts, make_policy(name, Pipeline(len(rates)), **options), clock=clock)
        for _ in range(2)
    )
    for start in range(0, len(drops), 5_000):
        adaptive.evaluate({"row": pa.array(np.arange(start, start + 5_000))}, 5_000)
    for decision in adaptive.log:
        assert decision.expected_gain is not None and decision.measured_gain is not None
        assert 0.5 < decision.expected_gain / decision.measured_gain < 2, decision
    if rates[0] < 0.5:
        assert list(adaptive.log)  # there is something to gain
    assert adaptive.statistics()["seconds_per_row"] == pytest.approx([20e-6] * len(rates), rel=0.5)
    other.load(adaptive.state())
    assert other.adapts() == adaptive.adapts()
