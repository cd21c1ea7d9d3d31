"""Sums and spreads are functions of the bag alone: compared with exact rationals, whatever came and went before."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eddyline.kernels import superaccumulator as exact

DBL_MAX = float(np.finfo(np.float64).max)
TINY = 5e-324
SPECIAL = [0.0, -0.0, TINY, -TINY, 2.0**-1022, 1.0, -1.0, 0.1, 1e16, 1.0 + 2**-52, DBL_MAX, -DBL_MAX, 2.0**970, 1e-300]
doubles = st.one_of(
    st.sampled_from(SPECIAL), st.floats(allow_nan=False, allow_infinity=False), st.integers(-9, 9).map(float)
)
anything = st.one_of(doubles, st.sampled_from([math.inf, -math.inf, math.nan]))


def sums(values: list[float], weights: list[int]) -> list[float | None]:
    """The sum after each element, all in one group."""
    n = len(values)
    out, count = np.zeros(n), np.zeros(n, np.int64)
    state = np.zeros(2 * exact.ROW, np.int64)
    exact.sum_doubles(
        np.ones(n, np.int64),
        np.array(weights, np.int64),
        np.empty(0, np.bool_),
        np.array(values, np.float64).view(np.int64),
        np.arange(n),
        state,
        np.zeros(exact.ROW, np.int64),
        out,
        count,
    )
    if count[-1] == 0:
        assert not state.any(), "an empty bag must leave nothing behind"
    return [x if c else None for x, c in zip(out.tolist(), count.tolist(), strict=True)]


def spreads(values: list[float], weights: list[int], less: int, root: bool) -> list[float | None]:
    n = len(values)
    out, count = np.zeros(n), np.zeros(n, np.int64)
    exact.spread_doubles(
        np.zeros(n, np.int64),
        np.array(weights, np.int64),
        np.empty(0, np.bool_),
        np.array(values, np.float64).view(np.int64),
        np.arange(n),
        np.zeros(exact.ROW, np.int64),
        np.zeros(exact.SQUARE_ROW, np.int64),
        less,
        root,
        np.zeros((5, exact.SQUARE_ROW + 16), np.int64),
        out,
        count,
    )
    return [x if c > less else None for x, c in zip(out.tolist(), count.tolist(), strict=True)]


def to_float(x: Fraction) -> float:
    try:
        return float(x)
    except OverflowError:
        return math.inf if x > 0 else -math.inf


def expected_sum(bag: list[tuple[float, int]]) -> float:
    values = [v for v, w in bag if w]
    if any(math.isnan(v) for v in values) or {math.inf, -math.inf} <= set(values):
        return math.nan
    for infinity in (math.inf, -math.inf):
        if infinity in values:
            return infinity
    return to_float(sum((Fraction(v) * w for v, w in bag if w), Fraction(0)))


@st.composite
def histories(draw: st.DrawFn, values: st.SearchStrategy[float]) -> list[tuple[float, int]]:
    """Insertions and deletions of what is there."""
    history: list[tuple[float, int]] = []
    alive: list[float] = []
    for _ in range(draw(st.integers(1, 25))):
        if alive and draw(st.booleans()):
            history.append((alive.pop(draw(st.integers(0, len(alive) - 1))), -1))
        else:
            v = draw(values)
            alive.append(v)
            history.append((v, 1))
    return history


@settings(max_examples=200, deadline=None)
@given(histories(anything))
def test_sum_is_the_rounded_sum_of_what_is_there(history: list[tuple[float, int]]) -> None:
    got = sums([v for v, _ in history], [w for _, w in history])
    bag: dict[int, tuple[float, int]] = {}
    for i, (v, w) in enumerate(history):
        bits = int(np.float64(v).view(np.int64))
        bag[bits] = v, bag.get(bits, (v, 0))[1] + w
        if sum(n for _, n in bag.values()) == 0:
            assert got[i] is None
        else:
            assert repr(got[i]) == repr(expected_sum(list(bag.values())) + 0.0)


@settings(max_examples=200, deadline=None)
@given(st.lists(doubles, min_size=1, max_size=40))
def test_agrees_with_fsum(values: list[float]) -> None:
    try:
        expected = math.fsum(values)
    except OverflowError:
        return
    assert sums(values, [1] * len(values))[-1] == expected


@settings(max_examples=200, deadline=None)
@given(st.lists(st.tuples(doubles, st.one_of(st.integers(-5, 5), st.integers(-(2**60), 2**60))), max_size=3))
def test_heavy_weights(elements: list[tuple[float, int]]) -> None:
    elements = [(0.0, 2**62), *elements]  # the bag is never empty
    got = sums([v for v, _ in elements], [w for _, w in elements])
    assert got[-1] == to_float(sum((Fraction(v) * w for v, w in elements), Fraction(0)))


def test_overflow_and_back() -> None:
    assert sums([DBL_MAX, DBL_MAX, DBL_MAX, 1.0], [1, 1, -1, 1]) == [DBL_MAX, math.inf, DBL_MAX, DBL_MAX]
    assert sums([-DBL_MAX, -DBL_MAX, DBL_MAX, DBL_MAX, 3.0], [1] * 5)[1:] == [-math.inf, -DBL_MAX, 0.0, 3.0]


def test_infinities_and_nan_leave_no_trace() -> None:
    got = sums([1.5, math.inf, -math.inf, math.inf, -math.inf, math.nan, math.nan], [1, 1, 1, -1, -1, 1, -1])
    assert [repr(x) for x in got] == ["1.5", "inf", "nan", "-inf", "1.5", "nan", "1.5"]


def test_half_way_cases_round_to_even() -> None:
    half = 2.0**-53
    assert sums([1.0, half], [1, 1])[-1] == 1.0
    assert sums([1.0, half, TINY], [1, 1, 1])[-1] == 1.0 + 2**-52
    assert sums([1.0 + 2**-52, half], [1, 1])[-1] == 1.0 + 2**-51
    assert sums([1.0 + 2**-52, half, -TINY], [1, 1, 1])[-1] == 1.0 + 2**-52


def test_carries_are_propagated_before_anything_overflows() -> None:
    """Many additions of the widest pattern, as few elements of large weight: limbs come close to their bound."""
    x = math.nextafter(2.0, 0.0)
    weights = [2**26 - 1, -(2**26) + 2, 2**25] * 40
    values = [x, -x, -x] * 40
    total = sum((Fraction(v) * w for v, w in zip(values, weights, strict=True)), Fraction(0))
    assert sums(values, weights)[-1] == float(total)


def test_repeated_propagation_of_a_negative_sum_stays_in_place() -> None:
    n = 300
    assert sums([-1.5] * n, [2**26] * n)[-1] == -1.5 * 2**26 * n


@settings(max_examples=200, deadline=None)
@given(
    histories(
        st.one_of(
            st.floats(-1e150, 1e150).filter(lambda x: x == 0 or abs(x) > 1e-120),
            st.integers(-4, 4).map(float),
            st.floats(99.0, 101.0),
        )
    )
)
def test_spread_is_correctly_rounded(history: list[tuple[float, int]]) -> None:
    values, weights = [v for v, _ in history], [w for _, w in history]
    for less, root in ((1, False), (0, True)):
        got = spreads(values, weights, less, root)
        bag: list[float] = []
        for i, (v, w) in enumerate(history):
            if w > 0:
                bag.append(v)
            else:
                bag.remove(v)
            if len(bag) <= less:
                assert got[i] is None
                continue
            n = len(bag)
            first, second = sum(map(Fraction, bag), Fraction(0)), sum((Fraction(x) ** 2 for x in bag), Fraction(0))
            variance = float((n * second - first**2) / (n * (n - less)))
            assert got[i] == (math.sqrt(variance) if root else variance)


def test_spread_does_not_cancel() -> None:
    base = 1e15
    values = [base + k for k in (0.0, 1.0, 2.0, 3.0, 4.0)]
    assert spreads(values, [1] * 5, 1, False)[-1] == 2.5
    assert spreads([1e300, -1e300], [1, 1], 0, True)[-1] == 1e300  # the variance itself is beyond all doubles
    assert spreads([1e300, -1e300], [1, 1], 0, False)[-1] == math.inf
    assert spreads([TINY, 3 * TINY], [1, 1], 0, True)[-1] == TINY
    assert math.isnan(spreads([1.0, math.inf], [1, 1], 0, True)[-1] or 0.0)
    assert spreads([1.0, math.inf, math.inf, 3.0], [1, 1, -1, 1], 0, True)[-1] == 1.0


def test_spread_with_heavy_weights() -> None:
    got = spreads([1.0, 3.0], [2**40, 2**40], 0, True)
    assert got[-1] == pytest.approx(1.0, rel=1e-15)
