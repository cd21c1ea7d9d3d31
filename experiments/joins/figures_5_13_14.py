"""Figures 5.13 and 5.14: a cache against the best MJoin as the join selectivity in ΔT's pipeline varies.

The setting is in ``three_way``. Selectivity is how many R ⋈ S tuples join with a tuple of ΔT: below one S has only so
large a share of the values; above one S has so many tuples for a value of b, each with a value of a and a tuple of R of
its own.
"""

from __future__ import annotations

import numpy as np

from eddyline.core.delta import Int64s
from eddyline.datasets.joins import in_step
from experiments.joins.three_way import (
    COLUMNS,
    REPEATS,
    VALUES,
    both,
    figure,
    query,
    relative,
    relative_time,
    rows,
)
from experiments.report import Claim, Number, Options, Outcome, Verdict, main

SELECTIVITIES = (0.1, 0.25, 0.5, 1, 2, 5, 10)


def _apart(values: Int64s) -> Int64s:
    """Values that come many times, numbered in their order so that none does."""
    order = np.argsort(values, kind="stable")
    apart = np.empty_like(values)
    apart[order] = np.arange(len(values))
    return apart


def run(options: Options) -> Outcome:
    found = {}
    for x in SELECTIVITIES:
        many, values = max(1, round(x)), options.tuples(20 * VALUES, 4 * VALUES)
        data = in_step(values, (many, x, REPEATS), COLUMNS)
        if many > 1:
            for _, columns in data.streams[:2]:
                columns["a"] = _apart(columns["a"])
        found[x] = both(query(many, x), data)
    share = {x: relative(found[x]) for x in SELECTIVITIES}
    verdict = Verdict(
        "Figures 5.13 and 5.14",
        [
            Claim("caching improves performance over the entire range of selectivities", max(share.values()) < 1),
            Claim("the improvement is least where selectivities are close to one",
                  max(share, key=lambda x: share[x]) in (0.5, 1, 2)),
        ],
        [
            *(Number(f"MJoin's rate over the cached plan's in accesses, selectivity {x:g}", None, share[x])
              for x in SELECTIVITIES),
            *(Number(f"the same measured, selectivity {x:g}", None, relative_time(found[x])) for x in (0.1, 1, 10)),
        ],
        "The improvement grows with the selectivity here. Below one, a probe that finds nothing ends drop probing at "
        "once, so the MJoin has hardly any work that a cache could save.",
    )  # fmt: skip
    return Outcome(
        rows("selectivity", found), verdict,
        figure("Figures 5.13 and 5.14", "R⋈S tuples for a tuple of ΔT", SELECTIVITIES, list(found.values()), log=True),
    )  # fmt: skip


if __name__ == "__main__":
    main(run)
