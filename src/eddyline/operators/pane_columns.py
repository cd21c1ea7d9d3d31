"""The columns of a stream of panes. The planner imports this module, so it loads no kernels."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from eddyline.core.schema import Field, Schema
from eddyline.expr.describe import describe
from eddyline.expr.evaluate import compile_expr
from eddyline.expr.members import calls_of
from eddyline.expr.nodes import AggregateCall, Column, Expr

ROWS = Column("_rows", pa.int64())


class SumKind(enum.IntEnum):
    """What a pane holds of an argument. The values are those of the kernel (a test compares them)."""

    COUNT = 0
    INTEGER = 1
    DOUBLE = 2


@dataclass(frozen=True, slots=True)
class PaneColumns:
    """What an element of the output is made of: the keys of a group, how many rows it stands for, and for each argument
    its sum (of doubles also the rest that the sum was rounded by) and how many of its values were not NULL."""

    keys: tuple[Expr, ...]
    arguments: tuple[Expr, ...]
    summed: tuple[bool, ...]  # of each argument, whether more than its count is asked for

    @staticmethod
    def of(keys: Sequence[Expr], calls: Sequence[AggregateCall]) -> PaneColumns | None:
        """For aggregates that can be added up from parts, over expressions that cannot fail; otherwise None."""
        arguments = {a: False for call in calls for a in call.args}
        for call in calls:
            if call.distinct or call.user is not None or call.function not in ("count", "sum", "avg"):
                return None
            if len(call.args) > 1:
                return None
            if call.function != "count":
                (argument,) = call.args
                if not (pa.types.is_floating(argument.type) or pa.types.is_signed_integer(argument.type)):
                    return None
                arguments[argument] = True
        if any(calls_of(e) or compile_expr(e).can_fail for e in (*keys, *arguments)):
            return None
        return PaneColumns(tuple(keys), tuple(arguments), tuple(arguments.values()))

    @property
    def kinds(self) -> list[SumKind]:
        of = {True: SumKind.DOUBLE, False: SumKind.INTEGER}
        return [
            of[pa.types.is_floating(a.type)] if summed else SumKind.COUNT
            for a, summed in zip(self.arguments, self.summed, strict=True)
        ]

    def key(self, i: int) -> Column:
        return Column(f"_key{i}", self.keys[i].type)

    def parts(self, call: AggregateCall) -> tuple[Column, ...]:
        """The columns that a call needs: what it counts; or sum, rest (of doubles), and what it counts."""
        if not call.args:
            return (ROWS,)
        i = self.arguments.index(call.args[0])
        if call.function == "count":
            return (Column(f"_count{i}", pa.int64()),)
        counted = Column(f"_count{i}", pa.int64())
        if self.kinds[i] == SumKind.DOUBLE:
            return Column(f"_sum{i}", pa.float64()), Column(f"_rest{i}", pa.float64()), counted
        return Column(f"_sum{i}", pa.int64()), counted

    @property
    def schema(self) -> Schema:
        fields = [Field(self.key(i).name, e.type) for i, e in enumerate(self.keys)]
        fields.append(Field(ROWS.name, ROWS.type))
        for i, kind in enumerate(self.kinds):
            fields.append(Field(f"_count{i}", pa.int64()))
            if kind != SumKind.COUNT:
                fields.append(Field(f"_sum{i}", pa.float64() if kind == SumKind.DOUBLE else pa.int64()))
            if kind == SumKind.DOUBLE:
                fields.append(Field(f"_rest{i}", pa.float64()))
        return Schema(tuple(fields))

    def describe(self) -> str:
        by = ", ".join(map(describe, self.keys))
        return f"by {by}" if by else "all together"
