"""Functions that are not deterministic, over windows whose rows leave: each row is asked about once, and what went in
comes out again."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pytest

import eddyline as ed
from eddyline.core.delta import Delta
from eddyline.core.schema import Field, Schema
from eddyline.operators.base import Operator
from eddyline.operators.judged_once import JudgedOnce

ROWS = 400
WHERE = {"alone": "coin(a)", "with a function": "coin(a) AND even(a)", "with IN": "coin(a) AND a IN (SELECT a FROM R)"}
WINDOWS = ("[ROWS 3]", "[RANGE 3]", "[PARTITION BY b ROWS 2]", "[RANGE 4 SLIDE 2]")


def _session(calls: list[int], seed: int) -> ed.Session:
    dice = random.Random(seed)

    def coin(a: int) -> bool:
        calls.append(a)
        return dice.random() < 0.5

    session = ed.Session()
    rows = pa.table({"ts": [i // 2 for i in range(ROWS)], "a": list(range(ROWS)), "b": [i % 5 for i in range(ROWS)]})
    session.stream("S", rows, timestamp="ts")
    session.relation("R", pa.table({"a": list(range(ROWS))}))
    session.function("coin", coin, returns="boolean", deterministic=False)
    session.function("even", lambda a: a % 7 != 3, returns="boolean")
    return session


@pytest.mark.parametrize("window", WINDOWS)
@pytest.mark.parametrize("where", WHERE.values(), ids=WHERE)
def test_a_row_leaves_exactly_if_it_entered(window: str, where: str) -> None:
    calls: list[int] = []
    query = _session(calls, 1).query(f"SELECT a FROM S {window} WHERE {where}")
    changes = query.to_arrow()
    there: Counter[int] = Counter()
    for a, sign in zip(changes["a"].to_pylist(), changes["_sign"].to_pylist(), strict=True):
        there[a] += 1 if sign in ("+", 1) else -1
        assert there[a] in (0, 1)
    assert max(Counter(calls).values()) == 1
    assert len(changes) > 50
    assert sum(there.values()) <= 10  # what the window still holds


class _Odd(Operator):
    """A selection that counts what it is asked about."""

    asked = 0

    def process(self, deltas: Sequence[Delta], frontier: int) -> Delta:
        (delta,) = deltas
        self.asked += len(delta)
        return delta.filter(delta.columns["a"].to_numpy() % 2 == 1)


def _delta(time: int, *changes: tuple[int, int]) -> Delta:
    """Rows whose value is their id, with their signs."""
    ids, signs = (np.array(x, np.int64) for x in zip(*changes, strict=True))
    return Delta(np.full(len(ids), time), {"a": pa.array(ids)}, signs, ids)


def test_what_passed_is_part_of_a_snapshot() -> None:
    schema = Schema((Field("a", pa.int64()),))
    operator = JudgedOnce(_Odd("odd", schema), schema)
    out = operator.process((_delta(1, (1, 1), (2, 1), (3, 1)),), 1)
    assert out.columns["a"].to_pylist() == [1, 3]
    again = JudgedOnce(_Odd("odd", schema), schema)
    again.load(operator.state())
    out = again.process((_delta(2, (1, -1), (2, -1), (5, 1), (5, -1)),), 2)
    assert (out.columns["a"].to_pylist(), out.weights.tolist()) == ([1], [-1])
    assert len(again.memory) == 1 and again.memory.find([pa.array([3])], 1)[0] >= 0
    assert again.inner.asked == 0  # type: ignore[attr-defined]  # 5 came and went within one instant
