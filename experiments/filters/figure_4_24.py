"""Figure 4.24: the cost of the dear filters where selectivities change every 1,000,000 tuples (Figure 4.22's x = 10⁶).

The setting is in ``changing``. The text names no range of costs; they are those of Figure 4.17.
"""

from __future__ import annotations

from experiments.filters.changing import CHOICE
from experiments.filters.dear_filters import COSTS, by_cost, by_cost_figure, by_cost_rows
from experiments.report import Claim, Number, Options, Outcome, Verdict, main


def run(options: Options) -> Outcome:
    found = by_cost(options.tuples(1_000_000), options.times(2, 1), range(1))
    lead = {c: found[c]["sweep"].cost / found[c]["a-greedy"].cost - 1 for c in COSTS}
    share = {c: found[c]["a-greedy"].profiling / found[c]["a-greedy"].cost for c in COSTS}
    verdict = Verdict(
        "Figure 4.24",
        [
            Claim("A-Greedy's share of overhead grows with the cost of filters", share[100] > share[10] > share[1]),
            Claim("and Sweep's performance against A-Greedy improves with it", lead[100] < min(lead[10], lead[1])),
            Claim("where filters cost 10 and more, Sweep performs better", max(lead[c] for c in COSTS[1:]) < 0),
        ],
        [
            *(Number(f"Sweep dearer than A-Greedy, c = {c}", None, lead[c]) for c in COSTS),
            *(Number(f"overhead of A-Greedy, c = {c}", None, share[c]) for c in (1, 100)),
            Number("default dearer than the clairvoyant, c = 100", None,
                   found[100]["default"].cost / found[100]["optimal"].cost - 1),
        ],
        CHOICE,
    )  # fmt: skip
    return Outcome(by_cost_rows(found), verdict, by_cost_figure(found, "Figure 4.24: a change every 1,000,000 tuples"))


if __name__ == "__main__":
    main(run)
