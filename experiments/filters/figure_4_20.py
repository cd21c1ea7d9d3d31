"""Figure 4.20: adaptivity of A-Greedy versus LocalSwaps: filters evaluated per 2,000 tuples around a change.

The setting is in ``adaptivity``: n = 8, selectivities permuted after 600,000 tuples, Table 4.1's parameters. Sweep runs
along, undrawn, for the remark that LocalSwaps changes more smoothly.
"""

from __future__ import annotations

from experiments.filters.adaptivity import CHOICE, median, timeline_figure, timeline_rows, timelines
from experiments.report import Claim, Number, Options, Outcome, Verdict, main


def run(options: Options) -> Outcome:
    found = timelines(options, ("a-greedy", "local-swaps", "sweep"))
    back = {o: median([f[o].back_to(f["a-greedy"].last(1)) for f in found]) for o in found[0]}
    step = {o: median([f[o].steps()[0] for f in found]) for o in found[0]}
    largest = {o: median([f[o].steps()[1] for f in found]) for o in found[0]}
    verdict = Verdict(
        "Figure 4.20",
        [
            Claim("A-Greedy comes to the new order much faster than LocalSwaps (at least twice)",
                  2 * back["a-greedy"] < back["local-swaps"]),
            Claim("the cost of LocalSwaps's order changes more smoothly than Sweep's (in smaller steps on average)",
                  step["local-swaps"] < step["sweep"]),
        ],
        [
            *(Number(f"tuples until {o} is within 5 % of the new greedy order", None, back[o], "")
              for o in ("a-greedy", "local-swaps")),
            *(Number(f"average step of {o}, filters per tuple", None, step[o], "") for o in ("local-swaps", "sweep")),
            *(Number(f"largest step of {o}", None, largest[o], "") for o in ("local-swaps", "sweep")),
        ],
        f"Medians of {len(found)} repetitions; the plot shows the first. Smoothness by the largest step is a "
        f"tie. {CHOICE}",
    )  # fmt: skip
    shown = {o: found[0][o] for o in ("a-greedy", "local-swaps")}
    return Outcome(timeline_rows(found), verdict, timeline_figure(shown, "Figure 4.20: A-Greedy and LocalSwaps"))


if __name__ == "__main__":
    main(run)
