"""Counts what the random cases cover; ``conftest.py`` at the root says so at the end of the run."""

from __future__ import annotations

import pytest
from conftest import COVERAGE

from eddyline.testing.coverage import Coverage

_COVERAGE = Coverage()


@pytest.fixture(scope="session")
def coverage() -> Coverage:
    return _COVERAGE


def pytest_sessionfinish(session: pytest.Session) -> None:
    if _COVERAGE.cases and getattr(session.config, "cache", None) is not None:
        session.config.cache.set(COVERAGE, _COVERAGE.table())
