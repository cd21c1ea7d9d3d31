"""Figure 4.19: adaptivity of A-Greedy versus Sweep: filters evaluated per 2,000 tuples around a change.

The setting is in ``adaptivity``: n = 8, selectivities permuted after 600,000 tuples, Table 4.1's parameters.
"""

from __future__ import annotations

from experiments.filters.adaptivity import median, timeline_figure, timeline_rows, timelines
from experiments.report import Claim, Number, Options, Outcome, Verdict, main


def run(options: Options) -> Outcome:
    found = timelines(options, ("a-greedy", "sweep", "default"))
    # How soon each has an order about as good as A-Greedy's last one.
    back = {o: median([f[o].back_to(f["a-greedy"].last(1)) for f in found]) for o in found[0]}
    verdict = Verdict(
        "Figure 4.19",
        [
            Claim("A-Greedy comes to the new order much faster than Sweep (at least 3 times)",
                  3 * back["a-greedy"] < back["sweep"]),
            Claim("Sweep had A-Greedy's order (within 5 %) before the change",
                  median([f["sweep"].last(0) / f["a-greedy"].last(0) for f in found]) < 1.05),
        ],
        [Number(f"tuples until {o} is within 5 % of the new greedy order", None, back[o], "") for o in back],
        f"Medians of {len(found)} repetitions; the plot shows the first.",
    )  # fmt: skip
    figure = timeline_figure(found[0], "Figure 4.19: A-Greedy and Sweep, and our default")
    return Outcome(timeline_rows(found), verdict, figure)


if __name__ == "__main__":
    main(run)
