"""Figures 5.15 and 5.16: a forced cache against the best MJoin as updates become more frequent than probes.

The setting is in ``three_way``. T has only every k-th value, five times as ever, while R and S have them all: for each
value that probes the cache, k tuples of R ⋈ S come. The ratio is that of the rates of Δ(R ⋈ S) and ΔT, insertions and
deletions of both; here deletions are not brought to caches, which see by themselves that a row has gone.
The second claim rests on the point at 1.2: from 1.6 on the MJoin is better.
"""

from __future__ import annotations

from eddyline.datasets.joins import in_step
from experiments.joins.harness import chain
from experiments.joins.three_way import (
    COLUMNS,
    REPEATS,
    SLACK,
    VALUES,
    both,
    figure,
    relative,
    relative_time,
    rows,
)
from experiments.report import Claim, Number, Options, Outcome, Verdict, main

STRIDES = (1, 2, 3, 5, 6, 8, 10, 15)


def run(options: Options) -> Outcome:
    found = {}
    for stride in STRIDES:
        data = in_step(options.tuples(20 * VALUES, 4 * VALUES), (1, 1, REPEATS), COLUMNS, (1, 1, stride))
        held = VALUES + SLACK
        join = chain(held, held, round(REPEATS * VALUES / stride), keys=VALUES)
        found[stride / REPEATS] = both(join, data)
    ratios = list(found)
    share = [relative(f) for f in found.values()]
    better = [x for x, y in zip(ratios, share, strict=True) if y < 1]
    verdict = Verdict(
        "Figures 5.15 and 5.16",
        [
            Claim("the performance of caching deteriorates with a higher update rate", share == sorted(share)),
            Claim("using the cache is better even when the update rate is higher than the probe rate",
                  max(better, default=0) > 1),
        ],
        [
            *(Number(f"MJoin's rate over the cached plan's in accesses, ratio {x:g}", None, y)
              for x, y in zip(ratios, share, strict=True)),
            Number("the same measured, ratio 0.2", None, relative_time(found[ratios[0]])),
            Number("highest ratio at which the cache is better", None, max(better, default=0.0), ""),
        ],
        "The best MJoin is not the one beneath the cache: where T has few of the values, ΔS asks T first and drops "
        "most; R ⋈ S cannot be maintained then.",
    )  # fmt: skip
    return Outcome(rows("ratio", found), verdict,
                   figure("Figures 5.15 and 5.16", "updates for a probe", ratios, list(found.values())))  # fmt: skip


if __name__ == "__main__":
    main(run)
