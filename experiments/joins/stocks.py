"""Section 5.8, on a real trading day: trades joined with the quotes of two venues within a second.

``SELECT Istream(*) FROM trades [RANGE 1 SECOND] t, quotes [RANGE 1 SECOND] n, quotes [RANGE 1 SECOND] b`` on the
symbol, where n are quotes of the exchange N, which are many, and b those of B, which are few; three symbols, 7 October
2013. No deletions: under ``Istream`` none can show. The fixed orders are all eight; the adaptive plans are the
engine's own default, and the policies of the thesis by name.
"""

from __future__ import annotations

from itertools import product
from pathlib import Path

import matplotlib.pyplot as plt
import pyarrow as pa
import pyarrow.compute as pc

from eddyline.core.window import Range
from eddyline.datasets import real
from eddyline.datasets.joins import Arrivals
from eddyline.kernels import join_layout as k
from experiments.joins.harness import DifferentResultsError, Plan, Query, Run, execute
from experiments.report import VARIABLE, Claim, NotHereError, Number, Options, Outcome, Verdict, main

SYMBOLS, VENUES = ("AIG", "BAC", "IBM"), ("N", "B")
SECOND = 1_000_000
PARTS = 96
BY_ITSELF = {
    "default": {"joins": "default"},
    "a-greedy, global": {"joins": "a-greedy", "caches": "global(interval=10000, W=50)"},
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
    found = {n: execute(query, data, p, 0.01, PARTS, k.NO_DELETIONS) for n, p in plans.items()}
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
                   found["a-greedy, global"].accesses / found[best].accesses),
            Number("accesses of the worst fixed orders over those of the best", None,
                   found[worst].accesses / found[best].accesses, "×"),
            Number("elements a second, default", None, default.rate, ""),
            Number("elements a second, best fixed orders", None, found[best].rate, ""),
            Number("elements a second, worst fixed orders", None, found[worst].rate, ""),
            Number("results", None, default.results, ""),
        ],
        f"At the end the default has {_plan(default, query)}.",
    )  # fmt: skip
    figure, axes = plt.subplots(figsize=(10, 4))
    for name, label in ((worst, "worst fixed orders"), (best, "best fixed orders"), ("default", "default")):
        hours = [(s[0] / 3.6e9) % 24 for s in found[name].series]
        axes.plot(hours, [s[2] / max(1, s[1]) for s in found[name].series], label=label)
    axes.set(xlabel="hour of the day, UTC", ylabel="accesses for an element", yscale="log", title="Trades and quotes")
    axes.legend()
    rows = [
        {"plan": n, "until": s[0], "elements": s[1], "accesses": s[2], "seconds": s[3]}
        for n, r in found.items()
        for s in r.series
    ]
    return Outcome(rows, verdict, figure)


def _plan(run: Run, query: Query) -> str:
    names = query.names
    orders = "; ".join(f"Δ{names[i]} → {' → '.join(names[x] for x in o)}" for i, o in enumerate(run.orders))
    return orders + ", " + (", ".join(c.label(names) for c in run.caches) or "no caches")


if __name__ == "__main__":
    main(run)
