"""The counting evaluation: the same answers as the plain one, nothing asked twice, counts and bits that are true."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from eddyline.core.time import SystemClock
from eddyline.expr.evaluate import compile_expr
from eddyline.expr.nodes import Expr
from eddyline.expr.observed import observe
from eddyline.expr.predicates import Conjunction
from tests.expr.build import call, col, error_of, lit
from tests.expr.test_predicates import builtin, predicate

DROPS = {0, 1}  # outcomes: FALSE and NULL


def conjunct(kind: str, i: int, seen: list[tuple[int, Any]]) -> Expr:
    if kind == "cheap":
        return call("eq", col(f"c{i}"), lit(2))  # drops outcome 3, where the others fail
    return builtin(i) if kind == "builtin" else predicate(i, seen, kind)


def outcomes(kind: str, column: list[int]) -> list[int]:
    return [0 if kind == "cheap" and o == 3 else o for o in column]


@settings(max_examples=200)
@given(st.data())
def test_answers_counts_and_bits(data: st.DataObject) -> None:
    """Against a statement of it row by row."""
    n, length = data.draw(st.integers(1, 5)), data.draw(st.integers(0, 12))
    kinds = data.draw(st.lists(st.sampled_from(["row", "arrow", "builtin", "cheap"]), min_size=n, max_size=n))
    table = data.draw(
        st.lists(
            st.lists(st.sampled_from([0, 1, 2, 2, 2, 3]), min_size=length, max_size=length), min_size=n, max_size=n
        )
    )
    order = data.draw(st.permutations(range(n)))
    living = sorted(data.draw(st.sets(st.integers(0, length - 1)))) if length else []
    alive = None if data.draw(st.booleans()) else np.array(living, np.int64)
    rows = list(range(length)) if alive is None else living
    profile = np.array(sorted(data.draw(st.sets(st.sampled_from(rows)))) if rows else [], np.int64)
    reach = np.array(data.draw(st.lists(st.booleans(), min_size=n * n, max_size=n * n)), np.bool_).reshape(n, n)

    seen: list[tuple[int, Any]] = []
    conjuncts = [conjunct(k, i, seen) for i, k in enumerate(kinds)]
    columns = {f"c{i}": pa.array(c, pa.int64()) for i, c in enumerate(table)}
    columns["row"] = pa.array(range(length), pa.int64())
    got = observe([compile_expr(c) for c in conjuncts], columns, length, order, SystemClock(), alive, profile, reach)

    plain = Conjunction([conjunct(k, i, []) for i, k in enumerate(kinds)])
    chosen = {c: a.take(pa.array(rows, pa.int64())) for c, a in columns.items()}
    want = plain.evaluate(chosen, len(rows))
    failing = {rows[i]: str(e) for i, e in want.errors.items()}
    assert error_of(got.errors) == failing
    assert sorted(set(got.alive.tolist()) - set(failing)) == [rows[i] for i in np.flatnonzero(want.keep)]

    truth = [outcomes(k, c) for k, c in zip(kinds, table, strict=True)]
    rows_in, rows_out, extra = [0] * n, [0] * n, [0] * n
    asked = set()
    bits = {int(r): [False] * n for r in profile}
    for row in rows:
        gone: int | None = None
        for position, f in enumerate(order):
            if gone is None:
                rows_in[f] += 1
                asked.add((f, row))
                if truth[f][row] in DROPS:
                    gone = position
                else:
                    rows_out[f] += 1
            elif row in bits and reach[gone, position]:
                extra[f] += 1
                asked.add((f, row))
            else:
                continue
            if row in bits:
                bits[row][f] = truth[f][row] in DROPS
    assert got.rows_in.tolist() == rows_in and got.rows_out.tolist() == rows_out and got.extra.tolist() == extra
    assert got.dropped.tolist() == [bits[int(r)] for r in profile]
    calls = [s for s in seen if kinds[s[0]] == "row"]
    assert sorted(calls) == sorted(a for a in asked if kinds[a[0]] == "row")
    assert len(set(calls)) == len(calls)


def test_time_is_that_of_the_clock_and_of_nothing_else() -> None:
    class Ticking:
        def __init__(self) -> None:
            self.at = 0

        def now(self) -> int:
            return 0

        def nanoseconds(self) -> int:
            self.at += 10
            return self.at

    conjuncts = [compile_expr(call("gt", col("a"), lit(v))) for v in (0, 10, 0)]
    got = observe(conjuncts, {"a": pa.array([1, 2])}, 2, (0, 1, 2), Ticking())
    assert got.nanoseconds.tolist() == [10, 10, 0]  # nobody was left for the last
