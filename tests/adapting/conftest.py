"""What tests of the runtime share."""

from __future__ import annotations

import pytest

from eddyline.adaptive.joins import profiling_budget as join_budget


@pytest.fixture
def free_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Joins look at their elements whether it can pay or not, from the first on: for tests of what comes of looks."""
    monkeypatch.setattr(join_budget, "PRICE", 0)
    monkeypatch.setattr(join_budget.LookBudget, "spend", lambda self, profiling: None)
