"""Figure 5.23: adaptivity to the memory for caches, at the point D8, from none to ample.

The setting is in ``points``. A-Caching chooses among globally-consistent caches over A-Greedy's orders and gets so many
bytes; the MJoin needs none, the best XJoin all that its subresults take. Caches are direct-mapped with a power of two
of places, so that what they hold grows in steps. W_d is such that the thousand keys of a stream recur in it.
"""

from __future__ import annotations

from itertools import pairwise

import matplotlib.pyplot as plt

from experiments.joins.harness import Plan, compare
from experiments.joins.points import search, setting
from experiments.report import Claim, Number, Options, Outcome, Verdict, main

MEMORY = (0, 4, 8, 16, 32, 48, 64, 80, 96, 112, 128, 160, 192, 256, 384, 512, 1024)  # KB
CACHES = "global(interval=200000, W_d=16384, page=1024, memory={})"


def run(options: Options) -> Outcome:
    query, data = setting("D8", options.tuples(400_000, 20_000))
    _, small = setting("D8", options.tuples(40_000, 8000))
    best = search(query, small)
    orders = best.plans["M"].orders
    plans = {"M": best.plans["M"], "X": best.plans["X"], "G": best.plans["G over M"]}
    for kilobytes in MEMORY:
        caches = CACHES.format(kilobytes * 1024)
        plans[str(kilobytes)] = Plan(orders, options={"joins": "static", "caches": caches})
    found = compare(query, data, plans, warm=0.5)
    each = [found[str(k)].each for k in MEMORY]
    gained, steps = each[0] - each[-1], [a - b for a, b in pairwise(each)]
    verdict = Verdict(
        "Figure 5.23",
        [
            Claim("with no memory it is the MJoin (2 %, what is learned included)", each[0] < 1.02 * found["M"].each),
            Claim("more memory is never worse (1 %)", all(b < 1.01 * a for a, b in pairwise(each))),
            Claim("performance is smooth: no step to the next budget gives more than half of all that is gained",
                  gained > 0 and max(steps) < 0.5 * gained),
            Claim("with ample memory it is within 5 % of the best set of caches", each[-1] < 1.05 * found["G"].each),
            Claim("it makes use of less memory than the XJoin needs",
                  any(e < 0.99 * each[0] for k, e in zip(MEMORY, each, strict=True)
                      if 1024 * k < found["X"].cache_bytes)),
            Claim("with less memory than the XJoin needs it runs, and is no worse (1 %) than the MJoin",
                  all(e < 1.01 * found["M"].each for k, e in zip(MEMORY, each, strict=True)
                      if 1024 * k < found["X"].cache_bytes)),
        ],
        [
            Number("least memory that gains 1 %", None,
                   min((k for k, e in zip(MEMORY, each, strict=True) if e < 0.99 * each[0]), default=float("inf")),
                   " KB"),
            Number("largest part of the gain in one step", None, max(steps) / gained if gained else float("nan")),
            Number("memory of the best XJoin", 32, found["X"].cache_bytes / 1024, " KB"),
            Number("accesses for an element, MJoin", None, found["M"].each, ""),
            Number("accesses for an element, best XJoin", None, found["X"].each, ""),
            Number("accesses for an element, best set of caches", None, found["G"].each, ""),
            *(Number(f"accesses for an element, {k} KB", None, found[str(k)].each, "") for k in MEMORY),
        ],
        "Memory is that of our stores, 8 bytes for a reference and a key; the thesis's is of another machine and of "
        "windows whose sizes it does not give. A cache has an entry for every probed key, and nearly all are empty at "
        "D8, where an XJoin stores only joined rows. With less memory than that, keys replace each other before they "
        "are probed again.",
    )  # fmt: skip
    figure, axes = plt.subplots(figsize=(8, 4))
    axes.plot(MEMORY, [1000 / e for e in each], "o-", color="C0", label="A-Caching")
    axes.axhline(1000 / found["M"].each, color="C7", label="MJoin")
    needed = found["X"].cache_bytes / 1024
    axes.plot([needed, max(MEMORY)], [1000 / found["X"].each] * 2, color="C1", label="XJoin")
    axes.set(xlabel="KB for caches", ylabel="elements per 1,000 accesses", title="Figure 5.23")
    axes.legend()
    rows = [
        {"plan": n, "accesses_each": r.each, "elements_a_second": r.rate, "cache_bytes": r.cache_bytes,
         "hits": r.hits, "caches": ", ".join(c.label(query.names) for c in r.caches)}
        for n, r in found.items()
    ]  # fmt: skip
    return Outcome(rows, verdict, figure)


if __name__ == "__main__":
    main(run)
