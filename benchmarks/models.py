"""Models beside tuples: what a fit costs, and from how many samples a segment on queries over stored segments pay.

The signal has straight stretches of ``LENGTH`` samples, so that it has one segment for each. Costs are processor time
from the declared table to the last result, both sides in turns; the break-even is the cost of a segment over that of a
sample.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from benchmarks.harness import Limit, Options, Report

SAMPLES, KEYS, LENGTH = 4_000_000, 50, 100
QUERIES = {
    "filter": ("SELECT Istream(k, x) FROM S WHERE x > 12", "SELECT k, x FROM S WHERE x > 12", 20.0),
    "avg": ("SELECT k, avg(x) AS m FROM S [RANGE 3000 SLIDE 500] GROUP BY k",) * 2 + (10.0,),
    "min": ("SELECT k, min(x) AS m FROM S [RANGE 3000 SLIDE 500] GROUP BY k",) * 2 + (10.0,),
}  # fmt: skip


class Models:
    name = "models"
    title = "queries over stored segments beside the same over samples, processor time"

    def run(self, options: Options) -> Report:
        import eddyline as ed

        report = Report(self.name, self.title)
        table = samples(options.scaled(SAMPLES))
        fitted: list[Any] = []
        fit = median([lambda: fitted.append(ed.fit(table, key="k", time="ts", value="x", error=0.001))], options)[0]
        segments = fitted[-1]
        rate = len(table) / fit
        report.lines.append(
            f"  fit: {rate / 1e6:.1f} million samples a second, {len(table)} in {len(segments)} segments"
        )
        report.limits.append(Limit("samples fitted a second", rate, 1e6, "at least"))
        details = []
        for name, (tuples, models, bound) in QUERIES.items():
            counts: list[int] = []
            runs = [partial(ask, table, tuples, counts), partial(ask, segments, models, counts)]
            spent = median(runs, options)
            sample, segment = spent[0] / len(table), spent[1] / len(segments)
            report.lines.append(
                f"  {name:8s}{1e9 * sample:8.0f} ns a sample {1e9 * segment:8.0f} ns a segment, even at "
                f"{segment / sample:6.1f} samples a segment; {spent[0] / spent[1]:6.1f} times as fast at {LENGTH}"
            )
            report.limits.append(Limit(f"{name}: samples a segment at break-even", segment / sample, bound))
            details.append({"query": models, "sample_s": sample, "segment_s": segment, "results": counts[:2]})
        sweep = self.sweep(table, segments, options)
        report.lines.append(f"  sweep of 100 thresholds: {sweep:.1f} times as fast, the fit counted once")
        report.limits.append(Limit("sweep of 100 thresholds, tuples by models", sweep, 20.0, "at least"))
        report.details = {"measurements": details, "sweep": sweep, "fit_rate": rate}
        return report

    def sweep(self, table: Any, segments: Any, options: Options) -> float:
        """A hundred parameter values: of a few it is measured what one costs, of the fit what it costs once."""
        import eddyline as ed

        few = 3 if options.quick else 10
        text, _, _ = QUERIES["filter"]
        tuples = models = 0.0
        for i in range(few):
            value = f"x > {8 + i * 8 / few:.3f}"
            tuples += cpu(partial(ask, table, text.replace("x > 12", value), []))
            models += cpu(partial(ask, segments, QUERIES["filter"][1].replace("x > 12", value), []))
        once = cpu(lambda: ed.fit(table, key="k", time="ts", value="x", error=0.001))
        return (100 * tuples / few) / (once + 100 * models / few)


def samples(count: int) -> Any:
    """Zigzags of several keys, one sample of some key at each tick."""
    import pyarrow as pa

    rng = np.random.default_rng(5)
    ts = np.arange(count)
    key = ts % KEYS
    step = ts // KEYS
    corners = rng.uniform(0, 20, (KEYS, count // KEYS // LENGTH + 3))
    piece, within = step // LENGTH, (step % LENGTH) / LENGTH
    x = corners[key, piece] * (1 - within) + corners[key, piece + 1] * within
    return pa.table({"ts": ts, "k": key, "x": x})


def ask(table: Any, text: str, counts: list[int]) -> None:
    import eddyline as ed

    session = ed.Session()
    if "_from" in table.column_names:
        session.stream("S", table)
    else:
        session.stream("S", table, timestamp="ts")
    counts.append(sum(len(b) for b in session.query(text).results()))


def cpu(run: Callable[[], Any]) -> float:
    begin = time.process_time()
    run()
    return time.process_time() - begin


def median(runs: list[Callable[[], Any]], options: Options) -> list[float]:
    """The median of what each costs, in turns; the first turn compiles."""
    rounds = 2 if options.quick else options.rounds
    spent = np.array([[cpu(run) for run in runs] for _ in range(rounds + 1)][1:])
    return [float(v) for v in np.median(spent, axis=0)]
