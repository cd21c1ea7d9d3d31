"""Queries within a limit of memory: rows of windows go to the disk, caches shrink, and no answer changes.

Chunks of stores are sealed after a few rows here, and the smallest go to the disk, so that short cases spill. With
``-s`` a line says how many cases spilled, and how many files were written.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from eddyline.synopses import store
from eddyline.synopses.row_files import RowFiles
from eddyline.testing.cases import draw_case
from tests.scale import scaled
from tests.semantics import long_joins
from tests.semantics.engine import JOINS, Way, mismatch, run_engine

CASES = scaled(16, least=8)
GRAPHS = scaled(4, least=2)
LIMITS = (0, 200, 2_000, "20 kB")


@pytest.fixture
def written(monkeypatch: pytest.MonkeyPatch) -> Iterator[Counter[str]]:
    """Small chunks go to the disk; counts files."""
    seen: Counter[str] = Counter()
    put = RowFiles.put

    def counting(self: RowFiles, columns: Any) -> Any:
        seen["files"] += 1
        return put(self, columns)

    monkeypatch.setattr(store, "LEAST_SPILLED_BYTES", 1)
    monkeypatch.setattr(store, "MERGED_ROWS", 4)
    monkeypatch.setattr(RowFiles, "put", counting)
    yield seen
    print(f"\n{dict(seen)}")


@pytest.mark.parametrize("part", range(3))
def test_answers_are_those_of_the_reference(part: int, written: Counter[str]) -> None:
    for i in range(CASES):
        rng = random.Random(f"memory/{part}/{i}")
        case = draw_case(rng)
        expected, before = case.expected(), written["files"]
        options = {"memory": rng.choice(LIMITS), **rng.choice([{}, {}, *JOINS[:5]])}
        seed = rng.randrange(1 << 30)
        for way in (
            Way(seed, batch=rng.choice([1, 3, 1000]), encoded=True, options=options),
            Way(seed, small=True, snapshot=True, twins=1, toggle=rng.random() < 0.5, options=options),
        ):
            assert mismatch(case, expected, run_engine(case, way)) is None, f"{way}\n{case.snippet()}"
        written["cases that spilled"] += written["files"] > before
    assert written["cases that spilled"] > 0.2 * CASES, written


@pytest.mark.parametrize("part", range(2))
def test_long_joins_under_aggregates_count_alike(part: int, written: Counter[str], monkeypatch: Any) -> None:
    monkeypatch.setattr(store, "MERGED_ROWS", 16)
    for number in range(part, GRAPHS, 2):
        rng = random.Random(f"limited/{number}")
        case = long_joins.draw(rng, number, 1_500)
        limit = rng.choice([0, 10_000, 60_000])
        caches = {"caches": "global(interval=300, W=3, W_d=16)"} if limit else {}
        answer = long_joins.run(case, rng, {"memory": limit, **caches}, [40])
        assert case.difference(answer, case.expected()) is None, (limit, case.text)
    assert written["files"] > 5 * (GRAPHS // 2), written
