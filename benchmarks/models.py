"""Models beside tuples: what a fit costs, from how many samples a segment on stored segments pay, and parameter sweeps.

The signals have straight stretches of a given number of samples, so that they have one segment for each. Costs are
processor time from the declared table to the last result, both sides in turns; the break-even is the cost of a segment
over that of a sample. A cost model (a fixed part, and one for each segment, from the two of four lengths between which
the costs are even) predicts the break-even, and is judged by a measurement of both sides at the length that it
predicts; if that is one of the four, or near it, the prediction that is judged is made from the others. Beside it
stands the break-even of the operators alone, without reading and without results: processor time inside the tasks of
both queries. Precision and recall compare the results with those of the samples.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from benchmarks.harness import Limit, Options, Report

SAMPLES, KEYS, LENGTH, PARTNERS = 4_000_000, 50, 100, 10
SWEPT = 100  # parameter values of a sweep
CALIBRATED = (4 * LENGTH, LENGTH // 4, LENGTH // 16, LENGTH // 32)  # samples of a segment: where costs are measured
APART = 1.25  # by which factor a length differs from those that its own prediction is made from
ERROR = 0.001  # of the fit


@dataclass(frozen=True)
class Operator:
    """A query on tuples and the same on models; ``bound`` is on the samples of a segment at break-even."""

    name: str
    tuples: str
    models: str
    bound: float
    join: bool = False


WINDOW = "SELECT k, {}(x) AS m FROM S [RANGE 3000 SLIDE 500] GROUP BY k"
OPERATORS = (
    Operator("filter", "SELECT Istream(k, x) FROM S WHERE x > 12", "SELECT k, x FROM S WHERE x > 12", 20.0),
    Operator("avg", WINDOW.format("avg"), WINDOW.format("avg"), 10.0),
    Operator("min", WINDOW.format("min"), WINDOW.format("min"), 10.0),
    Operator(
        "join",
        "SELECT Istream(a.k, b.k AS other, a.x - b.x AS d) FROM S [RANGE 54] a, T [RANGE 54] b "
        "WHERE a.g = b.g AND a.x < b.x",
        "SELECT a.k, b.k AS other, a.x - b.x AS d FROM S a, T b WHERE a.g = b.g AND a.x < b.x",
        4.0,
        join=True,
    ),
)


class Models:
    name = "models"
    title = "queries over stored segments beside the same over samples, processor time"

    def run(self, options: Options) -> Report:
        import eddyline as ed

        report = Report(self.name, self.title)
        table = samples(options.scaled(SAMPLES))
        fitted: list[Any] = []
        fit = median([lambda: fitted.append(ed.fit(table, key="k", time="ts", value="x", error=ERROR))], options)[0]
        segments = fitted[-1]
        rate = len(table) / fit
        kernel = len(table) / median_kernel(table, options)
        report.lines.append(
            f"  fit: {rate / 1e6:.1f} million samples a second, {len(table)} in {len(segments)} segments, keys "
            f"interleaved; the kernel alone {kernel / 1e6:.1f} million"
        )
        report.limits.append(Limit("samples fitted a second", rate, 1e6, "at least"))
        report.limits.append(Limit("samples fitted a second in the kernel", kernel, 1e7, "at least"))
        details = [self.operator(o, options, report) for o in OPERATORS]
        sweep = self.sweep(table, segments, options, report)
        report.details = {"measurements": details, "sweep": sweep, "fit_rate": rate, "kernel_rate": kernel}
        return report

    def operator(self, o: Operator, options: Options, report: Report) -> dict[str, Any]:
        """Costs at two lengths, the break-even that they predict, and both sides measured there."""
        many = options.scaled(SAMPLES) // (20 if o.join else 2)
        known = [Case(o, many, length) for length in CALIBRATED]
        short = known[1]
        spent = median([*(c.tuples for c in known), *(c.models for c in known)], options)
        tuples, models = spent[: len(known)], spent[len(known) :]
        sample = float(np.mean(tuples)) / short.samples
        counts = [c.segments for c in known]
        segment, fixed = steepest(counts, models, sample * short.samples)
        predicted = segment * short.samples / max(sample * short.samples - fixed, 1e-12)
        length = max(2, round(predicted))
        there = Case(o, many, length)
        at = median([there.tuples, there.models], options)
        found = (at[1] / there.segments) / (at[0] / there.samples)
        alone = inside_tasks([there.tuples, there.models], options)
        kernel = (alone[1] / there.segments) / (alone[0] / there.samples)
        precision, recall = agreement_of_join(o) if o.join else agreement(short)
        report.lines.append(
            f"  {o.name:8s}{1e9 * sample:8.0f} ns a sample {1e9 * segment:8.0f} ns a segment, even at {found:6.1f} "
            f"samples a segment (predicted {predicted:.1f}), the operators alone at {kernel:.1f}; precision "
            f"{precision:.4f}, recall {recall:.4f}"
        )
        report.limits.append(Limit(f"{o.name}: samples a segment at break-even", found, o.bound))
        # What the cost model says of the same length: where less than two samples would do, both are compared at two.
        others = [i for i, c in enumerate(CALIBRATED) if max(c / length, length / c) > APART]
        segment, fixed = steepest([counts[i] for i in others], [models[i] for i in others], sample * short.samples)
        expected = (fixed + segment * there.segments) / there.segments / sample
        report.limits.append(
            Limit(f"{o.name}: break-even off its prediction", max(found / expected, expected / found), 1.3)
        )
        return {
            "query": o.models, "sample_s": sample, "segment_s": segment, "fixed_s": fixed, "predicted": predicted,
            "break_even": found, "operators_alone": kernel, "precision": precision, "recall": recall,
        }  # fmt: skip

    def sweep(self, table: Any, segments: Any, options: Options, report: Report) -> dict[str, float]:
        """A hundred thresholds: of a few it is measured what one costs on tuples; models run all, the fit once."""
        import eddyline as ed

        few = 3 if options.quick else 10
        values = np.linspace(2, 18, SWEPT)
        text = OPERATORS[0].tuples

        def on_tuples() -> None:
            for v in values[:: SWEPT // few][:few]:
                ask({"S": table}, text.replace("x > 12", f"x > {v:.6f}"))

        runs = [
            on_tuples,
            lambda: ed.sweep(OPERATORS[0].models.replace("12", ":limit"), {"S": segments}, {"limit": values}),
            lambda: ed.fit(table, key="k", time="ts", value="x", error=ERROR),
        ]
        tuples, swept, fit = median(runs, options)
        tuples *= SWEPT / few
        ratio = tuples / (swept + fit)
        found = ed.sweep(OPERATORS[0].models.replace("12", ":limit"), {"S": segments}, {"limit": values})
        precision, recall = agreement_of_sweep(table, found, values)
        report.lines.append(
            f"  sweep of {SWEPT} thresholds at {LENGTH} samples a segment: tuples {tuples:.2f} s, models {swept:.3f} s "
            f"and the fit {fit:.3f} s: {ratio:.1f} times as fast, {tuples / swept:.0f} times without the fit; "
            f"precision {precision:.4f}, recall {recall:.4f}"
        )
        report.limits.append(Limit(f"sweep of {SWEPT} thresholds, tuples by models", ratio, 20.0, "at least"))
        return {
            "tuples_s": tuples, "models_s": swept, "fit_s": fit, "ratio": ratio, "precision": precision,
            "recall": recall,
        }  # fmt: skip


class Case:
    """Both sides of an operator over signals with segments of a given length."""

    def __init__(self, operator: Operator, samples_wanted: int, length: int) -> None:
        import eddyline as ed

        self.operator = operator
        tables = joined(samples_wanted, length) if operator.join else {"S": samples(samples_wanted, length)}
        keys = ["g", "k"] if operator.join else ["k"]
        self.tables = tables
        self.fitted = {n: ed.fit(t, key=keys, time="ts", value="x", error=ERROR) for n, t in tables.items()}
        self.samples = sum(len(t) for t in self.tables.values())
        self.segments = sum(len(t) for t in self.fitted.values())

    def tuples(self) -> Any:
        return ask(self.tables, self.operator.tuples)

    def models(self) -> Any:
        return ask(self.fitted, self.operator.models)


def steepest(counts: list[int], costs: list[float], even: float) -> tuple[float, float]:
    """What a segment costs, and what is fixed, on the line between the two points of which the costs enclose ``even``;
    beyond all points on the last line.

    >>> steepest([1, 2, 4], [3.0, 5.0, 11.0], 4.0)
    (2.0, 1.0)
    >>> steepest([1, 2, 4], [3.0, 5.0, 11.0], 20.0)
    (3.0, -1.0)
    """
    i = next((i for i in range(1, len(counts)) if costs[i] >= even), len(counts) - 1)
    segment = max((costs[i] - costs[i - 1]) / (counts[i] - counts[i - 1]), 1e-12)
    return segment, costs[i] - segment * counts[i]


def agreement(case: Case) -> tuple[float, float]:
    """Precision and recall of the models' answer at the instants of the samples, or of the windows' ends."""
    import pyarrow as pa

    import eddyline as ed

    text = case.operator.models
    step = "" if "SLIDE" in text else " SAMPLE EVERY 1"
    every = (
        case.operator.tuples
        if step
        else case.operator.tuples.replace("SELECT k", "SELECT Rstream(k").replace("AS m", "AS m)")
    )
    wanted = rows_of(case.tables, every)
    session = ed.Session()
    session.stream("S", case.fitted["S"])
    found = session.query(text + step).to_arrow()
    if not step:
        found, wanted = found.select(["_time", "k", "m"]), wanted.select(["_time", "k", "m"])
        wanted = wanted.filter(pa.array(wanted["_time"].to_numpy() % 500 == 0))  # Rstream also answers between slides
        # A window's average by time and by samples differ by themselves: by half the change within a sample's period.
        close = {(t, k): m for t, k, m in zip(*(wanted[n].to_pylist() for n in ("_time", "k", "m")), strict=True)}
        hits = sum(
            abs(close.get((t, k), np.inf) - m) <= 1.0
            for t, k, m in zip(*(found[n].to_pylist() for n in ("_time", "k", "m")), strict=True)
        )
        return hits / max(1, len(found)), hits / max(1, len(wanted))
    times, keys = found["_time"].to_numpy(), found["k"].to_numpy()
    mine = times[times % KEYS == keys]  # the instants at which the key has a sample
    theirs = wanted["_time"].to_numpy()
    both = len(np.intersect1d(mine, theirs))
    return both / max(1, len(mine)), both / max(1, len(theirs))


def agreement_of_join(operator: Operator, count: int = 20_000) -> tuple[float, float]:
    """The same of pairs, at the instants of the samples of either signal: of the partner tuples know the last sample,
    up to a period old, where models know the value of the instant."""
    case = Case(operator, count, CALIBRATED[1])
    wanted = rows_of(case.tables, operator.tuples)
    session = ed_session(case.fitted)
    found = session.query(f"{operator.models} SAMPLE EVERY 1").to_arrow()
    t, k, other = (found[n].to_numpy() for n in ("_time", "k", "other"))
    period = KEYS // PARTNERS * (PARTNERS + 1)
    sampled = (t % period == k) | (t % period == other)
    known = t >= period  # every signal has a sample
    mine, theirs = (
        np.unique((t * period + k) * period + other)
        for t, k, other in (
            (t[sampled & known], k[sampled & known], other[sampled & known]),
            tuple(wanted[n].to_numpy()[wanted["_time"].to_numpy() >= period] for n in ("_time", "k", "other")),
        )
    )
    both = len(np.intersect1d(mine, theirs))
    return both / max(1, len(mine)), both / max(1, len(theirs))


def agreement_of_sweep(table: Any, found: Any, values: Any, few: int = 5) -> tuple[float, float]:
    """The same at the samples, for some of the thresholds together: a sample is found if it lies in an interval of its
    signal's result."""
    ts, key, x = (table[n].to_numpy() for n in ("ts", "k", "x"))
    limit, k, low, high = (found[n].to_numpy() for n in ("limit", "k", "_from", "_to"))
    both = mine = theirs = 0
    for v in values[:: max(1, len(values) // few)][:few]:
        at = limit == v
        # Intervals of a signal are disjoint: a sample is in one if more have begun than ended.
        inside = np.zeros(len(ts), np.bool_)
        for one in np.unique(k[at]):
            own, rows = at & (k == one), np.flatnonzero(key == one)
            begun = np.searchsorted(np.sort(low[own]), ts[rows], side="right")
            ended = np.searchsorted(np.sort(high[own]), ts[rows], side="right")
            inside[rows] = begun > ended
        true = x > v
        both, mine, theirs = both + int((inside & true).sum()), mine + int(inside.sum()), theirs + int(true.sum())
    return both / max(1, mine), both / max(1, theirs)


def ed_session(tables: dict[str, Any]) -> Any:
    import eddyline as ed

    session = ed.Session()
    for name, table in tables.items():
        session.stream(name, table)
    return session


def rows_of(tables: dict[str, Any], text: str) -> Any:
    import eddyline as ed

    session = ed.Session()
    for name, table in tables.items():
        session.stream(name, table, timestamp="ts")
    return session.query(text).to_arrow()


def samples(count: int, length: int = LENGTH, keys: int = KEYS, seed: int = 5) -> Any:
    """Zigzags of several keys, one sample of some key at each tick."""
    import pyarrow as pa

    rng = np.random.default_rng(seed)
    ts = np.arange(count)
    key = ts % keys
    step = ts // keys
    corners = rng.uniform(0, 20, (keys, count // keys // length + 3))
    piece, within = step // length, (step % length) / length
    x = corners[key, piece] * (1 - within) + corners[key, piece + 1] * within
    return pa.table({"ts": ts, "k": key, "x": x})


def joined(count: int, length: int) -> dict[str, Any]:
    """Two streams in five groups: one signal of a group in S, ten in T, all sampled in turn."""
    import pyarrow as pa

    groups = KEYS // PARTNERS
    every = groups * (PARTNERS + 1)
    whole = samples(count, length, every)
    key = whole["k"].to_numpy()
    group = pa.array(key % groups)
    whole = whole.append_column("g", group)
    return {"S": whole.filter(pa.array(key < groups)), "T": whole.filter(pa.array(key >= groups))}


def ask(tables: dict[str, Any], text: str) -> int:
    import eddyline as ed

    session = ed.Session()
    for name, table in tables.items():
        if "_from" in table.column_names:
            session.stream(name, table)
        else:
            session.stream(name, table, timestamp="ts")
    return sum(len(b) for b in session.query(text).results())


def cpu(run: Callable[[], Any]) -> float:
    begin = time.process_time()
    run()
    return time.process_time() - begin


def median_kernel(table: Any, options: Options) -> float:
    """The median processor time of the fit's kernel alone, in fits of a table from end to end."""
    import eddyline as ed
    from eddyline.models import fitting

    kernel, spent = fitting.fit_lines, [0.0]

    def timed(*arguments: Any) -> Any:
        begin = time.process_time()
        made = kernel(*arguments)
        spent[-1] += time.process_time() - begin
        return made

    fitting.fit_lines = timed
    try:
        for _ in range(2 if options.quick else options.rounds):
            ed.fit(table, key="k", time="ts", value="x", error=ERROR)
            spent.append(0.0)
    finally:
        fitting.fit_lines = kernel
    return float(np.median(spent[:-1]))


def inside_tasks(runs: list[Callable[[], Any]], options: Options) -> list[float]:
    """The median processor time that each spends inside the tasks of its operators, in turns."""
    from eddyline.engine.task import Task

    whole, spent = Task.run, [0.0]

    def timed(task: Any, *arguments: Any, **named: Any) -> Any:
        begin = time.process_time()
        try:
            return whole(task, *arguments, **named)
        finally:
            spent[0] += time.process_time() - begin

    def of(run: Callable[[], Any]) -> float:
        spent[0] = 0.0
        run()
        return spent[0]

    Task.run = timed  # type: ignore[method-assign]
    try:
        turns = [[of(run) for run in runs] for _ in range(2 if options.quick else options.rounds)]
    finally:
        Task.run = whole  # type: ignore[method-assign]
    return [float(v) for v in np.median(np.array(turns), axis=0)]


def median(runs: list[Callable[[], Any]], options: Options) -> list[float]:
    """The median of what each costs, in turns; the first turn compiles."""
    rounds = 2 if options.quick else options.rounds
    spent = np.array([[cpu(run) for run in runs] for _ in range(rounds + 1)][1:])
    return [float(v) for v in np.median(spent, axis=0)]
