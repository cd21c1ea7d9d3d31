"""Section 5.8, on a real trading day: trades joined with the quotes of two venues within a second.

``SELECT Istream(*) FROM trades [RANGE 1 SECOND] t, quotes [RANGE 1 SECOND] n, quotes [RANGE 1 SECOND] b`` on the
symbol, where n are quotes of the exchange N, which are many, and b those of B, which are few; three symbols, 7 October
2013. No deletions: under ``Istream`` none can show. The fixed orders are all eight; the adaptive plans are the
engine's own default, and the policies of the thesis by name. The figure shows trading hours: how many elements came,
what they cost, and the plan of the thesis's policies as it changed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise, product
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from eddyline.core.window import Range
from eddyline.datasets import real
from eddyline.datasets.joins import Arrivals
from eddyline.kernels import join_layout as k
from eddyline.streamon.decision import Decision
from experiments.joins.harness import DifferentResultsError, Plan, Query, Run, execute
from experiments.report import VARIABLE, Claim, NotHereError, Number, Options, Outcome, Verdict, main

SYMBOLS, VENUES = ("AIG", "BAC", "IBM"), ("N", "B")
SECOND = 1_000_000
PARTS = 180  # of five minutes
TIMES = 3  # the fastest is shown; counts are the same
OPENS, CLOSES = 13.5, 20.0  # hours of the day, UTC
BY_NAME = "a-greedy, global"
BY_ITSELF = {
    "default": {"joins": "default"},
    BY_NAME: {"joins": "a-greedy", "caches": "global(interval=10000, W=50)"},
}


def day(folder: Path | None, share: float = 1.0) -> Arrivals:
    """Trades, quotes of N and quotes of B of the first day, or of the first part of it; times in microseconds."""
    there = [] if folder is None else real.available(folder)
    missing = [n for n in ("stock_trades", "stock_quotes") if n not in there]
    if missing:
        where = "no folder is named" if folder is None else f"{folder} does not hold it"
        raise NotHereError(f"it needs {missing[0]}.parquet, and {where}: set {VARIABLE} or give --data.")
    trades = real.read("stock_trades", ["ts", "symbol"], folder)
    quotes = real.read("stock_quotes", ["ts", "symbol", "exchange"], folder)
    first = pc.min(trades["ts"]).as_py()
    stop = pa.scalar(first.replace(hour=0, minute=0) + share * (first.replace(hour=23) - first.replace(hour=0)))
    tables = [trades, *(quotes.filter(pc.equal(quotes["exchange"], v)) for v in VENUES)]
    streams = []
    for table in tables:
        wanted = pc.and_(pc.less(table["ts"], stop), pc.is_in(table["symbol"], pa.array(SYMBOLS)))
        mine = table.filter(wanted).sort_by("ts")
        time = mine["ts"].cast(pa.timestamp("us", "UTC")).cast(pa.int64()).to_numpy()
        codes = pc.index_in(mine["symbol"], pa.array(SYMBOLS)).cast(pa.int64()).to_numpy()
        streams.append((time, {"symbol": codes}))
    return Arrivals(tuple(streams))


def run(options: Options) -> Outcome:
    data = day(options.data, 0.6 + 0.4 * min(1.0, options.scale))
    query = Query(("trades", *VENUES), (Range(SECOND),) * 3, ((0, "symbol", 1, "symbol"), (1, "symbol", 2, "symbol")))
    plans = {
        " ".join("".join(str(x) for x in o) for o in orders): Plan(orders)
        for orders in product(((1, 2), (2, 1)), ((0, 2), (2, 0)), ((0, 1), (1, 0)))
    }
    fixed = list(plans)
    plans |= {name: Plan(options=given) for name, given in BY_ITSELF.items()}
    runs = [{n: execute(query, data, p, 0.01, PARTS, k.NO_DELETIONS) for n, p in plans.items()} for _ in range(TIMES)]
    found = {n: min((r[n] for r in runs), key=lambda r: r.seconds) for n in plans}  # the first loads kernels
    if len({(r.results, r.digest) for r in found.values()}) > 1:
        raise DifferentResultsError("plans differ in their results.")
    best, worst = (f(fixed, key=lambda n: found[n].accesses) for f in (min, max))
    default = found["default"]
    verdict = Verdict(
        "Trades and quotes",
        [
            Claim("the default needs at most 5 % more accesses than the best fixed orders",
                  default.accesses < 1.05 * found[best].accesses),
            Claim("and fewer than the worst ones", default.accesses < found[worst].accesses),
        ],
        [
            Number("accesses of the default over those of the best fixed orders", None,
                   default.accesses / found[best].accesses),
            Number("accesses of A-Greedy with A-Caching over those of the best fixed orders", None,
                   found[BY_NAME].accesses / found[best].accesses),
            Number("accesses of the worst fixed orders over those of the best", None,
                   found[worst].accesses / found[best].accesses, "×"),
            Number("elements a second, default", None, default.rate, ""),
            Number("elements a second, best fixed orders", None, found[best].rate, ""),
            Number("elements a second, worst fixed orders", None, found[worst].rate, ""),
            Number("results", None, default.results, ""),
        ],
        f"At the end the default has {_plan(default, query)}.",
    )  # fmt: skip
    figure = _figure(data, query, {"worst fixed orders": worst, "best fixed orders": best, "default": "default"}, found)
    rows = [
        {"plan": n, "until": s[0], "elements": s[1], "accesses": s[2], "seconds": s[3]}
        for n, r in found.items()
        for s in r.series
    ]
    return Outcome(rows, verdict, figure)


def _hours(time: object) -> np.ndarray[Any, np.dtype[np.float64]]:
    return (np.asarray(time, np.float64) / (3600 * SECOND)) % 24


def _figure(data: Arrivals, query: Query, shown: Mapping[str, str], found: Mapping[str, Run]) -> Figure:
    figure, (came, cost, plan) = plt.subplots(3, 1, figsize=(8, 6.6), sharex=True, height_ratios=(2, 3, 2.4))
    ends = _hours([s[0] for s in found["default"].series])
    for i, (time, _) in enumerate(data.streams):
        count, _ = np.histogram(_hours(time), np.concatenate([[0], ends]))
        seconds = np.diff(ends, prepend=ends[0] - (ends[1] - ends[0])) * 3600
        came.plot(
            ends, count / seconds, color=f"C{i}", label=query.names[i] if i == 0 else f"quotes of {query.names[i]}"
        )
    came.set(yscale="log", ylim=(0.01, None))
    came.set_title("elements a second of the market", loc="left", fontsize=10)
    for (label, name), (color, style) in zip(shown.items(), (("0.65", "-"), ("C4", "-"), ("black", ":")), strict=True):
        cost.plot(ends, [s[2] / max(1, s[1]) for s in found[name].series], color=color, linestyle=style, label=label)
    for i, at in enumerate(sorted({d.time for d in found["default"].decisions if d.time is not None})):
        label = "the default re-orders" if i == 0 else None
        cost.axvline(float(_hours(at)), color="C3", linewidth=0.8, label=label)
    cost.set(ylim=(0, None))
    cost.set_title("accesses an element", loc="left", fontsize=10)
    _strip(plan, query, found[BY_NAME].decisions)
    plan.set_title(f"the plan of {BY_NAME}", loc="left", fontsize=10)
    plan.set(xlabel="hour of the day, UTC", xlim=(OPENS - 0.1, CLOSES + 0.1))
    for axes in (came, cost, plan):
        axes.legend(loc="lower right", bbox_to_anchor=(1.0, 0.98), frameon=False, fontsize=8, ncols=4, columnspacing=1)
    figure.tight_layout()
    return figure


def _strip(axes: Axes, query: Query, decisions: Sequence[Decision]) -> None:
    """A bar for each pipeline, in the colour of the input that its elements visit first, and one for each cache."""
    names = query.names
    lines: dict[str, list[tuple[float, str | None]]] = {}  # when, and the colour from then on
    for i, name in enumerate(names):
        lines[f"Δ{name}"] = [(0.0, f"C{next(x for x in range(len(names)) if x != i)}")]
    for d in decisions:
        if d.time is None:
            continue
        at = float(_hours(d.time))
        if d.kind.startswith("order of "):
            lines[d.kind.removeprefix("order of ")].append((at, f"C{names.index(d.after[0])}"))
        elif d.kind == "join caches":
            for cache in dict.fromkeys((*d.before, *d.after)):
                lines.setdefault(cache, []).append((at, "0.3" if cache in d.after else None))
    for row, changes in enumerate(lines.values()):
        for (since, color), (until, _) in pairwise([*changes, (24.0, None)]):
            if color is not None:  # what was there for less than a part is still seen
                axes.broken_barh([(since, max(until - since, 0.01))], (row - 0.35, 0.7), color=color)
    axes.set_yticks(range(len(lines)), [name.replace(" in ", "\nin ") for name in lines], fontsize=8)
    axes.invert_yaxis()
    for i, name in enumerate(names):
        axes.bar(0, 0, color=f"C{i}", label=f"{name} first")
    axes.bar(0, 0, color="0.3", label="cache in use")


def _plan(run: Run, query: Query) -> str:
    names = query.names
    orders = "; ".join(f"Δ{names[i]} → {' → '.join(names[x] for x in o)}" for i, o in enumerate(run.orders))
    return orders + ", " + (", ".join(c.label(names) for c in run.caches) or "no caches")


if __name__ == "__main__":
    main(run)
