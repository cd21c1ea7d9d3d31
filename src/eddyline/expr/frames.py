"""The parts of compiled expressions: frames, which are batches under evaluation, and nodes, which run on them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import pyarrow as pa

from eddyline.core.errors import DataError, clipped
from eddyline.expr.arrays import Bools, Value

Node = Callable[["Frame"], Value]


class Retry(Exception):
    """A kernel failed in a frame with rows that are not wanted: take the wanted rows out and try again."""


class Frame:
    """A batch under evaluation: its columns, and the first error of each row that has one.

    With ``wanted`` only these rows count: the values of the others are arbitrary and their errors are ignored.
    """

    __slots__ = ("columns", "errors", "length", "wanted")

    def __init__(self, columns: Mapping[str, pa.Array], length: int, wanted: Bools | None = None) -> None:
        self.columns, self.length, self.wanted = columns, length, wanted
        self.errors: dict[int, DataError] = {}

    def record(self, text: str) -> Callable[[int, str], None]:
        def note(row: int, reason: str) -> None:
            if row not in self.errors:
                self.errors[row] = DataError(f"{reason} in '{clipped(text)}'")

        return note


@dataclass(frozen=True, slots=True)
class Part:
    """A compiled subexpression. ``constant`` is set where it is a literal or folds to one."""

    run: Node
    type: pa.DataType
    names: frozenset[str]
    can_fail: bool = False
    expensive: bool = False
    constant: pa.Scalar | None = None
