"""Aggregates over values that have no int64 form, and users' own: Python objects, one small structure per group."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import Counter
from decimal import Context, Decimal
from typing import Any

import numpy as np
import pyarrow as pa

from eddyline.core.catalog import AggregateDef
from eddyline.core.errors import DataError
from eddyline.operators.accumulators import Accumulator, Argument, Objects, Walk
from eddyline.operators.arrivals import Arrivals

_EXACT = Context(prec=120)  # 2^63 decimals of 38 digits need 57
_NAN = float("nan")  # one object, so that dictionaries find it again


class SortedBags(Accumulator):
    """MIN and MAX of strings, binaries and decimals: a sorted list of the distinct values and their counts."""

    def __init__(self, type: pa.DataType) -> None:
        self.type = type
        self.counts: dict[int, Counter[Any]] = {}
        self.values: dict[int, list[Any]] = {}

    def walk(self, w: Walk, arguments: tuple[Argument, ...]) -> None:
        (x,) = arguments
        self.least: list[Any] = [None] * w.size
        self.greatest: list[Any] = [None] * w.size
        elements = zip(w.group.tolist(), w.weight.tolist(), w.slot.tolist(), x.array.to_pylist(), strict=True)
        for g, weight, slot, value in elements:
            if value is not None and weight != 0:
                self._change(g, value, weight)
            if slot >= 0:
                values = self.values.get(g)
                if values:
                    self.least[slot], self.greatest[slot] = values[0], values[-1]

    def _change(self, g: int, value: Any, weight: int) -> None:
        counts = self.counts.setdefault(g, Counter())
        values = self.values.setdefault(g, [])
        if value not in counts:
            insort(values, value)
        counts[value] += weight
        if counts[value] == 0:
            del counts[value]
            del values[bisect_left(values, value)]
            if not counts:
                del self.counts[g], self.values[g]

    def emitted(self, function: str) -> Objects:
        return Objects(self.least if function == "min" else self.greatest)

    def state(self) -> dict[str, Any]:
        rows = [(g, v, n) for g, counts in self.counts.items() for v, n in counts.items()]
        return {
            "group": np.array([r[0] for r in rows], np.int64),
            "value": pa.array([r[1] for r in rows], self.type),
            "count": np.array([r[2] for r in rows], np.int64),
        }

    def load(self, state: dict[str, Any]) -> None:
        self.counts, self.values = {}, {}
        for g, v, n in zip(state["group"].tolist(), state["value"].to_pylist(), state["count"].tolist(), strict=True):
            self._change(g, v, n)

    def size(self) -> tuple[int, int]:
        rows = sum(len(v) for v in self.values.values())
        return rows, rows * 150 + len(self.values) * 200


class DecimalSum(Accumulator):
    """SUM of decimals, exact."""

    def __init__(self) -> None:
        self.sums: dict[int, tuple[int, Decimal]] = {}

    def walk(self, w: Walk, arguments: tuple[Argument, ...]) -> None:
        (x,) = arguments
        self.out: list[Any] = [None] * w.size
        elements = zip(w.group.tolist(), w.weight.tolist(), w.slot.tolist(), x.array.to_pylist(), strict=True)
        for g, weight, slot, value in elements:
            if value is not None and weight != 0:
                count, total = self.sums.get(g, (0, Decimal(0)))
                total = _EXACT.fma(value, Decimal(weight), total)
                self.sums[g] = count + weight, total
                if count + weight == 0:
                    del self.sums[g]
            if slot >= 0 and g in self.sums:
                self.out[slot] = self.sums[g][1]

    def emitted(self, function: str) -> Objects:
        return Objects(self.out)

    def state(self) -> dict[str, Any]:
        return {
            "group": np.array(list(self.sums), np.int64),
            "count": np.array([c for c, _ in self.sums.values()], np.int64),
            "total": pa.array([str(t) for _, t in self.sums.values()], pa.string()),
        }

    def load(self, state: dict[str, Any]) -> None:
        rows = zip(state["group"].tolist(), state["count"].tolist(), state["total"].to_pylist(), strict=True)
        self.sums = {g: (c, Decimal(t)) for g, c, t in rows}

    def size(self) -> tuple[int, int]:
        return 0, len(self.sums) * 300


class UserBags(Accumulator):
    """A user's aggregate: the living elements of each group in order of arrival, folded anew for each changed group.

    As for the built-in aggregates, elements with a NULL argument do not count, and without any the result is NULL.
    """

    def __init__(self, user: AggregateDef, types: tuple[pa.DataType, ...], distinct: bool, arrivals: Arrivals) -> None:
        self.user, self.types, self.distinct, self.arrivals = user, types, distinct, arrivals
        self.bags: dict[int, dict[int, tuple[Any, ...]]] = {}

    def walk(self, w: Walk, arguments: tuple[Argument, ...]) -> None:
        a = self.arrivals
        rows = list(zip(*(x.array.to_pylist() for x in arguments), strict=True)) or [()] * len(w.group)
        self.out: list[Any] = [None] * w.size
        elements = zip(
            a.group.tolist(), a.weight.tolist(), a.slot.tolist(), a.ids.tolist(), a.index.tolist(), strict=True
        )
        for g, weight, slot, id_, i in elements:
            if weight > 0:
                if None not in rows[i]:
                    self.bags.setdefault(g, {})[id_] = rows[i]
            elif weight < 0 and g in self.bags:
                self.bags[g].pop(id_, None)
                if not self.bags[g]:
                    del self.bags[g]
            if slot >= 0 and g in self.bags:
                self.out[slot] = self._fold(w, g)

    def _fold(self, w: Walk, g: int) -> Any:
        values: list[Any] = list(self.bags[g].values())
        if self.distinct:
            values = list(dict.fromkeys(tuple(_NAN if x != x else x for x in v) for v in values))
        if len(self.types) == 1:
            values = [v[0] for v in values]
        try:
            result = self.user.function(values)
            return pa.scalar(result, self.user.returns).as_py()
        except Exception as e:
            raise DataError(
                f"the aggregate {self.user.name} failed in {w.describe(g)} with {len(values)} values: "
                f"{type(e).__name__}: {e}"
            ) from e

    def emitted(self, function: str) -> Objects:
        return Objects(self.out)

    def state(self) -> dict[str, Any]:
        rows = [(g, i, v) for g, bag in self.bags.items() for i, v in bag.items()]
        values = {str(k): pa.array([v[k] for _, _, v in rows], t) for k, t in enumerate(self.types)}
        return {
            "group": np.array([r[0] for r in rows], np.int64),
            "id": np.array([r[1] for r in rows], np.int64),
            "values": values,
        }

    def load(self, state: dict[str, Any]) -> None:
        columns = [state["values"][str(k)].to_pylist() for k in range(len(self.types))]
        self.bags = {}
        for g, i, *v in zip(state["group"].tolist(), state["id"].tolist(), *columns, strict=True):
            self.bags.setdefault(g, {})[i] = tuple(v)

    def size(self) -> tuple[int, int]:
        rows = sum(len(b) for b in self.bags.values())
        return rows, rows * 200
