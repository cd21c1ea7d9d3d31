"""Settings for all tests: kernels are compiled at once, no deadlines (a first call compiles), the same cases in every
run but the deep one.

In several processes (pytest-xdist) a file is a unit of work, and all files with Spark in their path are one: there is
one JVM at a time, and it begins first, because it takes longest.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
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
    for line in counts_by_part(terminalreporter.stats):
        terminalreporter.write_line(line)
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
    """One line for each part of the tests, with its counts."""
    counts: dict[str, Counter[str]] = {}
    for outcome in OUTCOMES:
        for report in stats.get(outcome, ()):
            counts.setdefault(part_of(report.nodeid), Counter())[outcome] += 1
    for part, found in sorted(counts.items()):
        yield f"  {part:12s} {', '.join(f'{found[o]:,} {o}' for o in OUTCOMES if found[o])}"


def work_unit(nodeid: str) -> str:
    """
    >>> work_unit("tests/spark/test_local.py::test_words"), work_unit("tests/io/test_csv.py::test_empty[a::b]")
    ('spark', 'tests/io/test_csv.py')
    """
    path = nodeid.split("::", 1)[0]
    return "spark" if path.startswith("tests/") and "spark" in path else path


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """In a process of xdist: Spark's tests first, then the files with most tests."""
    if hasattr(config, "workerinput"):
        sizes = Counter(work_unit(item.nodeid) for item in items)
        items.sort(key=lambda item: (work_unit(item.nodeid) != "spark", -sizes[work_unit(item.nodeid)]))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    from xdist.scheduler import LoadFileScheduling

    class OneSpark(LoadFileScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return work_unit(nodeid)

    config.option.loadscopereorder = False  # the order is that of the collection, sorted above
    return OneSpark(config, log)
