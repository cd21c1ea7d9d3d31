"""One input of a join: its synopsis, and the events that wait to be applied to it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from eddyline.core.bound import bound_of
from eddyline.core.delta import Delta, Int64s
from eddyline.core.schema import Schema
from eddyline.core.time import NEVER
from eddyline.core.window import Rows, WindowSpec
from eddyline.expr.evaluate import compile_expr
from eddyline.expr.nodes import Expr
from eddyline.expr.predicates import Conjunction
from eddyline.kernels import join_layout as k
from eddyline.operators.windows import enter_times, leave_times
from eddyline.synopses import join_contents
from eddyline.synopses.bag import Bag
from eddyline.synopses.codes import hash_codes
from eddyline.synopses.shared_index import IndexReader
from eddyline.synopses.store import Stub


@dataclass(frozen=True, slots=True)
class JoinInput:
    """``window`` makes the input a ring (a stream under a time- or tuple-based window, or an append-only relation);
    without it the input is a bag of changes. ``deletes`` is one of the kernel's NO_DELETIONS, AT_ARRIVALS and
    ALL_DELETIONS. ``filters`` are conjuncts above a tuple-based window: what fails them counts for the window, but
    joins with nothing.

    An input is ``passing`` if no row that enters later than one of its own joins with it (all others are there at the
    start of time, or a condition on timestamps says so), and if no deletion can show: then its rows are kept for the
    instant at which they enter and no longer. Not shorter, because within an instant they may be applied before the
    rows that they join with."""

    schema: Schema
    window: WindowSpec | None
    by_id: bool = False
    deletes: int = k.ALL_DELETIONS
    label: str = ""  # for explain
    filters: tuple[Expr, ...] = ()
    passing: bool = False


class JoinSide:
    """One input's synopsis and the events that are waiting for it."""

    def __init__(
        self,
        spec: JoinInput,
        keys: Sequence[Expr],
        stub: Callable[[], Stub] | None,
        ordered: frozenset[int] = frozenset(),
    ) -> None:
        self.spec = spec
        self.ordered = ordered  # keys that are compared: their codes have to order as the values do
        self.keys = [compile_expr(e) for e in keys]
        self.own = frozenset(range(len(keys)))  # the keys of this join; codes of others may be asked for beside them
        self.ring = spec.window is not None
        self.limit = spec.window.count if isinstance(spec.window, Rows) else 0
        self.filters = Conjunction(spec.filters) if spec.filters else None
        self.stub = stub() if stub is not None and self.ring else None
        self.bag = None if self.ring else Bag(spec.schema, spec.by_id)
        if self.stub is not None:
            self.stub.bound = bound_of(spec.window)
        self.reader: IndexReader | None = None  # where other joins may have the same indexes over this input
        self.capacity = join_contents.FIRST_CAPACITY
        none = np.empty(0, np.int64)
        # Events not yet applied (elements of sliding windows wait for their slide).
        self.time, self.leave, self.weight, self.slot, self.valid = none, none, none, none, none
        self.codes = np.empty((0, len(keys)), np.int64)

    def accept(self, delta: Delta) -> None:
        n = len(delta)
        if n == 0:
            return
        codes, valid = self.key_codes(delta.columns, n)
        if self.ring:
            assert self.stub is not None and self.spec.window is not None
            time = enter_times(self.spec.window, delta.time)
            leave = np.full(n, NEVER, np.int64) if self.limit else leave_times(self.spec.window, delta.time)
            if self.filters is not None:
                valid[~self.filters.evaluate(delta.columns, n).keep] = 0
            valid[leave <= time] = 0  # a window shorter than its slide: the element is never in it
            if self.spec.passing:
                leave = time + 1
            self.stub.insert(delta.columns, n, delta.time)
            slot = np.zeros(n, np.int64)
        else:
            assert self.bag is not None
            time, leave = delta.time, np.zeros(n, np.int64)
            slot = self.bag.insert(delta)
        self.append_events(time, leave, delta.weights, slot, valid, codes)

    def append_events(
        self, time: Int64s, leave: Int64s, weight: Int64s, slot: Int64s, valid: Int64s, codes: Int64s
    ) -> None:
        """Let events wait, behind those that wait already."""
        if len(self.time) == 0:
            self.time, self.leave, self.weight, self.slot, self.valid = time, leave, weight, slot, valid
            self.codes = codes
        else:
            self.time = np.concatenate([self.time, time])
            self.leave = np.concatenate([self.leave, leave])
            self.weight = np.concatenate([self.weight, weight])
            self.slot = np.concatenate([self.slot, slot])
            self.valid = np.concatenate([self.valid, valid])
            self.codes = np.concatenate([self.codes, codes])

    @property
    def offset(self) -> int:
        """By which positions of a ring are larger than the row numbers of its stub."""
        return 0 if self.reader is None else self.reader.offset

    def take(self, rows: Int64s, names: tuple[str, ...]) -> dict[str, pa.Array]:
        if self.stub is not None:
            offset = self.offset
            return self.stub.probe(rows - offset if offset else rows, names)
        assert self.bag is not None
        return self.bag.store.take(rows, names)

    def key_codes(self, columns: Mapping[str, pa.Array], n: int) -> tuple[Int64s, Int64s]:
        """The codes of the key expressions, and 0 for rows with a NULL among them, which join with nothing."""
        codes = np.empty((n, len(self.keys)), np.int64)
        valid = np.ones(n, np.int64)
        for j, key in enumerate(self.keys):
            values = key(columns, n)
            codes[:, j], nulls = hash_codes(values)
            if j in self.ordered and pa.types.is_floating(values.type):
                codes[:, j] ^= (codes[:, j] >> 63) & np.int64((1 << 63) - 1)
            if nulls is not None and j in self.own:
                valid[nulls] = 0
        return codes, valid

    def compute(self, keys: Sequence[Expr], ordered: frozenset[int], own: Sequence[int]) -> None:
        """Compute the codes of these keys from now on (``own`` are the numbers of this join's keys), also for the
        events that wait, whose rows are the last of the stub."""
        self.keys, self.ordered, self.own = [compile_expr(e) for e in keys], ordered, frozenset(own)
        waiting = len(self.time)
        self.codes = np.empty((0, len(keys)), np.int64)
        if waiting:
            assert self.stub is not None
            self.codes = self.stored_codes(self.stub.end - waiting, self.stub.end)

    def stored_codes(self, low: int, high: int) -> Int64s:
        """The codes of rows of the stub, by number."""
        assert self.stub is not None
        names = [self.stub.prefix + n for n in self.stub.store.schema.names]
        return self.key_codes(self.stub.slice(low, high, names), high - low)[0]

    def rows_at(self, positions: Int64s) -> dict[str, pa.Array]:
        """The rows at positions of the synopsis: row numbers of a ring, slots of a bag."""
        at = positions if self.bag is None else self.bag.rownum[positions]
        return self.take(at, self.spec.schema.names)

    def drop_events(self, count: int) -> None:
        self.time, self.leave, self.weight = self.time[count:], self.leave[count:], self.weight[count:]
        self.slot, self.valid, self.codes = self.slot[count:], self.valid[count:], self.codes[count:]
