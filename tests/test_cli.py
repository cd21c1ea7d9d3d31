"""The command line: arguments, exit statuses, and what stands on which stream."""

from __future__ import annotations

import io
import subprocess
import sys
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from eddyline import cli
from eddyline.core.errors import CqlError, DataError, EddylineError, Span


@pytest.fixture
def job(tmp_path: Path) -> Path:
    path = tmp_path / "job.cql"
    path.write_text("SELECT 1")
    return path


@pytest.fixture
def runtime(monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[Any]]:
    """Put a pretended runtime in place; what it was called with is collected."""

    def install(behaviour: Callable[..., int] = lambda *_, **__: 0) -> list[Any]:
        calls: list[Any] = []

        def call(*arguments: Any, **named: Any) -> int:
            calls.append((arguments, named))
            return behaviour(*arguments, **named)

        module = types.ModuleType("eddyline.engine.job")
        module.run_job = module.explain_job = call  # type: ignore[attr-defined]
        monkeypatch.setitem(sys.modules, "eddyline.engine.job", module)
        return calls

    return install


def raising(error: BaseException) -> Callable[..., int]:
    def behaviour(*_: Any, **__: Any) -> int:
        raise error

    return behaviour


def test_everything_is_passed_on(job: Path, runtime: Callable[..., list[Any]]) -> None:
    calls = runtime()
    arguments = ["--out", "r.parquet", "--report", "r.json", "--checkpoint", "state", "--strict", "--runtime", "inline"]
    arguments += ["--spill", "spilled", "--bundle", "b.json"]
    assert cli.main(["run", str(job), *arguments]) == 0
    ((positional, named),) = calls
    assert positional == (job,)
    assert named == {
        "out": Path("r.parquet"), "report": Path("r.json"), "checkpoint": Path("state"), "strict": True, "quiet": False,
        "progress": None, "stdout": sys.stdout, "learned": None, "spill": Path("spilled"),
        "bundle": Path("b.json"),
    }  # fmt: skip


def test_defaults_and_explain(job: Path, runtime: Callable[..., list[Any]]) -> None:
    calls = runtime()
    assert cli.main(["run", str(job)]) == 0
    assert cli.main(["explain", str(job)]) == 0
    assert calls[0][1]["out"] is None and calls[0][1]["strict"] is False
    assert calls[1] == ((job,), {"stdout": sys.stdout})


@pytest.mark.parametrize(
    ("error", "status", "said"),
    [
        (CqlError("unknown column 'a'.", "SELECT a", Span(7, 8)), 2, "error: unknown column 'a'.\n  line 1, column 8:"),
        (DataError("sum of 'a' overflows."), 1, "error: sum of 'a' overflows.\n"),
        (EddylineError("no space."), 1, "error: no space.\n"),
        (RuntimeError("two\nlines"), 1, "error: RuntimeError: two lines (--traceback shows where)\n"),
        (KeyboardInterrupt(), 130, "interrupted\n"),
        (BrokenPipeError(), 0, ""),
    ],
)
def test_errors_become_statuses(
    job: Path,
    runtime: Callable[..., list[Any]],
    capsys: pytest.CaptureFixture[str],
    error: BaseException,
    status: int,
    said: str,
) -> None:
    runtime(raising(error))
    assert cli.main(["run", str(job)]) == status
    out, err = capsys.readouterr()
    assert out == "" and err.startswith(said) and (said or err == "")
    assert "Traceback" not in err


def test_traceback_on_demand(job: Path, runtime: Callable[..., list[Any]], capsys: pytest.CaptureFixture[str]) -> None:
    runtime(raising(RuntimeError("odd")))
    assert cli.main(["run", str(job), "--traceback"]) == 1
    err = capsys.readouterr().err
    assert "Traceback (most recent call last)" in err and err.endswith("error: RuntimeError: odd\n")


def test_the_status_of_the_runtime_is_the_status(job: Path, runtime: Callable[..., list[Any]]) -> None:
    runtime(lambda *_, **__: 7)
    assert cli.main(["run", str(job)]) == 7


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["run", "JOB", "--runtime", "spark"], "a query needs FROM"),  # told before any JVM starts
        (["run", "JOB", "--shards", "3"], "--shards belongs to --runtime spark"),
        (["run", "JOB", "--master", "local[2]"], "--master belongs to --runtime spark"),
        (["run", "FOLDER/jop.cql"], "Did you mean 'job.cql'?"),
        (["explain", "FOLDER/nowhere/job.cql"], "there is no job file"),
        (["run", "FOLDER"], "is a directory; a job is a file"),
    ],
)
def test_mistakes_in_the_arguments(
    job: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], said: str
) -> None:
    placed = [a.replace("JOB", str(job)).replace("FOLDER", str(job.parent)) for a in arguments]
    assert cli.main(placed) == 2
    assert said in capsys.readouterr().err


def test_help_version_and_unknown_options(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main([]) == 2
    assert "run a job" in capsys.readouterr().out
    for arguments, status in ((["--version"], 0), (["run", "--help"], 0), (["run"], 2), (["run", "x", "--fast"], 2)):
        with pytest.raises(SystemExit) as left:
            cli.main(arguments)
        assert left.value.code == status
    assert "eddyline 0." in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["run", "JOB", "--ouput", "x.csv"], "eddyline run: error: unknown option '--ouput'. Did you mean '--out'?"),
        (["run", "--ouput=x.csv", "JOB"], "unknown option '--ouput'. Did you mean '--out'?"),
        (["run", "JOB", "--check-point", "x"], "unknown option '--check-point'. Did you mean '--checkpoint'?"),
        (["run", "JOB", "--zzz"], "unknown option '--zzz'.\n"),
        (
            ["explain", "JOB", "--runtme", "inline"],
            "explain: error: unknown option '--runtme'. Did you mean '--runtime'?",
        ),
        (["run", "JOB", "other.cql"], "unexpected argument 'other.cql'"),
        (["run", "JOB", "--shards", "two"], "argument --shards: a whole number is wanted, not 'two'."),
        (["serve", "--max-memory", "1x"], "argument --max-memory: a whole number is wanted, not '1x'."),
        (["serve", "--proxy", "front.example"], "argument --proxy: the address of a proxy or of its network, such as"),
        (["serve", "--slow", "1x"], "argument --slow: a number is wanted, not '1x'."),
        (["fit", "x.csv", "--floor", "low"], "argument --floor: a number is wanted, not 'low'."),
        (["run", "JOB", "--out", ""], "argument --out: a path is missing: ''."),
        (["run", "JOB", "--checkpoint", ""], "argument --checkpoint: a path is missing: ''."),
        (["rnu", "JOB"], "Did you mean 'run'?"),
        (["run", "JOB", "--runtime", "sprak"], "Did you mean 'spark'?"),
        (["--versoin"], "Did you mean '--version'?"),
    ],
)
def test_an_unknown_option_suggests_the_near_one(
    job: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], said: str
) -> None:
    with pytest.raises(SystemExit) as left:
        cli.main([a.replace("JOB", str(job)) for a in arguments])
    assert left.value.code == 2
    assert said in capsys.readouterr().err


@pytest.mark.parametrize("option", ["--out", "--report", "--bundle"])
def test_results_do_not_go_into_the_checkpoint(
    job: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], option: str
) -> None:
    state = tmp_path / "state"
    assert (
        cli.main(
            ["run", str(job), "--checkpoint", str(state), option, str(state / ".." / "state" / "results" / "x.csv")]
        )
        == 2
    )
    assert f"error: {option} " in (said := capsys.readouterr().err)
    assert "is in the folder 'results' of the checkpoint" in said
    assert not state.exists()


JOB = "CREATE STREAM S FROM 's.csv' TIMESTAMP BY ts; INSERT INTO '-' SELECT v FROM S WHERE v > 2;"
EXECUTE = f"{sys.executable} -m eddyline.cli"


@pytest.mark.parametrize(
    "command",
    [
        "cat jobs/j.cql | {0} run -",
        "{0} run - < jobs/j.cql",
        "cat jobs/j.cql | {0} run /dev/stdin",
        "{0} run /dev/stdin < jobs/j.cql",
        "{0} run <(cat jobs/j.cql)",
    ],
)
def test_a_job_from_standard_input_or_a_pipe(tmp_path: Path, command: str) -> None:
    """Its paths are relative to the current folder: the data do not lie beside the job file here."""
    (tmp_path / "jobs").mkdir()
    (tmp_path / "jobs/j.cql").write_text(JOB)
    (tmp_path / "s.csv").write_text("ts,v\n1,2\n2,3\n")
    done = subprocess.run(
        ["bash", "-c", command.format(EXECUTE)], capture_output=True, text=True, cwd=tmp_path, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == '"v","_time"\n3,2\n'


def test_a_job_from_standard_input_is_explained_and_takes_its_whole_input(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def given(text: str) -> None:
        monkeypatch.setattr(sys, "stdin", types.SimpleNamespace(buffer=io.BytesIO(text.encode())))

    monkeypatch.chdir(tmp_path)
    (tmp_path / "s.csv").write_text("ts,v\n1,2\n")
    given(JOB)
    assert cli.main(["explain", "-"]) == 0
    assert "stream S (v)" in capsys.readouterr().out
    given("CREATE STREAM S (ts int) FROM '-' TIMESTAMP BY ts; SELECT ts FROM S;")
    assert cli.main(["run", "-"]) == 2
    assert "'s' reads standard input, where the job itself came from" in capsys.readouterr().err
    given("SELEC v FROM S")
    assert cli.main(["run", "-"]) == 2
    assert "line 1, column 1" in capsys.readouterr().err


def test_warm_compiles_the_kernels(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    from eddyline.kernels import warm

    monkeypatch.setattr(warm, "all_kernels", list)
    assert cli.main(["warm"]) == 0
    assert capsys.readouterr().out.startswith("NUMBA_DISABLE_JIT is set")


def test_importing_and_asking_for_the_version_load_nothing_heavy() -> None:
    code = (
        "import sys, eddyline, eddyline.cli\n"
        "try: eddyline.cli.main(['--version'])\n"
        "except SystemExit: pass\n"
        "print([m for m in ('numba', 'pyarrow', 'numpy', 'pandas', 'sqlglot', 'pyspark') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


def test_a_filter_needs_no_compiler(tmp_path: Path) -> None:
    """numba takes a seventh of the processor time of a trivial job; the first operator that has kernels loads it."""
    (tmp_path / "calls.csv").write_text("ts,number,seconds\n1,555-1,30\n2,555-2,90\n")
    job = "CREATE STREAM calls (ts int, number string, seconds int) FROM 'calls.csv' TIMESTAMP BY ts;\n"
    (tmp_path / "job.cql").write_text(job + "SELECT Istream(number) FROM calls WHERE seconds > 60;\n")
    code = (
        "import sys, eddyline.cli\n"
        f"eddyline.cli.main(['run', {str(tmp_path / 'job.cql')!r}, '--runtime', 'inline'])\n"
        "print([m for m in ('numba', 'llvmlite', 'pyspark') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "555-2" in done.stdout
    assert done.stdout.splitlines()[-1] == "[]"
