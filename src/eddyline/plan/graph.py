"""What all parts of the builder share: the graph so far, what is known of each node, and names."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from eddyline.core.schema import Schema
from eddyline.core.time import TimeKind
from eddyline.expr.describe import describe
from eddyline.expr.members import Conjunct
from eddyline.expr.nodes import Column, Expr
from eddyline.operators.adaptive_select import OrdersItself
from eddyline.operators.base import Context, Operator
from eddyline.operators.project import ProjectOperator
from eddyline.plan.deletions import Deletions
from eddyline.plan.logical import Plan, Project, RelationScan, Select, StreamScan, Window, walk
from eddyline.plan.rewrite import deterministic
from eddyline.synopses.store import Stub

MakeSelect = Callable[[str, Schema, Sequence[Expr], Context], Operator]
MakeJudge = Callable[[str, Schema, Sequence[Conjunct]], OrdersItself]


@dataclass(slots=True)
class Node:
    """One operator in the graph; ``scan`` nodes have no operator: the runtime brings their elements."""

    operator: Operator | None
    inputs: tuple[int, ...]
    scan: StreamScan | RelationScan | None = None
    note: str = ""


@dataclass(frozen=True, slots=True)
class Output:
    """What is known about a node's changes, for the operators above it."""

    node: int
    schema: Schema
    ids: bool = False  # rows carry ids
    fifo: bool = False  # and are deleted in the order of their ids
    append_only: bool = False  # never a deletion
    leaving: bool = False  # each row is deleted one day, by its id
    constant: bool = False  # all there is comes at the start of time
    identity: frozenset[str] | None = None  # no two changes of one instant that agree on these columns could cancel


@dataclass(slots=True)
class PhysicalPlan:
    nodes: list[Node]
    root: int
    kind: str  # istream, dstream, rstream or signed
    schema: Schema
    context: Context
    stubs: list[Stub] = field(default_factory=list)


class Graph:
    """The operators built so far. ``relation`` is the builder's way down; it is said in ``physical``. ``select`` makes
    the operator of a selection, ``judge`` the conjunction of one with memberships: whether they adapt is not the
    planner's business."""

    def __init__(self, select: MakeSelect, judge: MakeJudge, kind: TimeKind) -> None:
        self.context = Context()
        self.select, self.judge, self.kind = select, judge, kind
        self.nodes: list[Node] = []
        self.stubs: list[Stub] = []
        self.counts: dict[str, int] = {}
        self.obstacles: dict[str, str] = {}  # marks that cannot be conjuncts like any other, and why

    def relation(self, p: Plan, need: Deletions) -> Output:
        raise AssertionError("the builder knows how")

    def stream(self, p: Plan, ordered: bool = False) -> Output:
        raise AssertionError("the builder knows how")

    def windowed(self, p: Window, child: Output, need: Deletions, shared: bool = True) -> Output:
        raise AssertionError("the builder knows how")

    def add(self, operator: Operator | None, inputs: tuple[int, ...], scan: Any = None, note: str = "") -> int:
        self.nodes.append(Node(operator, inputs, scan, note))
        return len(self.nodes) - 1

    def name(self, kind: str) -> str:
        """Every operator has a name that errors, explain and decisions use: ``mjoin 1``."""
        self.counts[kind] = self.counts.get(kind, 0) + 1
        return f"{kind} {self.counts[kind]}"

    def filter(self, p: Select, child: Output) -> Output:
        operator = self.select(self.name("select"), child.schema, p.conjuncts, self.context)
        node = self.add(once(operator, p.conjuncts, child), (child.node,), note=conjunction(p.conjuncts))
        return replace(child, node=node)

    def project(self, p: Project, child: Output) -> Output:
        operator = ProjectOperator(self.name("project"), p.items, self.context)
        renamed = {e.name: n for n, e in p.items if isinstance(e, Column)}
        identity = None
        if child.identity is not None and child.identity <= renamed.keys():
            identity = frozenset(renamed[n] for n in child.identity)
        node = self.add(operator, (child.node,))
        return replace(child, node=node, schema=p.schema, identity=identity)


def once(operator: Operator, conjuncts: Sequence[Expr], child: Output) -> Operator:
    """A selection that does not ask a function again, where that could give another answer."""
    if not child.leaving or all(map(deterministic, conjuncts)):
        return operator
    from eddyline.operators.judged_once import JudgedOnce

    return JudgedOnce(operator)


def conjunction(conjuncts: Sequence[Expr]) -> str:
    """Conjuncts as one text, for explain."""
    return " AND ".join(map(describe, conjuncts))


def alias_of(p: Plan) -> str:
    for n in walk(p):
        if isinstance(n, StreamScan | RelationScan):
            return n.alias
    return type(p).__name__
