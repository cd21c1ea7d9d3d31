"""Accumulators of numbers: each owns the per-group state of one aggregate argument and updates it with one kernel.

An accumulator may serve several calls (``sum(x)`` and ``avg(x)``, ``min(x)`` and ``max(x)``); ``emitted`` is the value
for a call. All-zero state means an empty group, so state arrays grow by appending zeros and a released group needs no
cleaning: its counts are back at zero.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from eddyline.core.delta import Bools, Int64s
from eddyline.kernels import aggregates, ordered
from eddyline.kernels import superaccumulator as exact
from eddyline.synopses.codes import direct_codes

Float64s = npt.NDArray[np.float64]
NO_NULLS: Bools = np.empty(0, np.bool_)
S = TypeVar("S", bound=np.generic)


class Overflow(Exception):
    """The sum at a slot does not fit its type; the operator finds the group and makes the message."""

    def __init__(self, slot: int) -> None:
        self.slot = slot


@dataclass(frozen=True, slots=True)
class Argument:
    """An evaluated argument: its Arrow array, and its codes if its type has any."""

    array: pa.Array
    codes: Int64s
    valid: Bools  # empty: no NULLs

    @staticmethod
    def of(array: pa.Array, direct: bool) -> Argument:
        if not direct:
            valid = NO_NULLS if array.null_count == 0 else np.array(array.is_valid())
            return Argument(array, np.empty(0, np.int64), valid)
        codes, nulls = direct_codes(array)
        return Argument(array, writable(codes), NO_NULLS if nulls is None else ~nulls)


@dataclass(frozen=True, slots=True)
class Walk:
    """What accumulators see of a batch; ``size`` is the number of slots, ``capacity`` the number of group ids."""

    group: Int64s
    weight: Int64s
    slot: Int64s
    size: int
    capacity: int
    ids: Int64s | None
    describe: Callable[[int], str]


@dataclass(frozen=True, slots=True)
class Codes:
    """Emitted values of a type with codes, by slot; an empty ``valid`` means that none is NULL."""

    codes: Int64s
    valid: Bools


@dataclass(frozen=True, slots=True)
class Objects:
    """Emitted values of any other type, by slot, as Python objects."""

    values: list[Any]


def writable(array: npt.NDArray[S]) -> npt.NDArray[S]:
    """Kernels' signatures ask for contiguous arrays that are not read-only (Arrow's views are)."""
    flags = array.flags
    return array if flags.c_contiguous and flags.writeable else np.require(array, requirements=["C", "W"])


def grown(array: npt.NDArray[S], rows: int) -> npt.NDArray[S]:
    """The array with at least ``rows`` rows, the new ones zero; doubles, so that growing is amortised."""
    if len(array) >= rows:
        return array
    out = np.zeros((max(rows, 2 * len(array)), *array.shape[1:]), array.dtype)
    out[: len(array)] = array
    return out


class Accumulator(ABC):
    """Per-group state of one argument. ``walk`` consumes a batch and keeps what ``emitted`` then returns."""

    arrays: tuple[str, ...] = ()  # attributes that make up the state

    @abstractmethod
    def walk(self, w: Walk, arguments: tuple[Argument, ...]) -> None: ...

    @abstractmethod
    def emitted(self, function: str) -> Codes | Objects: ...

    def state(self) -> dict[str, Any]:
        return {name: getattr(self, name).copy() for name in self.arrays}

    def load(self, state: dict[str, Any]) -> None:
        for name in self.arrays:
            setattr(self, name, np.array(state[name]))

    def size(self) -> tuple[int, int]:
        """Rows beside the groups themselves, and bytes."""
        return 0, sum(getattr(self, name).nbytes for name in self.arrays)


class Count(Accumulator):
    """COUNT(*) without arguments, else COUNT of what is not NULL in all of them."""

    arrays = ("counts",)

    def __init__(self) -> None:
        self.counts: Int64s = np.zeros(0, np.int64)
        self.out: Int64s = self.counts

    def walk(self, w: Walk, arguments: tuple[Argument, ...]) -> None:
        self.counts = grown(self.counts, w.capacity)
        self.out = np.empty(w.size, np.int64)
        aggregates.count(w.group, w.weight, all_valid(arguments), w.slot, self.counts, self.out)

    def emitted(self, function: str) -> Codes:
        return Codes(self.out, NO_NULLS)


class IntegerSum(Accumulator):
    """SUM (in 64 bits) and AVG of integers."""

    arrays: tuple[str, ...] = ("sums",)

    def __init__(self) -> None:
        self.sums: Int64s = np.zeros((0, 3), np.int64)
        self.overflow = -1

    def walk(self, w: Walk, arguments: tuple[Argument, ...]) -> None:
        (x,) = arguments
        self.sums = grown(self.sums, w.capacity)
        self.total, self.count = np.empty(w.size, np.int64), np.empty(w.size, np.int64)
        self.approximate: Float64s = np.empty(w.size, np.float64)
        self.overflow = aggregates.sum_integers(
            w.group, w.weight, x.valid, x.codes, w.slot, self.sums, self.total, self.approximate, self.count
        )

    def emitted(self, function: str) -> Codes:
        if function == "avg":
            return Codes(quotient(self.approximate, self.count), self.count > 0)
        if self.overflow >= 0:
            raise Overflow(self.overflow)
        return Codes(self.total, self.count > 0)


class DoubleSum(Accumulator):
    """SUM and AVG of doubles: exact, rounded when they are looked at."""

    arrays: tuple[str, ...] = ("sums",)

    def __init__(self) -> None:
        self.sums: Int64s = np.zeros((0, exact.ROW), np.int64)
        self.digits: Int64s = np.zeros(exact.ROW + 2, np.int64)

    def walk(self, w: Walk, arguments: tuple[Argument, ...]) -> None:
        (x,) = arguments
        self.sums = grown(self.sums, w.capacity)
        self.total, self.count = np.empty(w.size, np.float64), np.empty(w.size, np.int64)
        exact.sum_doubles(
            w.group, w.weight, x.valid, x.codes, w.slot, self.sums.reshape(-1), self.digits, self.total, self.count
        )

    def emitted(self, function: str) -> Codes:
        codes = quotient(self.total, self.count) if function == "avg" else self.total.view(np.int64)
        return Codes(codes, self.count > 0)


class PaneCount(Count):
    """COUNT over panes, each with the number that it stands for."""

    def walk(self, w: Walk, arguments: tuple[Argument, ...]) -> None:
        (n,) = arguments
        super().walk(replace(w, weight=w.weight * n.codes), ())


class PaneIntegerSum(IntegerSum):
    """SUM and AVG over panes of integers: a sum and a number each."""

    arrays = ("sums", "counts")
    counts: Int64s = np.zeros(0, np.int64)

    def walk(self, w: Walk, arguments: tuple[Argument, ...]) -> None:
        total, n = arguments
        super().walk(w, (total,))
        self.counts = grown(self.counts, w.capacity)
        aggregates.count(w.group, w.weight * n.codes, NO_NULLS, w.slot, self.counts, self.count)


class PaneDoubleSum(DoubleSum):
    """SUM and AVG over panes of doubles: a sum, what is to be added to it to be exact, and a number each."""

    arrays = ("sums", "counts")
    counts: Int64s = np.zeros(0, np.int64)

    def walk(self, w: Walk, arguments: tuple[Argument, ...]) -> None:
        total, rest, n = arguments
        # Two elements for each pane: the second ends the instant. Zeros need not be added.
        slot, parts = np.full(2 * len(w.slot), -1, np.int64), np.empty(2 * len(w.slot), np.int64)
        slot[1::2], parts[::2], parts[1::2] = w.slot, total.codes, rest.codes
        group, weight = np.repeat(w.group, 2), np.repeat(w.weight, 2)
        twice = replace(w, group=group, weight=weight, slot=slot)
        super().walk(twice, (Argument(total.array, parts, parts != 0),))
        self.counts = grown(self.counts, w.capacity)
        aggregates.count(w.group, w.weight * n.codes, NO_NULLS, w.slot, self.counts, self.count)


class Spread(Accumulator):
    """Variance or standard deviation, of a sample (``less`` 1: NULL for a single element) or a population."""

    arrays = ("sums", "squares")

    def __init__(self, less: int, root: bool) -> None:
        self.less, self.root = less, root
        self.sums: Int64s = np.zeros((0, exact.ROW), np.int64)
        self.squares: Int64s = np.zeros((0, exact.SQUARE_ROW), np.int64)
        self.work: Int64s = np.zeros((5, exact.SQUARE_ROW + 16), np.int64)

    def walk(self, w: Walk, arguments: tuple[Argument, ...]) -> None:
        (x,) = arguments
        codes = x.codes if pa.types.is_floating(x.array.type) else x.codes.astype(np.float64).view(np.int64)
        self.sums, self.squares = grown(self.sums, w.capacity), grown(self.squares, w.capacity)
        self.out, self.count = np.empty(w.size, np.float64), np.empty(w.size, np.int64)
        sums, squares = self.sums.reshape(-1), self.squares.reshape(-1)
        less, root = self.less, self.root
        exact.spread_doubles(
            w.group, w.weight, x.valid, codes, w.slot, sums, squares, less, root, self.work, self.out, self.count
        )

    def emitted(self, function: str) -> Codes:
        return Codes(self.out.view(np.int64), self.count > self.less)


class FifoExtreme(Accumulator):
    """MIN or MAX where the elements of each group leave in the order they came (``forever``: never)."""

    arrays = ("ends", "pool", "control")

    def __init__(self, function: str, forever: bool) -> None:
        self.flip, self.forever = -1 if function == "min" else 0, forever
        self.ends: Int64s = np.zeros((0, 2), np.int64)
        self.pool: Int64s = np.zeros(ordered.DEQUE_STRIDE, np.int64)
        self.control: Int64s = np.zeros(3, np.int64)

    def walk(self, w: Walk, arguments: tuple[Argument, ...]) -> None:
        (x,) = arguments
        ids = w.ids
        if ids is None:
            if (w.weight < 0).any():
                raise AssertionError("a FIFO input deletes, but brings no ids")
            ids = np.full(len(w.group), -1, np.int64)
        self.floating = pa.types.is_floating(x.array.type)
        self.ends = grown(self.ends, w.capacity)
        self.pool = roomy(self.pool, self.control, len(w.group), ordered.DEQUE_STRIDE)
        self.out, self.valid = np.empty(w.size, np.int64), np.empty(w.size, np.bool_)
        keys = order_keys(x.codes) if self.floating else x.codes
        ordered.fifo_extreme(
            w.group, w.weight, x.valid, keys, ids, w.slot, self.flip, self.forever, self.ends, self.pool, self.control,
            self.out, self.valid,
        )  # fmt: skip

    def emitted(self, function: str) -> Codes:
        return Codes(order_keys(self.out) if self.floating else self.out, self.valid)

    def state(self) -> dict[str, Any]:
        return {**super().state(), "pool": used(self.pool, self.control, ordered.DEQUE_STRIDE)}

    def size(self) -> tuple[int, int]:
        rows = int(self.control[ordered.USED])
        return rows, rows * ordered.DEQUE_STRIDE * 8 + self.ends.nbytes


class TreeExtremes(Accumulator):
    """MIN and MAX under deletions in any order, with weights."""

    arrays = ("roots", "pool", "control")

    def __init__(self) -> None:
        self.roots: Int64s = np.zeros(0, np.int64)
        self.pool: Int64s = np.zeros(ordered.TREE_STRIDE, np.int64)
        self.control: Int64s = np.zeros(3, np.int64)

    def walk(self, w: Walk, arguments: tuple[Argument, ...]) -> None:
        (x,) = arguments
        self.floating = pa.types.is_floating(x.array.type)
        self.roots = grown(self.roots, w.capacity)
        self.pool = roomy(self.pool, self.control, len(w.group), ordered.TREE_STRIDE)
        self.least, self.greatest = np.empty(w.size, np.int64), np.empty(w.size, np.int64)
        self.valid = np.empty(w.size, np.bool_)
        keys = order_keys(x.codes) if self.floating else x.codes
        ordered.tree_extremes(
            w.group, w.weight, x.valid, keys, w.slot, self.roots, self.pool, self.control, self.least, self.greatest,
            self.valid,
        )  # fmt: skip

    def emitted(self, function: str) -> Codes:
        out = self.least if function == "min" else self.greatest
        return Codes(order_keys(out) if self.floating else out, self.valid)

    def state(self) -> dict[str, Any]:
        return {**super().state(), "pool": used(self.pool, self.control, ordered.TREE_STRIDE)}

    def size(self) -> tuple[int, int]:
        rows = int(self.control[ordered.USED])
        return rows, rows * ordered.TREE_STRIDE * 8 + self.roots.nbytes


def all_valid(arguments: tuple[Argument, ...]) -> Bools:
    """Where no argument is NULL (empty: everywhere)."""
    some = [a.valid for a in arguments if len(a.valid)]
    return NO_NULLS if not some else some[0] if len(some) == 1 else np.logical_and.reduce(some)


def quotient(total: Float64s, count: Int64s) -> Int64s:
    """Codes of total / count; slots without elements hold anything."""
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        out = total / count
    out += 0.0  # a tiny negative sum may round to −0.0
    return out.view(np.int64)


def order_keys(codes: Int64s) -> Int64s:
    out = np.empty(len(codes), np.int64)
    ordered.order_keys(codes, out)
    return out


def roomy(pool: Int64s, control: Int64s, more: int, stride: int) -> Int64s:
    """The pool with room for ``more`` nodes; what is never touched costs address space, not memory."""
    filled = (int(control[ordered.USED]) + 1) * stride
    if len(pool) >= filled + more * stride:
        return pool
    out = np.empty(filled + 2 * more * stride, np.int64)
    out[:filled] = pool[:filled]
    return out


def used(pool: Int64s, control: Int64s, stride: int) -> Int64s:
    return pool[: (int(control[ordered.USED]) + 1) * stride].copy()
