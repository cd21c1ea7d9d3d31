"""judged once: a user's function is called for a row when the row enters, and its result is kept until the row leaves.

A selection over a relation evaluates its conjuncts for a row when it enters and when it leaves. Functions of the tuple
give the same result both times, at twice the price. A function that is not deterministic may give another one, and the
relation would keep rows that are gone, or lose rows twice. So the result for a row is remembered, and a deletion is
treated like its insertion: it passes if that passed, and where that failed it fails alike, so that equal rows which
fail and come and go within one instant still cancel.

Rows of windows are identified by their ids. Other relations have none: equal rows share a result as long as one of
them is there, and so do rows that agree in all columns which the functions read, if those are deterministic.

No function is called for a row that comes and goes within one instant: it was never in the relation.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa

from eddyline.core.delta import Bools, Delta, Int64s
from eddyline.core.schema import Field, Schema
from eddyline.operators.base import Context, Operator
from eddyline.operators.deferred_errors import Within, settled
from eddyline.operators.streams import net
from eddyline.synopses.remembered import Remembered

PASSED: Final = "_passed"


@dataclass(frozen=True, slots=True)
class Settling:
    """Errors that ``note`` holds count at once."""

    note: str
    context: Context


class JudgedOnce(Within):
    """Around an operator that keeps some rows of its first input (of the schema ``given``) and adds columns to them;
    the result depends on the row alone. Each row is deleted later, by its id; or, with ``keys``, by its values in these
    columns."""

    def __init__(
        self, inner: Operator, given: Schema, keys: Sequence[str] | None = None, settling: Settling | None = None
    ) -> None:
        super().__init__(inner, inner.schema if settling is None else given)
        self.given, self.keys, self.settling = given, keys, settling
        own = tuple(f for f in inner.schema if f.name not in given)
        if keys is None:
            self.memory = Remembered([pa.int64()], Schema(own))
        else:  # that a row was dropped must be known as well
            self.memory = Remembered([given[n].type for n in keys], Schema((*own, Field(PASSED, pa.bool_()))))
        self.present: Int64s = np.zeros(64, np.int64)  # by slot, where equal rows share one

    def process(self, deltas: Sequence[Delta], frontier: int) -> Delta:
        left, *others = deltas
        left = net_ids(left) if self.keys is None else net(left, self.given)
        asked, where = self._unknown(left)
        answers = self.inner.process((asked, *others), frontier)
        if not len(left):
            return Delta.empty(self.schema)
        self._remember(where, answers, len(asked))
        out = self._recall(left)
        return out if self.settling is None else settled(out, (self.settling.note,), self.given, self.settling.context)

    def _unknown(self, left: Delta) -> tuple[Delta, list[pa.Array]]:
        """The rows without a remembered answer, numbered, and their keys."""
        new = left.weights > 0
        keys = self._keys(left)
        if self.keys is not None and len(left):
            new &= self.memory.find(keys, len(left)) < 0
            rows = np.flatnonzero(new)
            if len(rows) > 1:  # equal ones once
                from eddyline.synopses.keys import numbered

                chosen = pa.array(rows)
                code, count = numbered([k.take(chosen) for k in keys], len(rows))
                first = np.empty(count, np.int64)
                first[code[::-1]] = rows[::-1]
                new = np.zeros(len(left), np.bool_)
                new[first] = True
        asked = left.filter(new)
        mask = pa.array(new)
        numbers = np.arange(len(asked))
        return Delta(asked.time, asked.columns, None, numbers), [k.filter(mask) for k in keys]

    def _keys(self, left: Delta) -> list[pa.Array]:
        if self.keys is not None:
            return [left.columns[n] for n in self.keys]
        return [pa.array(np.empty(0, np.int64) if left.ids is None else left.ids)]

    def _remember(self, keys: list[pa.Array], answers: Delta, asked: int) -> None:
        if not asked:
            return
        numbers: Int64s = np.empty(0, np.int64) if answers.ids is None else answers.ids
        own = [n for n in self.memory.payload.names if n != PASSED]
        if self.keys is None:
            index = pa.array(numbers)
            self.memory.put([k.take(index) for k in keys], {n: answers.columns[n] for n in own}, len(numbers))
            return
        place = np.full(asked, -1, np.int64)
        place[numbers] = np.arange(len(numbers))
        index = pa.array(place, mask=place < 0)
        payload = {n: answers.columns[n].take(index) for n in own}
        self.memory.put(keys, {**payload, PASSED: pa.array(place >= 0)}, asked)

    def _recall(self, left: Delta) -> Delta:
        """The answers about the rows that are there; those about rows that have left are forgotten."""
        slots = self.memory.find(self._keys(left), len(left))
        known = slots >= 0
        if self.keys is None:
            out = left.filter(known)
            found = slots[known]
            own = self.memory.take(found)
            self.memory.release(found[out.weights < 0])
            return out.with_columns({**out.columns, **own})
        assert known.all()
        own = self.memory.take(slots)
        passed: Bools = np.asarray(own.pop(PASSED))
        out = left.with_columns({**left.columns, **own}).filter(passed)
        while self.memory.capacity > len(self.present):
            self.present = np.concatenate([self.present, np.zeros(len(self.present), np.int64)])
        np.add.at(self.present, slots, left.weights)
        touched = np.unique(slots)
        self.memory.release(touched[self.present[touched] == 0])
        return out

    def state(self) -> dict[str, Any]:
        live = self.memory.table.live_ids()
        return {"selection": self.inner.state(), "memory": self.memory.state(), "present": self._counts()[live]}

    def _counts(self) -> Int64s:
        more = max(0, self.memory.capacity - len(self.present))
        return np.concatenate([self.present, np.zeros(more, np.int64)])

    def load(self, state: dict[str, Any]) -> None:
        self.inner.load(state["selection"])
        self.memory.load(state["memory"])
        self.present = np.zeros(max(64, self.memory.capacity), np.int64)
        self.present[self.memory.table.live_ids()] = state["present"]

    def size(self) -> tuple[int, int]:
        rows, size = self.inner.size()
        return rows + len(self.memory), size + self.memory.nbytes

    def most_rows(self, now: int) -> int:
        return self.inner.most_rows(now - len(self.memory)) + len(self.memory)

    def describe(self) -> str:
        own = (
            "the ids of rows that passed, until they leave, so that functions are evaluated once for a row"
            if self.keys is None
            else f"the results for {', '.join(self.keys)}, as long as such a row is there: functions are evaluated once"
        )
        return "; ".join(x for x in (self.inner.describe(), own) if x)


def net_ids(delta: Delta) -> Delta:
    """Without the rows that leave at the instant at which they enter.

    >>> d = Delta(np.array([1, 1, 2]), {"a": pa.array([7, 7, 8])}, np.array([1, -1, 1]), np.array([4, 4, 5]))
    >>> net_ids(d).ids.tolist()
    [5]
    """
    if delta.weight is None or delta.ids is None:
        return delta
    order = np.lexsort((delta.time, delta.ids))
    same = (np.diff(delta.ids[order]) == 0) & (np.diff(delta.time[order]) == 0)
    gone: Bools = np.zeros(len(delta), np.bool_)
    gone[order[1:][same]] = gone[order[:-1][same]] = True
    return delta.filter(~gone)
