"""Settings for all tests: no deadlines (a first call compiles), the same cases in every run but the deep one."""

from __future__ import annotations

import os

import pytest
from hypothesis import settings

DEEP = float(os.environ.get("EDDYLINE_CASES", "1")) > 1
COVERAGE = "eddyline/coverage of random cases"

# Tests of the command line are about the command line; those of Spark ask for it.
os.environ.setdefault("EDDYLINE_RUNTIME", "inline")

settings.register_profile("eddyline", deadline=None, derandomize=not DEEP)
settings.load_profile("eddyline")


def pytest_sessionstart(session: pytest.Session) -> None:
    if not hasattr(session.config, "workerinput") and session.config.cache is not None:
        session.config.cache.set(COVERAGE, None)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """What the random cases covered, whichever process ran them; the whole table in deep runs."""
    table = config.cache.get(COVERAGE, None) if config.cache is not None else None
    if table:
        lines = table.splitlines()
        terminalreporter.write_line("random cases against the reference: " + lines[0])
        for line in lines[1:] if DEEP else ():
            terminalreporter.write_line(line)
