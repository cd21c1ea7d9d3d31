"""GROUP BY and aggregates over changing bags.

What is correct: at the end of every instant the output holds one row for each non-empty group (without GROUP BY
exactly one row from the start of time), a function of the bag in the group alone. The one way to get it: walk the
elements in order, keep exact state for each group, look at a group only at its last element of an instant, and emit
−old +new if the row changed by value. What looks right and is not: rounded running sums (they depend on what left),
and looking at a group between two elements of one instant.

Every aggregate argument is walked by its own kernel over the whole batch (``kernels.aggregates`` says how they agree
on slots), so a batch costs a few passes and no Python per element, except for types and functions that need Python.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

from eddyline.core.delta import Bools, Delta, Int64s
from eddyline.core.errors import DataError
from eddyline.core.schema import Field, Schema
from eddyline.expr.approximate import DISTINCT, PERCENTILE
from eddyline.expr.evaluate import Compiled, compile_expr
from eddyline.expr.nodes import AggregateCall, Column, Expr
from eddyline.kernels import aggregates as kernels
from eddyline.operators.accumulators import (
    Accumulator,
    Argument,
    Count,
    DoubleSum,
    FifoExtreme,
    IntegerSum,
    Overflow,
    PaneCount,
    PaneDoubleSum,
    PaneIntegerSum,
    Spread,
    TreeExtremes,
    Walk,
    grown,
    writable,
)
from eddyline.operators.arrivals import Arrivals, Ends
from eddyline.operators.bags import DecimalSum, SortedBags, UserBags
from eddyline.operators.base import Context, Operator
from eddyline.operators.distinct import DistinctPairs, conditional
from eddyline.operators.outputs import Output, emits_objects, label, output
from eddyline.operators.pane_columns import ROWS, PaneColumns
from eddyline.operators.sketches import DistinctSketch, QuantileSketch
from eddyline.synopses.codes import is_direct
from eddyline.synopses.keys import KeyTable

Values = Callable[[Mapping[str, pa.Array], int], pa.Array]
_ADDING = ("count", "sum", "avg", "variance", "var_pop", "stddev", "stddev_pop")
_SPREADS = {"variance": (1, False), "var_pop": (0, False), "stddev": (1, True), "stddev_pop": (0, True)}


class AggregateOperator(Operator):
    """The aggregate operator of Table 2.1.

    ``fifo`` promises that the elements of each group leave in the order they came (a time- or row-window over a
    stream, through selections and projections; the delta then carries ids): minima and maxima cost O(1) instead of
    O(log n). ``append_only`` promises that nothing ever leaves: they and FIRST/LAST keep one value for each group.
    ``inserts_only`` leaves out −old: for an ``Istream`` above that keeps the keys, where deletions cannot show.
    With ``pane_columns`` the input's rows are panes, whose parts are in these columns.
    """

    def __init__(
        self,
        name: str,
        keys: tuple[tuple[str, Expr], ...],
        aggregates: tuple[tuple[str, AggregateCall], ...],
        input_schema: Schema,
        grouped: bool,
        context: Context,
        fifo: bool = False,
        inserts_only: bool = False,
        append_only: bool = False,
        pane_columns: PaneColumns | None = None,
    ) -> None:
        fields = (*(Field(n, e.type) for n, e in keys), *(Field(n, a.type) for n, a in aggregates))
        super().__init__(name, Schema(fields))
        self.grouped, self.context, self.inserts_only = grouped, context, inserts_only
        self.fifo, self.append_only, self.input_schema = fifo or append_only, append_only, input_schema
        self.key_names = tuple(n for n, _ in keys)
        self.risky: dict[str, Compiled] = {}  # what can fail, by the name of the column that holds it then
        self.pane_columns = pane_columns
        self.key_columns = [
            self._key(e if pane_columns is None else pane_columns.key(i)) for i, (_, e) in enumerate(keys)
        ]  # fmt: skip
        self.groups = KeyTable([e.type for _, e in keys])
        self.calls = tuple(call for _, call in aggregates)
        self.started = False

        self.expressions: dict[Expr, int] = {}  # each argument once, with its number
        read = [self._read(call) for call in self.calls]
        self.arguments = [tuple(map(self._argument, values)) for values, _ in read]
        conditions = [None if c is None else self._argument(c) for _, c in read]
        self.arrivals: Arrivals | None = None
        if any(c.user is not None or c.function in ("first", "last") for c in self.calls):
            ends = any(c.function in ("first", "last") for c in self.calls)
            self.arrivals = Arrivals(input_schema, ends, append_only)
        self.distincts: dict[tuple[int, ...], DistinctPairs] = {}
        counted = () if pane_columns is None else (self._argument(ROWS),)
        first = Count() if pane_columns is None else PaneCount()
        self.accumulators: dict[tuple[Any, ...], Accumulator] = {("rows", counted, False, None): first}
        self.outputs: list[Output] = [
            output(call, self._accumulator(call, indexes, condition), emits_objects(call))
            for call, indexes, condition in zip(self.calls, self.arguments, conditions, strict=True)
        ]
        self.evaluators = [self._values(e) for e in self.expressions]
        self.rows = first
        # The arguments whose values are read, and not only where they are NULL.
        self.coded = frozenset(
            i
            for (_, indexes, distinct, condition), a in self.accumulators.items()
            if distinct or condition is not None or type(a) is not Count
            for i in (*indexes, *(() if condition is None else (condition,)))
        )

        # Indexed by group id; ``mark`` and ``latest`` are scratch of ``emission_points``.
        self.shown: Bools = np.zeros(0, np.bool_)
        self.mark: Int64s = np.zeros(0, np.int64)
        self.latest: Int64s = np.zeros(0, np.int64)

    # -- what is kept for which call -------------------------------------------------------------------------------

    def _key(self, e: Expr) -> Values:
        """A plain column stays as it is, since grouping is cheaper by a dictionary than by its strings."""
        if isinstance(e, Column):
            return lambda columns, length: columns[e.name]
        return self._values(e)

    def _values(self, e: Expr) -> Values:
        compiled = compile_expr(e)
        if not compiled.can_fail:
            return compiled
        name = f"_risky {len(self.risky)}"
        self.risky[name] = compiled
        return lambda columns, length: columns[name]

    def _argument(self, e: Expr) -> int:
        return self.expressions.setdefault(e, len(self.expressions))

    def _read(self, call: AggregateCall) -> tuple[tuple[Expr, ...], Expr | None]:
        """What a call adds up, and which rows it counts: those for which the condition is TRUE."""
        if self.pane_columns is not None:
            return self.pane_columns.parts(call), None
        if call.distinct and len(call.args) == 1 and call.function in _ADDING:
            value, condition = conditional(call.args[0])
            return (value,), condition
        return call.args, None

    def _accumulator(self, call: AggregateCall, indexes: tuple[int, ...], condition: int | None) -> Accumulator:
        """The accumulator of a call, shared with the calls that need the same one."""
        kind, distinct = call.function, call.distinct
        if call.user is not None:
            kind = f"user {call.user.name}"
        elif kind in ("min", "max"):
            direct = is_direct(call.args[0].type)
            kind, distinct = kind if self.fifo and direct else "extremes", False
        elif kind in ("first", "last"):
            kind, distinct = "ends", False
        elif kind in ("sum", "avg"):
            kind = "sum"
        elif call.parameters:
            kind = f"{kind} {call.parameters}"
        elif kind == "count" and not call.args:
            kind, distinct = "rows", False
        key = kind, indexes, distinct, condition
        if key not in self.accumulators:
            self.accumulators[key] = self._make(call)
            if distinct and call.user is None:
                types = tuple(a.type for a in call.args)
                self.distincts.setdefault(indexes, DistinctPairs(types)).add(condition)
        return self.accumulators[key]

    def _make(self, call: AggregateCall) -> Accumulator:
        types = tuple(a.type for a in call.args)
        if self.pane_columns is not None:
            if call.function == "count":
                return PaneCount()
            return PaneDoubleSum() if pa.types.is_floating(types[0]) else PaneIntegerSum()
        if call.user is not None:
            assert self.arrivals is not None
            return UserBags(call.user, types, call.distinct, self.arrivals)
        if call.function == "count":
            return Count()
        if call.function in ("first", "last"):
            assert self.arrivals is not None
            return Ends(types[0], self.arrivals)
        if call.function in ("min", "max"):
            if not is_direct(types[0]):
                return SortedBags(types[0])
            return FifoExtreme(call.function, self.append_only) if self.fifo else TreeExtremes()
        if call.function in ("sum", "avg"):
            if pa.types.is_decimal(types[0]):
                return DecimalSum()
            return DoubleSum() if pa.types.is_floating(types[0]) else IntegerSum()
        if call.function == DISTINCT:
            return DistinctSketch(call.parameters[0], self.append_only)
        if call.function == PERCENTILE:
            return QuantileSketch(*call.parameters)
        less, root = _SPREADS[call.function]
        return Spread(less, root)

    # -- processing ------------------------------------------------------------------------------------------------

    def process(self, deltas: Sequence[Delta], frontier: int) -> Delta:
        (delta,) = deltas
        if self.risky and len(delta):
            delta = self._without_failures(delta)
        initial = self._start(delta)
        if len(delta) == 0:
            return initial if initial is not None else self._empty()
        changed = self._process(delta)
        return changed if initial is None else Delta.concat([initial, changed])

    def _without_failures(self, delta: Delta) -> Delta:
        """Compute what can fail, before anything changes; the rows that do stop the query or are diverted."""
        columns, errors = dict(delta.columns), dict[int, DataError]()
        for name, compiled in self.risky.items():
            columns[name], failed = compiled.rows(delta.columns, len(delta))
            for row, error in failed.items():
                errors.setdefault(row, error)
        out = delta.with_columns(columns)
        if errors:
            self.context.fail(delta, errors)
            keep = np.ones(len(delta), np.bool_)
            keep[list(errors)] = False
            out = out.filter(keep)
        return out

    def _start(self, delta: Delta) -> Delta | None:
        """The row of an ungrouped aggregate at the start of time, unless there are elements at that very instant."""
        if self.grouped or self.started or self.context.start is None:
            return None
        self.started = True
        self.shown = grown(self.shown, 1)
        if len(delta) and delta.time[0] <= self.context.start:
            return None
        self.shown[0] = True
        columns = {n: o.initial() for n, o in zip(self.schema.names, self.outputs, strict=True)}
        return Delta(np.array([self.context.start], np.int64), columns, self._weights(np.ones(1, np.int64)))

    def _process(self, delta: Delta) -> Delta:
        n = len(delta)
        if self.grouped:
            group = writable(self.groups.intern([f(delta.columns, n) for f in self.key_columns], n))
            capacity = self.groups.capacity
        else:
            group, capacity = np.zeros(n, np.int64), 1
        self.shown, self.mark = grown(self.shown, capacity), grown(self.mark, capacity)
        self.latest = grown(self.latest, capacity)

        slot, touched = np.empty(n, np.int64), np.empty(min(n, capacity), np.int64)
        previous, owner, when = np.empty(n, np.int64), np.empty(n, np.int64), np.empty(n, np.int64)
        base, made = kernels.emission_points(
            writable(delta.time), group, self.mark, self.latest, slot, touched, previous, owner, when
        )
        touched, previous, owner, when = touched[:base], previous[:made], owner[:made], when[:made]

        ids = None if delta.ids is None else writable(delta.ids)
        w = Walk(group, writable(delta.weights), slot, base + made, capacity, ids, self._describe)
        self._walk(w, delta)
        differs = np.zeros(made, np.bool_)
        alive = self._alive(touched, base + made)
        for call, o in zip(self.calls, self.outputs, strict=True):
            try:
                o.collect(touched, capacity)
            except Overflow as e:
                where = self._describe(int(touched[owner[e.slot - base]]))
                raise DataError(
                    f"{label(call)} overflows a 64-bit integer in {where}; cast the argument to double."
                ) from e
            o.mark_differing(previous, base, differs)
        out = self._changes(touched, previous, owner, when, alive, differs)

        latest = self.latest[touched]
        self.shown[touched] = alive[latest]
        for o in self.outputs:
            o.keep(touched, latest)
        if self.arrivals is not None:
            self.arrivals.finish()
        if self.grouped:
            gone = touched[~alive[latest]]
            if len(gone):
                self.groups.release(gone)
        return out

    def _walk(self, w: Walk, delta: Delta) -> None:
        arguments = [
            Argument.of(f(delta.columns, len(delta)), i in self.coded and is_direct(e.type))
            for f, (e, i) in zip(self.evaluators, self.expressions.items(), strict=True)
        ]
        if self.arrivals is not None:
            self.arrivals.walk(w, delta)
        distinct = {
            (indexes, condition): replace(w, weight=weight)
            for indexes, d in self.distincts.items()
            for condition, weight in d.weights(w, tuple(arguments[i] for i in indexes), arguments).items()
        }
        for (_, indexes, only_distinct, condition), a in self.accumulators.items():
            seen = distinct.get((indexes, condition), w) if only_distinct else w
            a.walk(seen, tuple(arguments[i] for i in indexes))

    def _alive(self, touched: Int64s, size: int) -> Bools:
        """By slot, whether the group has a row in the output."""
        if self.grouped:
            alive: Bools = self.rows.emitted("count").codes > 0
        else:
            alive = np.ones(size, np.bool_)
        alive[: len(touched)] = self.shown[touched]
        return alive

    def _changes(
        self, touched: Int64s, previous: Int64s, owner: Int64s, when: Int64s, alive: Bools, differs: Bools
    ) -> Delta:
        made, base = len(previous), len(touched)
        room = made if self.inserts_only else 2 * made
        source, keys = np.empty(room, np.int64), np.empty(room, np.int64)
        time, weight = np.empty(room, np.int64), np.empty(room, np.int64)
        k = kernels.changes(previous, owner, when, base, alive, differs, self.inserts_only, source, keys, time, weight)
        # All emissions in order: their buffers can be passed on as they are.
        where = slice(base, base + made) if self.inserts_only and k == made else source[:k]
        columns: dict[str, pa.Array] = {}
        if self.key_names:
            # Where no group is shown twice, the values of groups are made in the order of the result.
            once = k <= base
            index = None if once else pa.array(keys[:k])
            found = self.groups.values(touched[keys[:k]] if once else touched)
            for name, values in zip(self.key_names, found, strict=True):
                columns[name] = values if index is None else values.take(index)
        for name, o in zip(self.schema.names[len(self.key_names) :], self.outputs, strict=True):
            columns[name] = o.column(where)
        return Delta(time[:k], columns, self._weights(weight[:k]))

    def _weights(self, weight: Int64s) -> Int64s | None:
        return None if self.inserts_only else weight

    def _empty(self) -> Delta:
        return Delta.empty(self.schema)

    def _describe(self, g: int) -> str:
        if not self.grouped:
            return "the whole input"
        values = [v[0].as_py() for v in self.groups.values(np.array([g], np.int64))]
        return "group " + ", ".join(f"{n} = {v!r}" for n, v in zip(self.key_names, values, strict=True))

    # -- state -----------------------------------------------------------------------------------------------------

    def state(self) -> dict[str, Any]:
        return {
            "started": self.started,
            "groups": self.groups.state(),
            "shown": self.shown.copy(),
            "arrivals": {} if self.arrivals is None else self.arrivals.state(),
            "distincts": {str(i): d.state() for i, d in enumerate(self.distincts.values())},
            "accumulators": {str(i): a.state() for i, a in enumerate(self.accumulators.values())},
            "outputs": {str(i): o.state() for i, o in enumerate(self.outputs)},
        }

    def load(self, state: dict[str, Any]) -> None:
        self.started = bool(state["started"])
        self.groups.load(state["groups"])
        self.shown = np.array(state["shown"])
        if self.arrivals is not None:
            self.arrivals.load(state["arrivals"])
        for i, d in enumerate(self.distincts.values()):
            d.load(state["distincts"][str(i)])
        for i, a in enumerate(self.accumulators.values()):
            a.load(state["accumulators"][str(i)])
        for i, o in enumerate(self.outputs):
            o.load(state["outputs"][str(i)])

    def size(self) -> tuple[int, int]:
        rows, size = (len(self.groups) if self.grouped else 1), self.groups.nbytes + self.shown.nbytes
        sizes = [a.size() for a in self.accumulators.values()] + [d.size() for d in self.distincts.values()]
        if self.arrivals is not None:
            sizes.append(self.arrivals.size())
        for more, bytes_ in sizes:
            rows, size = rows + more, size + bytes_
        return rows, size + sum(o.nbytes() for o in self.outputs)

    def describe(self) -> str:
        kept = ", ".join(label(c) for c in self.calls) or "rows"
        sketches = [a for a in self.accumulators.values() if isinstance(a, DistinctSketch | QuantileSketch)]
        within = "".join(f"; {a.describe()}" for a in sketches)
        return f"{kept} for each {'group that is not empty' if self.grouped else 'instant: one row'}{within}"
