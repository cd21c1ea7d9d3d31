"""The command line. Thin on purpose: it reads arguments, calls the engine and turns errors into exit statuses.

Exit status: 0 done, 2 for a mistake in the job or the arguments, 1 for anything else, 130 when interrupted.
Nothing heavy is imported before it is needed, so that ``--version`` and ``--help`` answer at once.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import re
import stat
import sys
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from eddyline import __version__, fit_command
from eddyline.server.arguments import add_serve, add_view
from eddyline.shell.arguments import add_shell
from eddyline.streamon.strategies import KINDS

if TYPE_CHECKING:
    from eddyline.engine.progress import Progress

INTERRUPTED = 130
RUNTIMES = ("spark", "inline")
RUNTIME_VARIABLE = "EDDYLINE_RUNTIME"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return the exit status."""
    options = _parse(parser(), arguments)
    try:
        status = int(options.action(options))
        sys.stdout.flush()
        return status
    except KeyboardInterrupt as stopped:
        print("interrupted" + (f": {stopped}" if str(stopped) else ""), file=sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:
        # The reader (head, less) has seen enough. Python would complain again when it flushes at exit.
        _silence_stdout()
        return 0
    except Exception as error:
        return _report(error, options.traceback)


def _report(error: Exception, with_traceback: bool) -> int:
    from eddyline.core.errors import LONG_MESSAGE, EddylineError, clipped

    if with_traceback:
        traceback.print_exc()
    if isinstance(error, EddylineError):
        print(f"error: {error}", file=sys.stderr)
        return error.exit_status
    text = clipped(" ".join(str(error).split()) or "no further word", LONG_MESSAGE)
    hint = "" if with_traceback else " (--traceback shows where)"
    print(f"error: {type(error).__name__}: {text}{hint}", file=sys.stderr)
    return 1


def _silence_stdout() -> None:
    with contextlib.suppress(OSError, ValueError):  # standard output may be no file (tests, notebooks)
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


class _Parser(argparse.ArgumentParser):
    """argparse, with the near name at the end of a message about an unknown one."""

    def error(self, message: str) -> NoReturn:
        if choice := re.search(r"invalid choice: '([^']*)' \(choose from (.*)\)", message):
            message += "." + _near(choice[1], re.findall(r"[\w-]+", choice[2]))
        elif value := re.search(r"^(.*): invalid (\w+) value: (.*)$", message):
            wanted = "a number" if value[2] in ("float", "_seconds") else "a whole number"
            message = f"{value[1]}: {wanted} is wanted, not {value[3]}."
        super().error(message)

    def options(self) -> list[str]:
        return [o for a in self._actions for o in a.option_strings]


def _near(name: str, known: Sequence[str]) -> str:
    from eddyline.core.errors import did_you_mean

    return did_you_mean(name, known)


def _parse(top: _Parser, arguments: Sequence[str] | None) -> argparse.Namespace:
    options, rest = top.parse_known_args(arguments)
    if rest:
        command: _Parser = getattr(options, "parser", top)
        unknown = next((r for r in rest if r.startswith("-")), None)
        if unknown is None:
            command.error(f"unexpected argument {rest[0]!r}")
        name = unknown.partition("=")[0]
        command.error(f"unknown option {name!r}.{_near(name, command.options())}")
    return options


def parser() -> _Parser:
    top = _Parser(prog="eddyline", description="Continuous queries over data streams, in CQL, with exact answers.")
    top.add_argument("--version", action="version", version=f"eddyline {__version__}")
    top.set_defaults(action=_help(top), traceback=False)
    commands = top.add_subparsers(title="commands", metavar="COMMAND")

    run = _add_run(commands)
    explain = commands.add_parser("explain", help="show the plans of a job", description="Show plans, and why.")
    explain.add_argument("--format", choices=("text", "json", "mermaid"), default="text", help="how (text)")
    explain.set_defaults(action=_explain)

    listed = commands.add_parser(
        "strategies", help="list the strategies that a query can name", description="Strategies with their parameters."
    )
    listed.add_argument("kind", nargs="?", choices=tuple(KINDS))
    listed.add_argument("--traceback", action="store_true", help="show where an error came from")
    listed.set_defaults(action=_strategies, parser=listed)

    warm = commands.add_parser(
        "warm",
        help="compile all kernels now",
        description="Compile all kernels that are not in the cache yet, once on a machine (a minute), so that no "
        "job waits for the compiler. Each is saved as soon as it is ready: an interrupted run continues where it "
        "stopped.",
    )
    warm.add_argument("--traceback", action="store_true", help="show where an error came from")
    warm.set_defaults(action=_warm, parser=warm)

    fit_command.add_command(commands, _path)
    add_serve(commands)
    add_shell(commands)
    add_view(commands)

    for command in (run, explain):
        command.set_defaults(parser=command)
        command.add_argument(
            "job",
            metavar="JOB.cql",
            type=Path,
            help="a file, whose paths are relative to its folder; '-' or a pipe reads the job from there, with paths "
            "relative to the current folder",
        )
        command.add_argument(
            "--runtime",
            choices=RUNTIMES,
            help=f"on Spark, or in this process without a JVM (spark, or the environment's {RUNTIME_VARIABLE})",
        )
        command.add_argument("--traceback", action="store_true", help="show where an error came from")
    return top


def _add_run(commands: Any) -> Any:
    run = commands.add_parser("run", help="run a job", description="Run the queries of a job.")
    run.add_argument("--master", metavar="URL", help="the Spark master (local[*]: all cores of this machine)")
    run.add_argument(
        "--shards",
        metavar="N",
        type=int,
        help="engines that a query is split over on Spark, fixed by its checkpoint (two for each core)",
    )
    run.add_argument(
        "--out",
        metavar="PATH",
        type=_path,
        help="a .parquet, .csv or .jsonl file (also .gz), '-' for CSV on standard output, or a folder when the job "
        "has several queries; folders that are missing are made; without it results are printed as tables",
    )
    run.add_argument(
        "--checkpoint", metavar="DIR", type=_path, help="keep the state in this folder, and continue from it"
    )
    run.add_argument(
        "--learned",
        metavar="FILE",
        type=_path,
        help="begin with the plans that an earlier run of the same queries ended with, and keep those of this one here",
    )
    run.add_argument(
        "--spill", metavar="DIR", type=_path, help="where rows are put that do not fit into memory (inline)"
    )
    run.add_argument("--report", metavar="FILE", type=_path, help="write what happened, as JSON ('-': standard output)")
    run.add_argument(
        "--bundle",
        metavar="PATH",
        type=_path,
        help="keep what the plan did over the run, for eddyline view: a .json file, or a folder with one a query",
    )
    run.add_argument(
        "--spark-log", metavar="FILE", type=_path, help="write Spark's own log here ('-': to standard error)"
    )
    run.add_argument("--strict", action="store_true", help="stop at the first malformed row instead of counting it")
    run.add_argument("--quiet", action="store_true", help="no progress line, and no word about the files written")
    run.set_defaults(action=_run)
    return run


def _help(top: argparse.ArgumentParser) -> Callable[[argparse.Namespace], int]:
    """No command at all: the help, and the status of a mistake."""

    def show(_: argparse.Namespace) -> int:
        top.print_help()
        return 2

    return show


def _run(options: argparse.Namespace) -> int:
    from eddyline.core.errors import JobError

    runtime = _runtime(options)
    for option in ("master", "shards", "spark-log"):
        if runtime == "inline" and getattr(options, option.replace("-", "_")) is not None:
            raise JobError(f"--{option} belongs to --runtime spark; this run is inline.")
    if runtime == "spark" and options.spill is not None:
        raise JobError("--spill belongs to --runtime inline: on Spark shards spill to folders of their own.")
    from eddyline.engine.job_text import check_path

    path = options.job
    check_path(path)
    progress = _progress(options)
    common = {n: getattr(options, n) for n in ("out", "report", "checkpoint", "strict", "quiet", "learned", "bundle")}
    # Whatever else is written to the terminal stands above the progress line.
    out, err = (s if progress is None else progress.above(s) for s in (sys.stdout, sys.stderr))
    common |= {"progress": progress, "stdout": out}
    try:
        with contextlib.redirect_stderr(err):
            return _run_on(runtime, path, options, common)
    finally:
        if progress is not None:
            progress.finish()


def _path(text: str) -> Path:
    if not text.strip():
        raise argparse.ArgumentTypeError("a path is missing: ''.")
    return Path(text)


def _run_on(runtime: str, path: Path, options: argparse.Namespace, common: dict[str, Any]) -> int:
    if runtime == "inline":
        from eddyline.engine.allocation import keep_memory
        from eddyline.engine.job import run_job

        keep_memory()
        return run_job(path, **common, spill=options.spill)
    from eddyline.spark.requirements import check

    # What is missing is said before anything of Spark is imported.
    check(connect=(options.master or "").startswith("sc://"))
    from eddyline.spark.job import run_job as run_on_spark

    if options.spark_log is not None:
        from eddyline.engine.job import check_writable
        from eddyline.spark.jvm import log_to

        check_writable(options.spark_log, "--spark-log", folder=False)
        log_to(None if str(options.spark_log) == "-" else options.spark_log)
    return run_on_spark(path, master=options.master, shards=options.shards, **common)


def _explain(options: argparse.Namespace) -> int:
    from eddyline.engine.job_text import check_path

    check_path(options.job)
    from eddyline.engine.job import explain_job

    if options.format != "text":
        return explain_job(options.job, stdout=sys.stdout, form=options.format)
    if _runtime(options) != "spark":
        return explain_job(options.job, stdout=sys.stdout)
    from eddyline.spark.explain_shards import travel_of

    return explain_job(options.job, stdout=sys.stdout, travel=travel_of)


def _strategies(options: argparse.Namespace) -> int:
    from eddyline.engine.strategies import strategy_lines

    for line in strategy_lines(options.kind):
        print(line)
    return 0


def _warm(_: argparse.Namespace) -> int:
    from eddyline.kernels.warm import warm

    warm()
    return 0


def _runtime(options: argparse.Namespace) -> str:
    chosen = options.runtime or os.environ.get(RUNTIME_VARIABLE) or RUNTIMES[0]
    if chosen not in RUNTIMES:
        from eddyline.core.errors import JobError

        raise JobError(f"the environment's {RUNTIME_VARIABLE} is {chosen!r}; it must be {' or '.join(RUNTIMES)}.")
    return str(chosen)


def _progress(options: argparse.Namespace) -> Progress | None:
    from eddyline.engine.progress import Progress

    progress = Progress(quiet=options.quiet or _is_pipe(sys.stdout))
    return progress if progress.active else None


def _is_pipe(out: Any) -> bool:
    """Whether another program reads what is written. It may show it on the same terminal (head, less) at any moment,
    and the progress line could not be kept out of its way."""
    with contextlib.suppress(OSError, ValueError, AttributeError):
        mode = os.fstat(out.fileno()).st_mode
        return stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)
    return False


if __name__ == "__main__":
    sys.exit(main())
