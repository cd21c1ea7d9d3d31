"""Figure 5.22: adaptivity to a burst: ΔR becomes twenty times as fast when 100,000 ΔS tuples have arrived.

The setting is that of ``three_way``; in the burst R has each value twenty times. Orders are held fixed for the adaptive
plan, as in the thesis (``joins = 'static'``, ``caches = 'global'``), and I is 10,000 elements, insertions and
deletions together. The static plan R⋈(T⋈S) has ΔS ask T first, which its cache needs; the adaptive one has to get there
with a globally-consistent cache. A second adaptive plan orders the pipelines as well, by A-Greedy.
"""

from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np

from eddyline.adaptive.joins.candidates import Candidate
from eddyline.datasets.joins import Arrivals, burst
from experiments.joins.harness import DifferentResultsError, Plan, Run, execute
from experiments.joins.three_way import CACHE, ORDERS, OTHER, REPEATS, query
from experiments.report import Claim, Number, Options, Outcome, Verdict, main

INTERVAL, FACTOR, WITHIN = 10_000, 20, 1.10
CACHES = f"global(interval={INTERVAL}, W_d=1024)"
PART = 2500  # arrivals between two points of the curve
PLANS = {
    "T⋈(R⋈S)": Plan(ORDERS, (CACHE,)),
    "R⋈(T⋈S)": Plan(OTHER, (Candidate(0, 0, 1, (1, 2), (0,)),)),
    "adaptive caches": Plan(ORDERS, options={"joins": "static", "caches": CACHES}),
    "adaptive orders and caches": Plan(ORDERS, options={"joins": "a-greedy", "caches": CACHES}),
}
COLOURS = dict(zip(PLANS, ("C1", "C2", "C0", "C3"), strict=True))


def run(options: Options) -> Outcome:
    before, after = options.tuples(100_000, 4000), options.tuples(40_000, 2000)
    data = burst(before, after, FACTOR, REPEATS)
    length = data.times[1] + 1
    parts = max(4, int(0.95 * length) // PART)
    found = {name: execute(query(), data, plan, warm=0.05, parts=parts) for name, plan in PLANS.items()}
    if len({(r.results, r.digest) for r in found.values()}) > 1:
        raise DifferentResultsError("plans differ in their results.")
    start = int(data.streams[1][0][before])  # the arrival at which the burst begins
    each = {name: _smooth(r) for name, r in found.items()}
    ends = np.array([s[0] for s in found["T⋈(R⋈S)"].series])
    best = np.minimum(each["T⋈(R⋈S)"], each["R⋈(T⋈S)"])
    calm, late = (ends > start // 2) & (ends < start), ends > start + (length - start) // 2
    mean = {name: (float(e[calm].mean()), float(e[late].mean())) for name, e in each.items()}
    back = {name: _back(found[name], each[name], best, ends, start) for name in list(PLANS)[2:]}
    adaptive = mean["adaptive caches"]
    verdict = Verdict(
        "Figure 5.22",
        [
            Claim("before the burst T⋈(R⋈S) is the better static plan", mean["T⋈(R⋈S)"][0] < mean["R⋈(T⋈S)"][0]),
            Claim("in the burst R⋈(T⋈S) is", mean["R⋈(T⋈S)"][1] < mean["T⋈(R⋈S)"][1]),
            Claim("before the burst the adaptive plan is almost (5 %) as good as the best static one",
                  adaptive[0] < 1.05 * mean["T⋈(R⋈S)"][0]),
            Claim("after at most two intervals it is within 10 % of the best static plan again, and stays there",
                  back["adaptive caches"] <= 2 * INTERVAL),
        ],
        [
            Number("elements until within 10 %, orders held fixed", None, back["adaptive caches"], ""),
            Number("elements until within 10 %, orders adapting too", None, back["adaptive orders and caches"], ""),
            *(Number(f"accesses for an element before the burst, {n}", None, m[0], "") for n, m in mean.items()),
            *(Number(f"accesses for an element in the burst, {n}", None, m[1], "") for n, m in mean.items()),
        ],
        f"After the burst the adaptive plan has {_caches(found['adaptive caches'])}; with orders adapting "
        f"{_caches(found['adaptive orders and caches'])}.",
    )  # fmt: skip
    figure, axes = plt.subplots(figsize=(10, 4))
    arrived = _of_s(data, ends)
    for name in PLANS:
        axes.plot(arrived, 1000 / each[name], label=name, color=COLOURS[name], linewidth=1)
    axes.axvline(before, color="black", linewidth=0.5)
    axes.set(xlabel="ΔS tuples that have arrived", ylabel="elements per 1,000 accesses", title="Figure 5.22")
    axes.legend()
    rows = [
        {"plan": n, "delta_s": int(a), "elements": s[1], "accesses": s[2], "seconds": s[3]}
        for n, r in found.items()
        for a, s in zip(arrived, r.series, strict=True)
    ]
    return Outcome(rows, verdict, figure)


def _smooth(run: Run) -> np.ndarray:
    return np.array([s[2] / max(1, s[1]) for s in run.series])


def _of_s(data: Arrivals, times: np.ndarray) -> np.ndarray:
    return np.searchsorted(data.streams[1][0], times, side="right")


def _back(run: Run, each: np.ndarray, best: np.ndarray, ends: np.ndarray, start: int) -> float:
    """Elements after the start of the burst until the last part that is more than 10 % dearer than the best plan's;
    one part in fifty may be, while the policy looks. Infinite if that goes on to the end."""
    after = np.flatnonzero(ends > start)
    bad = each[after] > WITHIN * best[after]
    elements = np.cumsum([run.series[i][1] for i in after])
    for n in range(len(after)):
        if not bad[n] and bad[n:].mean() <= 0.02:
            return float(elements[n - 1]) if n else 0.0
    return float("inf")


def _caches(run: Run) -> str:
    return ", ".join(c.label("RST") for c in run.caches) or "no cache"


if __name__ == "__main__":
    main(run)
