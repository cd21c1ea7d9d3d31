"""The reference of queries with ``ERROR WITHIN``: the same query over the straight lines between samples.

Slow and obvious: everything is asked for one instant at a time. A signal has the value of the line between its two
samples around t if these are not farther apart than ``MAX GAP``, and one tick behind the last sample of a run the
value of that sample. An integral over a window is a sum of Gauss-Legendre quadratures between samples, which is exact
for products of up to three signals. An integral that is less than ``ROUNDING`` of the sum of its parts without their
signs is zero: what is left of parts that cancel is rounding. An extreme over a window is looked for at the samples, at
the window's ends, and where a parabola through three values between two samples, or through their squares, turns round:
it is exact for linear and quadratic arguments and for the square roots of these. A condition on modelled values below
an aggregate over a window is not interpreted.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from eddyline.models.program import Aggregate, Join, Map, Node, Restrict, Source
from eddyline.models.sources import FittedRows
from eddyline.plan.logical import ModelQuery, StreamScan
from eddyline.testing.rows import evaluate

Row = dict[str, Any]
_POINTS, _WEIGHTS = np.polynomial.legendre.leggauss(3)
BESIDE = 1e-9  # of half of a stretch between two samples: how near to its ends a value is asked for
ROUNDING = 1e-13  # of the sum of the parts of an integral


class Interpolated:
    """The answer of a query at single instants.

    Parameters
    ----------
    plan
        The bound query, with ``ERROR WITHIN``.
    samples
        Of each stream its rows in order of time, with the time as a whole number under ``time``.

    >>> import eddyline as ed
    >>> from eddyline.cql import bind
    >>> rows = [{"ts": 0, "k": "a", "x": 0.0}, {"ts": 10, "k": "a", "x": 5.0}]
    >>> session = ed.Session()
    >>> session.stream("S", rows, timestamp="ts")
    >>> plan = bind("SELECT k, x FROM S WHERE x > 1 ERROR WITHIN 0.1", session.catalog).plan
    >>> reference = Interpolated(plan, {"S": rows}, "ts")
    >>> reference.at(1), reference.at(4)
    ([], [{'k': 'a', 'x': 2.0}])
    """

    def __init__(self, plan: ModelQuery, samples: Mapping[str, Sequence[Row]], time: str) -> None:
        self.plan, self.scale = plan, plan.program.scale
        self.signals: list[dict[tuple[Any, ...], dict[int, Row]]] = []
        for scan, model in zip(plan.inputs, plan.models, strict=True):
            assert isinstance(scan, StreamScan) and isinstance(model, FittedRows)
            signals: dict[tuple[Any, ...], dict[int, Row]] = {}
            for row in samples[scan.stream]:
                known = signals.setdefault(tuple(row[k] for k in model.key), {})
                good = all(row[v] is not None and np.isfinite(row[v]) for v in model.values)
                if good and row[time] not in known:  # of differing samples of one instant the first counts
                    known[row[time]] = {f"{scan.alias}.{n}": row[n] for n in (*model.key, *model.values)}
            self.signals.append(signals)

    def at(self, t: float) -> list[Row]:
        """The result's rows at an instant."""
        return self._rows(self.plan.program.root, t)

    def instants(self) -> list[int]:
        """The instants of all samples."""
        return sorted({t for signals in self.signals for samples in signals.values() for t in samples})

    def _rows(self, node: Node, t: float) -> list[Row]:
        match node:
            case Source():
                found = [self._value(node.input, samples, t) for samples in self.signals[node.input].values()]
                return [row for row in found if row is not None]
            case Restrict():
                return [r for r in self._rows(node.input, t) if _all(node.conjuncts, r)]
            case Map():
                return [{n: evaluate(e, r) for n, e in node.items} for r in self._rows(node.input, t)]
            case Join():
                pairs = [{**a, **b} for a in self._rows(node.left, t) for b in self._rows(node.right, t)]
                equal = [r for r in pairs if all(r[a] is not None and r[a] == r[b] for a, b in node.keys)]
                return [r for r in equal if _all(node.conjuncts, r)]
            case Aggregate():
                return self._aggregate(node, t)

    def _value(self, number: int, samples: dict[int, Row], t: float) -> Row | None:
        model = self.plan.models[number]
        assert isinstance(model, FittedRows)
        times = list(samples)  # in order
        place = bisect_right(times, t)
        if place == 0:
            return None
        a = times[place - 1]
        b = a if a == t else times[place] if place < len(times) else None
        if b is None or (model.max_gap is not None and b - a > model.max_gap):
            return samples[a] if t < a + 1 else None
        share = 0.0 if a == b else (t - a) / (b - a)
        one, other = samples[a], samples[b]
        names = {f"{self.plan.inputs[number].alias}.{v}" for v in model.values}  # type: ignore[union-attr]
        return {n: float(v) + share * (float(other[n]) - float(v)) if n in names else v for n, v in one.items()}

    # ── aggregates ────────────────────────────────────────────────────────────────────────────────────────────────

    def _aggregate(self, node: Aggregate, t: float) -> list[Row]:
        if node.width == 0:
            groups = self._groups(node, t)
            extremes = {"min": min, "max": max}
            return [
                {**dict(key), **{n: extremes[f](evaluate(e, r) for r in rows) for n, f, e in node.functions}}
                for key, rows in groups.items()
            ]
        cuts = self._cuts(t - node.width, t)
        keys = {k: None for x in cuts for k in self._groups(node, x)}
        found = [self._window(node, key, cuts) for key in keys]
        return [r for r in found if r is not None]

    def _groups(self, node: Aggregate, t: float) -> dict[tuple[tuple[str, Any], ...], list[Row]]:
        groups: dict[tuple[tuple[str, Any], ...], list[Row]] = {}
        for row in self._rows(node.input, t):
            groups.setdefault(tuple((n, evaluate(e, row)) for n, e in node.groups), []).append(row)
        return groups

    def _cuts(self, low: float, high: float) -> list[float]:
        """The ends of a window, the samples within, and where runs end."""
        times = {
            float(s + more) for signals in self.signals for one in signals.values() for s in one for more in (0, 1)
        }
        return [low, *sorted(x for x in times if low < x < high), high]

    def _window(self, node: Aggregate, key: tuple[tuple[str, Any], ...], cuts: list[float]) -> Row | None:
        row, covered = dict(key), 0.0
        integrals, parts, lows, highs = ({n: 0.0 for n, _, _ in node.functions} for _ in range(4))
        seen = False
        for low, high in pairwise(cuts):
            middle, half = 0.5 * (low + high), 0.5 * (high - low)
            inner = [self._groups(node, middle + half * p).get(key) for p in _POINTS]
            if any(rows is None for rows in inner):
                if not node.partial:
                    return None
                continue
            covered += high - low
            near = half * (1.0 - BESIDE)  # a stretch ends with the values before its end: there may be others at it
            ends = [
                self._groups(node, low).get(key) or self._groups(node, middle - near).get(key) or inner[0],
                self._groups(node, middle + near).get(key) or inner[-1],
            ]
            for n, f, e in node.functions:
                pick = max if f == "max" else min
                values = [pick(evaluate(e, r) for r in rows) for rows in inner if rows]
                integrals[n] += half * float(np.dot(_WEIGHTS, values))
                parts[n] += half * float(np.dot(_WEIGHTS, np.abs(values)))
                turns = [] if f == "avg" else [self._groups(node, x).get(key) for x in _turns(e, inner, middle, half)]
                edges = [pick(evaluate(e, r) for r in rows) for rows in (*ends, *turns) if rows]
                lows[n] = min(edges) if not seen else min(lows[n], *edges)
                highs[n] = max(edges) if not seen else max(highs[n], *edges)
            seen = True
        here = self._groups(node, cuts[-1]).get(key)  # the window's end belongs to it, even if nothing before it does
        if here is None and not node.partial:
            return None
        if not seen and (here is None or any(f in ("avg", "sum") for _, f, _ in node.functions)):
            return None
        for n, f, e in node.functions if here else ():
            edge = (max if f == "max" else min)(evaluate(e, r) for r in here or ())
            lows[n], highs[n] = (min(lows[n], edge), max(highs[n], edge)) if seen else (edge, edge)
        for n, f, _ in node.functions:
            integral = integrals[n] if abs(integrals[n]) > ROUNDING * parts[n] else 0.0
            mean = integral / covered if covered else 0.0  # only extremes are of a single instant
            row[n] = {"min": lows[n], "max": highs[n], "sum": integral * self.scale, "avg": mean}[f]
        return row


def _turns(e: Any, inner: Sequence[list[Row] | None], middle: float, half: float) -> list[float]:
    """Where the parabolas through the values of each row at three instants, and through their squares, turn round."""
    rows = zip(*([float(evaluate(e, r)) for r in one or ()] for one in inner), strict=True)
    found = []
    for values in rows:
        for y in (np.array(values), np.square(values)):
            a, b, _ = np.polyfit(_POINTS, y, 2)
            if abs(a) > 1e-12 * float(np.abs(y).max()) and abs(b) < abs(2.0 * a):
                found.append(middle - half * b / (2.0 * a))
    return found


def _all(conjuncts: Sequence[Any], row: Row) -> bool:
    return all(evaluate(c, row) is True for c in conjuncts)
