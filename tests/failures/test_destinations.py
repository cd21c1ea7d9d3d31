"""Files that a job writes never meet each other or what it reads; that is checked before anything runs."""

from __future__ import annotations

import io
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from eddyline.core.errors import CqlError
from eddyline.cql.query_names import LONGEST_NAME, file_names, unsafe
from tests.failures.conftest import FILES, HEAD, Run


def test_a_generated_name_gives_way_to_a_given_one(run: Run) -> None:
    done = run("query_2: SELECT v FROM S; SELECT k FROM S WHERE v > 10; SELECT name FROM S;", "--out", "o")
    assert done.status == 0
    assert done.made() == ["query_2.parquet", "query_2_.parquet", "query_3.parquet"]
    assert pq.read_table(done.folder / "o/query_2.parquet").column_names == ["v", "_time"]
    assert pq.read_table(done.folder / "o/query_2_.parquet").column_names == ["k", "_time"]


def test_a_given_name_that_is_written_later_counts_as_well() -> None:
    assert file_names([None, "QUERY_1", "query_1_", None]) == ["query_1__", "QUERY_1", "query_1_", "query_4"]


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("../../x", "it has the character '/'"),
        ("a\\b", "it has the character '\\\\'"),
        ("a:b", "it has the character ':'"),
        ("..", "it starts or ends with a point or a space"),
        (".hidden", "it starts or ends with a point or a space"),
        ("x ", "it starts or ends with a point or a space"),
        ("a\tb", "it has the character U+0009"),
        ("NUL", "some systems have a device of this name"),
        ("com1.x", "some systems have a device of this name"),
        ("query 2", "reports give such names to queries without one"),
        ("x" * (LONGEST_NAME + 1), f"it is longer than {LONGEST_NAME} bytes"),
    ],
)
@pytest.mark.parametrize("options", [("--out", "o"), ("--checkpoint", "state"), ()])
def test_a_name_that_is_no_safe_file_name(run: Run, name: str, reason: str, options: tuple[str, ...]) -> None:
    done = run(f'"{name}": SELECT v FROM S; SELECT k FROM S;', *options)
    assert done.status == 2
    assert done.message.endswith(f"because its results go to a file of that name: {reason}.")
    assert done.underlined and f'"{name}"'.startswith(done.underlined)
    assert done.made() == []


@pytest.mark.parametrize("name", ["late packets", "größe", "a.b", "x-1", "日本", "x" * LONGEST_NAME])
def test_other_names_are_kept(run: Run, name: str) -> None:
    assert unsafe(name) is None
    done = run(f'"{name}": SELECT v FROM S;', "--out", "o")
    assert (done.status, done.made()) == (0, [f"{name}.parquet"])


@pytest.mark.parametrize(
    ("first", "second"), [("hot", "hot"), ("hot", "HOT"), ('"Straße"', '"STRASSE"'), ('"\u00e9"', '"e\u0301"')]
)
def test_names_that_some_file_system_takes_for_one(run: Run, first: str, second: str) -> None:
    done = run(f"{first}: SELECT v FROM S;\n{second}: SELECT k FROM S;", "--out", "o")
    assert done.status == 2
    assert "give one of them another name" in done.message
    assert done.underlined == second
    assert done.made() == []


@pytest.mark.parametrize(
    ("job", "options", "said"),
    [
        ("INSERT INTO 'a.csv' SELECT v FROM S; INSERT INTO './a.csv' SELECT k FROM S;", (), "which are one file"),
        ("INSERT INTO 'a.csv' SELECT v FROM S; INSERT INTO 'A.csv' SELECT k FROM S;", (), "which are one file"),
        ("INSERT INTO 'o/b.parquet' SELECT v FROM S; b: SELECT k FROM S;", ("--out", "o"), "to 'o/b.parquet'"),
        ("INSERT INTO '-' SELECT v FROM S; INSERT INTO '-' SELECT k FROM S;", (), "standard output takes one"),
        ("INSERT INTO '-' SELECT v FROM S; SELECT k FROM S;", ("--out", "-"), "standard output takes one"),
        ("INSERT INTO 'x/../s.csv' SELECT v FROM S;", (), "'s.csv' is read by the job"),
        ("INSERT INTO ' ' SELECT v FROM S;", (), "INSERT INTO needs a path"),
        ("CREATE STREAM G FROM 'd/*.csv' TIMESTAMP BY ts; SELECT v FROM G;", ("--out", "d/o.csv"), "'d/*.csv'"),
        ("CREATE STREAM G FROM 'd' TIMESTAMP BY ts; SELECT v FROM G;", ("--out", "d"), "reads what is in 'd'"),
        ("CREATE STREAM G FROM '**/*.csv' TIMESTAMP BY ts; SELECT v FROM G;", ("--out", "n/m/o.csv"), "'**/*.csv'"),
    ],
)
def test_results_and_inputs_do_not_meet(run: Run, job: str, options: tuple[str, ...], said: str) -> None:
    done = run(job, *options, files={"d/x.csv": "ts,v\n1,2\n"})
    assert done.status == 2
    assert said in done.message
    assert done.underlined
    assert done.made() == ["x.csv"]


def test_a_link_to_an_input_is_the_input(run: Run) -> None:
    def linked(job: str, link: Path) -> None:
        link.symlink_to("s.csv")
        done = run(job)
        assert done.status == 2
        assert "'s.csv' is read by the job" in done.message

    done = run("SELECT v FROM S;", "--out", "o.csv")
    linked("INSERT INTO 'l.csv' SELECT v FROM S;", done.folder / "l.csv")
    assert (done.folder / "s.csv").read_text() == FILES["s.csv"]


@pytest.mark.parametrize(("report", "said"), [("o.csv", "the file of a result"), ("s.csv", "'s.csv' is read by"),
                                              ("job.cql", "this is the job itself")])  # fmt: skip
def test_a_report_does_not_meet_them_either(run: Run, report: str, said: str) -> None:
    done = run("SELECT v FROM S;", "--out", "o.csv", "--report", report)
    assert done.status == 2
    assert said in done.message
    assert done.made() == []
    assert (done.folder / "s.csv").read_text() == FILES["s.csv"]


@pytest.mark.parametrize(
    "queries",
    [
        '"../x": SELECT v FROM S;',
        "hot: SELECT v FROM S; HOT: SELECT k FROM S;",
        "INSERT INTO 'a.csv' SELECT v FROM S; INSERT INTO 'A.csv' SELECT k FROM S;",
        "INSERT INTO 's.csv' SELECT v FROM S;",
    ],
)
def test_spark_is_not_started_for_such_a_job(tmp_path: Path, queries: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from eddyline.spark import job, local

    monkeypatch.setattr(local, "local_session", lambda *_, **__: pytest.fail("Spark was started"))
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    (tmp_path / "job.cql").write_text(HEAD + queries)
    with pytest.raises(CqlError) as caught:
        job.run_job(
            tmp_path / "job.cql", master=None, shards=None, out=tmp_path / "o", report=None, checkpoint=None,
            strict=False, progress=None, stdout=io.StringIO(),
        )  # fmt: skip
    assert caught.value.span is not None
    assert not (tmp_path / "o").exists()


@pytest.mark.parametrize("folder", ["results", "pieces", "spark"])
@pytest.mark.parametrize("form", ["state/{}/a.csv", "./x/../state/{}/deep/a.csv"])
def test_no_result_goes_into_the_state_of_a_checkpoint(run: Run, folder: str, form: str) -> None:
    target = form.format(folder)
    done = run(f"INSERT INTO '{target}' SELECT v FROM S;", "--checkpoint", "state")
    assert done.status == 2
    assert f"it is in the folder '{folder}' of the checkpoint, which holds state" in done.message
    assert done.underlined == f"'{target}'"
    beside = run("INSERT INTO 'state/mine/a.csv' SELECT v FROM S;", "--checkpoint", "state")
    assert beside.status == 0 and (beside.folder / "state/mine/a.csv").exists()


@pytest.mark.parametrize(
    ("option", "path"),
    [("--out", "s.csv/x.csv"), ("--out", "s.csv/a/b.csv"), ("--checkpoint", "s.csv"), ("--report", "s.csv/r.json")],
)
def test_a_file_where_a_directory_is_wanted(run: Run, option: str, path: str) -> None:
    done = run("SELECT v FROM S;", option, path)
    assert done.status == 2
    assert "'s.csv' is a file" in done.message and "directory" in done.message


@pytest.mark.parametrize("more", [(), ("--checkpoint", "state")])
def test_a_run_says_what_it_wrote_and_where(run: Run, more: tuple[str, ...]) -> None:
    done = run(
        "INSERT INTO 'x/y/a.csv' SELECT v FROM S; b: SELECT k FROM S WHERE v = 10; SELECT v FROM S;",
        *("--out", "o", *more),
    )
    assert done.status == 0 and done.out == ""
    written = [line.replace(f"{done.folder}/", "") for line in done.written]
    assert written == [
        "4 rows written to x/y/a.csv (the folder x/y was made for it)",
        "1 row written to o/b.parquet (the folder o was made for it)",
        "4 rows written to o/query_3.parquet",
    ]
    assert done.notes == []
    again = run("SELECT v FROM S;", "--out", "o/a.csv.gz")
    assert [line.replace(f"{done.folder}/", "") for line in again.written] == ["4 rows written to o/a.csv.gz"]
    assert run("SELECT v FROM S;", "--out", "o/a.csv", "--quiet").err == ""
    assert run("SELECT v FROM S;", "--out", "-").err == ""
