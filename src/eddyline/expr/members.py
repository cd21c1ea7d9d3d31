"""The protocol of a conjunct: an expression, or any other object that judges rows.

An expression is a function of the tuple. A membership in a window or a relation is not, but it is evaluated in the same
way: for some rows, with only the columns that it reads. Code that orders conjuncts treats both alike.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, Protocol

import pyarrow as pa

from eddyline.core.errors import DataError
from eddyline.expr.arrays import Bools
from eddyline.expr.describe import describe
from eddyline.expr.evaluate import compile_expr
from eddyline.expr.nodes import Expr, UserCall, walk

INSTANT: Final = "_instant"  # the column with the instant at which a row is judged


class Evaluable(Protocol):
    """The part of a compiled expression that its evaluation in a conjunction uses."""

    @property
    def columns(self) -> frozenset[str]: ...
    @property
    def can_fail(self) -> bool: ...
    @property
    def expensive(self) -> bool: ...
    def __call__(self, columns: Mapping[str, pa.Array], length: int) -> pa.Array: ...
    def rows(
        self, columns: Mapping[str, pa.Array], length: int, wanted: Bools | None = None
    ) -> tuple[pa.Array, dict[int, DataError]]: ...


class Member(Evaluable, Protocol):
    """A conjunct that is more than an expression over the row: ``parts`` are the expressions in it, keys that are
    sought included, ``text`` is for people."""

    @property
    def parts(self) -> Sequence[Expr]: ...
    @property
    def text(self) -> str: ...


Conjunct = Expr | Member


def answering(conjunct: Conjunct) -> Evaluable:
    """What answers for a conjunct."""
    return compile_expr(conjunct) if isinstance(conjunct, Expr) else conjunct


def text_of(conjunct: Conjunct) -> str:
    """
    >>> from eddyline.expr.nodes import Call, Column, Literal
    >>> text_of(Call("gt", (Column("a", pa.int64()), Literal(1, pa.int64())), pa.bool_()))
    'a > 1'
    """
    return describe(conjunct) if isinstance(conjunct, Expr) else conjunct.text


def calls_of(conjunct: Conjunct) -> list[UserCall]:
    """The calls of users' functions in a conjunct."""
    parts = (conjunct,) if isinstance(conjunct, Expr) else conjunct.parts
    return [e for part in parts for e in walk(part) if isinstance(e, UserCall)]
