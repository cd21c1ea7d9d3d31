"""The line of a row for which an expression failed: found in the file when the error is told."""

from __future__ import annotations

import gzip
import json
import random
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import eddyline as ed
from eddyline.core.errors import DataError


def message(folder: Path, text: str, **files: str) -> str:
    session = ed.Session(base=folder)
    session.warns = False
    for name, file in files.items():
        session.stream(name, file, timestamp="ts")
    with pytest.raises(DataError) as caught:
        session.query(text).to_arrow()
    return str(caught.value)


def test_csv_lines_count_the_header_empty_lines_malformed_rows_and_values_of_several_lines(tmp_path: Path) -> None:
    text = 'ts,"a\nname",n\n1,"p\nq",2\n\nmalformed\n2,x,3\n3,y,0\n4,y,0\n'
    tmp_path.joinpath("a.csv").write_text(text)
    assert text.splitlines()[7] == "3,y,0"
    told = message(tmp_path, "SELECT Istream(6 / n) AS r FROM S", S="a.csv")
    assert told == "division by zero in '6.0 / S.n', for a row of S at time 3: n = 0 (a.csv, line 8)."


def test_json_lines_count_blank_and_malformed_lines(tmp_path: Path) -> None:
    with gzip.open(tmp_path / "a.jsonl.gz", "wt") as file:
        file.write('{"ts": 1, "n": 1}\n\nnothing\n{"ts": 4, "n": 0}\n')
    assert "(a.jsonl.gz, line 4)" in message(tmp_path, "SELECT Istream(6 / n) AS r FROM S", S="a.jsonl.gz")


def test_rows_of_parquet_are_counted_in_their_own_file(tmp_path: Path) -> None:
    folder = tmp_path / "parts"
    folder.mkdir()
    pq.write_table(pa.table({"ts": [1, 2], "n": [1, 2], "s": ["a", "b"]}), folder / "0.parquet")
    pq.write_table(pa.table({"ts": [3, 4, 5], "n": [3, 0, 0], "s": ["c", "d", "e"]}), folder / "1.parquet")
    told = message(tmp_path, "SELECT Istream(s, 6 / n AS r) FROM S", S="parts")
    assert "for a row of S at time 4" in told
    assert "(1.parquet, row 2)" in told


def test_a_watched_folder_and_a_strict_source(tmp_path: Path) -> None:
    folder = tmp_path / "parts"
    folder.mkdir()
    folder.joinpath("a.csv").write_text("ts,n\n1,1\n2,3\n")
    folder.joinpath("b.csv").write_text("ts,n\n3,1\n4,0\n")
    session = ed.Session(base=tmp_path, strict=True)
    session.stream("S", "parts", timestamp="ts", watch=True, until_idle=0)
    with pytest.raises(DataError, match=r"\(b\.csv, line 3\)"):
        session.query("SELECT Istream(6 / n) AS r FROM S").to_arrow()


def test_a_join_names_each_row_that_its_values_find(tmp_path: Path) -> None:
    tmp_path.joinpath("a.csv").write_text("ts,k,v\n1,7,4\n2,8,5\n")
    tmp_path.joinpath("b.csv").write_text("ts,k,w\n3,9,0\n4,9,0\n5,8,0\n")
    text = "SELECT Istream(v / w) AS r FROM S [ROWS UNBOUNDED], T [ROWS UNBOUNDED] WHERE S.k = T.k"
    told = message(tmp_path, text, S="a.csv", T="b.csv")
    assert told.endswith("(S: a.csv, line 3; T: b.csv, line 4).")


def test_a_row_that_might_be_another_is_not_named(tmp_path: Path) -> None:
    """Both rows of S have what is at hand, and neither came at the instant at which the join failed."""
    tmp_path.joinpath("a.csv").write_text("ts,k,v\n1,8,4\n2,8,4\n")
    tmp_path.joinpath("b.csv").write_text("ts,k,w\n5,8,0\n")
    text = "SELECT Istream(v / w) AS r FROM S [ROWS UNBOUNDED], T [ROWS UNBOUNDED] WHERE S.k = T.k"
    assert message(tmp_path, text, S="a.csv", T="b.csv").endswith("(T: b.csv, line 2).")


def test_a_file_that_is_gone_hides_no_error(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("ts,n\n1,1\n2,0\n")
    session = ed.Session(base=tmp_path)
    session.stream("S", "a.csv", timestamp="ts")
    session.function("gone", lambda n: path.unlink(missing_ok=True) or 1 // n, "bigint")
    with pytest.raises(DataError) as caught:
        session.query("SELECT Istream(gone(n)) AS r FROM S").to_arrow()
    assert str(caught.value).endswith("for a row of S at time 2: n = 0.")


@pytest.mark.parametrize("form", ["csv", "jsonl", "parquet"])
def test_random_files(tmp_path: Path, form: str) -> None:
    """The line that is named holds the row that failed: the first of those with n = 0, in order of time."""
    named = 0
    for seed in range(25):
        rng = random.Random(f"{form}/{seed}")
        count = rng.randrange(1, 60)
        rows = [
            (rng.randrange(0, 40), rng.randrange(0, 8), rng.choice(["x", "a\nb", None, 'q"'])) for _ in range(count)
        ]
        path = tmp_path / f"{seed}.{form}"
        starts: list[int] = []  # of each row: its line or number
        if form == "parquet":
            columns = [list(c) for c in zip(*rows, strict=True)]
            pq.write_table(pa.table(dict(zip(("ts", "n", "s"), columns, strict=True))), path, row_group_size=7)
            starts = list(range(1, count + 1))
        else:
            text = "ts,n,s\n" if form == "csv" else ""
            for ts, n, s in rows:
                text += rng.choice(["", "", "\n", "no row\n"])
                starts.append(text.count("\n") + 1)
                quoted = "" if s is None else '"' + s.replace('"', '""') + '"'
                text += f"{ts},{n},{quoted}\n" if form == "csv" else json.dumps({"ts": ts, "n": n, "s": s}) + "\n"
            path.write_text(text)
        failing = [(ts, i) for i, (ts, n, _) in enumerate(rows) if n == 0]
        if not failing:
            continue
        session = ed.Session(base=tmp_path)
        session.warns = False
        schema = pa.schema({"ts": pa.int64(), "n": pa.int64(), "s": pa.string()})
        session.stream("S", path.name, timestamp="ts", slack=40, schema=schema)
        with pytest.raises(DataError) as caught:
            session.query("SELECT Istream(s, 6 / n AS r) FROM S").to_arrow()
        ts, i = min(failing)
        same = [starts[k] for t, k in failing if t == ts and rows[k][2] == rows[i][2]]
        unit = "row" if form == "parquet" else "line"
        assert str(caught.value).endswith(f"({path.name}, {unit} {min(same)})."), caught.value
        named += 1
    assert named > 15
