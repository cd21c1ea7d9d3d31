"""Figure 2.10: MACD on stock prices, on tuples, on stored segments, and with the fit.

``stock_trades``, 10 s against 60 s, slide 2 s, trading hours of one day. The bound is absolute: a quarter of the median
difference of the two averages over all symbols (a bound of 1 % of the price is a hundred times the difference that the
query looks for). A price holds until the next trade, so it is fitted by constants; lines, which move between two trades
where the price stands, are fitted beside. Averages of tuples weigh samples, those of models time; signs that differ for
this reason are told apart from those that the fit turns.
"""

from __future__ import annotations

from datetime import datetime

import matplotlib.pyplot as plt
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

import eddyline as ed
from experiments.models.harness import medians, real, rows
from experiments.report import Claim, Number, Options, Outcome, Verdict, main

MACD = """SELECT S.symbol AS symbol, S.ap - L.ap AS diff FROM
  (SELECT symbol, avg(price) AS ap FROM T [RANGE 10 SECONDS SLIDE 2 SECONDS] GROUP BY symbol) AS S
JOIN (SELECT symbol, avg(price) AS ap FROM T [RANGE 60 SECONDS SLIDE 2 SECONDS] GROUP BY symbol) AS L
ON S.symbol = L.symbol {}"""


def run(options: Options) -> Outcome:
    table = trading(options, options.tuples(400_000, 40_000))
    exact = fitted(table, 0.0)  # a price holds until the next
    difference = np.abs(rows({"T": exact}, MACD.format(""))["diff"].to_numpy())
    bound = float(np.median(difference)) / 4
    segments = fitted(table, bound)
    where = MACD.format("WHERE S.ap > L.ap")
    tuples, stored, fit = medians(
        lambda: rows({"T": table}, where),
        lambda: rows({"T": segments}, where),
        lambda: fitted(table, bound),
    )
    rate = {n: len(table) / s for n, s in (("tuples", tuples), ("stored", stored), ("with the fit", stored + fit))}
    by_time = signs(rows({"T": exact}, MACD.format("")))
    fits = (segments, fitted(table, bound, degree=1), fitted(table, "1%"))
    turned, by_lines, wrong = (others(by_time, signs(rows({"T": t}, MACD.format("")))) for t in fits)
    figure, axis = plt.subplots(figsize=(6, 3))
    axis.barh(list(rate), list(rate.values()))
    axis.set(xlabel="trades a second of processor time")
    figure.tight_layout()
    claims = [
        Claim("on stored segments MACD runs faster than on tuples", rate["stored"] > rate["tuples"]),
        Claim("also with the fit, by the paper's 6,500 over 4,000 at least",
              rate["with the fit"] >= 1.6 * rate["tuples"]),
        Claim("at a quarter of the median difference the fit turns less than 20 % of the signs", turned < 0.2),
        Claim("at 1 % of the price it turns more than twice as many", wrong > 2 * turned),
    ]  # fmt: skip
    numbers = [
        Number("trades a second, tuples", 4000, rate["tuples"], ""),
        Number("trades a second, with the fit", 6500, rate["with the fit"], ""),
        Number("trades a second, stored segments", None, rate["stored"], ""),
        Number("trades of a segment", None, len(table) / len(segments), ""),
        Number("signs that the fit turns, at a quarter of the median difference", None, turned),
        Number("the same by lines", None, by_lines),
        Number("signs that the fit turns, at 1 % of the price", None, wrong),
    ]
    lines = [{"way": n, "trades_a_second": v} for n, v in rate.items()]
    return Outcome(
        lines,
        Verdict(
            "Figure 2.10",
            claims,
            numbers,
            f"The bound is {bound:.2g} dollars, less than the step of prices, so constants within it are the prices "
            f"themselves and hold {len(table) / len(segments):.1f} trades: too few to save much beside averages on "
            "tuples that keep panes, where the paper's engine took 250 µs for a tuple. Lines hold some more trades, "
            "but move between two trades where the price stands. Signs are those of averages over time of the price "
            "that holds until the next trade.",
        ),
        figure,
    )


def trading(options: Options, most: int) -> pa.Table:
    """Trades of the first day's trading hours; at night prices stand still, and so would the averages."""
    table = real(options, "stock_trades", ["ts", "symbol", "price"])
    table = table.set_column(0, "ts", table["ts"].cast(pa.timestamp("us", "UTC")).cast(pa.timestamp("us")))
    opens, closes = (pa.scalar(datetime(2013, 10, 7, h, m), pa.timestamp("us")) for h, m in ((13, 30), (20, 0)))
    open_ = pc.and_(pc.greater_equal(table["ts"], opens), pc.less(table["ts"], closes))
    return table.filter(open_).slice(0, most)


def fitted(table: pa.Table, error: float | str, degree: int = 0) -> pa.Table:
    return ed.fit(table, key="symbol", time="ts", value="price", error=error, degree=degree)


def others(one: dict[tuple[object, str], bool], other: dict[tuple[object, str], bool]) -> float:
    """The share of signs that differ, where both have one."""
    common = one.keys() & other.keys()
    return float(np.mean([one[k] != other[k] for k in common])) if common else 0.0


def signs(found: pa.Table) -> dict[tuple[object, str], bool]:
    """Whether the short average is above the long one, by instant and symbol."""
    parts = (found[n].to_pylist() for n in ("_time", "symbol", "diff"))
    return {(t, s): d > 0 for t, s, d in zip(*parts, strict=True)}


if __name__ == "__main__":
    main(run)
