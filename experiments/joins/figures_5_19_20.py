"""Figures 5.19 and 5.20: a cache against the best MJoin as the join becomes dear: no hash index on S.b.

The setting is in ``three_way``, but that ΔT has to look at every row of S (the index has one chain). The number of rows
in S's window varies, and with it that of the values in all windows.
"""

from __future__ import annotations

from itertools import pairwise

from eddyline.datasets.joins import in_step
from experiments.joins.three_way import COLUMNS, REPEATS, both, figure, query, relative, relative_time, rows
from experiments.report import Claim, Number, Options, Outcome, Verdict, main

SIZES = (3, 10, 30, 100, 300, 1000)


def run(options: Options) -> Outcome:
    found = {}
    for size in SIZES:
        data = in_step(options.tuples(6000, 4 * size), (1, 1, REPEATS), COLUMNS, jitter=1)
        found[size] = both(query(scanned=True, values=size, slack=3), data)
    share = [relative(f) for f in found.values()]
    times = {n: relative_time(f) for n, f in found.items()}
    verdict = Verdict(
        "Figures 5.19 and 5.20",
        [
            Claim("the relative performance of caching improves significantly with the join cost (at every step, to a"
                  " point, and by half in all)",
                  all(b < a + 0.01 for a, b in pairwise(share)) and share[-1] < 0.5 * share[0]),
            Claim("in time as well: at 1,000 rows the MJoin gets less than half as far", times[1000] < 0.5),
        ],
        [
            *(Number(f"MJoin's rate over the cached plan's in accesses, {n} rows", None, y)
              for n, y in zip(SIZES, share, strict=True)),
            *(Number(f"the same measured, {n} rows", None, times[n]) for n in SIZES),
        ],
    )  # fmt: skip
    return Outcome(rows("rows_in_S", found), verdict,
                   figure("Figures 5.19 and 5.20", "rows in S", SIZES, list(found.values()), log=True))  # fmt: skip


if __name__ == "__main__":
    main(run)
