"""Counts what the random cases cover, and says so at the end of the run."""

from __future__ import annotations

import os

import pytest

from eddyline.testing.coverage import Coverage

_COVERAGE = Coverage()


@pytest.fixture(scope="session")
def coverage() -> Coverage:
    return _COVERAGE


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if _COVERAGE.cases:
        lines = _COVERAGE.table().splitlines()
        terminalreporter.write_line("random cases against the reference: " + lines[0])
        if float(os.environ.get("EDDYLINE_CASES", "1")) > 1:  # the whole table in deep runs
            for line in lines[1:]:
                terminalreporter.write_line(line)
