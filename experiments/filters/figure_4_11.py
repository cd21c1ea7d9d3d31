"""Figure 4.11: the number of filters, under convergence.

A-Greedy, Independent and Optimal with Table 4.1's defaults: selectivity 50 %, Γ = 2, cost 1. The text names no range;
n runs from 3 (with n = 2 there is one group, and nothing to order) to 10. 120,000 tuples are counted after as many that
are not.
"""

from __future__ import annotations

from experiments.filters.curves import converge, rate_figure
from experiments.filters.setting import slope, stream
from experiments.report import Claim, Number, Options, Outcome, Verdict, main


def run(options: Options) -> Outcome:
    rows = options.tuples(240_000, 80_000)
    ns = list(range(3, 11))
    curves = converge(
        ns, ("optimal", "a-greedy", "independent"), lambda n, s: stream(rows, int(n), seed=s), options.times(5)
    )
    gap = [curves.over(n, "a-greedy", "independent") for n in ns]
    of_optimal = [1 + curves.over(n, "a-greedy", "optimal") for n in ns]
    verdict = Verdict(
        "Figure 4.11",
        [
            Claim("A-Greedy is better than Independent throughout", min(gap) > 0),
            Claim("the gap between them widens with n", slope(ns, gap) > 0 and gap[-1] > gap[0]),
            Claim("A-Greedy is near-optimal for small n (within 2 % at n = 3)", of_optimal[0] > 0.98),
            Claim("and degrades as n grows", slope(ns, of_optimal) < 0 and of_optimal[-1] < of_optimal[0]),
        ],
        [
            Number("A-Greedy above Independent, n = 3", None, gap[0]),
            Number("A-Greedy above Independent, n = 8", None, gap[5]),
            Number("A-Greedy above Independent, n = 10", None, gap[-1]),
            Number("A-Greedy of Optimal, n = 3", None, of_optimal[0]),
            Number("A-Greedy of Optimal, n = 10", None, of_optimal[-1]),
        ],
    )
    return Outcome(curves.rows("n"), verdict, rate_figure(curves, "number of filters n", "Figure 4.11: Γ = 2, 50 %"))


if __name__ == "__main__":
    main(run)
