"""The cases of the benchmarks, counted: what the default costs against the clairvoyant and the best fixed order."""

from __future__ import annotations

import numpy as np
import pytest
from benchmarks.filter_cases import PHASE, FilterCase, cheap, expensive, population
from benchmarks.filters import PRICES, Yardsticks, count


@pytest.mark.parametrize("seed", [0, 1])
def test_the_default_on_expensive_predicates(seed: int) -> None:
    drops, changes = population(3 * PHASE, seed=100 * seed)
    yard = Yardsticks(drops, changes, PRICES)
    counted = count("default", drops, seed=seed)
    assert yard.clairvoyant <= counted.total <= 1.15 * yard.clairvoyant
    assert yard.settled(counted) <= 1.05
    assert counted.total < yard.best_fixed
    assert 0 < counted.profiling < 0.04 * counted.total


def test_where_order_cannot_matter() -> None:
    """Six equal filters: what is spent to learn is all that is lost."""
    same = np.repeat(np.random.default_rng(3).random((60_000, 1)) < 0.5, 6, axis=1)
    counted = count("default", same, prices=(20,) * 6)
    assert counted.total <= 1.03 * 60_000 * (0.5 * 20 * 6 + 0.5 * 20)


@pytest.mark.parametrize("case", [expensive(2_000), cheap(2_000)], ids=lambda c: c.name)
def test_the_functions_say_what_the_bits_say(case: FilterCase) -> None:
    for f, p in enumerate(case.predicates):
        columns = [case.table.column(c) for c in p.columns]
        if p.kind == "row":
            found = [p(*row) for row in zip(*(c.to_pylist() for c in columns), strict=True)]
        else:
            found = p(*(c.to_pandas() for c in columns))
        assert np.array_equal(np.asarray(found, np.bool_), ~case.drops[:, f]), p.name
