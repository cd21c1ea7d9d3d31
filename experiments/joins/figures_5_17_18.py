"""Figures 5.17 and 5.18: caches against the best MJoin for three to seven streams on one attribute.

Values come in the same order in all streams (``three_way``), once in ⌊n/2⌋ of them and five times in the others, whose
rates are five times as high. Windows hold the last 50 values: a seventh stream multiplies results by five, 1,250 for
each value, and state is not what is varied here. Every pipeline asks the streams with multiplicity one first, which is
the best order. Caches are those that A-Caching settles on, with the prefix invariant (``caches = 'prefix'``), then
forced.
"""

from __future__ import annotations

from eddyline.adaptive.joins.candidates import prefix_caches
from eddyline.datasets.joins import in_step
from experiments.joins.harness import Plan, compare, execute, on_one_attribute
from experiments.joins.three_way import TIMES, figure, relative, relative_time, rows
from experiments.report import Claim, Number, Options, Outcome, Verdict, main

SIZES = (3, 4, 5, 6, 7)
VALUES, MANY = 50, 5
LEARN = {"joins": "static", "caches": "prefix(interval=20000, W_d=256, W=10)"}


def run(options: Options) -> Outcome:
    found, chosen = {}, {}
    for n in SIZES:
        times = [1] * (n // 2) + [MANY] * (n - n // 2)
        join = on_one_attribute([m * VALUES for m in times], keys=4 * VALUES)
        data = in_step(options.tuples(max(1600, 24_000 // 3 ** (n - 3)), 400), times, ["a"] * n)
        orders = tuple(tuple(x for x in range(n) if x != i) for i in range(n))
        caches = execute(join, data, Plan(orders, options=LEARN)).caches
        chosen[n] = (len(caches), len(prefix_caches(join.shape, orders)))
        found[n] = compare(join, data, {"M": Plan(orders), "C": Plan(orders, caches)}, times=TIMES)
    share = {n: relative(found[n]) for n in SIZES}
    verdict = Verdict(
        "Figures 5.17 and 5.18",
        [
            Claim("caches improve performance throughout the range of n", max(share.values()) < 1),
            Claim("the improvement is maintained: at n = 7 it is at least half of the largest",
                  1 - share[7] > (1 - min(share.values())) / 2),
        ],
        [
            *(Number(f"MJoin's rate over the cached plan's in accesses, n = {n}", None, share[n]) for n in SIZES),
            *(Number(f"the same measured, n = {n}", None, relative_time(found[n])) for n in SIZES),
            Number("caches used, n = 7", 6, chosen[7][0], ""),
            Number("candidates, n = 7", 15, chosen[7][1], ""),
        ],
        "Our MJoin stores the result of a probe as long as its key stays the same. On one attribute no index is probed "
        "twice for an element, so caches have less to save than in an MJoin that probes for every intermediate row. "
        "Most of the other accesses follow rows to the results; there are more of them with every stream, and a cache "
        "needs as many. With three streams the only candidate breaks even, and A-Caching does not use it.",
    )  # fmt: skip
    return Outcome(rows("n", found), verdict,
                   figure("Figures 5.17 and 5.18", "streams", SIZES, list(found.values())))  # fmt: skip


if __name__ == "__main__":
    main(run)
