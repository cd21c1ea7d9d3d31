"""The command line: arguments, exit statuses, and what stands on which stream."""

from __future__ import annotations

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

        module = types.ModuleType("eddyline.runtime.job")
        module.run_job = module.explain_job = call  # type: ignore[attr-defined]
        monkeypatch.setitem(sys.modules, "eddyline.runtime.job", module)
        return calls

    return install


def raising(error: BaseException) -> Callable[..., int]:
    def behaviour(*_: Any, **__: Any) -> int:
        raise error

    return behaviour


def test_everything_is_passed_on(job: Path, runtime: Callable[..., list[Any]]) -> None:
    calls = runtime()
    arguments = ["--out", "r.parquet", "--report", "r.json", "--checkpoint", "state", "--strict", "--runtime", "inline"]
    assert cli.main(["run", str(job), *arguments]) == 0
    ((positional, named),) = calls
    assert positional == (job,)
    assert named == {
        "out": Path("r.parquet"), "report": Path("r.json"), "checkpoint": Path("state"), "strict": True,
        "progress": None, "stdout": sys.stdout,
    }  # fmt: skip


def test_defaults_and_explain(job: Path, runtime: Callable[..., list[Any]]) -> None:
    calls = runtime()
    assert cli.main(["run", str(job)]) == 0
    assert cli.main(["explain", str(job)]) == 0
    assert calls[0][1]["out"] is None and calls[0][1]["strict"] is False
    assert calls[1] == ((job,), {"stdout": sys.stdout, "travel": False})


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
