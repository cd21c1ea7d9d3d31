"""The state that all parts of the builder share: the graph built so far, facts about its nodes, and names."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from eddyline.core.schema import Schema
from eddyline.core.time import TimeKind
from eddyline.expr.describe import describe
from eddyline.expr.members import Conjunct, answering, calls_of
from eddyline.expr.nodes import Column, Expr
from eddyline.operators.adaptive_select import OrdersItself
from eddyline.operators.base import Context, Operator
from eddyline.operators.deferred_errors import Computation, Compute, DeferredErrorsContext, NotedSelect
from eddyline.operators.project import ProjectOperator
from eddyline.operators.streams import ConstantRelation
from eddyline.plan.deletions import Deletions
from eddyline.plan.logical import Plan, Project, RelationScan, Select, StreamScan
from eddyline.plan.traverse import each
from eddyline.streamon.log import DecisionLog
from eddyline.synopses.store import Stub

MakeSelect = Callable[[str, Schema, Sequence[Expr], Context], Operator]
MakeJudge = Callable[[str, Schema, Sequence[Conjunct], DecisionLog], OrdersItself]


class ChosenOperator(Protocol):
    """Which candidate runs a node, and why (``plan.choice.Chosen``)."""

    @property
    def operator(self) -> str:
        """The name of the candidate."""

    def fact(self) -> dict[str, Any]:
        """What saved state depends on."""

    def shown(self) -> dict[str, Any]:
        """For the plan as data."""


@dataclass(slots=True)
class Node:
    """One operator in the graph; ``scan`` nodes have no operator: the engine brings their elements.

    ``subplan`` is what the operator answers, together with those below it, and ``how`` what a reader may rely on:
    operators of two queries that agree in both can stand in for each other. ``stubs`` are its views of window stores.
    """

    operator: Operator | None
    inputs: tuple[int, ...]
    scan: StreamScan | RelationScan | None = None
    note: str = ""
    subplan: Plan | None = None
    how: Hashable = None
    stubs: tuple[Stub, ...] = ()
    name: str = ""  # in this query; the operator of another query may stand in for the one that was built
    chosen: ChosenOperator | None = None  # where there was a choice


@dataclass(frozen=True, slots=True)
class Output:
    """What is known about a node's changes, for the operators above it."""

    node: int
    schema: Schema
    ids: bool = False  # rows carry ids
    fifo: bool = False  # and are deleted in the order of their ids
    append_only: bool = False  # never a deletion
    leaving: bool = False  # each row is deleted one day, by its id
    identity: frozenset[str] | None = None  # no two changes of one instant that agree on these columns could cancel


@dataclass(slots=True)
class PhysicalPlan:
    nodes: list[Node]
    root: int
    kind: str  # istream, dstream, rstream, wstream or signed
    schema: Schema
    context: Context
    stubs: list[Stub] = field(default_factory=list)
    chosen: Sequence[tuple[str, ChosenOperator]] = ()  # by name of the operator that was built


class Graph:
    """The operators built so far. ``relation`` is the builder's way down; it is said in ``physical``. ``select`` makes
    the operator of a selection, ``judge`` the conjunction of one with memberships: whether they adapt is not the
    planner's business."""

    def __init__(self, select: MakeSelect, judge: MakeJudge, kind: TimeKind) -> None:
        self.context = Context()
        self.select, self.judge, self.kind = select, judge, kind
        self.nodes: list[Node] = []
        self.constants: set[int] = set()  # nodes all of whose changes come at the start of time
        self.stubs: list[Stub] = []
        self._attributed = 0  # stubs of nodes that were added
        self.counts: dict[str, int] = {}
        self.obstacles: dict[str, str] = {}  # marks that cannot be conjuncts like any other, and why

    def relation(self, p: Plan, need: Deletions) -> Output:
        raise AssertionError("a subclass of the builder defines this")

    def stream(self, p: Plan, ordered: bool = False) -> Output:
        raise AssertionError("a subclass of the builder defines this")

    def add(self, operator: Operator | None, inputs: tuple[int, ...], scan: Any = None, note: str = "") -> int:
        mine, self._attributed = tuple(self.stubs[self._attributed :]), len(self.stubs)
        name = "" if operator is None else operator.name
        self.nodes.append(Node(operator, inputs, scan, note, stubs=mine, name=name))
        if isinstance(operator, ConstantRelation) or (inputs and self.constants.issuperset(inputs)):
            self.constants.add(len(self.nodes) - 1)
        return len(self.nodes) - 1

    def marked(self, p: Plan, out: Output, *how: Hashable) -> Output:
        """Note that the operators up to ``out`` answer a sub-plan, and which of its changes those above read."""
        node = self.nodes[out.node]
        if node.subplan is None and node.operator is not None:
            names = node.operator.schema.names
            identity = None if out.identity is None else frozenset(names.index(n) for n in out.identity if n in names)
            node.subplan = p
            node.how = (*how, out.ids, out.fifo, out.append_only, out.leaving, identity)
        return out

    def is_constant(self, out: Output) -> bool:
        return out.node in self.constants

    def name(self, kind: str) -> str:
        """Every operator has a name that errors, explain and decisions use: ``mjoin 1``."""
        self.counts[kind] = self.counts.get(kind, 0) + 1
        return f"{kind} {self.counts[kind]}"

    def filter(self, p: Select, child: Output, note: str | None = None) -> Output:
        """The rows that satisfy the conjuncts; with ``note`` also those that fail, their errors in that column."""
        name = self.name("select")

        def make(context: Context) -> Operator:
            return self.select(name, child.schema, p.conjuncts, context)

        return self.selection(make, p.conjuncts, child, (child.node,), conjunction(p.conjuncts), note)

    def selection(
        self, make: Callable[[Context], Operator], conjuncts: Sequence[Conjunct], child: Output,
        inputs: tuple[int, ...], text: str, note: str | None = None,
    ) -> Output:  # fmt: skip
        """A selection on the rows of ``child``, in which users' functions are asked about a row once."""
        once = any(map(calls_of, conjuncts)) and not child.append_only
        if not once and note is None:
            return replace(child, node=self.add(make(self.context), inputs, note=text))
        deferred = DeferredErrorsContext(log=self.context.log)
        operator: Operator = NotedSelect(make(deferred), deferred, note or "_note")
        if once:
            operator = self.once(operator, conjuncts, child, note is None)
        return replace(child, node=self.add(operator, inputs, note=text), schema=operator.schema)

    def once(self, operator: Operator, asked: Sequence[Conjunct], child: Output, settle: bool = False) -> Operator:
        """An operator on rows that are deleted one day, which is not asked about them again then."""
        from eddyline.operators.judged_once import JudgedOnce, Settling

        settling = Settling("_note", self.context) if settle else None
        if child.ids and child.leaving:
            return JudgedOnce(operator, child.schema, None, settling)
        read = frozenset[str]().union(*(answering(c).columns for c in asked)) & set(child.schema.names)
        fickle = not all(call.function.deterministic for c in asked for call in calls_of(c))
        keys = [n for n in child.schema.names if n in read and not fickle] or list(child.schema.names)
        return JudgedOnce(operator, child.schema, keys, settling)

    def compute(self, items: Sequence[Computation], child: Output) -> Output:
        """Hidden columns; users' functions in them are asked about a row once."""
        operator: Operator = Compute(self.name("compute"), child.schema, items)
        exprs = [i.expr for i in items]
        if any(map(calls_of, exprs)) and not child.append_only:
            operator = self.once(operator, exprs, child)
        node = self.add(operator, (child.node,), note=", ".join(map(describe, exprs)))
        return replace(child, node=node, schema=operator.schema)

    def hidden(self, kind: str) -> str:
        """A name for a hidden column."""
        return f"_{self.name(kind).replace(' ', '')}"

    def project(self, p: Project, child: Output) -> Output:
        """Users' functions in it are asked about a row once, too."""
        items = p.items
        if not child.append_only and any(calls_of(e) for _, e in items):
            made = {n: Computation(self.hidden("value"), self.hidden("note"), e) for n, e in items if calls_of(e)}
            child = self.compute(tuple(made.values()), child)
            items = tuple((n, made[n].read if n in made else e) for n, e in items)
        operator = ProjectOperator(self.name("project"), items, self.context)
        renamed = {e.name: n for n, e in p.items if isinstance(e, Column)}
        identity = None
        if child.identity is not None and child.identity <= renamed.keys():
            identity = frozenset(renamed[n] for n in child.identity)
        node = self.add(operator, (child.node,))
        return replace(child, node=node, schema=p.schema, identity=identity)


def needed(conjuncts: Sequence[Conjunct], need: Deletions) -> Deletions:
    """The deletions that a selection needs from below: what it remembers of rows it must forget."""
    return Deletions.ALL if need == Deletions.AT_ARRIVALS and any(map(calls_of, conjuncts)) else need


def conjunction(conjuncts: Sequence[Expr]) -> str:
    """Conjuncts as one text, for explain."""
    return " AND ".join(map(describe, conjuncts))


def alias_of(p: Plan) -> str:
    """What ``FROM`` calls an input: its columns have that name before their own, also those of a subquery or a view."""
    before = {name.partition(".")[0] for name in p.schema.names if "." in name}
    if len(before) == 1:
        return before.pop()
    for n in each(p):
        if isinstance(n, StreamScan | RelationScan):
            return n.alias
    return type(p).__name__


def distinct(names: Sequence[str]) -> list[str]:
    """Inputs without a name of their own are numbered.

    >>> distinct(["S", "T", "S"])
    ['S', 'T', 'S_2']
    """
    return [n if n not in names[:i] else f"{n}_{names[:i].count(n) + 1}" for i, n in enumerate(names)]
