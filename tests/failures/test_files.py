"""Files that are missing, empty, of the wrong kind or not to be written: nothing is left half done."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import eddyline as ed
from eddyline import cli
from tests.failures.conftest import Run


@pytest.mark.parametrize(
    ("source", "files", "place", "said"),
    [
        ("'s.cvs' TIMESTAMP BY ts", {}, "s.cvs", "there is no file 's.cvs'. Did you mean 's.csv'?"),
        ("'no/s.csv' TIMESTAMP BY ts", {}, "no/s.csv", "There is no directory 'no'"),
        ("'no*.csv' TIMESTAMP BY ts", {}, "no*.csv", "no file matches 'no*.csv'. The directory holds:"),
        ("'d' TIMESTAMP BY ts", {"d/.part": ""}, "d", "the directory 'd' holds no data file"),
        ("'d' TIMESTAMP BY ts", {"d/a.csv": "ts\n1\n", "d/b.jsonl": '{"ts":1}'}, "d", "different formats"),
        ("'x.xls' TIMESTAMP BY ts", {"x.xls": "?"}, "x.xls", "is not that of a format"),
        ("'s.csv' TIMESTAMP BY ts WITH (format = 'cvs')", {}, "cvs", "unknown format 'cvs'"),
        ("'http://a/s.csv' TIMESTAMP BY ts", {}, None, "'http://' are not known"),
        ("'' TIMESTAMP BY ts", {}, None, "an empty text"),
        ("'e.csv' TIMESTAMP BY ts", {"e.csv": ""}, "e.csv", "e.csv is empty: a CSV file starts with a header"),
        ("'e.jsonl' TIMESTAMP BY ts", {"e.jsonl": ""}, "e.jsonl", "e.jsonl holds no JSON object"),
        ("'e.parquet' TIMESTAMP BY ts", {"e.parquet": ""}, "e.parquet", "e.parquet is empty (0 bytes)"),
        ("'e.parquet' TIMESTAMP BY ts", {"e.parquet": "PAR1 no PAR1"}, "e.parquet", "not a readable Parquet file"),
        ("'e.csv' TIMESTAMP BY ts", {"e.csv": "ts,a,a\n1,2,3\n"}, "e.csv", "more than one column named 'a'"),
        ("'s.csv' TIMESTAMP BY tss", {}, "tss", "'X' has no column 'tss'. Did you mean 'ts'?"),
        ("'semi.csv' TIMESTAMP BY ts", {"semi.csv": "ts;a\n1;2\n"}, "ts", "separated by ';': WITH (delimiter = ';')."),
        ("'s.csv' TIMESTAMP BY name", {}, "name", "the timestamp column 'name' of 'X' is a string"),
        ("'t.csv' TIMESTAMP BY w", {}, "w", "the timestamp column 'w' of 'X' is a double"),
        ("'s.csv' TIMESTAMP BY ts WITH (delimiter = ';;')", {}, ";;", "one ASCII character is wanted"),
        ("'s.csv' TIMESTAMP BY ts WITH (header = 'maybe')", {}, "maybe", "true or false is wanted"),
    ],
)
def test_a_source_that_cannot_be_read(
    run: Run, source: str, files: dict[str, str | bytes], place: str | None, said: str
) -> None:
    done = run(f"CREATE STREAM X FROM {source};\nSELECT * FROM X;", "--out", "o.csv", files=files)
    assert done.status == 2
    assert said in done.message and "\n  line 4, column " in done.err
    assert place is None or done.underlined == place
    assert not Path("o.csv").exists()


def test_a_source_that_cannot_be_read_from_python(tmp_path: Path) -> None:
    session = ed.Session(base=tmp_path)
    with pytest.raises(ed.JobError, match=r"there is no file 'calls\.csv'"):
        session.stream("S", "calls.csv", timestamp="ts")
    (tmp_path / "calls.csv").write_text("")
    with pytest.raises(ed.JobError, match=r"calls\.csv is empty"):
        session.stream("S", "calls.csv", timestamp="ts")
    (tmp_path / "calls.csv").write_text("ts,who\n1,ann\n")
    with pytest.raises(ed.JobError, match="'who' of 'S' is a string; it must be an integer or a timestamp"):
        session.stream("S", "calls.csv", timestamp="who")
    session.stream("S", "calls.csv", timestamp="ts")  # none of the failures has taken the name
    assert session.query("SELECT who FROM S").to_arrow().num_rows == 1


@pytest.mark.parametrize(("name", "text"), [("e.csv", "ts,v\n"), ("e.csv", "")])
def test_no_rows_are_no_mistake(run: Run, name: str, text: str) -> None:
    """A header, or declared columns, say all that is needed."""
    columns = "" if text else "(ts bigint, v bigint)"
    head = f"CREATE STREAM X {columns} FROM '{name}' TIMESTAMP BY ts;\n"
    done = run("SELECT sum(v) AS s FROM X [RANGE 5];", "--out", "-", files={name: text}, head=head)
    assert (done.status, done.out, done.err) == (0, '"s","_time","_sign"\n', "")


def test_a_relation_without_rows(run: Run) -> None:
    head = "CREATE STREAM S FROM 's.csv' TIMESTAMP BY ts;\nCREATE RELATION X (k bigint) FROM 'e.csv';\n"
    job = "SELECT Istream(v) FROM S WHERE k NOT IN (SELECT k FROM X);"
    done = run(job, "--out", "-", files={"e.csv": ""}, head=head)
    assert (done.status, done.out.splitlines()[1:]) == (0, ["10,1", "20,2", "30,3", "40,5"])


def test_a_parquet_file_that_breaks_off(run: Run, tmp_path: Path) -> None:
    """The footer is whole and a page is not: found while reading, so not a mistake of the job."""
    pq.write_table(pa.table({"ts": range(5000), "v": [str(i) * 9 for i in range(5000)]}), tmp_path / "b.parquet")
    data = bytearray((tmp_path / "b.parquet").read_bytes())
    data[4:400] = bytes(396)
    head = "CREATE STREAM X FROM 'b.parquet' TIMESTAMP BY ts;\n"
    done = run("SELECT v FROM X;", "--out", "o.csv", files={"b.parquet": bytes(data)}, head=head)
    assert done.status == 1
    assert "b.parquet" in done.message
    assert done.made() == ["b.parquet"]


def test_a_file_that_is_not_compressed_as_its_name_says(run: Run) -> None:
    head = "CREATE STREAM X FROM 'e.csv.gz' TIMESTAMP BY ts;\n"
    done = run("SELECT * FROM X;", files={"e.csv.gz": "ts\n1\n"}, head=head)
    assert (done.status, done.message[:19]) == (1, "e.csv.gz is damaged")


@pytest.mark.parametrize("text", ["", "-- nothing\n", ";;", "CREATE STREAM S FROM 's.csv' TIMESTAMP BY ts;"])
def test_a_job_without_a_query(run: Run, text: str) -> None:
    done = run(text, head="")
    assert (done.status, done.message) == (2, "the job has no query: add a SELECT.")


def test_a_job_that_is_not_there(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["run", str(tmp_path / "job.cql")]) == 2
    assert "there is no job file" in capsys.readouterr().err


def test_a_job_that_is_not_text(run: Run) -> None:
    done = run(b"\nSELECT '\xff' AS x FROM S;")
    assert (done.status, done.message) == (2, "job.cql is not UTF-8 text: line 5 holds the byte 0xff.")
    marked = run("SELECT v FROM S;", head="\ufeffCREATE STREAM S FROM 's.csv' TIMESTAMP BY ts;")
    assert marked.status == 0


@pytest.mark.parametrize(
    ("out", "status", "said"),
    [
        ("o.xls", 2, "results cannot be written to 'o.xls': the name must end in"),
        ("s.csv/o.csv", 2, "cannot be written to 's.csv/o.csv': 's.csv' is a file, not a directory"),
        ("/proc/o.csv", 1, "/proc/o.csv cannot be written"),
        ("d.csv", 2, "it is a directory"),
    ],
)
def test_an_out_that_cannot_be_written(run: Run, out: str, status: int, said: str) -> None:
    for more in ([], ["--checkpoint", "state"]):  # with a checkpoint the file is written last, but tried first
        done = run("SELECT v FROM S;", "--out", out, *more, files={"d.csv/x": ""})
        assert done.status == status
        assert said in done.message
        assert done.made() == ["x"]


@pytest.mark.parametrize(
    ("job", "out", "said"),
    [
        ("SELECT v FROM S; SELECT k FROM S;", "o.csv", "--out must be a folder; 'o.csv' names a file"),
        ("SELECT v FROM S; SELECT k FROM S;", "s.csv", "--out must be a folder; 's.csv' names a file"),
        ("SELECT v FROM S; SELECT k FROM S;", "-", "several queries, and standard output takes one"),
        ("INSERT INTO 'o.csv' SELECT v FROM S; INSERT INTO 'o.csv' SELECT k FROM S;", "x", "write to 'o.csv'"),
        ("INSERT INTO 'o.csv' SELECT v FROM S; INSERT INTO 'o.xls' SELECT k FROM S;", "x", "written to 'o.xls'"),
    ],
)  # fmt: skip
def test_results_that_would_meet(run: Run, job: str, out: str, said: str) -> None:
    done = run(job, "--out", out)
    assert done.status == 2
    assert said in done.message
    assert done.made() == []


@pytest.mark.parametrize("option", ["--report", "--checkpoint"])
@pytest.mark.parametrize(
    ("place", "status", "said"),
    [("s.csv/x", 2, "'s.csv' is a file; a directory is wanted"), ("/proc/x/x", 1, "the directory cannot be made:")],
)
def test_other_outputs_that_cannot_be_written(run: Run, option: str, place: str, status: int, said: str) -> None:
    done = run("SELECT v FROM S;", "--out", "o.csv", option, place)
    assert done.status == status
    assert done.message.startswith(f"{option} {place}: {said}")
    assert done.made() == []


def test_a_failing_run_leaves_an_earlier_result_alone(run: Run) -> None:
    assert run("SELECT v FROM S;", "--out", "o.csv").status == 0
    before = Path("o.csv").read_text()
    assert run("SELECT 1 / (v - 40) AS x FROM S;", "--out", "o.csv").status == 1
    assert Path("o.csv").read_text() == before
    assert run("SELECT v FROM S;", "--out", "o.csv").made() == ["o.csv"]


def test_a_result_never_overwrites_what_the_job_reads(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from eddyline.cli import main

    data, job = tmp_path / "s.csv", tmp_path / "job.cql"
    data.write_text("ts,v\n1,2\n")
    read = "CREATE STREAM S FROM 's.csv' TIMESTAMP BY ts;\n"
    job.write_text(read + "INSERT INTO 's.csv' SELECT v FROM S;")
    assert main(["run", str(job)]) == 2
    assert "'s.csv' is read by the job" in capsys.readouterr().err
    job.write_text(read + "SELECT v FROM S;")
    assert main(["run", str(job), "--out", str(data)]) == 2
    assert data.read_text() == "ts,v\n1,2\n"


@pytest.mark.parametrize(
    ("header", "row", "taken"),
    [
        ("k,ts", "7,1", "ts"),
        ("k,Time", "7,1", "Time"),
        ("at,k", "2024-01-01 00:00:00,7", "at"),
        ("sent,time,k", "2024-01-01 00:00:00,2024-01-01 00:00:01,7", "time"),
        ("k,ts", None, "ts"),  # a header, and no row that would show a type
    ],
)
def test_a_file_without_timestamp_by_takes_the_plain_column(
    tmp_path: Path, header: str, row: str | None, taken: str
) -> None:
    (tmp_path / "x.csv").write_text("\n".join([header, *([] if row is None else [row])]) + "\n")
    session = ed.Session(base=tmp_path)
    session.stream("X", "x.csv")
    assert session.catalog.streams["x"].timestamp == taken


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("a,b\n1,2\n", "no column is plainly it. Say which column it is with TIMESTAMP BY (a, b could serve)"),
        ("a,time\nx,1.5\n", "no column is plainly it. Declare the columns"),
        ("ts,time\n1,2\n", "several columns could be it (ts, time). Say which: TIMESTAMP BY ts"),
        ("x,y\n2024-01-01 00:00:00,2024-01-01 00:00:00\n", "several columns could be it (x, y)"),
        ("sent,time\n2024-01-01 00:00:00,5\n", "several columns could be it (sent, time)"),
    ],
)
def test_a_file_without_a_plain_column_of_time_is_refused(run: Run, content: str, said: str) -> None:
    done = run("CREATE STREAM X FROM 'x.csv';\nSELECT * FROM X;", files={"x.csv": content})
    assert done.status == 2 and said in done.message
    assert "WITH (arrival = true)" in done.message


def test_stamps_on_arrival_must_be_asked_for(run: Run) -> None:
    text = "CREATE STREAM X FROM 'r.csv' WITH (arrival = true);\nSELECT Istream(label) FROM X;"
    done = run(text, "--out", "o.csv")
    assert done.status == 0 and len((done.folder / "o.csv").read_text().splitlines()) == 3


def test_live_sources_are_stamped_on_arrival(tmp_path: Path) -> None:
    session = ed.Session(base=tmp_path)
    (tmp_path / "x.csv").write_text("a,b\n1,2\n")
    session.stream("watched", str(tmp_path), watch=True)
    session.stream("iterated", iter([{"ts": 1, "a": 2}]))
    assert [s.timestamp for s in session.catalog.streams.values()] == [None, None]
    for finite in ([{"ts": 1, "a": 2}], pa.table({"ts": [1], "a": [2]})):
        other = ed.Session()
        other.stream("S", finite)
        assert other.catalog.streams["s"].timestamp == "ts"
