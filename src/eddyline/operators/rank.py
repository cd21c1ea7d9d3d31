"""Ranks: ROW_NUMBER, RANK and DENSE_RANK within partitions, and with them ORDER BY … LIMIT.

What is correct: at the end of every instant the output holds each row of the input whose rank is at most the limit,
with its rank. Ranks are a function of the rows, their order and, among rows that agree in it, of their arrival (their
ids) or else their values. What looks right and is not: to keep the first n rows only. When one of them leaves, the next
one is needed, so all rows are kept unless nothing ever leaves.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from eddyline.core.delta import Delta, Int64s
from eddyline.core.schema import Field, Schema
from eddyline.kernels import ranks as kernels
from eddyline.operators.accumulators import Walk, grown, writable
from eddyline.operators.arrivals import Arrivals
from eddyline.operators.base import Operator
from eddyline.operators.rank_ties import Ties
from eddyline.synopses.bag import Bag
from eddyline.synopses.codes import is_direct
from eddyline.synopses.keys import KeyTable
from eddyline.synopses.order_codes import OrderCodes
from eddyline.synopses.slot_rows import SlotRows

FUNCTIONS = {"row_number": kernels.ROW_NUMBER, "rank": kernels.BY_POSITION, "dense_rank": kernels.DENSE}
NO_LIMIT = (1 << 63) - 1


class RankOperator(Operator):
    """``order`` are columns with their directions (descending, NULLs first). ``by_id`` promises that the input's rows
    carry ids; other rows are numbered as they come. Ties are ordered by these (``by_arrival``) or by the values of all
    columns. ``append_only`` promises that nothing leaves.
    """

    RESULTS_AT_ONCE = 1 << 16  # results of one call of the kernel

    def __init__(
        self,
        name: str,
        schema: Schema,
        function: str,
        partition: Sequence[str],
        order: Sequence[tuple[str, bool, bool]],
        rank: str | None,
        limit: int | None,
        by_arrival: bool,
        by_id: bool,
        append_only: bool,
    ) -> None:
        super().__init__(name, schema if rank is None else Schema((*schema, Field(rank, pa.int32()))))
        self.input_schema, self.function, self.rank = schema, FUNCTIONS[function], rank
        self.partition, self.limit, self.by_id = tuple(partition), limit, by_id
        self.forever = append_only and limit is not None
        ties = [] if by_arrival else [f.name for f in schema if f.name not in {n for n, _, _ in order}]
        self.sorted_by = 2 * len(order)
        self.columns = [*(n for n, _, _ in order), *ties]
        self.codes = [OrderCodes(schema[n].type, descending, first) for n, descending, first in order]
        self.codes += [OrderCodes(schema[n].type) for n in ties]
        slow = any(not is_direct(schema[n].type) for n in ties)
        self.ties = Ties(1 + self.sorted_by) if slow else None  # else all columns are compared at once
        self.arrivals = None if by_id else Arrivals(schema, ends=False, forever=append_only)
        # Where no row is ever deleted, no row has to be found by its id.
        self.bag = SlotRows(schema) if append_only else Bag(schema, by_id=True)
        self.parts = KeyTable([schema[n].type for n in partition])
        # By node, which is a slot of the bag plus one, and by partition.
        self.keys: Int64s = np.zeros((64, 2 * len(self.columns) + 1), np.int64)
        self.nodes: Int64s = np.zeros((64, kernels.FIELDS), np.int64)
        self.ends: Int64s = np.zeros((1, 2), np.int64)
        self.random = 1

    def process(self, deltas: Sequence[Delta], frontier: int) -> Delta:
        (delta,) = deltas
        if len(delta) == 0:
            return Delta.empty(self.schema)
        delta = self._one_by_one(delta)
        node = 1 + (self.bag.insert(delta) if isinstance(self.bag, Bag) else self.bag.insert(delta.columns, len(delta)))
        part = self._parts(delta)
        self._encode(delta, part, node)
        self.touched = [node]
        out = self._changes(delta, part, writable(node))
        self._forget(_each_once(self.touched, len(self.nodes)), _each_once([part], len(self.ends)))
        return out

    def _one_by_one(self, delta: Delta) -> Delta:
        """The changes with weights ±1, each with the id of its row."""
        if self.arrivals is None:
            return Delta(delta.time, delta.columns, writable(delta.weights), delta.ids)
        n = len(delta)
        zeros = np.zeros(n, np.int64)
        self.arrivals.walk(Walk(zeros, writable(delta.weights), zeros - 1, 0, 1, None, str), delta)
        a = self.arrivals
        rows = delta if len(a.index) == n else delta.take(a.index)
        return Delta(rows.time, rows.columns, writable(a.weight), a.ids)

    def _parts(self, delta: Delta) -> Int64s:
        if not self.partition:
            return np.zeros(len(delta), np.int64)
        part = writable(self.parts.intern([delta.columns[n] for n in self.partition], len(delta)))
        self.ends = grown(self.ends, self.parts.capacity)
        return part

    def _encode(self, delta: Delta, part: Int64s, node: Int64s) -> None:
        size = self.bag.capacity + 1
        self.keys, self.nodes = grown(self.keys, size), grown(self.nodes, size)
        enter = np.flatnonzero(delta.weights > 0)
        fresh = node[enter]
        columns = delta.columns
        if len(enter) < len(delta):
            where = pa.array(enter)
            columns = {n: columns[n].take(where) for n in self.columns}
        assert delta.ids is not None
        self.keys[fresh, -1] = delta.ids[enter]
        ordered, width = self.sorted_by // 2, len(self.columns)
        if self.ties is None:
            self._put(fresh, columns, 0, width)
            return
        self._put(fresh, columns, 0, ordered)
        self.keys[fresh, self.sorted_by : -1] = 0
        classes = np.column_stack([part[enter], self.keys[fresh, : self.sorted_by]])
        tied, earlier = self.ties.enter(fresh, classes)
        if tied.any():
            where = pa.array(np.flatnonzero(tied))
            self._put(fresh[tied], {n: columns[n].take(where) for n in self.columns[ordered:]}, ordered, width)
        if len(earlier):
            self._put(earlier, self.bag.probe(earlier - 1, self.columns[ordered:]), ordered, width)

    def _put(self, nodes: Int64s, columns: Mapping[str, pa.Array], begin: int, end: int) -> None:
        """Code some of the columns that order rows."""
        for j in range(begin, end):
            flags, values = self.codes[j].encode(columns[self.columns[j]])
            moved = self.codes[j].moved(self.keys[:, 2 * j], self.keys[:, 2 * j + 1])
            if moved is not None:
                self.keys[:, 2 * j + 1] = moved
            self.keys[nodes, 2 * j], self.keys[nodes, 2 * j + 1] = flags, values

    def _changes(self, delta: Delta, part: Int64s, node: Int64s) -> Delta:
        progress = np.array([0, 0, 0, self.random], np.int64)
        room = self.RESULTS_AT_ONCE + 2
        limit = NO_LIMIT if self.limit is None else self.limit
        parts = []
        while True:
            element, row, rank, sign = (np.empty(room, np.int64) for _ in range(4))
            full = kernels.rank_changes(
                part, delta.weights, node, self.keys, self.nodes, self.ends, self.function, self.sorted_by, limit,
                self.rank is not None, self.forever, progress, element, row, rank, sign,
            )  # fmt: skip
            n = int(progress[kernels.FOUND])
            if self.forever:
                self.touched.append(row[:n][sign[:n] < 0])  # those that others pushed out, too
            columns = self.bag.probe(row[:n] - 1)
            if self.rank is not None:
                columns = {**columns, self.rank: pa.array(rank[:n].astype(np.int32))}
            columns = {name: columns[name] for name in self.schema.names}
            parts.append(Delta(delta.time[element[:n]], columns, sign[:n].copy()))
            if not full:
                break
        self.random = int(progress[kernels.RANDOM])
        return Delta.concat(parts)

    def _forget(self, node: Int64s, part: Int64s) -> None:
        """Give back what is in no list any more."""
        dead = node[self.nodes[node, kernels.ALIVE] == 0]
        if self.ties is not None:
            self.ties.leave(dead)
        self.bag.expire(dead - 1)
        if isinstance(self.bag, Bag):
            self.bag.compact()
        if self.partition:
            gone = part[self.ends[part, kernels.FIRST] == 0]
            if len(gone):
                self.parts.release(gone)
        for j, codes in enumerate(self.codes):
            if codes.crowded(len(self.bag)):
                live = self.bag.live() + 1
                codes.forget(self.keys[live, 2 * j], self.keys[live, 2 * j + 1])

    def state(self) -> dict[str, Any]:
        size = self.bag.capacity + 1
        return {
            "bag": self.bag.state(),
            "parts": self.parts.state(),
            "arrivals": None if self.arrivals is None else self.arrivals.state(),
            "codes": {str(j): c.state() for j, c in enumerate(self.codes)},
            "keys": self.keys[:size].copy(),
            "nodes": self.nodes[:size].copy(),
            "ends": self.ends[: max(1, self.parts.capacity)].copy(),
            "random": self.random,
            "ties": None if self.ties is None else self.ties.state(),
        }

    def load(self, state: dict[str, Any]) -> None:
        self.bag.load(state["bag"])
        self.parts.load(state["parts"])
        if self.arrivals is not None:
            self.arrivals.load(state["arrivals"])
        for j, c in enumerate(self.codes):
            c.load(state["codes"][str(j)])
        self.keys, self.nodes, self.ends = (np.array(state[n]) for n in ("keys", "nodes", "ends"))
        self.random = int(state["random"])
        if self.ties is not None:
            self.ties.load(state["ties"])

    def size(self) -> tuple[int, int]:
        arrays = self.keys.nbytes + self.nodes.nbytes + self.ends.nbytes + sum(c.nbytes for c in self.codes)
        numbered = 0 if self.arrivals is None else self.arrivals.size()[1]
        numbered += 0 if self.ties is None else self.ties.nbytes
        return len(self.bag), self.bag.nbytes + self.parts.nbytes + arrays + numbered

    def describe(self) -> str:
        of = "of each partition" if self.partition else "of the input"
        if self.forever:
            return f"the rows {of} up to rank {self.limit} in order: nothing leaves, so no other can come up again"
        if self.limit is None:
            return f"all rows {of} in order; without a bound a change renumbers all rows behind it"
        return f"all rows {of} in order, since one may come up when another leaves"


def _each_once(parts: Sequence[Int64s], size: int) -> Int64s:
    """All numbers below ``size`` that occur, in order."""
    found = np.zeros(size, np.bool_)
    for numbers in parts:
        found[numbers] = True
    return np.flatnonzero(found)
