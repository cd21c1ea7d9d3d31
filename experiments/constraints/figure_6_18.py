"""Figure 6.18: CA and RIDS together, and the choice between them.

Join graph of Figure 6.9(c): S1 → S2 at rates 2:1, a filter on S2 that 10 % pass, windows of 50,000 rows, CA(5000) on
S1.a and RIDS(k) with growing k. Rows in memory, averaged over the last third of the run. ``both`` uses both constraints
whatever it costs (``choice = all``), as the thesis does; ``chosen`` decides by predicted rows whether No rows of S2 are
dropped or kept. Lossy, as in the thesis.
"""

from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np

from experiments.constraints.harness import ROWS, Input, Run, filtered, warm_up
from experiments.report import Claim, Number, Options, Outcome, Verdict, main

DISTANCES = (0, 500, 1_000, 2_000, 3_000, 5_000, 10_000)
SPREAD = 5_000
PASSING = 10
WAYS = {
    "CA": "lossy(uses=ca)",
    "RIDS": "lossy(uses=rids)",
    "both": "lossy(uses=rids+ca, choice=all)",
    "chosen": "lossy(uses=rids+ca)",
}
BOUND = 1.05


def run(options: Options) -> Outcome:
    rows = options.tuples(ROWS, 5_000)
    joined = [("S1.a", "S2.a")]
    warm_up(joined, filtered(0, 300, 2, 50))
    found: dict[str, list[float]] = {w: [] for w in WAYS}
    lines, kept = [], []
    for k in DISTANCES:
        tables = filtered(k * rows // ROWS, 3 * rows, 2, SPREAD * rows // ROWS)
        inputs = {"S1": Input(tables["S1"], rows), "S2": Input(tables["S2"], rows, ("f", PASSING))}
        for way, constraints in WAYS.items():
            join, seen = Run(inputs, joined, constraints), []
            for _ in join.steps(max(500, rows // 10)):
                seen.append(join.rows)
            found[way].append(float(np.mean(seen[-len(seen) // 3 :])))
            lines.append({"k": k, "way": way, "rows": found[way][-1], "results": join.results})
            if way == "chosen":
                kept.append(not join.watch.drops_no[1])
    best = [min(found[w][i] for w in ("CA", "RIDS", "both")) for i in range(len(DISTANCES))]
    ratios = [c / b for c, b in zip(found["chosen"], best, strict=True)]
    figure, axis = plt.subplots(figsize=(6, 3.6))
    for way, values in found.items():
        axis.plot(DISTANCES, values, "o-", label=way)
    axis.set(xlabel="k of RIDS", ylabel="rows in memory", yscale="log")
    axis.legend()
    figure.tight_layout()
    crossing = next((k for k, b, c in zip(DISTANCES, found["both"], found["CA"], strict=True) if b > c), None)
    claims = [
        Claim("chosen is never more than 5 % above the best of CA, RIDS and both", max(ratios) <= BOUND),
        Claim("both is best at small k, and worse than CA alone at large k",
              found["both"][0] <= found["CA"][0] and found["both"][-1] > found["CA"][-1]),
        Claim("No rows are dropped at small k and kept at large k", not kept[0] and kept[-1]),
    ]  # fmt: skip
    numbers = [Number("chosen over the best of the three, at worst", BOUND, max(ratios))]
    numbers += [Number("k from which on both keep more than CA alone", 2_000, crossing or float("inf"), "")]
    numbers += [Number(f"rows at k = {k:,}, {w}", None, found[w][i], "") for i, k in enumerate(DISTANCES) for w in WAYS]
    return Outcome(lines, Verdict("Figure 6.18", claims, numbers), figure)


if __name__ == "__main__":
    main(run)
