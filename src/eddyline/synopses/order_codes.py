"""Columns as int64 codes in the order of their values, for kernels that sort.

Numbers, Booleans, dates and times have such codes (``kernels.ordered.order_keys`` for doubles, NaN greatest). Strings
and all other types get *labels*: the distinct values seen are kept sorted, and a new one gets a label between those of
its neighbours. Where there is no room between them all are labelled anew, and so are the codes that were given out.
"""

from __future__ import annotations

from bisect import bisect_left
from typing import Any

import numpy as np
import pyarrow as pa

from eddyline.core.delta import Int64s
from eddyline.kernels.ordered import order_keys
from eddyline.synopses.codes import direct_codes, is_direct

MAX_LABEL = 1 << 61  # the largest absolute value of a label
LABEL_STEP = 1 << 40  # from the first or last label to a new one beyond it
MIN_VALUES_TO_FORGET = 1024  # with fewer distinct values, unused ones are not removed


class SortedLabels:
    """Labels of values of one type.

    >>> labels = SortedLabels()
    >>> a, c = labels.add(["c", "a"])["a"], labels.add(["c"])["c"]
    >>> a < labels.add(["b"])["b"] < c
    True
    """

    def __init__(self) -> None:
        self.values: list[Any] = []
        self.labels: list[int] = []
        self.by_value: dict[Any, int] = {}
        self.moved: tuple[Int64s, Int64s] | None = None  # old labels and new ones, where they were given anew

    def add(self, values: list[Any]) -> dict[Any, int]:
        """The labels of all values known so far, these included."""
        for value in sorted({v for v in values if v not in self.by_value}):
            at = bisect_left(self.values, value)
            if not self._room(at):
                self._relabel()
            low = self.labels[at - 1] if at else None
            high = self.labels[at] if at < len(self.labels) else None
            if low is None:
                label = 0 if high is None else high - LABEL_STEP
            else:
                label = low + LABEL_STEP if high is None else (low + high) // 2
            self.values.insert(at, value)
            self.labels.insert(at, label)
            self.by_value[value] = label
        return self.by_value

    def _room(self, at: int) -> bool:
        if 0 < at < len(self.labels):
            return self.labels[at] - self.labels[at - 1] > 1
        return not self.labels or (self.labels[0] > -MAX_LABEL and self.labels[-1] < MAX_LABEL)

    def _relabel(self) -> None:
        old = np.array(self.labels, np.int64)
        step = min(LABEL_STEP, MAX_LABEL // (len(old) + 1))  # half of the way remains at both ends
        new = (np.arange(len(old), dtype=np.int64) - len(old) // 2) * step
        self.moved = (old, new) if self.moved is None else (self.moved[0], new[np.isin(old, self.moved[1])])
        self._set(self.values, new.tolist())

    def _set(self, values: list[Any], labels: list[int]) -> None:
        self.values, self.labels = values, labels
        self.by_value = dict(zip(values, labels, strict=True))

    def keep(self, used: Int64s) -> None:
        """Forget all labels but these."""
        kept = set(used.tolist())
        pairs = [(v, label) for v, label in zip(self.values, self.labels, strict=True) if label in kept]
        self._set([v for v, _ in pairs], [label for _, label in pairs])


class OrderCodes:
    """The codes of one column: a flag that puts NULLs first or last, and the code of the value."""

    def __init__(self, type: pa.DataType, descending: bool = False, nulls_first: bool = True) -> None:
        self.type, self.descending, self.nulls_first = type, descending, nulls_first
        self.labels = None if is_direct(type) else SortedLabels()

    def encode(self, array: pa.Array) -> tuple[Int64s, Int64s]:
        """Flags and codes."""
        if self.labels is None:
            codes, nulls = direct_codes(array)
            if pa.types.is_floating(self.type):
                bits, codes = np.require(codes, requirements=["C", "W"]), np.empty(len(codes), np.int64)
                order_keys(bits, codes)
        else:
            nulls = None if array.null_count == 0 else np.asarray(array.is_null())
            if pa.types.is_dictionary(array.type):
                array = array.dictionary_decode()
            encoded = array.dictionary_encode()
            values = encoded.dictionary.to_pylist()
            known = self.labels.add(values)
            table = np.array([known[v] for v in values] or [0], np.int64)
            codes = table[encoded.indices.fill_null(0).to_numpy(zero_copy_only=False)]
        codes = ~codes if self.descending else codes
        flags = np.full(len(codes), 1 if self.nulls_first else 0, np.int64)
        if nulls is not None:
            flags[nulls] = 1 - flags[nulls]
            codes = np.where(nulls, 0, codes)
        return flags, codes

    def moved(self, flags: Int64s, codes: Int64s) -> Int64s | None:
        """Codes that were given out before as they are now; None where they stay as they are."""
        if self.labels is None or self.labels.moved is None:
            return None
        old, new = self.labels.moved
        self.labels.moved = None
        plain = ~codes if self.descending else codes
        at = np.minimum(old.searchsorted(plain), len(old) - 1)
        found = new[at]
        found = ~found if self.descending else found
        return np.where(flags == (1 if self.nulls_first else 0), found, 0)

    def crowded(self, live: int) -> bool:
        """Whether so many values are known that some of them can be forgotten, with so many codes in use."""
        return self.labels is not None and len(self.labels.values) > max(MIN_VALUES_TO_FORGET, 2 * live)

    def forget(self, flags: Int64s, codes: Int64s) -> None:
        """Only these codes are used; all others are forgotten."""
        assert self.labels is not None
        used = codes[flags == (1 if self.nulls_first else 0)]
        self.labels.keep(~used if self.descending else used)

    def state(self) -> dict[str, Any]:
        if self.labels is None:
            return {}
        return {"values": pa.array(self.labels.values, self.type), "labels": np.array(self.labels.labels, np.int64)}

    def load(self, state: dict[str, Any]) -> None:
        if self.labels is not None:
            self.labels._set(state["values"].to_pylist(), state["labels"].tolist())

    @property
    def nbytes(self) -> int:
        return 0 if self.labels is None else 120 * len(self.labels.values)
