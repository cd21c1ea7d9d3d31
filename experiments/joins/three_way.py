"""R(a) ⋈ S(a, b) ⋈ T(b) of section 5.8.3: the plan with one cache, R ⋈ S in ΔT, against the best MJoin.

Streams draw values from one domain in the same order and no value comes back; R and S have each once, T has it r times
(5 unless it is varied), at r times the rate. Windows hold the last 1,000 values, those of R and S twenty more, so that
what T loses still has its partners. The cache is forced. The best MJoin is the better of the two orders of ΔS, by
accesses; the other pipelines have no choice without a product.

The *relative* number of the thesis is the rate of the MJoin over that of the plan with the cache: 0.6 means that the
MJoin gets 60 % as far in the same time. In accesses that is the cached plan's accesses over the MJoin's.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import matplotlib.pyplot as plt
from matplotlib.figure import Figure

from eddyline.adaptive.joins.candidates import Candidate
from eddyline.datasets.joins import Arrivals
from experiments.joins.harness import Plan, Query, Run, chain, compare

VALUES, REPEATS, SLACK = 1000, 5, 20
ORDERS = ((1, 2), (0, 2), (1, 0))
OTHER = ((1, 2), (2, 0), (1, 0))  # ΔS asks T first: then R ⋈ S cannot be maintained
CACHE = Candidate(2, 0, 1, (0, 1), (1,))
COLUMNS = ("a", "ab", "b")
TIMES = 9


def query(
    r: float = 1, s: float = 1, t: float = REPEATS, scanned: bool = False, values: int = VALUES, slack: int = SLACK
) -> Query:
    """Windows for streams that have each value so many times."""
    held = [max(1, round(m * (values + (slack if i < 2 else 0)))) for i, m in enumerate((r, s, t))]
    return chain(*held, keys=values, scanned=((1, "b"),) if scanned else ())


def both(join: Query, data: Arrivals, times: int = TIMES) -> dict[str, Run]:
    """The best MJoin (M) and the plan with the cache (C)."""
    found = compare(join, data, {"M": Plan(ORDERS), "M'": Plan(OTHER), "C": Plan(ORDERS, (CACHE,))}, times=times)
    return {"M": min(found["M"], found["M'"], key=lambda r: r.accesses), "C": found["C"]}


def relative(runs: Mapping[str, Run]) -> float:
    """The MJoin's rate over the cached plan's, in accesses."""
    return runs["C"].each / runs["M"].each


def relative_time(runs: Mapping[str, Run]) -> float:
    """The same, measured."""
    return runs["M"].rate / runs["C"].rate


def rows(what: str, found: Mapping[float, Mapping[str, Run]]) -> list[dict[str, Any]]:
    """For the CSV."""
    return [
        {
            what: x,
            "plan": name,
            "elements": r.elements,
            "probes": r.probes,
            "accesses": r.accesses,
            "accesses_each": r.each,
            "elements_a_second": r.rate,
            "results": r.results,
            "hits": r.hits,
            "updates_a_probe": r.updates,
            "relative_accesses": relative(runs),
            "relative_time": relative_time(runs),
        }
        for x, runs in found.items()
        for name, r in runs.items()
    ]


def figure(title: str, label: str, xs: Sequence[float], runs: Sequence[Mapping[str, Run]], log: bool = False) -> Figure:
    """The absolute and the relative graph side by side."""
    drawn, (left, right) = plt.subplots(1, 2, figsize=(10, 4))
    for name, text, colour in (("M", "best MJoin", "C7"), ("C", "with caches", "C0")):
        left.plot(xs, [1000 / r[name].each for r in runs], "o-", color=colour, label=text)
    left.set(xlabel=label, ylabel="elements per 1,000 accesses", ylim=(0, None))
    left.legend()
    right.plot(xs, [relative(r) for r in runs], "o-", color="C0", label="accesses")
    right.plot(xs, [relative_time(r) for r in runs], "x--", color="C3", label="time, measured")
    right.axhline(1, color="black", linewidth=0.5)
    right.set(xlabel=label, ylabel="MJoin's rate over that with caches", ylim=(0, None))
    right.legend()
    for axes in (left, right) if log else ():
        axes.set_xscale("log")
    drawn.suptitle(title)
    return drawn
