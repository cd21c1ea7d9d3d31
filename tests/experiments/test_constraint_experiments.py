"""How closely monitors of constraints follow k (Figures 6.11, 6.13 and 6.15), at full size: some seconds in all."""

from __future__ import annotations

from types import ModuleType

import pytest
from experiments.constraints import figure_6_11, figures_6_13_15
from experiments.report import Options


@pytest.mark.parametrize("experiment", [figure_6_11, figures_6_13_15], ids=lambda e: e.__name__.rpartition(".")[2])
def test_monitors_follow_k(experiment: ModuleType) -> None:
    claims = experiment.run(Options()).verdict.claims
    assert len(claims) >= 4 and [claim.text for claim in claims if not claim.holds] == []
