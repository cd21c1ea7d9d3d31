"""Both forms of the kernels leave the same words in the same places."""

from __future__ import annotations

import random
from contextlib import nullcontext
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from numba.core import config

import eddyline as ed
from eddyline.kernels import join_layout as k
from eddyline.kernels import join_slices
from eddyline.operators.join_arrays import JoinArrays
from eddyline.operators.mjoin import MJoin
from eddyline.testing.forms import changing_forms

SCHEMA = pa.schema([("ts", pa.int64()), ("a", pa.int64()), ("b", pa.int64())])
# Fixed orders, and caches that are chosen after so many events or not at all: when others are profiled follows from
# measured time, and so do their counters.
CACHES = {"joins": "static", "caches": "global(interval=8, W=1, W_d=2, threshold=0.001)"}
QUERIES = (
    ("SELECT Istream(R.ts AS x, S.ts AS y, T.ts AS z) FROM R [RANGE 60], S [RANGE 40], T [ROWS 30]"
     " WHERE R.a = S.a AND S.b = T.b", {"joins": "static", "caches": "none"}),
    ("SELECT Istream(R.ts AS x, S.ts AS y, T.ts AS z) FROM R [RANGE 60], S [RANGE 60], T [RANGE 60]"
     " WHERE R.a = S.a AND S.b = T.b", CACHES),
    ("SELECT R.ts AS x, S.ts AS y, T.ts AS z FROM R [RANGE 30], S [PARTITION BY a ROWS 3], T [RANGE 60]"
     " WHERE R.a = S.a AND R.a = T.a AND R.b < T.b", {"joins": "static", "caches": "none"}),
    ("SELECT a, SUM(b) AS s, COUNT(*) AS n, MIN(b) AS l FROM R [RANGE 50] GROUP BY a", {}),
)  # fmt: skip
PLACES = ("heads", "records", "codes", "leave", "weight", "born", "first", "tail", "counters", "machine", "active")


def run(query: str, options: dict[str, str], changing: bool) -> tuple[list[Any], list[Any]]:
    rng = np.random.default_rng(3)
    session = ed.Session()
    for name in "RST":
        session.stream(name, schema=SCHEMA, timestamp="ts")
    with changing_forms(random.Random(5)) if changing else nullcontext():
        running = session.query(query, **options)
        for begin in range(0, 400, 40):
            for name in "RST":
                ts = np.sort(rng.integers(begin, begin + 40, 30))
                columns = [pa.array(rng.integers(0, 9, 30), mask=rng.random(30) < 0.1) for _ in "ab"]
                session.push(name, pa.table([pa.array(ts), *columns], schema=SCHEMA))
        session.finish()
        rows = running.to_arrow().to_pylist()
    operators = [n.operator for n in running.running.physical.nodes]
    joins: list[JoinArrays] = [o.arrays for o in operators if isinstance(o, MJoin)]
    return rows, [getattr(j, p) for j in joins for p in PLACES] + [j.cache_operators.caches.cells for j in joins]


@pytest.mark.parametrize(("query", "options"), QUERIES)
def test_the_synopses_are_the_same(query: str, options: dict[str, str]) -> None:
    rows, words = run(query, options, changing=False)
    changed_rows, changed_words = run(query, options, changing=True)
    assert rows == changed_rows and len(rows) > 50
    for place, other in zip(words, changed_words, strict=True):
        assert (place == other).all()


def test_the_elements_of_a_call_are_those_that_come_and_those_that_leave() -> None:
    inputs = np.zeros((2, k.INPUT_FIELDS), np.int64)
    inputs[:, k.EV_LEN] = 10, 5
    inputs[:, k.POS_MASK], inputs[1, k.POS_OFF] = 7, 8
    inputs[1, k.KIND] = k.BAG
    args: list[Any] = [None] * 24
    args[join_slices.FRONTIER], args[join_slices.LIMIT], args[join_slices.INPUTS] = 20, 1000, inputs
    # Rows 6 … 10 of a ring of eight places leave at 16, 18, 20, 22, 24.
    leave = np.zeros(16, np.int64)
    for row in range(6, 11):
        leave[row & 7] = 4 + 2 * row
    args[join_slices.LEAVE] = leave
    args[join_slices.FIRST], args[join_slices.TAIL] = np.array([6, 0]), np.array([11, 9])
    args[join_slices.NEXT_EVENT] = np.array([4, 5])
    assert join_slices.elements(*args) == 6 + 3
    args[join_slices.LIMIT] = 2
    assert join_slices.elements(*args) == 2


def test_the_arguments_are_where_the_slices_look_for_them() -> None:
    from eddyline.kernels.join import mjoin

    function: Any = mjoin if config.DISABLE_JIT else mjoin.py_func
    names = function.__code__.co_varnames
    for place in ("FRONTIER", "LIMIT", "INPUTS", "LEAVE", "FIRST", "TAIL", "NEXT_EVENT", "COUNTERS"):
        assert names[getattr(join_slices, place)] == place.lower()
