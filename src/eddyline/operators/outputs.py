"""One aggregate column of the result: the last value that each group emitted, and its present value."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from eddyline.core.delta import Bools, Int64s
from eddyline.core.errors import DataError
from eddyline.expr.nodes import AggregateCall, Column
from eddyline.kernels import aggregates
from eddyline.operators.accumulators import NO_NULLS, Accumulator, grown
from eddyline.synopses.codes import direct_values, is_direct


class Output(Protocol):
    """``collect`` lays out one value per slot: first the last values of the touched groups, then the emitted ones."""

    def collect(self, touched: Int64s, capacity: int) -> None: ...

    def mark_differing(self, previous: Int64s, base: int, differs: Bools) -> None: ...

    def column(self, source: Int64s | slice) -> pa.Array: ...

    def keep(self, touched: Int64s, latest: Int64s) -> None: ...

    def initial(self) -> pa.Array: ...

    def state(self) -> dict[str, Any]: ...

    def load(self, state: dict[str, Any]) -> None: ...

    def nbytes(self) -> int: ...


class CodeOutput:
    """A column of a type with int64 codes. Zeros stand for what an empty bag shows: NULL, or a count of 0."""

    def __init__(self, call: AggregateCall, accumulator: Accumulator) -> None:
        self.call, self.accumulator = call, accumulator
        self.shown: Int64s = np.zeros(0, np.int64)
        self.shown_valid: Bools = np.zeros(0, np.bool_)
        self.nullable = call.function not in ("count", "approx_count_distinct")

    def collect(self, touched: Int64s, capacity: int) -> None:
        emitted = self.accumulator.emitted(self.call.function)
        self.codes, self.valid = emitted.codes, emitted.valid  # type: ignore[union-attr]
        self.shown = grown(self.shown, capacity)
        self.codes[: len(touched)] = self.shown[touched]
        if self.nullable:
            self.shown_valid = grown(self.shown_valid, capacity)
            self.valid[: len(touched)] = self.shown_valid[touched]

    def mark_differing(self, previous: Int64s, base: int, differs: Bools) -> None:
        aggregates.differing(self.codes, self.valid, previous, base, differs)

    def column(self, source: Int64s | slice) -> pa.Array:
        nulls = ~self.valid[source] if self.nullable else None
        return direct_values(self.codes[source], self.call.type, nulls)

    def keep(self, touched: Int64s, latest: Int64s) -> None:
        self.shown[touched] = self.codes[latest]
        if self.nullable:
            self.shown_valid[touched] = self.valid[latest]
        self.codes, self.valid = self.shown[:0], NO_NULLS  # the buffers belong to the result now

    def initial(self) -> pa.Array:
        return direct_values(np.zeros(1, np.int64), self.call.type, np.ones(1, np.bool_) if self.nullable else None)

    def state(self) -> dict[str, Any]:
        return {"shown": self.shown.copy(), "valid": self.shown_valid.copy()}

    def load(self, state: dict[str, Any]) -> None:
        self.shown, self.shown_valid = np.array(state["shown"]), np.array(state["valid"])

    def nbytes(self) -> int:
        return self.shown.nbytes + self.shown_valid.nbytes


class ObjectOutput:
    """A column of any other type, as Python objects."""

    def __init__(self, call: AggregateCall, accumulator: Accumulator) -> None:
        self.call, self.accumulator = call, accumulator
        self.shown: dict[int, Any] = {}
        self.values: list[Any] = []

    def collect(self, touched: Int64s, capacity: int) -> None:
        self.values = list(self.accumulator.emitted(self.call.function).values)  # type: ignore[union-attr]
        self.values[: len(touched)] = [self.shown.get(g) for g in touched.tolist()]

    def mark_differing(self, previous: Int64s, base: int, differs: Bools) -> None:
        for j, p in enumerate(previous.tolist()):
            if not same(self.values[base + j], self.values[p]):
                differs[j] = True

    def column(self, source: Int64s | slice) -> pa.Array:
        if isinstance(source, slice):
            return self._array(self.values[source])
        return self._array(self.values).take(pa.array(source))

    def _array(self, values: list[Any]) -> pa.Array:
        try:
            return pa.array(values, self.call.type)
        except pa.ArrowInvalid as e:
            hint = "; cast the argument to double" if pa.types.is_decimal(self.call.type) else ""
            raise DataError(f"{label(self.call)} made a value that does not fit {self.call.type}{hint}: {e}") from e

    def keep(self, touched: Int64s, latest: Int64s) -> None:
        for g, slot in zip(touched.tolist(), latest.tolist(), strict=True):
            value = self.values[slot]
            if value is None:
                self.shown.pop(g, None)
            else:
                self.shown[g] = value
        self.values = []

    def initial(self) -> pa.Array:
        return pa.nulls(1, self.call.type)

    def state(self) -> dict[str, Any]:
        return {"group": np.array(list(self.shown), np.int64), "shown": self._array(list(self.shown.values()))}

    def load(self, state: dict[str, Any]) -> None:
        self.shown = dict(zip(state["group"].tolist(), state["shown"].to_pylist(), strict=True))

    def nbytes(self) -> int:
        return 150 * len(self.shown)


def output(call: AggregateCall, accumulator: Accumulator, objects: bool) -> Output:
    return ObjectOutput(call, accumulator) if objects else CodeOutput(call, accumulator)


def emits_objects(call: AggregateCall) -> bool:
    """Whether a call's accumulator works on Python objects."""
    counts = call.function in ("count", "approx_count_distinct")
    return call.user is not None or (not counts and not is_direct(call.args[0].type))


def same(a: Any, b: Any) -> bool:
    """Equality by value: NULL = NULL, NaN = NaN."""
    return a is b or bool(a == b) or bool(a != a and b != b)


def label(call: AggregateCall) -> str:
    """A call as people write it.

    >>> label(AggregateCall("sum", (Column("p.size", pa.int64()),), pa.int64()))
    'sum(size)'
    """
    names = [a.name.rpartition(".")[2] if isinstance(a, Column) else "…" for a in call.args] or ["*"]
    function = call.user.name if call.user is not None else call.function
    return f"{function}({'DISTINCT ' if call.distinct else ''}{', '.join(names)})"
