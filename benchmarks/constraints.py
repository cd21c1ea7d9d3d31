"""Constrained joins against the plain join kernel: processor time, taken in turns in one run.

The joins are those of chapter 6 of the thesis (``experiments.constraints.harness``), at windows of 50,000 rows. Each
round runs the plain join and every mode once; a figure is the median over the rounds of the ratio of processor times.
"""

from __future__ import annotations

import gc
from collections.abc import Mapping, Sequence
from statistics import median

import numpy as np
import pyarrow as pa
from experiments.constraints.harness import Input, Run, measure, star, two_parents, warm_up

from benchmarks.harness import Limit, Options, Report

WINDOW = 50_000
STAR = [("S1.a", "S2.a"), ("S1.b", "S3.b")]
PARENTS = [("S1.a", "S3.a"), ("S2.a", "S3.a")]
QUERY = "SELECT Istream(S1.ts, S3.ts AS t3) FROM S1 [ROWS 20000], S3 [ROWS 20000] WHERE S1.a = S3.a"
THREE = QUERY.replace(" WHERE", ", S2 [ROWS 20000] WHERE S2.a = S3.a AND")


class Constraints:
    name = "constraints"
    title = "joins that constraints keep small: processor time and bytes against the plain join"

    def run(self, options: Options) -> Report:
        rows = options.scaled(WINDOW)
        report = Report(self.name, self.title)
        report.lines = [f"  {'join':34s}{'mode':>20s}{'time':>8s}{'bytes':>8s}{'rows':>8s}"]
        found = []
        for title, inputs, equalities, modes in cases(rows):
            warm_up(equalities, {n: i.table for n, i in inputs.items()})
            ratios, last = turns(inputs, equalities, list(modes), options.rounds, "never" in title)
            plain = last["plain"]
            held = sum(i.in_window for i in inputs.values())
            for mode, bound in modes.items():
                assert mode.startswith("lossy") or last[mode].results == plain.results, f"{title}: {mode} misses rows"
                time = median(ratios[mode])
                size, kept = last[mode].bytes / plain.bytes, last[mode].rows / held
                report.lines.append(f"  {title:34s}{mode:>20s}{time:8.2f}{size:8.3f}{kept:8.3f}")
                report.limits.append(Limit(f"{title}, {mode}: processor time of the plain join", time, bound))
                found.append({"join": title, "mode": mode, "time": ratios[mode], "bytes": size, "rows": kept})
        auto = {"two": against_off(rows, options.rounds, QUERY), "three": against_off(rows, options.rounds, THREE)}
        for inputs, times in auto.items():
            title = f"auto without a memory limit, {inputs} inputs: processor time of off"
            report.limits.append(Limit(title, median(times), 1.03))
        report.details = {"measurements": found, "auto": auto}
        return report


def cases(rows: int) -> list[tuple[str, dict[str, Input], list[tuple[str, str]], dict[str, float]]]:
    """Titles, inputs, equalities, and the bound of each mode."""
    made = []
    for k in (0, 1_000, 20_000):
        tables = star(k * rows // WINDOW, rows + rows // 4)
        inputs = {n: Input(t, rows, None if n == "S1" else ("f", 50)) for n, t in tables.items()}
        modes = {"lossy(uses=rids)": 1.6, "exact(uses=rids)": 2.0}
        made.append((f"Figure 6.9(a), RIDS({k:,})", inputs, STAR, modes))
    for k in (0, 5_000):
        tables = two_parents(k * rows // WINDOW, rows + rows // 10)
        inputs = {n: Input(tables[n], rows) for n in ("S1", "S2", "S3")}
        modes = {"lossy(uses=ca)": 1.2, "lossy(uses=oap)": 1.2, "exact": 2.0}
        made.append((f"Figure 6.9(b), k = {k:,}", inputs, PARENTS, modes))
    made.append(("one that never held, second half", never_held(rows), STAR[:1], {"exact": 1.3}))
    return made


def never_held(rows: int) -> dict[str, Input]:
    """S1 refers to rows of S2 anywhere within half a window before or after: no order, clusters or short distances."""
    rounds = 2 * rows
    random = np.random.default_rng(4)
    keys = np.arange(rounds) + random.integers(-rows // 2, rows // 2, rounds)
    return {
        "S1": Input(pa.table({"ts": 2 * np.arange(rounds), "a": keys}), rows),
        "S2": Input(pa.table({"ts": 2 * np.arange(rounds) + 1, "a": random.permutation(rounds)}), rows),
    }


def turns(
    inputs: Mapping[str, Input], equalities: Sequence[tuple[str, str]], modes: Sequence[str], rounds: int, half: bool
) -> tuple[dict[str, list[float]], dict[str, Run]]:
    """Ratios by mode, and the last runs."""
    ratios: dict[str, list[float]] = {m: [] for m in modes}
    last: dict[str, Run] = {}
    for _ in range(rounds):
        seconds = {}
        for mode in ("plain", *modes):
            gc.collect()
            join = Run(inputs, equalities, None if mode == "plain" else mode)
            begin, end = 0.0, max(int(i.table.column("ts")[-1].as_py()) for i in inputs.values())
            for done in join.steps():
                if half and done <= end // 2:
                    begin = join.seconds
            seconds[mode], last[mode] = join.seconds - begin, join
        for mode in modes:
            ratios[mode].append(seconds[mode] / seconds["plain"])
    return ratios, last


def against_off(rows: int, rounds: int, query: str) -> list[float]:
    """Processor time of ``auto`` over ``off``, without a memory limit."""
    tables = {n: t for n, t in two_parents(100, rows).items() if f"{n} [" in query}
    made = []
    for turn in range(2 * rounds + 1):
        first, second = ("auto", "off") if turn % 2 else ("off", "auto")
        seconds = {mode: measure(tables, query, mode).seconds for mode in (first, second)}
        made.append(seconds["auto"] / seconds["off"])
    return made[1:]
