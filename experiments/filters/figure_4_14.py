"""Figure 4.14: the correlation factor Γ, under convergence, for n = 8 filters.

Selectivity 50 %, cost 1, ⌈n/Γ⌉ groups; within a group filters agree on 80 % of the tuples.
"""

from __future__ import annotations

from experiments.filters.correlation import by_correlation
from experiments.report import Options, Outcome, main


def run(options: Options) -> Outcome:
    return by_correlation(options, "Figure 4.14", 8)


if __name__ == "__main__":
    main(run)
