"""Coverage of random cases: operator × window × relation-to-stream, read off the bound plan."""

from __future__ import annotations

import itertools
import random
from collections import Counter
from dataclasses import dataclass, field

from eddyline.core.window import Hop, PartitionRows, Range, Rows, Session, Slide, Until, WindowSpec
from eddyline.expr.nodes import Call, Column, Expr
from eddyline.expr.nodes import walk as walk_expr
from eddyline.plan.logical import (
    Aggregate,
    AsOfJoin,
    Distinct,
    Explode,
    Join,
    MarkJoin,
    OuterJoin,
    Over,
    Plan,
    Project,
    Rank,
    Select,
    SetOperation,
    Window,
)
from eddyline.plan.traverse import walk
from eddyline.testing.case_queries import OPERATORS, TO_STREAM, Focus
from eddyline.testing.case_windows import WINDOWS

Cell = tuple[str, str, str]


def window_kind(spec: WindowSpec) -> str:
    match spec:
        case Range(0):
            return "now"
        case Range():
            return "range"
        case Slide():
            return "slide"
        case Hop(width=width, slide=slide):
            return "tumble" if width == slide else "hop"
        case Session():
            return "session"
        case Until():
            return "until"
        case Rows():
            return "rows"
        case PartitionRows():
            return "partition"
        case _:
            return "unbounded"


def features(plan: Plan, to_stream: str) -> frozenset[Cell]:
    """Each operator of a plan with each window below it, and the relation-to-stream operator that the text names."""
    cells: set[Cell] = set()
    negated = {
        column.name
        for node in walk(plan)
        if isinstance(node, Select)
        for conjunct in node.conjuncts
        for column in _negated_columns(conjunct)
    }
    for node in walk(plan):
        operator = operator_name(node, negated)
        if operator is not None:
            kinds = {window_kind(n.spec) for n in walk(node) if isinstance(n, Window)}
            cells |= {(operator, kind, to_stream) for kind in kinds}
    return frozenset(cells)


def _negated_columns(conjunct: Expr) -> list[Column]:
    return [
        column
        for call in walk_expr(conjunct)
        if isinstance(call, Call) and call.function == "not"
        for column in walk_expr(call)
        if isinstance(column, Column)
    ]


def operator_name(node: Plan, negated: set[str]) -> str | None:
    match node:
        case Select():
            return "select"
        case Project():
            return "project"
        case Join():
            return "mjoin" if len(node.inputs) > 2 else "binary-join"
        case OuterJoin():
            return "outer-join"
        case MarkJoin():
            return "antijoin" if node.mark in negated else "semijoin"
        case Aggregate():
            return "aggregate"
        case Distinct():
            return "duplicate-eliminate"
        case Explode():
            return "explode"
        case Rank():
            return "top-n"
        case AsOfJoin():
            return "as-of-join"
        case Over():
            return "over"
        case SetOperation():
            return f"{node.kind}-all" if node.all else node.kind
        case _:
            return None


@dataclass(slots=True)
class Coverage:
    """Counts cases per cell and says where to look next. ``windows`` and ``to_stream`` are those of the cells."""

    windows: tuple[str, ...] = WINDOWS
    to_stream: tuple[str, ...] = TO_STREAM
    cases: int = 0
    non_empty: int = 0
    late: int = 0
    nulls: int = 0
    ties: int = 0
    per_cell: Counter[Cell] = field(default_factory=Counter)
    full_per_cell: Counter[Cell] = field(default_factory=Counter)

    def add(
        self, cells: frozenset[Cell], results: int, *, late: bool = False, nulls: bool = False, ties: bool = False
    ) -> None:
        self.cases += 1
        self.non_empty += results > 0
        self.late += late
        self.nulls += nulls
        self.ties += ties
        self.per_cell.update(cells)
        if results:
            self.full_per_cell.update(cells)

    def next_focus(self, rng: random.Random) -> Focus:
        """A cell that has been covered least so far, and the operators that its window and stream lack most."""
        cells = self.cells()
        rng.shuffle(cells)
        operator, window, to_stream = min(cells, key=lambda c: self.per_cell[c])
        lacking = sorted(OPERATORS, key=lambda o: self.per_cell[o, window, to_stream])
        return Focus(operator, window, to_stream, tuple(lacking[:5]))

    def cells(self) -> list[Cell]:
        """All but those of Wstream over elements that have a time of their own: no window closes there."""
        every = itertools.product(OPERATORS, self.windows, self.to_stream)
        return [c for c in every if c[1:] != ("until", "wstream")]

    @property
    def least(self) -> int:
        return min(self.per_cell[c] for c in self.cells())

    @property
    def non_empty_share(self) -> float:
        return self.non_empty / max(1, self.cases)

    def table(self) -> str:
        """Cases per cell, and in parentheses those with results."""
        lines = [
            f"{self.cases} cases, {self.non_empty_share:.0%} with results, {self.ties} with equal timestamps, "
            f"{self.nulls} with NULLs, {self.late} with late rows; at least {self.least} in each cell",
            f"{'operator':<20} {'':<8}" + "".join(f"{w:>14}" for w in self.windows),
        ]
        for operator, kind in itertools.product(OPERATORS, self.to_stream):
            cells = [(operator, w, kind) for w in self.windows]
            shown = "".join(f"{self.per_cell[c]:>6} ({self.full_per_cell[c]:>5})" for c in cells)
            lines.append(f"{operator:<20} {kind:<8}{shown}")
        return "\n".join(lines)
