"""What ships to users: tables as text, the clock, list sources, assertions."""

from __future__ import annotations

import datetime as dt
import subprocess
import sys

import pyarrow as pa
import pytest

import eddyline.testing as testing
from eddyline.io.source import InvalidRow, Source
from eddyline.testing import (
    ABORT,
    EOF,
    PAUSE,
    Aborted,
    ListSource,
    ManualClock,
    assert_results,
    assert_state_rows,
    format_table,
    same_rows,
    table,
)


def test_types_are_inferred_or_declared() -> None:
    t = table(
        """
        i | d   | b     | s  | day        | at               | f:double | n:int
        --|-----|-------|----|------------|------------------|----------|------
        1 | 1   | true  | x  | 2024-01-02 | 2024-01-02T03:04 | 1        | 7
        2 | 2.5 | false | 7y | NULL       | 2024-01-02       |          | NULL
        """
    )
    assert [str(f.type) for f in t.schema] == [
        "int64", "double", "bool", "string", "date32[day]", "timestamp[us]", "double", "int32",
    ]  # fmt: skip
    assert t["at"].to_pylist()[0] == dt.datetime(2024, 1, 2, 3, 4)
    assert t["f"].to_pylist() == [1.0, None]


def test_quotes_and_bars() -> None:
    t = table("| a | s |\n| 1 | 'x|y' |\n| 2 | '7' |\n| 3 | 'it''s' |\n| 4 | '' |\n")
    assert t["s"].to_pylist() == ["x|y", "7", "it's", ""]


def test_change_streams_take_signs() -> None:
    t = table("a | _time | _sign\n1 | 5 | +\n1 | 6 | -\n2 | 7 | 1")
    assert t["_sign"].to_pylist() == [1, -1, 1]


def test_format_reads_back() -> None:
    t = pa.table({"a": [1, None], "x": [0.5, float("nan")], "s": ["NULL", " a "], "b": [True, None], "w": ["-1", "+"]})
    again = table(format_table(t, types=True))
    assert again.schema == t.schema
    assert same_rows(again, t)
    assert same_rows(table(format_table(t)), t)


@pytest.mark.parametrize("text", ["", "a | b\n1", "a:strange\n1"])
def test_bad_tables_are_refused(text: str) -> None:
    with pytest.raises(ValueError):
        table(text)


def test_assert_results() -> None:
    result = pa.table({"a": [1, 1, None], "x": [0.1 + 0.2, 2.0, float("nan")], "_time": [1, 2, 3]})
    assert_results(result, "a | x | _time\n1|2|2\n |nan|3\n1|0.3|1", digits=12)
    assert_results(result.to_batches(), "a | x\n1|2\n |nan|\n1|0.3".replace("|nan|", "|nan"), digits=12)
    with pytest.raises(AssertionError, match="missing"):
        assert_results(result, "a | x\n1|2\n1|2\n1|0.3")
    with pytest.raises(AssertionError, match="columns"):
        assert_results(result, "a\n1")
    with pytest.raises(AssertionError, match="row 0"):
        assert_results(result.select(["a"]), "a\nNULL\n1\n1", ordered=True)


def test_assert_state_rows() -> None:
    class Query:
        def report(self) -> dict[str, dict[str, int]]:
            return {"state": {"rows": 3, "bytes": 24, "peak_rows": 11, "peak_bytes": 88}}

    assert_state_rows(Query(), at_most=11)
    with pytest.raises(AssertionError, match="11 rows"):
        assert_state_rows(Query(), at_most=10)


def test_the_clock_moves_only_forward() -> None:
    clock = ManualClock(10)
    clock.advance(5)
    assert clock.now() == 15
    with pytest.raises(ValueError):
        clock.advance(-1)


def test_list_source_stops_aborts_and_goes_on() -> None:
    source = ListSource([{"ts": 1, "a": "x"}, EOF(), {"ts": 2, "a": None}, ABORT("crash"), {"ts": 3, "a": "z"}])
    assert isinstance(source, Source)
    assert source.schema == pa.schema([("ts", pa.int64()), ("a", pa.string())])

    def read() -> list[int]:
        return [ts for batch in source.open(["ts"]) for ts in batch.rows["ts"].to_pylist()]

    assert read() == [1]
    with pytest.raises(Aborted, match="crash"):
        read()
    assert read() == [1, 2, 3]


def test_list_source_batches_pauses_and_malformed_rows() -> None:
    source = ListSource([{"ts": i} for i in range(5)] + [PAUSE(2), InvalidRow("why", "raw"), {"ts": 9}], batch_rows=2)
    assert not source.finite
    batches = list(source.open())
    assert [b.rows.num_rows for b in batches] == [2, 2, 1, 0, 0, 0, 1]
    assert [len(b.invalid) for b in batches] == [0, 0, 0, 0, 0, 1, 0]


def test_importing_testing_needs_no_development_tools() -> None:
    code = (
        "import sys, eddyline.testing as t\n"
        f"for name in {testing.__all__!r}: getattr(t, name)\n"
        "assert not {'duckdb', 'hypothesis', 'pytest'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
