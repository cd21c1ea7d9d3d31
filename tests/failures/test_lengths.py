"""A message has an upper bound, whatever data, names or foreign messages it quotes."""

from __future__ import annotations

import bz2
import gzip

import pyarrow as pa
import pytest

import eddyline as ed
from eddyline.core.errors import LONGEST_LINE, LONGEST_MESSAGE, CqlError, EddylineError, Span
from tests.failures.conftest import Run

LONG = "x" * 40_000


@pytest.mark.parametrize(
    ("source", "content", "more"),
    [
        ("z.csv.bz2", bz2.compress(f"ts,v\n1,{LONG}\n2,{LONG},{LONG}\n".encode()), ["--strict"]),
        ("z.csv.gz", gzip.compress(f"ts,v\n1,{LONG}\n2,3\n".encode(), mtime=0)[:-9], []),
        ("z.csv", f"ts,v\n1,2\n{LONG},3\n", ["--strict"]),
        ("z.csv", f"ts,v\n1,2\n2,{LONG},{LONG}\n", ["--strict"]),
        ("z.jsonl", '{"ts": 1, "v": 2}\n{"ts": "' + LONG + '", "v": 3}\n', ["--strict"]),
        ("z.jsonl", '{"ts": 1, "v": 2}\n{"' + LONG + "\n", ["--strict"]),
        (f"{'d' * 200}.csv", None, []),
    ],
)
def test_data_in_messages(run: Run, source: str, content: str | bytes | None, more: list[str]) -> None:
    files = {} if content is None else {source: content}
    head = f"CREATE STREAM Z (ts bigint, v string) FROM '{source}' TIMESTAMP BY ts;\n"
    done = run("SELECT CAST(v AS int) AS v FROM Z;", *more, files=files, head=head)
    assert done.status in (1, 2)
    assert 0 < len(done.message) <= LONGEST_MESSAGE
    assert len(done.err) < LONGEST_MESSAGE + 3 * LONGEST_LINE


@pytest.mark.parametrize(
    "query",
    [
        f"SELECT {LONG} FROM S",
        f"SELECT {LONG}(v) AS x FROM S",
        f"SELECT v FROM {LONG}",
        f"SELECT v FROM S WHERE v > '{LONG}'",
        f"SELECT v FROM S WHERE name RLIKE '({LONG}'",
        f"SELECT v FROM S WHERE name LIKE '{LONG}\\'",
        f"SELECT v FROM S WHERE v = {'9' * 400}",
        f"SELECT DATE '{LONG}' AS d FROM S",
        f"SELECT X'{LONG}' AS b FROM S",
        f"SELECT v FROM S [RANGE 5 {LONG}]",
        f"SELECT CAST(v AS {LONG}) AS x FROM S",
        f"SELECT CAST('{LONG}' AS int) + v AS x FROM S",
        f"SELECT v FROM S WITH ({LONG} = 1)",
        f"SELECT v FROM S WITH (filters = '{LONG}')",
        f"SELECT v FROM S WHERE 1 / (v - 10) IN ({', '.join(map(str, range(5000)))})",
        f'"{LONG}": SELECT v FROM S',
        f"INSERT INTO '{LONG}.csv' SELECT v FROM S",
        f"CREATE STREAM Z FROM '{LONG}.csv' TIMESTAMP BY ts; SELECT v FROM Z",
        "SELECT " + ", ".join(f"v AS c{i}" for i in range(5000)) + " FROM S WHERE vv > 1",
    ],
)
def test_words_of_the_job_in_messages(run: Run, query: str) -> None:
    done = run(f"{query};")
    assert done.status in (1, 2)
    assert 0 < len(done.message) <= LONGEST_MESSAGE
    assert len(done.err) < LONGEST_MESSAGE + 3 * LONGEST_LINE


def test_the_end_of_a_long_message_stays() -> None:
    assert str(EddylineError(f"the value {LONG} is bad: leave it out.")).endswith("is bad: leave it out.")


@pytest.mark.parametrize("start", [0, 10, 300, 560, 590])
def test_the_place_in_a_long_line_is_drawn(start: int) -> None:
    text = "".join(chr(97 + i % 26) for i in range(600))
    _, _, line, marks = str(CqlError("wrong.", text, Span(start, start + 9))).split("\n")
    at = marks.index("^")
    assert line[at : at + marks.count("^")] == text[start : start + 9]
    assert len(line) <= LONGEST_LINE + 10


def test_data_are_clipped_and_our_words_are_not() -> None:
    words = "the stream's state cannot be taken over; " * 30
    said = str(EddylineError(f"{words}the value '{LONG} {LONG}' and the streams' name {LONG} are bad: {words}"))
    assert said.count(words) == 2
    assert said.count("…") == 2
    assert len(said) < 2 * len(words) + 1000


def test_our_own_words_in_the_error_of_a_function_stay_whole() -> None:
    session = ed.Session()
    session.stream("S", timestamp="ts", schema=pa.schema([("ts", pa.int64()), ("v", pa.int64())]))

    def push(v: int) -> int:
        session.push("S", [(v, v)])
        return v

    session.function("push", push, returns="bigint")
    session.query("SELECT push(v) AS x FROM S")
    session.push("S", [(1, 1)])
    with pytest.raises(EddylineError, match="must not push rows to its own session, nor read from it; give it a") as e:
        session.push("S", [(2, 1)])
    assert "…" not in str(e.value)
