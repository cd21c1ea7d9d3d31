"""A second opinion on the relational part: at fixed instants DuckDB answers the same SQL over the windows' contents.

The contents of the windows are computed here, by other lines than those of the reference; the text of the query is
the random case's own with each windowed stream replaced by a table. Left out is what DuckDB means differently.
"""

from __future__ import annotations

import math
import random
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from decimal import Decimal
from typing import Any

import duckdb
import pyarrow as pa
import pytest

from eddyline.testing.case_queries import OPERATORS, Focus
from eddyline.testing.case_windows import WINDOWS
from eddyline.testing.cases import Case, draw_case
from eddyline.testing.tables import comparable
from tests.semantics.engine import Way, run_engine

WINDOWED = re.compile(r"\b([STUV]) (?:(\[[^\]]*\]) (p\d+)|(p\d+) (\[[^\]]*\]))")
# DIV and CONCAT mean something else in DuckDB; FIRST, LAST and ties have no order there; the rest changes with time.
LEFT_OUT = re.compile(r"DIV|CONCAT|LIMIT|OVER|first\(|last\(|\) \[|stream\(|\b[PQ] p\d|\b[STUV] p\d+(?! \[)")
SPREAD = re.compile(r"stddev|var_pop|variance")


def window_contents(case: Case, stream: str, window: str, now: int) -> list[dict[str, Any]]:
    """The rows of a window at an instant, from its text."""
    data = case.streams[stream]
    rows: list[dict[str, Any]] = []
    high = None
    for ts, row in data.elements:
        if ts is not None and (high is None or ts >= high - data.slack):
            rows.append(dict(row))
            high = ts if high is None else max(high, ts)
    rows = [r for r in sorted(rows, key=lambda r: r["ts"]) if r["ts"] <= now]
    words = window.strip("[]").replace(",", "").replace(" SECONDS", "").lower().split()
    if words == ["now"]:
        return [r for r in rows if r["ts"] == now]
    if words[1] == "unbounded":
        return rows
    if words[0] == "rows":
        return rows[-int(words[1]) :]
    if words[0] == "range" and len(words) == 2:
        return [r for r in rows if r["ts"] >= now - int(words[1])]
    if words[0] in ("range", "size"):
        width, slide = int(words[1]), int(words[3])
        edge = now - now % slide
        return [r for r in rows if edge - width < r["ts"] <= edge]
    by, count = words[2:-2], int(words[-1])
    kept: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for r in rows:
        kept.setdefault(tuple(r[c] for c in by), []).append(r)
    return [r for part in kept.values() for r in part[-count:]]


@pytest.fixture(scope="module")
def connection() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect(config={"threads": 1}) as opened:
        yield opened


def ask_duckdb(connection: duckdb.DuckDBPyConnection, case: Case, now: int) -> list[tuple[Any, ...]]:
    for name, relation in case.relations.items():
        rows = [dict(r) for r in relation.rows]
        connection.register(name, pa.Table.from_pylist(rows, case.scale.relation_schema(name)))

    def put(found: re.Match[str]) -> str:
        alias, window = found[3] or found[4], found[2] or found[5]
        rows = window_contents(case, found[1], window, now)
        connection.register(f"w_{alias}", pa.Table.from_pylist(rows, case.scale.schema()))
        return f"w_{alias} {alias}"

    return connection.execute(WINDOWED.sub(put, case.text)).fetchall()


def bag(rows: Sequence[Sequence[Any]]) -> Counter[tuple[Any, ...]]:
    def plain(value: Any) -> Any:
        number = isinstance(value, int | float | Decimal) and not isinstance(value, bool)
        return comparable(float(value), 9) if number else value

    return Counter(tuple(plain(v) for v in row) for row in rows)


def drawn_cases() -> list[Case]:
    cases = []
    for i, operator in enumerate(OPERATORS * 6):
        rng = random.Random(f"duckdb/{i}")
        case = draw_case(rng, Focus(operator, WINDOWS[i // 5 % len(WINDOWS)], "none"), plain=True)
        if not LEFT_OUT.search(case.text):
            cases.append(finite(case) if SPREAD.search(case.text) else case)
    return cases


def finite(case: Case) -> Case:
    """The spread of NaN and infinities is NaN here, and 0 or an error in DuckDB."""
    for name, data in case.streams.items():
        elements = [
            (ts, {**row, "x": 0.5 if row["x"] is not None and not math.isfinite(row["x"]) else row["x"]})
            for ts, row in data.elements
        ]
        case = case.with_elements(name, elements)
    return case


def instants(case: Case) -> list[int]:
    reference = case.reference()
    if reference.end < reference.start:
        return []
    return sorted({reference.start, (reference.start + reference.end) // 2, reference.end})


def test_reference_agrees_with_duckdb(connection: duckdb.DuckDBPyConnection) -> None:
    compared = nonempty = 0
    for case in drawn_cases():
        reference = case.reference()
        for now in instants(case):
            theirs = ask_duckdb(connection, case, now)
            ours = reference.at(now)
            assert bag(ours) == bag(theirs), f"at {now}:\n{case.snippet()}"
            compared += 1
            nonempty += bool(ours)
    assert compared > 100
    assert nonempty > 0.5 * compared


def test_engine_agrees_with_duckdb(connection: duckdb.DuckDBPyConnection) -> None:
    """The engine's changes up to an instant add up to the relation that DuckDB computes."""
    for case in drawn_cases()[::3]:
        results = run_engine(case, Way()).to_pylist()
        for now in instants(case)[1:]:
            theirs = ask_duckdb(connection, case, now)
            ours: Counter[tuple[Any, ...]] = Counter()
            for row in results:
                if row["_time"] <= now:
                    values = tuple(v for n, v in row.items() if n not in ("_time", "_sign"))
                    for key, n in bag([values]).items():
                        ours[key] += n * row.get("_sign", 1)
            assert +ours == bag(theirs), f"at {now}:\n{case.snippet()}"


@pytest.mark.parametrize(
    ("window", "now", "expected"),
    [
        ("[NOW]", 4, [40]),
        ("[RANGE 2]", 4, [20, 30, 40]),
        ("[ROWS 2]", 4, [30, 40]),
        ("[RANGE 2 SLIDE 2]", 5, [30, 40]),
        ("[PARTITION BY s ROWS 1]", 4, [30, 40]),
        ("[ROWS UNBOUNDED]", 3, [10, 20, 30]),
    ],
)
def test_window_contents(window: str, now: int, expected: list[int]) -> None:
    from eddyline.testing.reference import StreamData

    rows = [(t, {"ts": t, "a": 10 * t, "b": 0, "x": 0.0, "s": "uv"[t % 2]}) for t in (1, 2, 3, 4, 6)]
    case = Case("", {"S": StreamData(rows)}, {})
    assert [r["a"] for r in window_contents(case, "S", window, now)] == expected
