"""Adaptive filters: expensive predicates by counts and by time, cheap ones by time.

Counts come first: predicates answer from the known drop bits and move an injected clock by a declared cost, so that
runs can be repeated exactly. Profiling is part of the cost and shown apart. Yardsticks (``adaptive.filters.bounds``):
the *clairvoyant* knows every phase and its best order; the *best fixed order* is the best single one for the whole run.
In the timed runs both are given the measured prices, and run in the same engine, in its largest batches, with the
plain evaluation that counts nothing. There the clairvoyant also knows what a call costs before its first row: it cuts a
batch where a phase ends only if that is worth the calls, and otherwise asks in the order that is best for the batch.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from statistics import median
from typing import Any
from unittest.mock import patch

import numpy as np
import pyarrow as pa

from benchmarks.filter_cases import FilterCase, cheap, expensive, population
from benchmarks.harness import Limit, Options, Report, timed
from eddyline.adapting.conjunction import AdaptiveConjunction
from eddyline.adaptive.filters.bounds import clairvoyant, optimal_order, order_cost
from eddyline.adaptive.filters.pipeline import Pipeline
from eddyline.adaptive.filters.policies import POLICIES, make_policy
from eddyline.core.catalog import FunctionDef
from eddyline.core.delta import Bools
from eddyline.expr.evaluate import compile_expr
from eddyline.expr.nodes import Column, Expr, UserCall
from eddyline.expr.predicates import Conjunction, Selection
from eddyline.testing.clock import ManualClock

# Microseconds a row, as the functions of the expensive case take.
PRICES = (20, 30, 30, 18, 20, 25)


@dataclass(slots=True)
class Counted:
    """``cost[i]``: microseconds of the i-th stretch of rows, ``profiling`` those spent to learn something."""

    step: int
    cost: list[float] = field(default_factory=list)
    profiling: float = 0.0
    decisions: int = 0

    @property
    def total(self) -> float:
        return sum(self.cost)

    def of(self, start: int, stop: int) -> float:
        return sum(self.cost[start // self.step : stop // self.step])


def count(policy: str, drops: Bools, prices: Sequence[float] = PRICES, step: int = 5_000, **options: Any) -> Counted:
    """Run a policy in the executor of queries, over batches of ``step`` rows (a divisor of a quarter of a phase)."""
    clock = ManualClock()
    spent = [0.0]

    def stub(f: int) -> Expr:
        bits = ~drops[:, f]

        def ask(row: int) -> bool:
            spent[0] += prices[f]
            clock.microseconds += int(prices[f])
            return bool(bits[row])

        definition = FunctionDef(f"f{f}", ask, pa.bool_(), cost=prices[f] / 1e6)
        return UserCall(definition, (Column("row", pa.int64()),), pa.bool_())

    n = drops.shape[1]
    pipeline = Pipeline(n, costs=tuple(p / 1e6 for p in prices))
    conjunction = AdaptiveConjunction(
        [stub(f) for f in range(n)], make_policy(policy, pipeline, **options), clock=clock
    )
    counted = Counted(step)
    for start in range(0, len(drops), step):
        rows = np.arange(start, min(start + step, len(drops)))
        before = spent[0]
        selection = conjunction.evaluate({"row": pa.array(rows)}, len(rows))
        if not np.array_equal(selection.keep, ~drops[rows].any(1)):
            raise AssertionError(f"{policy} gives other rows")
        counted.cost.append(spent[0] - before)
    statistics = conjunction.statistics()
    counted.profiling = float(np.dot(statistics["profiling"], prices))
    counted.decisions = statistics["decisions"]
    return counted


@dataclass(frozen=True, slots=True)
class Yardsticks:
    """What the best could do on a population, phase by phase."""

    drops: Bools
    changes: tuple[int, ...]
    prices: tuple[float, ...]

    @property
    def clairvoyant(self) -> float:
        return clairvoyant(self.drops, self.changes, self.prices).cost

    @property
    def best_fixed(self) -> float:
        return order_cost(self.drops, optimal_order(self.drops, self.prices), self.prices)

    def settled(self, counted: Counted) -> float:
        """Ours over the clairvoyant's, leaving out the first quarter of each phase."""
        ours = theirs = 0.0
        borders = (0, *self.changes, len(self.drops))
        for low, high in itertools.pairwise(borders):
            first = low + (high - low) // 4
            order = optimal_order(self.drops[low:high], self.prices)
            ours += counted.of(first, high)
            theirs += order_cost(self.drops[first:high], order, self.prices)
        return ours / theirs


class Expensive:
    name = "filters-expensive"
    title = "six Python predicates of 20 to 50 µs, 300,000 rows, the best order changing every 40,000"

    def run(self, options: Options) -> Report:
        report = Report(self.name, self.title)
        drops, changes = population(options.scaled(300_000) if not options.quick else 80_000)
        yard = Yardsticks(drops, changes, PRICES)
        best, fixed = yard.clairvoyant, yard.best_fixed
        report.lines.append(
            f"  {'counted cost':16s} {'× clairvoyant':>14s} {'after 1/4':>10s} {'profiling':>10s} decisions"
        )
        report.lines.append(f"  {'best fixed order':16s} {fixed / best:14.3f}")
        rows = []
        for policy in POLICIES:
            counted = count(policy, drops)
            settled = yard.settled(counted)
            share = counted.profiling / counted.total
            rows.append({"policy": policy, "ratio": counted.total / best, "settled": settled, "profiling": share})
            report.lines.append(
                f"  {policy:16s} {counted.total / best:14.3f} {settled:10.3f} {share:10.2%} {counted.decisions:9d}"
            )
            if policy == "default":
                report.limits += [
                    Limit("counted cost against the clairvoyant", counted.total / best, 1.15),
                    Limit("counted, after the first quarter of each phase", settled, 1.05),
                    Limit("counted cost against the best fixed order", counted.total / fixed, 1.0),
                ]
        report.details = {"counted": rows, "best_fixed": fixed / best}
        report.lines += self.time(options, report)
        return report

    def time(self, options: Options, report: Report) -> list[str]:
        case = expensive(20_000 if options.quick else 300_000)
        rounds = race(case, 1)
        report.details["seconds"] = rounds
        return table(rounds)


class Cheap:
    name = "filters-cheap"
    title = "six vectorised predicates, 2 million rows, changing every 40,000"

    def run(self, options: Options) -> Report:
        report = Report(self.name, self.title)
        rounds = race(cheap(options.scaled(2_000_000)), options.rounds, floor=True)
        report.lines = table(rounds)
        # One order for all times may beat them both: nobody who knows everything would be slower than that.
        best = min(("clairvoyant", "best fixed order"), key=lambda name: median(rounds[name]))
        ours = [a / b for a, b in zip(rounds["eddyline"], rounds[best], strict=True)]
        report.limits = [Limit(f"time against the clairvoyant (here: the {best})", median(ours), 1.15)]
        floor, seconds = median(rounds["no filter"]), median(rounds["eddyline"])
        report.lines.append(f"  the floor is the engine with no filter: {floor:.3f} s of our {seconds:.3f} s")
        report.details = {"seconds": rounds}
        return report


# ── time ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def race(case: FilterCase, rounds: int, floor: bool = False) -> dict[str, list[float]]:
    """Seconds of each contestant in each round; they take turns."""
    prices = measured(case)
    fixed = optimal_order(case.drops, prices.row)
    contestants: dict[str, Callable[[], Callable[[], Any]]] = {
        "eddyline": lambda: opened(case, case.text),
        "clairvoyant": lambda: knowing(case, prices),
        "best fixed order": lambda: opened(case, in_order(case, fixed), strict_order=True),
        "as written": lambda: opened(case, case.text, strict_order=True),
    }
    if floor:
        contestants["no filter"] = lambda: opened(case, "SELECT Istream(id) FROM rows WHERE id < 0")
    expected = np.flatnonzero(~case.drops.any(1))
    found: dict[str, list[float]] = {name: [] for name in contestants}
    contestants["clairvoyant"]()()  # to see how the engine cuts the rows: what it then knows it does not pay for
    for turn in range(rounds):
        for name, make in contestants.items():
            run = make()
            kept: list[pa.Table] = []
            found[name].append(timed(lambda run=run, kept=kept: kept.append(run()))[0])  # type: ignore[misc]
            if turn == 0 and name != "no filter" and not np.array_equal(kept[0]["id"].to_numpy(), expected):
                raise AssertionError(f"{name} gives other rows")
    return found


def table(found: Mapping[str, Sequence[float]]) -> list[str]:
    lines = [f"  {'seconds':20s} {'median':>8s} {'min':>8s} {'× clairvoyant':>14s}"]
    for name, seconds in found.items():
        against = median(a / b for a, b in zip(seconds, found["clairvoyant"], strict=True))
        lines.append(f"  {name:20s} {median(seconds):8.3f} {min(seconds):8.3f} {against:14.2f}")
    return lines


@dataclass(frozen=True, slots=True)
class Prices:
    """Seconds of each predicate: for one more row, and for a call before its first row."""

    row: tuple[float, ...]
    call: tuple[float, ...]


def measured(case: FilterCase) -> Prices:
    """Of each predicate alone, with the choice of its rows; the best of three."""
    row, call = [], []
    for expr in conjuncts(case):
        compiled = compile_expr(expr)
        few, many = (10, 300) if expr.function.kind == "row" else (10, 20_000)
        found = {}
        for rows in (few, many):
            whole = {c: _array(case.table.column(c).slice(0, 2 * rows)) for c in compiled.columns}
            half = pa.array(np.arange(2 * rows) % 2 == 0)
            seconds = []
            for _ in range(3):
                begin = time.perf_counter()
                compiled.rows({c: a.filter(half) for c, a in whole.items()}, rows)
                seconds.append(time.perf_counter() - begin)
            found[rows] = min(seconds)
        row.append((found[many] - found[few]) / (many - few))
        call.append(max(0.0, found[few] - few * row[-1]))
    return Prices(tuple(row), tuple(call))


def _array(column: pa.ChunkedArray) -> pa.Array:
    found = column.combine_chunks()
    return found.chunk(0) if isinstance(found, pa.ChunkedArray) else found


def conjuncts(case: FilterCase) -> list[UserCall]:
    types = {f.name: f.type for f in case.table.schema}
    return [
        UserCall(p.definition(), tuple(Column(c, types[c]) for c in p.columns), pa.bool_()) for p in case.predicates
    ]


def in_order(case: FilterCase, order: Sequence[int]) -> str:
    """The query with its conjuncts written in another order."""
    calls = case.text.partition(" WHERE ")[2].split(" AND ")
    return f"SELECT Istream(id) FROM rows WHERE {' AND '.join(calls[f] for f in order)}"


def opened(case: FilterCase, text: str, **options: Any) -> Callable[[], Any]:
    import eddyline as ed

    session = ed.Session()
    session.stream("rows", case.table, timestamp="ts")
    for p in case.predicates:
        session.function(p.name, p)
    query = session.query(text, **options)
    return query.to_arrow


def knowing(case: FilterCase, prices: Prices) -> Callable[[], Any]:
    """The same query, with somebody in the place of the adaptive conjunction who knows what comes."""
    with _known(case, prices):
        return opened(case, case.text)


@contextmanager
def _known(case: FilterCase, prices: Prices) -> Iterator[None]:
    from eddyline.adapting.filter_choice import Filtering
    from eddyline.operators.adaptive_select import AdaptiveSelect

    def select(self: Any, name: str, schema: Any, exprs: Sequence[Expr], context: Any) -> Any:
        return AdaptiveSelect(name, schema, Knows(exprs, case, prices), context)  # type: ignore[arg-type]

    with patch.object(Filtering, "select", select):
        yield


class Knows:
    """Asks in the best order for each stretch of rows. All orders are found beforehand, and cost it nothing."""

    decisions = ()

    def __init__(self, exprs: Sequence[Expr], case: FilterCase, prices: Prices) -> None:
        self.conjunction, self.case, self.prices = Conjunction(exprs), case, prices
        self.seen = 0
        # The engine's batches are known, too: as for the queries of the warm-up.
        self.plans = {k: list(self._plan(*k)) for k in _BATCHES.get(id(case.table), ())}

    def _plan(self, start: int, stop: int) -> Iterator[tuple[int, tuple[int, ...]]]:
        """Where to stop next, and the order until then."""
        ends = [c for c in self.case.changes if start < c < stop]
        whole, cut = self._best([start, stop]), self._best([start, *ends, stop])
        yield from min(whole, cut, key=lambda found: found[0])[1]

    def _best(self, borders: Sequence[int]) -> tuple[float, list[tuple[int, tuple[int, ...]]]]:
        cost, parts = 0.0, []
        for low, high in itertools.pairwise(borders):
            drops = self.case.drops[low:high]
            order = optimal_order(drops, self.prices.row)
            cost += order_cost(drops, order, self.prices.row) + sum(self.prices.call)
            parts.append((high, order))
        return cost, parts

    def evaluate(self, columns: Mapping[str, pa.Array], length: int, times: Any = None) -> Selection:
        key = (self.seen, self.seen + length)
        if key not in self.plans:
            self.plans[key] = list(self._plan(*key))
            _BATCHES.setdefault(id(self.case.table), set()).add(key)
        parts, at = self.plans[key], 0
        if len(parts) == 1:
            found = self.conjunction.evaluate(columns, length, parts[0][1])
        else:
            keep = np.zeros(length, np.bool_)
            for end, order in parts:
                stop = end - self.seen
                part = {n: c.slice(at, stop - at) for n, c in columns.items()}
                keep[at:stop] = self.conjunction.evaluate(part, stop - at, order).keep
                at = stop
            found = Selection(keep)
        self.seen += length
        return found

    def adapts(self) -> list[str]:
        return []

    def state(self) -> dict[str, Any]:
        return {}

    def load(self, state: Mapping[str, Any]) -> None:
        pass


_BATCHES: dict[int, set[tuple[int, int]]] = {}  # of each case's table, as the engine cut it
