"""Joins with caches that run long enough for caches to be chosen, filled, exchanged and dropped.

Thousands of elements whose rates and skews change, aggregates on top, so that one lost result stays visible, six sets
of options for each join graph. What must come out is computed by ``long_joins`` without a join. At the end a table says
in which runs caches were in use.

``EDDYLINE_CASES`` scales the number of graphs (1 is 6; ``make test-deep`` has 50), ``EDDYLINE_SEED`` moves to others.
"""

from __future__ import annotations

import os
import random
from collections import Counter

import pyarrow as pa
import pytest

from eddyline.core.catalog import Catalog, StreamDef
from eddyline.core.schema import Schema
from eddyline.core.time import TimeKind
from eddyline.cql import bind
from eddyline.testing.reference import Reference
from tests.adapting.join_cases import draw_tree
from tests.scale import DEEP, FACTOR
from tests.semantics.cache_coverage import Table, runs_with, watching
from tests.semantics.long_joins import SCHEMA, SHAPES, WINDOWS, draw, run

SEED = os.environ.get("EDDYLINE_SEED", "2005")
GRAPHS = round(10 * FACTOR) if DEEP else max(2, round(6 * FACTOR))
PARTS = 10
MOST_ELEMENTS = 4000 if FACTOR >= 1 else 150  # elements of a stream; fewer where kernels are not compiled
# The share of the runs of a deep form in which each thing that caches do must have happened: of a fault that spoils the
# answer of one such run in thirty, a hundred of them (of 1,200, CASES=20) miss 3 % (0.967 ** 100), and 25 of 300 43 %.
# What happens within one run is not independent.
SHARE_WITH_EACH = 1 / 12
TABLE = Table()
IN_USE: Counter[bool] = Counter()  # graphs, by whether a cache was hit

ORDERS = ("default", "static", "a-greedy", "sweep", "independent", "local-swaps")
CACHES = (
    "global(interval=500)",
    "global(interval=300, W=3, W_d=16, m=12)",
    "prefix(interval=300, W=3, W_d=16)",
    "global(interval=200, W=1, W_d=8, threshold=0.001)",
    "global(interval=300, W=3, W_d=16, memory=4096, page=256)",
    "prefix(interval=300, W=3, W_d=16, memory=2048, page=128)",
)


def option_sets(number: int) -> list[tuple[str, str]]:
    """Each way to order with one way to cache: after six graphs each with each."""
    return [(orders, CACHES[(number + n) % len(CACHES)]) for n, orders in enumerate(ORDERS)]


@pytest.mark.parametrize("part", range(PARTS))
def test_answers_with_caches_are_those_of_the_tensor_product(part: int) -> None:
    for number in range(part, GRAPHS, PARTS):
        rng = random.Random(f"{SEED}/long join/{number}")
        case = draw(rng, number * 7, MOST_ELEMENTS)  # 7: neighbours differ in shape and in window
        expected = case.expected()
        used = False
        for orders, caches in option_sets(number):
            options = {"caches": caches, **({} if orders == "default" else {"joins": orders})}
            with watching() as coverage:
                wrong = case.difference(run(case, rng, options), expected)
            if wrong is not None:
                pytest.fail(f"graph {SEED}/{number}, {options}\n{case.text}\n{wrong}", pytrace=False)
            seen = coverage.finish()
            used |= seen["hits"] > 0
            TABLE.add({"shape": case.shape, "windows": case.kind, "joins": orders, "caches": caches}, seen)
        IN_USE[used] += 1


def test_trees_that_keep_subresults_whole_give_the_tensor_product() -> None:
    for number in range(max(2, GRAPHS // 2)):
        rng = random.Random(f"{SEED}/long tree/{number}")
        case = draw(rng, number * 7, min(MOST_ELEMENTS, 1500))
        tree = draw_tree(rng, [f"i{i}" for i in range(len(case.streams))])
        wrong = case.difference(run(case, rng, {"tree": tree}), case.expected())
        assert wrong is None, (number, tree, case.text, wrong)


def test_the_tensor_product_agrees_with_the_reference() -> None:
    results = 0
    for number in range(45 if FACTOR >= 1 else 9):
        case = draw(random.Random(f"{SEED}/small/{number}"), number, 24, inputs=(3, 3, 4))
        catalog = Catalog()
        for name in case.tables:
            catalog.add(
                "streams", StreamDef(name, Schema.from_arrow(SCHEMA), TimeKind.INTEGER, timestamp="ts", slack=0)
            )
        elements = {n: [(row["ts"], row) for row in case.arrow(n).to_pylist()] for n in case.tables}
        answer = Reference(bind(case.text, catalog), elements).run()
        names = [*([] if case.group is None else ["g"]), "n", "s"]
        columns = {n: pa.array([r.values[i] for r in answer], pa.int64()) for i, n in enumerate(names)}
        times = pa.array([r.time for r in answer], pa.int64())
        wrong = case.difference(pa.table({**columns, "_time": times}), case.expected())
        assert wrong is None, (case.text, wrong)
        results += sum(r.values[names.index("n")] for r in answer)
    assert results > 500


def test_caches_were_in_use() -> None:
    if IN_USE.total() < GRAPHS:
        pytest.fail("run the whole file: what caches did is counted by the tests above")
    print(
        f"\n{GRAPHS} join graphs with {len(ORDERS)} sets of options each; caches were in use in {IN_USE[True]} graphs"
    )
    print(TABLE)
    assert 2 * IN_USE[True] >= GRAPHS or FACTOR < 1
    if DEEP:
        for part, count in (("shape", len(SHAPES)), ("windows", len(WINDOWS)), ("joins", 6), ("caches", 6)):
            rows = TABLE.values(part)
            assert len(rows) == count and all(row["in use"] > 0 for _, row in rows), part
        for column in ("chosen", "supported", "filled", "hits", "updates", "pushed out", "exchanged", "dropped"):
            runs = sum(row[runs_with(column)] for _, row in TABLE.values("joins"))
            assert runs >= SHARE_WITH_EACH * GRAPHS * len(ORDERS), column
