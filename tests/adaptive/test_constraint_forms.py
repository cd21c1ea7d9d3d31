"""Which form of a constraint is used, k in arrivals or in ticks."""

from __future__ import annotations

import math

import numpy as np
import pytest

from eddyline.adaptive.constraints.adherence import Adherence
from eddyline.adaptive.constraints.forms import Forms

DELAY, PHASE = 60, 1_000  # ticks
WINDOW = 20_000


def made() -> Forms:
    return Forms(Adherence(c=1.2, W=500), Adherence(c=1.2, W=500))


def phase(forms: Forms, start: int, rate: int, arrived: int, late: float = DELAY) -> tuple[int, list[bool]]:
    """A phase with so many arrivals in a tick, each up to ``late`` ticks late."""
    random, chosen = np.random.default_rng(start), []
    for now in range(start, start + PHASE, 20):
        arrived += 20 * rate
        times = np.sort(random.integers(now, now + 20, 20 * rate))
        ticks = (random.random(20 * rate) * late).astype(np.int64) + 1
        at = arrived - (now + 20 - times) * rate
        forms.arrivals.observe(at, np.minimum(ticks * rate, at), arrived)
        forms.observe_ticks(times, ticks, now + 20)
        forms.passed(now + 20, rate)
        forms.choose(arrived, WINDOW)
        chosen.append(forms.in_ticks)
    return arrived, chosen


def test_in_quiet_times_the_form_is_kept_that_holds_in_busy_ones_too() -> None:
    """In a quiet time k in arrivals falls to what it is then, and both forms keep as many rows at that instant. The
    busy time after it refutes k in arrivals, and not k in ticks."""
    forms, arrived, chosen = made(), 0, list[bool]()
    for n in range(12):
        arrived, mine = phase(forms, n * PHASE, 1 if n % 2 == 0 else 20, arrived)
        chosen += mine if n >= 4 else []
        if n % 2 == 0 and n > 4:
            lengths = forms._lengths()
            assert lengths[0] < 1.5 * lengths[1]  # at this instant nothing speaks against k in arrivals
    assert all(chosen)
    assert forms.arrivals.increases >= 4 and forms.ticks.increases == 0


def test_where_rates_are_even_the_form_does_not_change() -> None:
    forms, arrived, chosen = made(), 0, list[bool]()
    for n in range(8):
        arrived, mine = phase(forms, n * PHASE, 7, arrived)
        chosen += mine
    assert len(set(chosen[len(mine) :])) == 1  # whichever was known first


def test_a_form_that_has_become_better_is_used_after_a_window() -> None:
    """Delays count arrivals from some time on: what was seen before fades with a window of arrivals."""
    forms, arrived, chosen = made(), 0, list[bool]()
    for n in range(6):
        arrived, _ = phase(forms, n * PHASE, 1 if n % 2 == 0 else 20, arrived)
    assert forms.in_ticks
    for n in range(6, 16):
        rate = 1 if n % 2 == 0 else 20
        arrived, chosen = phase(forms, n * PHASE, rate, arrived, late=60 / rate)
    assert not any(chosen)


@pytest.mark.parametrize("window", [WINDOW, math.inf])
def test_what_was_weighed_is_saved(window: float) -> None:
    forms = made()
    arrived, _ = phase(forms, 0, 5, 0)
    again = made()
    again.load(forms.state())
    for f in (forms, again):
        f.passed(2_000, 3.0)
        f.choose(arrived + 100, window)
    assert again.state()["kept"].tolist() == forms.state()["kept"].tolist()
    assert again.state()["ticks_since"] == forms.state()["ticks_since"] == 0
