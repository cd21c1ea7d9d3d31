"""Shedding by coins, and intervals that cover: simulated with many seeds."""

from __future__ import annotations

import numpy as np
import pytest

from eddyline.adaptive.overload.horvitz_thompson import average, total
from eddyline.adaptive.overload.shedding import Shedding
from eddyline.core.overload import Overload

RUNS = 500


def weights(seed: int, rows: int, share: float) -> tuple[np.ndarray, np.ndarray]:
    """Which rows a stream keeps that is overloaded now and then, and their weights. It releases 300 rows after every
    400 that come, or all of them now and then; what it holds depends on what it kept."""
    shedding = Shedding(Overload("sample", 500, "rows", share, seed))
    keep, weight, held = np.zeros(rows, np.bool_), np.ones(rows), 0
    for number, start in enumerate(range(0, rows, 400)):
        count = min(400, rows - start)
        found = shedding.keeps(count, held, 1)
        if found is None:
            found = np.ones(count, np.bool_)
        else:
            assert shedding.since is not None
            weight[start + shedding.since : start + count] = 1 / share
        keep[start : start + count] = found
        held = 0 if number % 9 == 8 else max(0, held + int(found.sum()) - 100)
    return keep, weight[keep]


@pytest.mark.parametrize("share", [0.05, 0.3])
@pytest.mark.parametrize("shape", ["normal", "skewed"])
def test_intervals_cover_the_truth_in_at_least_93_percent_of_the_runs(share: float, shape: str) -> None:
    values = np.random.default_rng(1).normal(50, 20, 8000)
    if shape == "skewed":
        values = np.random.default_rng(1).exponential(50, 8000)
    passing = values > 30  # the condition of a query
    truths = {"count": passing.sum(), "sum": values[passing].sum(), "avg": values[passing].mean()}
    covered = dict.fromkeys(truths, 0)
    mixed = 0
    for seed in range(RUNS):
        keep, w = weights(seed, len(values), share)
        mixed += w.max() > 1.0 and w.min() == 1.0
        w, y = w[passing[keep]], values[keep & passing]
        ww = w * (w - 1)
        found = {
            "count": total(w.sum(), ww.sum()),
            "sum": total((w * y).sum(), (ww * y * y).sum()),
            "avg": average(w.sum(), (w * y).sum(), ww.sum(), (ww * y).sum(), (ww * y * y).sum()),
        }
        for name, estimate in found.items():
            assert estimate is not None
            covered[name] += estimate.covers(float(truths[name]))
    assert mixed == RUNS, "every run has rows with and without sampling"
    print(covered)
    assert min(covered.values()) >= 0.93 * RUNS, covered


def test_the_same_rows_are_kept_however_they_are_cut() -> None:
    for seed in range(20):
        spec = Overload("sample", 10, "rows", 0.3, seed)
        whole = Shedding(spec).keeps(1000, 0, 1)
        cut, parts, held = Shedding(spec), [], 0
        for size in (3, 7, 1, 0, 500, 489):
            found = cut.keeps(size, 10 if held >= 10 else held, 1)
            parts.append(np.ones(size, np.bool_) if found is None else found)
            held += int(parts[-1].sum())
        assert whole is not None and (np.concatenate(parts) == whole).all()


def test_overload_ends_below_the_bound_and_is_decided_once_each_time() -> None:
    shedding = Shedding(Overload("drop", 100, "rows"))
    loads = [50, 100, 95, 85, 80, 99, 100, 10]
    kept = [shedding.keeps(1, load, 1) is None for load in loads]
    assert kept == [True, False, False, False, True, True, False, True]
    assert [d.after for d in shedding.taken_decisions()] == ["DROP ABOVE 100 ROWS", "all rows"] * 2
    assert shedding.shed == 4
