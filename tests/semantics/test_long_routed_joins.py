"""Multi-route joins that run long enough for indexes to be assessed, selected, exchanged and migrated.

The same random graphs as for caches, with aggregates on top, each with nine ways to index and to route. At the end a
table says what the indexes did. With counted costs every decision draws any indexes; with costs that are measured the
policies choose, as in a user's run, by the costs of operations on a machine that is drawn. A call and a new index cost
nothing there and decisions need not pay: windows of some hundred rows would otherwise keep their first indexes.
"""

from __future__ import annotations

import os
import random
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from unittest.mock import patch

import pytest

from eddyline.adapting import decision_pace, index_costs
from eddyline.adapting.route_control import RoutesAndIndexes
from eddyline.adaptive.indexes import amri, fitting
from eddyline.adaptive.indexes.cost import UnitCosts
from eddyline.adaptive.indexes.selection import Choice
from tests.scale import FACTOR, scaled
from tests.semantics.long_joins import draw, run

SEED = os.environ.get("EDDYLINE_SEED", "2012")
GRAPHS = scaled(5, least=2, most=8)
PARTS = 5
MOST_ELEMENTS = 1500 if FACTOR >= 1 else 100  # elements of a stream
QUICK = "window=200, periodic=600, triggered=900, partition=64, batch=50, costs=counted"
MEASURED = QUICK.replace("counted", "measured")
INDEXES = (
    f"amri({QUICK})",
    f"amri({QUICK}, assessment=cdia-random, migration=all, routes=lottery, explore=3)",
    f"amri({QUICK}, assessment=csria, scheduling=continuous, migration=partial, routes=random, memory=2000)",
    f"hash(count=2, {QUICK}, routes=random)",
    f"bitmap({QUICK}, assessment=dia, scheduling=periodic, routes=lottery)",
    "single(partition=64, batch=7, in_flight=1, routes=written)",
    f"fitting({QUICK}, memory=4000, routes=lottery)",
    f"amri({MEASURED})",
    f"fitting({MEASURED}, memory=4000)",
)
SEEN: dict[str, Counter[str]] = {index: Counter() for index in INDEXES}


def count(index: str, control: RoutesAndIndexes) -> None:
    SEEN[index] += Counter(
        {
            "joins": 1,
            "changes": control.tunings,
            "rows moved": control.migrated,
            "steps": len(control.routes.fanout),
        }
    )


@contextmanager
def any_bits(rng: random.Random) -> Iterator[None]:
    """Every decision changes bits or kinds, to any that fit: there are many changes, and good ones would be few."""

    def bits(n: int, most: int, load: object, unit: object) -> tuple[int, ...]:
        drawn = [0] * n
        for _ in range(rng.randint(0, min(most, 8)) if n else 0):
            drawn[rng.randrange(n)] += 1
        return tuple(drawn)

    def kinds(n: int, load: object, unit: object, arriving: float) -> list[Choice]:
        hashes = [("hashed", *sorted(rng.sample(range(n), rng.randint(1, n)))) for _ in range(rng.randint(1, 3)) if n]
        other = tuple(dict.fromkeys(hashes)), (("bits", *bits(n, 8, load, unit)),)
        sets = [(), *rng.sample(other, rng.randint(0, 2))]
        return [Choice(indexes, -float(at), 300 * at) for at, indexes in enumerate(sets)]

    with (
        patch.multiple(amri, select=bits, CHANGE_RATIO=0.0, EXPECTED_WORTH=0.0),
        patch.multiple(fitting, candidates=kinds, CHANGE_RATIO=0.0, EXPECTED_WORTH=-1.0),
    ):
        yield


@contextmanager
def any_machine(rng: random.Random) -> Iterator[None]:
    """Complete assessments lead to decisions at once, by the costs of a machine that is drawn for each join."""
    costs = UnitCosts(*(rng.choice((0.5, 1.0, 3.0, 10.0, 30.0)) for _ in range(6)), hit=rng.choice((0.0, 1.0, 30.0)))
    with (
        patch.object(decision_pace, "SEARCH_TIME_PER_DECISION_TIME", 0.0),
        patch.object(index_costs, "_measured", costs),
    ):
        yield


@pytest.mark.parametrize("part", range(PARTS))
def test_answers_with_any_route_and_index_are_those_of_the_tensor_product(part: int) -> None:
    for number in range(part, GRAPHS, PARTS):
        rng, tried = random.Random(f"{SEED}/routed/{number}"), number * 7
        case = draw(rng, tried, MOST_ELEMENTS, inputs=(2, 3, 4, 4, 5))
        while any(w.kind == "partition" for w in case.windows):  # such a window is refused: tested elsewhere
            tried += 9  # the same shape with the next kind of window
            case = draw(rng, tried, MOST_ELEMENTS, inputs=(2, 3, 4, 4, 5))
        expected = case.expected()
        for index in INDEXES:
            made: list[RoutesAndIndexes] = []
            original = RoutesAndIndexes.__init__

            def remember(self, *args, made=made, original=original, **kwargs):
                original(self, *args, **kwargs)
                made.append(self)

            decisions = any_machine(rng) if "measured" in index else any_bits(rng)
            with patch.object(RoutesAndIndexes, "__init__", remember), decisions:
                answer = run(case, rng, {"joins": "routes", "index": index})
            wrong = case.difference(answer, expected)
            assert wrong is None, f"graph {SEED}/{number}, {index}\n{case.text}\n{wrong}"
            for control in made:
                count(index, control)


def test_indexes_were_exchanged_and_migrated() -> None:
    if sum(c["joins"] for c in SEEN.values()) < GRAPHS * len(INDEXES):
        pytest.fail("run the whole file: what indexes did is counted by the tests above")
    print(f"\n{GRAPHS} join graphs with {len(INDEXES)} ways to index each")
    for index, seen in SEEN.items():
        print(f"  {index:100s} " + ", ".join(f"{n} {c}" for n, c in seen.items()))
    if FACTOR >= 1:
        changes = [SEEN[index]["changes"] for index in INDEXES]
        assert all(changes[i] > 5 * GRAPHS for i in (0, 1, 2, 3))
        assert changes[4] > GRAPHS
        assert changes[5] == 0
        assert changes[6] > 5 * GRAPHS
        assert all(changes[i] > GRAPHS for i in (7, 8))
        assert all(SEEN[INDEXES[i]]["rows moved"] > 100 * GRAPHS for i in (0, 1, 6))
