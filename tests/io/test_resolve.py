"""Which connector, and what is said when there is none."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from eddyline.core.errors import DataError, JobError
from eddyline.io.resolve import open_source
from eddyline.io.source import Source
from eddyline.io.stdin import stdin_source
from tests.io.read import reasons, rows


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for i in (10, 2):
        (tmp_path / f"day-{i:02}.csv").write_text(f"a\n{i}\n")
    (tmp_path / ".day-03.csv").write_text("a\n3\n")
    (tmp_path / "_marker.csv").write_text("a\n4\n")
    (tmp_path / "day-05.csv.tmp").write_text("a\n5\n")
    return tmp_path


def test_globs_and_directories_read_complete_files_in_order_of_path(folder: Path) -> None:
    assert [r["a"] for r in rows(open_source("day-*.csv", folder))] == [2, 10]
    assert [r["a"] for r in rows(open_source(folder))] == [2, 10]
    assert [r["a"] for r in rows(open_source(str(folder / "*.csv")))] == [2, 10]
    assert [r["a"] for r in rows(open_source(f"file://{folder}/day-02.csv"))] == [2]
    assert isinstance(open_source(folder), Source)


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("day-2.csv", r"there is no file 'day-2\.csv'\. Did you mean 'day-02\.csv'\?"),
        ("zzz.parquet", r"there is no file 'zzz\.parquet'\. Its directory holds: "),
        ("days/x.csv", r"There is no directory 'days'"),
        ("*.parquet", r"no file matches '\*\.parquet'\. The directory holds: "),
        ("s3://bucket/x", r"sources of the kind 's3://' are not known"),
        ("  ", "empty text"),
        ("generate:paket", r"there is no generator 'paket'\. Did you mean 'packets'\?"),
        ("generate:packets?rate=fast", r"rate = 'fast' is not a number"),
        ("generate:packets?rate=1&rate=2", "'rate' is given twice"),
        ("generate:packets?link=X", "there is no link 'X'"),
    ],
)
def test_mistakes_name_the_remedy(folder: Path, spec: str, message: str) -> None:
    with pytest.raises(JobError, match=message):
        open_source(spec, folder)


def test_formats(folder: Path) -> None:
    (folder / "x.dat").write_text("a\n7\n")
    with pytest.raises(JobError, match=r"x\.dat: the extension '\.dat' is not that of a format"):
        open_source("x.dat", folder)
    assert rows(open_source("x.dat", folder, options={"format": "csv"})) == [{"a": 7}]
    with pytest.raises(JobError, match=r"unknown format 'cvs'.*Did you mean 'csv'\?"):
        open_source("x.dat", folder, options={"format": "cvs"})
    pq.write_table(pa.table({"a": [1]}), folder / "day-99.parquet")
    with pytest.raises(JobError, match="files of different formats"):
        open_source("day-*", folder)


def test_an_empty_directory(tmp_path: Path) -> None:
    with pytest.raises(JobError, match="holds no data file; to wait for some, say WITH"):
        open_source(tmp_path)


def test_strict_stops_at_the_first_malformed_row(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("a,b\n1,2\n3\n")
    assert len(reasons(open_source("a.csv", tmp_path))) == 1
    with pytest.raises(DataError, match=r"malformed row in strict mode\. a\.csv, line 3: 1 field instead of 2: '3'"):
        rows(open_source("a.csv", tmp_path, options={"strict": True}))
    with pytest.raises(JobError, match="true or false is wanted"):
        open_source("a.csv", tmp_path, options={"strict": "perhaps"})


def test_generated_streams_are_the_same_however_they_are_cut() -> None:
    uri = "generate:packets?link=O&events=3000&seed=4"
    assert rows(open_source(uri)) == rows(open_source(uri), batch_rows=77)
    assert open_source(uri).finite and not open_source("generate:trades").finite
    endless = open_source("generate:trades").open()
    assert len(next(endless).rows) > 0
    endless.close()  # type: ignore[attr-defined]


def test_standard_input() -> None:
    assert rows(stdin_source(stream=io.BytesIO(b"a,b\n1,x\n2\n"))) == [{"a": 1, "b": "x"}]
    assert rows(stdin_source("jsonl", stream=io.BytesIO(b'{"a": 1}\n'))) == [{"a": 1}]
    assert rows(stdin_source("tsv", stream=io.BytesIO(b"a\tb\n1\t2\n"))) == [{"a": 1, "b": 2}]
    with pytest.raises(JobError, match="standard input is empty"):
        stdin_source(stream=io.BytesIO(b""))
    with pytest.raises(JobError, match="cannot be read as 'parquet'"):
        stdin_source("parquet")


def test_rows_of_a_live_pipe_are_handed_over_at_once() -> None:
    """The producer waits for an answer to each line: reading in full blocks would wait for ever."""
    code = (
        "from eddyline.io.resolve import open_source\n"
        "import pyarrow as pa\n"
        "for batch in open_source('-', schema=pa.schema([('a', pa.int64())])).open():\n"
        "    for v in batch.rows.column(0).to_pylist(): print(v, flush=True)\n"
    )
    child = subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env={**os.environ}
    )
    assert child.stdin is not None and child.stdout is not None
    child.stdin.write("a\n")
    for i in range(3):
        child.stdin.write(f"{i}\n")
        child.stdin.flush()
        assert child.stdout.readline() == f"{i}\n"
    child.stdin.close()
    assert child.wait(20) == 0
    child.stdout.close()
