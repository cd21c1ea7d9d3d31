"""Section 5.5.6, further: what an adaptive join would gain from shorter profiling runs, where its best order changes.

The skewed join of the benchmark ``join-adaptive``, with short phases: streams R, S, T, U and V, of which another one
drops nearly all elements in each phase. A profiling run of any length has as many samples, so that a short one costs
the same and ends sooner: what is saved is a bound of what a test could save that ends a run as soon as the evidence is
clear. Accesses are counted, and no time ends a quiet run, so that a run can be repeated.
"""

from __future__ import annotations

from functools import partial
from unittest.mock import patch

import matplotlib.pyplot as plt
import numpy as np
from benchmarks import skewed_star as skewed
from benchmarks.adaptive_join import cut

import eddyline as ed
from eddyline.adapting import join_choice
from eddyline.adapting.join_pacing import PROFILING_RUN_ELEMENTS, Pace
from eddyline.testing import ManualClock
from experiments.report import Claim, Number, Options, Outcome, Verdict, main

LENGTHS = tuple(round(PROFILING_RUN_ELEMENTS * share) for share in (0.25, 0.5, 1, 2))
PHASES, SEEDS = (20_000, 40_000, 80_000, 160_000), 3
SECONDS, PIECES = 400, 60
GAIN = 0.05  # of the accesses, below which another length is not worth the change


def run(options: Options) -> Outcome:
    phases = [options.tuples(phase) for phase in PHASES]
    taken = {
        (phase, seed, length): accesses(phase, seed, length)
        for phase in phases for seed in range(options.times(SEEDS, 1)) for length in LENGTHS
    }  # fmt: skip
    rows = [
        {"phase": phase, "seed": seed, "profiling_run": length, "accesses": n,
         "ratio": n / taken[phase, seed, PROFILING_RUN_ELEMENTS]}
        for (phase, seed, length), n in taken.items()
    ]  # fmt: skip

    def mean(length: int, phase: int | None = None) -> float:
        """The geometric mean of the accesses over those with the usual length."""
        some = [r["ratio"] for r in rows if r["profiling_run"] == length and phase in (None, r["phase"])]
        return float(np.exp(np.mean(np.log(some))))

    shorter = [length for length in LENGTHS if length < PROFILING_RUN_ELEMENTS]
    claims = [Claim(f"profiling runs of {n:,} elements save less than 5 %", mean(n) > 1 - GAIN) for n in shorter]
    numbers = [Number(f"accesses with runs of {n:,} elements over the usual", None, mean(n), "×") for n in LENGTHS]
    figure, axes = plt.subplots(figsize=(7, 4))
    for length in LENGTHS:
        axes.plot(phases, [mean(length, phase) for phase in phases], marker="o", label=f"{length:,} elements")
    axes.set(xscale="log", xlabel="elements of R a phase", ylabel="accesses over those with the usual runs")
    axes.legend()
    note = (
        "What delays a new order is mostly what comes before the run: a change is seen when the probes of some 16,000 "
        "elements are compared, and the run must be paid for."
    )
    return Outcome(rows, Verdict("The length of profiling runs", claims, numbers, note), figure)


def accesses(phase: int, seed: int, length: int) -> int:
    """Those of all phases, from a written order that suits none."""
    data = skewed.star(phase, SECONDS, seed)
    session = ed.Session(clock=ManualClock())
    for name, table in data.items():
        session.stream(name, schema=table.schema, timestamp="ts")
    with patch.object(join_choice, "Pace", partial(Pace, length)):
        query = session.query(skewed.query(SECONDS))
    of_a_phase = SECONDS * 1_000_000 // skewed.PHASES
    for piece in cut(data, -skewed.WINDOW * of_a_phase, skewed.PHASES * of_a_phase, PIECES):
        for name, table in piece.items():
            session.push(name, table)
        query.fetch()
    (told,) = query.statistics().values()
    return int(told["accesses"])


if __name__ == "__main__":
    main(run)
