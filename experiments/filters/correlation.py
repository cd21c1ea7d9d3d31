"""What Figures 4.13 and 4.14 share: the correlation factor Γ from 1 (independent) to n (one group)."""

from __future__ import annotations

from experiments.filters.curves import converge, rate_figure
from experiments.filters.setting import stream
from experiments.report import Claim, Number, Options, Outcome, Verdict


def by_correlation(options: Options, figure: str, n: int) -> Outcome:
    rows = options.tuples(240_000, 80_000)
    factors = list(range(1, n + 1))
    names = ("optimal", "a-greedy", "independent")
    curves = converge(factors, names, lambda g, s: stream(rows, n, gamma=int(g), seed=s), options.times(5))
    gap = [curves.over(g, "a-greedy", "independent") for g in factors]
    best = factors[gap.index(max(gap))]
    verdict = Verdict(
        figure,
        [
            Claim("A-Greedy's lead over Independent first grows with the correlation", best > 1 and gap[best - 1] > 0),
            Claim("and is less where Γ is close to n", best < n and gap[-1] < gap[best - 1] / 2),
        ],
        [Number(f"A-Greedy above Independent, Γ = {g}", None, gap[g - 1]) for g in sorted({1, 2, 3, n // 2, n})],
    )
    plot = rate_figure(curves, "correlation factor Γ", f"{figure}: n = {n}, 50 %")
    plot.axes[0].set_xticks(factors)
    return Outcome(curves.rows("gamma"), verdict, plot)
