"""Where order cannot matter: what adapting costs when there is nothing to gain.

- *One predicate*: there is nothing to order, and the plan is that of a strict order: not one evaluation more.
- *Six equal predicates*, of some 5 µs a row, each dropping half of what it sees: all profiling is lost. Counted, with
  what that buys: how many rows pass until the order changes when the predicate that is asked last comes to drop nearly
  everything.

Times are paired: in each round both sides run one after the other, first the one, then the other in turn; reported is
the median of the rounds' ratios and an interval that holds the true median with 95 % of probability, whatever the
distribution (order statistics).
"""

from __future__ import annotations

import time
from collections.abc import Callable
from statistics import median
from typing import Any

import numpy as np
import pyarrow as pa

from benchmarks.filters import count
from benchmarks.harness import Limit, Options, Report
from benchmarks.interval import interval
from eddyline.adaptive.filters.simulate import draw
from eddyline.core.delta import Bools

SIX, ROUNDS = 6, 21
PRICE = 5.0  # microseconds a row, about what the predicates below take


class Equal:
    name = "filters-equal"
    title = "filters whose order cannot matter: one, and six equal ones"

    def run(self, options: Options) -> Report:
        report = Report(self.name, self.title)
        rows = options.scaled(200_000)
        lost, reaction = counted(rows)
        report.lines.append(
            f"  counted, six equal: {lost:.2%} more evaluations; reacts to a change after {reaction:,} rows"
        )
        report.limits.append(Limit("counted work of six equal predicates", 1 + lost, 1.03))
        report.details["reaction_rows"] = reaction
        for n in (1, SIX):
            ratios = paired(options.scaled(20_000), n, 3 if options.quick else ROUNDS)
            low, high = interval(ratios)
            named = "one predicate" if n == 1 else "six equal predicates"
            report.lines.append(f"  time, {named}: {median(ratios):.3f} × a strict order [{low:.3f}, {high:.3f}]")
            report.details[f"ratios_{n}"] = ratios
        return report


def counted(rows: int) -> tuple[float, int]:
    """Evaluations that the default spends to learn, over those of any order; and rows until it reacts."""
    drops = draw(rows, [0.5] * SIX, seed=5)
    run = count("default", drops, (PRICE,) * SIX)
    lost = run.profiling / (run.total - run.profiling)
    return lost, _reaction(drops)


def _reaction(drops: Bools) -> int:
    """Rows until the predicate that was last is asked first, once it drops nearly everything."""
    from eddyline.adaptive.filters.pipeline import Pipeline
    from eddyline.adaptive.filters.policies import make_policy
    from eddyline.adaptive.filters.simulate import simulate

    policy = make_policy("default", Pipeline(SIX))
    simulate(policy, drops, batch=500)
    last = policy.order[-1]
    step = 250
    for done in range(0, 200_000, step):
        simulate(policy, draw(step, [0.98 if f == last else 0.5 for f in range(SIX)], seed=done + 6), batch=step)
        if policy.order[0] == last:
            return done + step
    return 200_000


# Odd numbers with well mixed bits: what the predicates below drop is as good as independent.
_FACTORS = (0x9E3779B1, 0x85EBCA77, 0xC2B2AE3D, 0x27D4EB2F, 0x165667B1, 0xD3A2646D)


def _predicate(number: int) -> Callable[[int], bool]:
    """Drops half of the rows, another half than others do, and takes its time."""
    factor = _FACTORS[number]

    def judge(x: int) -> bool:
        for _ in range(40):
            x = ((x ^ x >> 15) * factor) & 0xFFFFFFFF
        return x >> 17 & 1 == 1

    return judge


def _opened(rows: pa.Table, n: int, strict: bool) -> Callable[[], Any]:
    import eddyline as ed

    session = ed.Session()
    session.stream("rows", rows, timestamp="ts")
    for number in range(n):
        session.function(f"f{number}", _predicate(number), returns="boolean")
    calls = " AND ".join(f"f{number}(x)" for number in range(n))
    query = session.query(f"SELECT Istream(x) FROM rows WHERE {calls}", **({"strict_order": True} if strict else {}))
    return query.to_arrow


def paired(rows: int, n: int, rounds: int) -> list[float]:
    """Seconds of the default over those of a strict order, in each round."""
    values = np.random.default_rng(3).integers(0, 1 << 31, rows)
    table = pa.table({"ts": np.arange(rows), "x": values})
    ratios = []
    for turn in range(rounds + 1):
        seconds, answers = {}, {}
        for strict in (False, True) if turn % 2 else (True, False):
            run = _opened(table, n, strict)
            begin = time.perf_counter()
            answers[strict] = run().num_rows
            seconds[strict] = time.perf_counter() - begin
        if answers[True] != answers[False]:
            raise AssertionError(f"different answers: {answers}")
        if turn:  # the first round warms both up
            ratios.append(seconds[False] / seconds[True])
    return ratios


if __name__ == "__main__":
    print("\n".join(Equal().run(Options()).lines))
