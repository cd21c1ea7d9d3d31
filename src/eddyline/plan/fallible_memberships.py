"""Selections by IN and EXISTS that keep their places, beside conjuncts that can fail.

Where a row outlives the instant at which it came and the other side changes, memberships are semijoins, and the other
conjuncts, which are functions of the tuple, are asked below them, once. Whether an error there counts is not known yet:
at each instant a membership may drop the row, and forget the error, or let it pass, and the error is there. So:

1. below, conjuncts drop rows, or note their errors in hidden columns (``operators.deferred_errors``);
2. each membership keeps or drops rows, those with notes as well. Its own keys are computed once
   (``plan.membership_keys``); for a row whose keys failed it is looked up whether there is any right row for which that
   matters;
3. above, the first note in written order is the error of the row, at the instant at which it gets there.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import pyarrow as pa

from eddyline.core.window import Stepping, is_time_based
from eddyline.expr.deferred_errors import NOTE, noted
from eddyline.expr.evaluate import can_fail
from eddyline.expr.nodes import Call, Case, Cast, Column, Expr, Literal, columns_of, substitute
from eddyline.operators.deferred_errors import Computation, Settle
from eddyline.operators.project import ProjectOperator
from eddyline.operators.streams import UnionAll
from eddyline.plan.deletions import Deletions
from eddyline.plan.graph import Output
from eddyline.plan.logical import MarkJoin, Plan, Project, Select, Window
from eddyline.plan.membership_keys import Lifted, all_null, lift, lift_calls
from eddyline.plan.memberships import Flat, Numbered
from eddyline.plan.rewrite import movable

if TYPE_CHECKING:
    from eddyline.plan.matches import Matches

_BOOLEAN = pa.bool_()
_TRUE = Literal(True, _BOOLEAN)


@dataclass(slots=True)
class _Parts:
    """What is asked below, in runs (with the column for their notes, if one can fail), what is computed there of rows
    that pass, and what is left to ask above, in written order: notes, and conditions that read marks.

    All is computed below the first membership: a row that leaves and enters again would be computed anew."""

    runs: list[tuple[list[Expr], str | None]] = field(default_factory=list)
    items: list[Computation] = field(default_factory=list)
    above: list[Expr | str] = field(default_factory=list)


def can_fail_beside(flat: Flat) -> bool:
    """Whether something in the selection can fail, or calls a user's function, so that the order of asking shows."""
    return _analysed(flat, Numbered()) is not None


def _analysed(flat: Flat, name: Callable[[str], str]) -> tuple[list[Lifted], list[str], _Parts] | None:
    marks = frozenset(j.mark for j in flat.joins)
    if any(columns_of(e) & marks for j in flat.joins for e in (*j.on, *(x for x, _ in j.operands))):
        return None
    apart = [c for c in flat.conjuncts if not columns_of(c) & marks]
    keys = [e for j in flat.joins for e in (*j.on, *(x for x, _ in j.operands))]
    above = [c for c in flat.conjuncts if columns_of(c) & marks]
    if all(map(movable, (*apart, *keys, *above))):
        return None
    lifted = [lift(j, name) for j in flat.joins]
    kinds = [_kind(j, flat.conjuncts) for j in flat.joins]
    parts = _parts(name, flat, lifted, kinds, marks)
    if all(note is None for _, note in parts.runs) and not parts.items:
        return None
    return lifted, kinds, parts


def fallible_selection(graph: Matches, flat: Flat) -> Output:
    """The operators of a selection for which ``can_fail_beside`` holds."""
    found = _analysed(flat, graph.hidden)
    assert found is not None
    lifted, kinds, parts = found
    out = _below(graph, flat, parts)
    for kind, join, was in zip(kinds, lifted, flat.joins, strict=True):
        out = _matched(graph, kind, out, join, graph.obstacles.get(was.mark, ""))
    return _above(graph, flat, parts.above, out)


def read_below(flat: Flat) -> Plan:
    """What the selection reads on its left: the elements of a time-based window, else its base."""
    base = flat.base
    # Which elements a time-based window holds depends on their timestamps alone: it need not hold the others.
    if isinstance(base, Window) and is_time_based(base.spec) and not isinstance(base.spec, Stepping):
        return base.input
    return base


def _kind(join: MarkJoin, conjuncts: Sequence[Expr]) -> str:
    """Whether rows with a partner stay (semi), or those without (anti), or the mark itself is asked for."""
    mark = Column(join.mark, _BOOLEAN)
    users = [c for c in conjuncts if join.mark in columns_of(c)]
    if users == [mark]:
        return "semi"
    return "anti" if users == [Call("not", (mark,), _BOOLEAN)] and not join.operands else "mark"


def _parts(
    name: Callable[[str], str],
    flat: Flat,
    lifted: Sequence[Lifted],
    kinds: Sequence[str],
    marks: frozenset[str],
) -> _Parts:
    """Conjuncts that read no mark go together, but for one that may fail above: its error has its place in between."""
    parts = _Parts(items=[i for x in lifted for i in x.items])
    read = {x.join.mark: (x, kind) for x, kind in zip(lifted, kinds, strict=True)}
    run: list[Expr] = []

    def end() -> None:
        if run:
            note = None if all(map(movable, run)) else name("note")
            parts.runs.append((run.copy(), note))
            parts.above += [] if note is None else [note]
            run.clear()

    for c in flat.conjuncts:
        mine = [read[m] for m in marks & columns_of(c)]
        if not mine:
            run.append(c)
            continue
        if all(kind != "mark" for _, kind in mine):
            if notes := [i.note for x, _ in mine for i in x.items]:
                end()
                parts.above += notes
            continue
        expr, items = lift_calls(c, marks, name)
        by: dict[str, Expr] = {x.join.mark: noted(Column(x.join.mark, _BOOLEAN), _note(x)) for x, _ in mine if x.items}
        expr = substitute(expr, by)
        if can_fail(expr):
            end()
        parts.items += items
        parts.above.append(expr)
    end()
    return parts


def _note(x: Lifted) -> str:
    return f"{x.join.mark}.note"


def _below(graph: Matches, flat: Flat, parts: _Parts) -> Output:
    """The left rows that the conjuncts below let pass, with their notes and what is computed of them."""
    base, below = flat.base, read_below(flat)
    if below is base:
        return _selected(graph, flat, parts, graph.relation(base, Deletions.ALL))
    assert isinstance(base, Window)
    out = _selected(graph, flat, parts, graph.stream(below))
    columns = tuple((f.name, Column(f.name, f.type)) for f in out.schema)
    return graph.windowed(Window(Project(base.input, columns), base.spec), out, Deletions.ALL, shared=False)


def _selected(graph: Matches, flat: Flat, parts: _Parts, out: Output) -> Output:
    for conjuncts, note in parts.runs:
        out = graph.filter(Select(flat.base, tuple(conjuncts)), out, note)
    return graph.compute(parts.items, out) if parts.items else out


def _matched(graph: Matches, kind: str, left: Output, x: Lifted, why: str) -> Output:
    """Left rows by their partners, or with a mark. Rows whose keys failed go their own way, and come back with the
    notes if there is a right row for which it matters, else without."""
    right = graph.relation(x.join.right, Deletions.ALL)
    if not x.items:
        return _joined(graph, kind, left, right, x, why)
    valid = all_null(x.items)
    fine = graph.filter(Select(x.join.left, valid), left)
    lost = graph.filter(Select(x.join.left, (_any(tuple(Call("not", (e,), _BOOLEAN) for e in valid)),)), left)
    found = _joined(graph, kind, fine, right, x, why)
    if kind == "semi":
        return _union(graph, [found, graph.match("semi", lost, right, x.lost)])
    matters = graph.hidden("matters")
    out = graph.match("mark", lost, right, x.lost, matters)
    counts = Column(matters, _BOOLEAN)
    notes = {i.note for i in x.items}
    nothing = Cast(Literal(None, pa.null()), NOTE)
    items: list[tuple[str, Expr]] = [
        (f.name, Case(((counts, Column(f.name, NOTE)),), nothing, NOTE) if f.name in notes else Column(f.name, f.type))
        for f in lost.schema
    ]
    if kind == "mark":
        items += [(x.join.mark, counts)]
    both = _union(graph, [found, _projected(graph, items, out)])
    if kind == "anti":
        return both
    first = Call("coalesce", tuple(Column(i.note, NOTE) for i in x.items), NOTE)
    kept: list[tuple[str, Expr]] = [(f.name, Column(f.name, f.type)) for f in both.schema]
    return _projected(graph, [*kept, (_note(x), first)], both)


def _joined(graph: Matches, kind: str, left: Output, right: Output, x: Lifted, why: str) -> Output:
    if kind == "mark":
        return graph.mark_join(x.join, left, right)
    return graph.match(kind, left, right, x.conditions, why=why)


def _above(graph: Matches, flat: Flat, asked: Sequence[Expr | str], out: Output) -> Output:
    """Errors that have not been forgotten count; what is hidden ends."""
    schema = flat.base.schema
    notes = [a for a in asked if isinstance(a, str)]
    if len(notes) < len(asked):
        conjuncts = tuple(noted(_TRUE, a) if isinstance(a, str) else a for a in asked)
        out, notes = graph.filter(Select(flat.base, conjuncts), out), []
    operator = Settle(graph.name("settle"), schema, notes, graph.context)
    return replace(out, node=graph.add(operator, (out.node,)), schema=schema, identity=None)


def _any(conditions: tuple[Expr, ...]) -> Expr:
    first, *others = conditions
    for c in others:
        first = Call("or", (first, c), _BOOLEAN)
    return first


def _projected(graph: Matches, items: Sequence[tuple[str, Expr]], child: Output) -> Output:
    operator = ProjectOperator(graph.name("project"), items, graph.context)
    return Output(graph.add(operator, (child.node,)), operator.schema)


def _union(graph: Matches, sides: Sequence[Output]) -> Output:
    first = sides[0]
    return Output(graph.add(UnionAll(graph.name("union"), first.schema), tuple(s.node for s in sides)), first.schema)
