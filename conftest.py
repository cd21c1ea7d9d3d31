"""Settings for all tests: kernels are compiled at once, no deadlines (a first call compiles), the same cases in every
run but the deep one.

In several processes (pytest-xdist) a file is a unit of work, and all files with Spark in their path are one: there is
one JVM at a time, and it begins first, because it takes longest. Where Spark cannot run (no Java), its tests are left
out, and the summary says how many and why.
"""

from __future__ import annotations

import functools
import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import pytest
from hypothesis import settings

DEEP = float(os.environ.get("EDDYLINE_CASES", "1")) > 1
COVERAGE = "eddyline/coverage of random cases"

# Tests of the command line are about the command line; those of Spark ask for it.
os.environ.setdefault("EDDYLINE_RUNTIME", "inline")
# Tests are small, and would not have kernels compiled that are not in the cache; they are to see the compiled ones.
os.environ.setdefault("EDDYLINE_COMPILE", "at-once")

settings.register_profile("eddyline", deadline=None, derandomize=not DEEP)
settings.load_profile("eddyline")


def pytest_sessionstart(session: pytest.Session) -> None:
    if not hasattr(session.config, "workerinput") and getattr(session.config, "cache", None) is not None:
        session.config.cache.set(COVERAGE, None)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """What the random cases covered, whichever process ran them; the whole table in deep runs."""
    for line in (*counts_by_part(terminalreporter.stats), *longest_units(terminalreporter.stats)):
        terminalreporter.write_line(line)
    left_out = getattr(config, "without_spark", 0)
    if left_out:
        terminalreporter.write_line(f"{left_out:,} tests of the Spark runtime were not run: {why_no_spark()}")
    table = config.cache.get(COVERAGE, None) if getattr(config, "cache", None) is not None else None
    if table:
        lines = table.splitlines()
        terminalreporter.write_line("random cases against the reference: " + lines[0])
        for line in lines[1:] if DEEP else ():
            terminalreporter.write_line(line)


OUTCOMES = ("passed", "failed", "error", "skipped")


def part_of(nodeid: str) -> str:
    """The part of the project that a test is about: a folder of ``tests``, or where doctests stand.

    >>> part_of("tests/spark/test_local.py::test_words"), part_of("src/eddyline/core/time.py::eddyline.core.time")
    ('spark', 'doctests')
    >>> part_of("tests/test_cli.py::test_help"), part_of("docs/cli.md::cli.md")
    ('top', 'pages')
    """
    path = nodeid.split("::", 1)[0].split("/")
    if path[0] == "tests":
        return path[1] if len(path) > 2 else "top"
    return "doctests" if path[0] == "src" else "pages"


def counts_by_part(stats: Mapping[str, Sequence[Any]]) -> Iterator[str]:
    """One line for each part of the tests, with its counts and its seconds."""
    counts: dict[str, Counter[str]] = {}
    for outcome in OUTCOMES:
        for report in stats.get(outcome, ()):
            counts.setdefault(part_of(report.nodeid), Counter())[outcome] += 1
    seconds = seconds_by(part_of, stats)
    for part, found in sorted(counts.items()):
        yield f"  {part:12s} {', '.join(f'{found[o]:,} {o}' for o in OUTCOMES if found[o])} ({seconds[part]:.0f} s)"


def seconds_by(group: Callable[[str], str], stats: Mapping[str, Sequence[Any]]) -> Counter[str]:
    """The seconds that tests took with their fixtures, added up for each group."""
    seconds: Counter[str] = Counter()
    for outcome in (*OUTCOMES, ""):  # "" has what was set up and taken down
        for report in stats.get(outcome, ()):
            seconds[group(report.nodeid)] += getattr(report, "duration", 0)
    return seconds


def longest_units(stats: Mapping[str, Sequence[Any]]) -> Iterator[str]:
    """The units of work that took longest, for ``SECONDS``."""
    found = [f"{unit} {taken:.0f}" for unit, taken in seconds_by(work_unit, stats).most_common(12) if taken >= 20]
    if found:
        yield f"  seconds of the longest files: {', '.join(found)}"


def work_unit(nodeid: str) -> str:
    """
    >>> work_unit("tests/spark/test_local.py::test_words"), work_unit("tests/io/test_csv.py::test_empty[a::b]")
    ('spark', 'tests/io/test_csv.py')
    """
    path = nodeid.split("::", 1)[0]
    return "spark" if path.startswith("tests/") and "spark" in path else path


# Seconds of files that take long for the number of their tests, of one core and about; ``pytest --durations`` tells.
SECONDS = {
    "spark": 600,
    "tests/testing/test_checks.py": 67,
    "tests/server/test_page.py": 49,
    "tests/shards/test_shards.py": 41,
    "tests/synopses/test_protocol.py": 41,
    "tests/docs/test_readme.py": 70,
    "tests/semantics/test_long_joins.py": 60,
    "tests/semantics/test_random_sessions.py": 50,
    "tests/semantics/test_long_constrained_joins.py": 45,
    "tests/adapting/test_adaptive_join.py": 43,
    "tests/failures/test_stopping.py": 40,
    "tests/semantics/test_closing_windows.py": 40,
    "tests/semantics/test_against_reference.py": 35,
    "tests/kernels/test_compile.py": 30,
    "tests/adapting/test_constrained_join.py": 25,
    "tests/semantics/test_both_forms.py": 50,
    "tests/semantics/test_bounds.py": 20,
    "tests/semantics/test_star_joins.py": 20,
    "tests/semantics/test_constant_sides.py": 20,
    "tests/semantics/test_memberships.py": 43,
    "tests/server/test_kills.py": 20,
    "tests/experiments/test_join_experiments.py": 20,
    "tests/failures/test_checkpoint_files.py": 20,
    "tests/adapting/test_adaptive_conjunction.py": 16,
    "tests/adaptive/disorder/test_quantile_slack.py": 12,
    "tests/engine/test_overload.py": 11,
}
SECONDS_OF_A_TEST = 0.05


def expected_seconds(nodeids: Iterable[str]) -> dict[str, float]:
    """How long each unit of work takes, about.

    >>> expected_seconds(["tests/io/test_csv.py::test_a", "tests/io/test_csv.py::test_b"])
    {'tests/io/test_csv.py': 0.1}
    """
    counts = Counter(work_unit(nodeid) for nodeid in nodeids)
    return {unit: max(SECONDS.get(unit, 0), SECONDS_OF_A_TEST * count) for unit, count in counts.items()}


@functools.cache
def why_no_spark() -> str | None:
    """The sentence that says why Spark cannot run here; None if it can."""
    from eddyline.core.errors import EddylineError
    from eddyline.spark.requirements import check

    try:
        check()
    except EddylineError as error:
        return str(error)
    return None


def needs_spark(item: pytest.Item) -> bool:
    """Spark's own tests, and those elsewhere that are marked with ``spark``."""
    return item.nodeid.startswith("tests/spark/") or item.get_closest_marker("spark") is not None


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Without Java no tests of Spark. In a process of xdist the longest units of work come first: the last ones are
    short, and no process waits long for the other."""
    sparks = [item for item in items if needs_spark(item)]
    if sparks and why_no_spark() is not None:
        config.hook.pytest_deselected(items=sparks)
        items[:] = [item for item in items if not needs_spark(item)]
        config.without_spark = len(sparks)  # type: ignore[attr-defined]
    if hasattr(config, "workerinput"):
        expected = expected_seconds(item.nodeid for item in items)
        items.sort(key=lambda item: -expected[work_unit(item.nodeid)])


def pytest_sessionfinish(session: pytest.Session) -> None:
    """A process of xdist tells how many tests it left out: each collects all of them."""
    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput["without_spark"] = getattr(session.config, "without_spark", 0)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any, error: object) -> None:
    node.config.without_spark = getattr(node, "workeroutput", {}).get("without_spark", 0)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    from xdist.scheduler import LoadFileScheduling

    class OneSpark(LoadFileScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return work_unit(nodeid)

    config.option.loadscopereorder = False  # the order is that of the collection, sorted above
    return OneSpark(config, log)
