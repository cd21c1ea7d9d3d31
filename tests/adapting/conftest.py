"""What tests of the runtime share."""

from __future__ import annotations

import pytest

from eddyline.adaptive.joins import profiling_budget as join_budget


@pytest.fixture
def free_profiling_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Joins profile elements whether it can pay or not, from the first on: for tests of what follows from it."""
    monkeypatch.setattr(join_budget, "ACCESSES_PER_INPUT", 0)
    monkeypatch.setattr(join_budget.ProfilingBudget, "spend", lambda self, profiling: None)
