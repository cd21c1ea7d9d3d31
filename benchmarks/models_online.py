"""Signals under ``ERROR WITHIN``: tuples, models, and the choice between them for each key, processor time.

Filters, and windows over single signals. Cells differ in how many instants are evaluated for each sample and in how
many samples a segment holds. The three ways run in turns over the same samples. The choice may cost 5 % more than
tuples at most, in every cell; and it should be near the better of the two. The same query without ``ERROR WITHIN``
stands beside it: a filter keeps nothing of a signal then and answers at its samples only, and a window is over samples.
Windows slide by the instants that are asked for there. What models say is compared with tuples, which are exact.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.harness import Limit, Options, Report
from benchmarks.models import ask, cpu, rows_of

SAMPLES, KEYS = 500_000, 50
# Ticks between two samples of a signal, ticks between two instants of the result, noise of the samples.
CELLS = ((1, 20, 0.02), (1, 1, 0.02), (1, 1, 0.3), (10, 5, 0.02), (10, 1, 0.02), (10, 1, 0.3))
WITHIN = " ERROR WITHIN 0.2 MAX GAP 100"
GROUPED = "SELECT k, {}(x) AS m FROM S [RANGE {{width}} SLIDE {{step}}] GROUP BY k"
# The query, and whether it is over windows of 60 samples of a signal.
OPERATORS = {
    "filter": ("SELECT k, x FROM S WHERE x > 24", False),
    "avg": (GROUPED.format("avg"), True),
    "min": (GROUPED.format("min"), True),
    "max having": (GROUPED.format("max") + " HAVING max(x) > 24", True),
}
ROUNDS = 15  # turns at least: a run takes some 25 ms, and the median of a few of them is off by more than 5 %
WAYS = ("never", "always", "auto")


class Online:
    name = "models-online"
    title = "filters and windows within a bound on tuples, on models, and as each key is chosen, processor time"

    def run(self, options: Options) -> Report:
        report = Report(self.name, self.title)
        details = []
        for operator in OPERATORS:
            for every, step, noise in CELLS:
                details.append(self.cell(operator, every, step, noise, options, report))
        report.details = {"measurements": details}
        return report

    def cell(
        self, operator: str, every: int, step: int, noise: float, options: Options, report: Report
    ) -> dict[str, Any]:
        many = options.scaled(SAMPLES) // KEYS * KEYS
        table = waves(many, every, noise)
        rounds = 2 if options.quick else max(ROUNDS, options.rounds)
        text, windows = OPERATORS[operator]
        text = text.format(width=60 * every, step=step)
        within = text + WITHIN + ("" if windows else f" SAMPLE EVERY {step}")
        texts = {w: f"{within} WITH (models = '{w}')" for w in WAYS} | {"plain": text}
        # Every other turn runs backwards: what a run leaves to the next one then counts on both sides.
        orders = (list(texts), list(texts)[::-1])
        turns = [{w: cost(table, texts[w]) for w in orders[i % 2]} for i in range(rounds + 1)][1:]
        spent = {w: float(np.median([turn[w] for turn in turns])) for w in texts}
        behind = float(np.median([turn["auto"] / turn["never"] for turn in turns]))
        best = float(np.median([turn["auto"] / min(turn["never"], turn["always"]) for turn in turns]))
        name = f"{operator}, {step / every:g} samples an instant, noise {noise}"
        certain, precision, recall = agreement(table, texts)
        report.lines.append(
            f"  {name:48s}{1e9 * spent['never'] / many:7.0f} ns a sample on tuples, "
            f"{1e9 * spent['always'] / many:5.0f} on models, {1e9 * spent['auto'] / many:5.0f} chosen "
            f"({best:.2f} of the better); without a bound {1e9 * spent['plain'] / many:.0f}; of all models' rows "
            f"{certain:.1%} certain, precision of these {precision:.4f}, recall of all {recall:.4f}"
        )
        report.limits.append(Limit(f"{name}: chosen by tuples", behind, 1.05))
        return {
            "operator": operator, "every": every, "step": step, "noise": noise, **spent, "behind": behind, "best": best,
            "certain": certain, "precision": precision, "recall": recall,
        }  # fmt: skip


def agreement(table: Any, texts: dict[str, str]) -> tuple[float, float, float]:
    """Of the rows on models: the share that is certain, the share of these that tuples have, and the share of the rows
    on tuples that are there, certain or not."""
    found, exact = (rows_of({"S": table}, texts[w]) for w in ("always", "never"))
    mine, theirs = (t["_time"].to_numpy() * KEYS + t["k"].to_numpy() for t in (found, exact))
    certain = mine[~found["_uncertain"].to_numpy(zero_copy_only=False)] if len(mine) else mine
    precision = len(np.intersect1d(certain, theirs)) / max(1, len(certain))
    recall = len(np.intersect1d(mine, theirs)) / max(1, len(theirs))
    return len(certain) / max(1, len(mine)), precision, recall


def cost(table: Any, text: str) -> float:
    return cpu(lambda: ask({"S": table}, text))


def waves(count: int, every: int, noise: float) -> Any:
    import pyarrow as pa

    rng = np.random.default_rng(1)
    t, k = np.repeat(np.arange(count // KEYS) * every, KEYS), np.tile(np.arange(KEYS), count // KEYS)
    x = 20 + 5 * np.sin(t / (400 * every) + k) + rng.normal(size=len(t)) * noise
    return pa.table({"ts": t, "k": k, "x": x})
