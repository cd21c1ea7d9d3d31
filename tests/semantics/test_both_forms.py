"""Answers do not depend on which form of a kernel runs, nor on when it changes."""

from __future__ import annotations

import os
import random

import pytest
from numba.core import config

from eddyline.testing.cases import draw_case
from eddyline.testing.forms import changing_forms
from tests.scale import scaled
from tests.semantics.engine import JOINS, Way, check

SEED = int(os.environ.get("EDDYLINE_SEED", "2004"))
CASES = scaled(20, least=5, most=15)


@pytest.mark.parametrize("part", range(4))
def test_answers_are_those_of_the_reference_while_forms_change(part: int) -> None:
    rng = random.Random(f"{SEED}/forms/{part}")
    with changing_forms(rng) as calls:
        for i in range(part, CASES, 4):
            case = draw_case(random.Random(f"{SEED}/forms/{i}"))
            options = rng.choice(JOINS) if i % 2 else {}
            way = Way(i, small=i % 3 == 0, snapshot=i % 5 == 0, options=options)
            what = check(case, way)
            assert what is None, f"{way}\n{what}\n\n{case.snippet()}"
    assert config.DISABLE_JIT or min(calls) > 10
