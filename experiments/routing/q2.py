"""Section 6.6 (routing): fifty random Q2 queries on real sensor data; routing calls against source-based routing.

The paper's eddy routes tuple by tuple. Here all policies route sub-batches of 100 tuples, a fifth of what the other
experiments take: readings come by room in short runs, and a route that is five hundred tuples old is often out of date.
"""

from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np

from eddyline.adaptive.filters.bounds import optimal_order, order_cost
from eddyline.adaptive.routing.content_learns import ContentLearns
from eddyline.adaptive.routing.default import Default
from eddyline.adaptive.routing.sbr import SourceBasedRouting
from eddyline.adaptive.routing.simulate import simulate
from experiments.report import Claim, Number, Options, Outcome, Verdict, main
from experiments.routing.lab import MEASURED, near_all_or_none, random_query, readings

BATCH = 100


def run(options: Options) -> Outcome:
    rows = []
    for name in MEASURED:
        data = readings(options.data, name)
        tuples = options.tuples(len(data.classes), 40_000)
        for seed in range(options.times(50)):
            passes, classes = random_query(data, seed)[:tuples], data.classes[:tuples]
            runs = {
                "sbr": simulate(SourceBasedRouting(data.setting, seed=seed), passes, classes, batch=BATCH),
                "minimum": simulate(
                    SourceBasedRouting(data.setting, greed=100, seed=seed), passes, classes, batch=BATCH
                ),
                "default": simulate(Default(data.setting, seed=seed), passes, classes, batch=BATCH),
                "content-learns": simulate(ContentLearns(data.setting, seed=seed), passes, classes, batch=BATCH),
            }
            rows.append({
                "data": name, "query": seed, "tuples": len(passes), "passed": int(passes.all(1).sum()),
                "near_all_or_none": near_all_or_none(passes),
                **{k: r.calls for k, r in runs.items()},
                "best_fixed_order": int(order_cost(~passes, optimal_order(~passes))),
                # The lower bound of all policies: one call to drop a tuple, all to pass it.
                "least": int(np.where(passes.all(1), passes.shape[1], 1).sum()),
            })  # fmt: skip

    def saved(name: str, policy: str) -> float:
        return float(np.mean([1 - r[policy] / r["sbr"] for r in rows if r["data"] == name]))

    policies = ("default", "content-learns", "minimum", "best_fixed_order", "least")
    figure, axes = plt.subplots(1, 2, figsize=(10, 3.8), sharey=True)
    for axis, name in zip(axes, MEASURED, strict=True):
        axis.boxplot([[1 - r[p] / r["sbr"] for r in rows if r["data"] == name] for p in policies], tick_labels=policies)
        axis.tick_params(axis="x", rotation=20)
        axis.set_title(name)
    axes[0].set_ylabel("fewer routing calls than sbr")
    idle = {n: float(np.mean([r["near_all_or_none"] for r in rows if r["data"] == n])) for n in MEASURED}
    verdict = Verdict(
        "Q2 (6.6)",
        [Claim(f"{who}: at least 8 % fewer routing calls over random queries on {n}", saved(n, p) >= 0.08)
         for p, who in (("content-learns", "Content-Learns"), ("default", "ours, the default")) for n in MEASURED],
        [Number(f"{n}: saved by {p}", 0.08 if p in {"default", "content-learns"} else None, saved(n, p))
         for n in MEASURED for p in policies]
        + [Number(f"{n}: time with selectivities near 0 or 1", 0.572, idle[n]) for n in MEASURED],
        "'minimum' is sbr that always takes the operator of least selectivity: the saving without content; 'least' is "
        "the lower bound of all policies.",
    )  # fmt: skip
    return Outcome(rows, verdict, figure)


if __name__ == "__main__":
    main(run)
