"""Fetching memory ahead changes no answer, and asks for what will be needed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Any
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pytest
from numba.core import config

import eddyline as ed
from eddyline.kernels import join_ahead
from eddyline.kernels import join_layout as k
from eddyline.kernels.hashing import mix_python
from eddyline.operators import join_arrays
from eddyline.operators.join_arrays import JoinArrays
from eddyline.operators.mjoin import MJoin
from eddyline.synopses import join_contents

SCHEMA = pa.schema([("ts", pa.int64()), ("a", pa.int64()), ("b", pa.int64())])
QUERIES = (
    "SELECT Istream(R.ts AS x, S.ts AS y, T.ts AS z) FROM R [RANGE 60], S [RANGE 40], T [ROWS 30]"
    " WHERE R.a = S.a AND S.b = T.b",
    "SELECT Istream(R.ts AS x, S.ts AS y, T.ts AS z) FROM R [RANGE 30], S [PARTITION BY a ROWS 3], T [RANGE 60]"
    " WHERE R.a = S.a AND R.a = T.a AND R.b = T.b",
    "SELECT Istream(COUNT(*) AS n, SUM(S.b) AS s) FROM R [RANGE 50], S [RANGE 20], T [RANGE 20]"
    " WHERE R.a = S.a AND S.b = T.b AND R.b < T.a",
    "SELECT Istream(R.ts AS x, S.ts AS y) FROM R [ROWS 20], S [RANGE 10], T [ROWS 4]",
)


@contextmanager
def asked() -> Iterator[list[tuple[Any, int]]]:
    """The places for which plain Python asks; each must be one of its array."""
    places: list[tuple[Any, int]] = []

    def look(array: Any, index: Any) -> None:
        assert 0 <= index < len(array)
        places.append((array, int(index)))

    python = {"prefetch": look, "u": int, "mix": mix_python}
    with patch.multiple(join_ahead, **python):
        yield places


def run(query: str, seed: int, near: int, finish: bool = True) -> tuple[list[dict[str, Any]], JoinArrays]:
    """Small rings, which grow."""
    rng = np.random.default_rng(seed)
    session = ed.Session()
    for name in "RST":
        session.stream(name, schema=SCHEMA, timestamp="ts")
    with patch.object(join_arrays, "WORDS_IN_PROCESSOR_CACHE", near), patch.object(join_contents, "FIRST_CAPACITY", 8):
        running = session.query(query, joins="static", caches="none")
        join = next(n.operator for n in running.running.physical.nodes if isinstance(n.operator, MJoin))
        for begin in range(0, 240, 80):
            for name in "RST":
                ts = np.sort(rng.integers(begin, begin + 80, 60))
                columns = [pa.array(rng.integers(0, 9, 60), mask=rng.random(60) < 0.1) for _ in "ab"]
                session.push(name, pa.table([pa.array(ts), *columns], schema=SCHEMA))
        if finish:
            session.finish()
        return running.to_arrow().to_pylist() if finish else [], join.arrays


@pytest.mark.parametrize("query", QUERIES)
def test_answers_are_the_same(query: str) -> None:
    for seed in range(3):
        with asked() if config.DISABLE_JIT else nullcontext([]) as places:
            far, _ = run(query, seed, near=-1)
        assert far == run(query, seed, near=1 << 40)[0] and far
        assert not config.DISABLE_JIT or len(places) > 500


@pytest.mark.parametrize("query", QUERIES[:3])
def test_the_right_places_are_asked_for(query: str) -> None:
    """Of rows that are there, as if they came again: they would enter the chains that they are in, and probe those of
    their partners."""
    heads = getattr(join_ahead.fetch_heads, "py_func", join_ahead.fetch_heads)
    records = getattr(join_ahead.fetch_records, "py_func", join_ahead.fetch_records)
    _, arrays = run(query, 1, near=-1, finish=False)
    met = partners = 0
    for s, row in enumerate(arrays.inputs.tolist()):
        if row[k.KIND] != k.RING:
            continue
        for pos in range(int(arrays.first[s]), int(arrays.tail[s])):
            if not arrays.weight[row[k.POS_OFF] + (pos & row[k.POS_MASK])]:
                continue  # a NULL key: it is in no chain
            place = row[k.CODE_OFF] + (pos & row[k.POS_MASK]) * row[k.CODE_WIDTH]
            with asked() as entered:
                heads(s, arrays.codes, place, arrays.inputs, arrays.indexes, arrays.index_columns, arrays.heads)
            for x, (array, head) in zip(range(row[k.INDEX_FROM], row[k.INDEX_TO]), entered, strict=True):
                assert array is arrays.heads and pos in chain(arrays, x, head)
            with asked() as probed:
                known = arrays.inputs, arrays.steps, arrays.probes, arrays.heads, arrays.records
                records(s, arrays.codes, place, *known)
            m = len(arrays.inputs)
            steps = [t for t in arrays.steps[s * (m - 1) : (s + 1) * (m - 1)] if t[k.ST_READY] == 0]
            for step, (array, at) in zip(steps, probed, strict=True):
                assert array is arrays.records
                wanted = [
                    int(arrays.codes[place + arrays.probes[step[k.ST_PROBE_OFF] + 2 * c + 1]])
                    for c in range(step[k.ST_COLS])
                ]
                with_key = [r for r in everything(arrays, int(step[k.ST_INDEX])) if keys(arrays, step, r) == wanted]
                met += at in [place_of(step, r) for r in with_key]
                partners += bool(with_key)
    assert partners > 50 and met > 0.8 * partners  # a head may have the rows of another key before those of this


def chain(arrays: JoinArrays, x: int, head: int) -> list[int]:
    """The live rows in the chain of a head, newest first."""
    index = arrays.indexes[x]
    i = index[k.IX_INPUT]
    found, p = [], int(arrays.heads[head])
    while p >= arrays.first[i]:
        found.append(p)
        p = int(arrays.records[index[k.IX_REC_OFF] + (p & arrays.inputs[i, k.POS_MASK]) * index[k.IX_REC_WIDTH]])
    return found


def everything(arrays: JoinArrays, x: int) -> list[int]:
    """All live rows in an index."""
    index = arrays.indexes[x].tolist()
    many = (index[k.IX_HEAD_MASK] + 1) * index[k.IX_HEAD_STRIDE]
    heads = range(index[k.IX_HEAD_OFF], index[k.IX_HEAD_OFF] + many, index[k.IX_HEAD_STRIDE])
    return [r for head in heads for r in chain(arrays, x, head)]


def keys(arrays: JoinArrays, step: Any, row: int) -> list[int]:
    at = place_of(step, row) + step[k.ST_REC_WIDTH] - step[k.ST_COLS]
    return [int(c) for c in arrays.records[at : at + step[k.ST_COLS]]]


def place_of(step: Any, row: int) -> int:
    return int(step[k.ST_REC_OFF] + (row & step[k.ST_MASK]) * step[k.ST_REC_WIDTH])
