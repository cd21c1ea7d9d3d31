"""Left rows by their partners on the right: semijoins, antijoins, marks (IN, EXISTS), and outer joins made of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import pyarrow as pa

from eddyline.core.schema import Field, Schema
from eddyline.core.window import Range
from eddyline.expr import nodes
from eddyline.expr.members import Conjunct
from eddyline.expr.nodes import Call, Case, Cast, Column, Expr, columns_of
from eddyline.operators.base import Context, Operator
from eddyline.operators.join_plan import JoinGraph, Member
from eddyline.operators.project import ProjectOperator
from eddyline.operators.streams import UnionAll
from eddyline.plan.conjuncts import split_conjuncts
from eddyline.plan.deletions import Deletions
from eddyline.plan.graph import Output, alias_of, conjunction
from eddyline.plan.logical import MarkJoin, OuterJoin, Plan, Project, Select
from eddyline.plan.matching import Matching
from eddyline.plan.memberships import Flat, Sought, flatten, membership_text
from eddyline.plan.partitioning.momentary import comes_with_elements
from eddyline.plan.window_nodes import Windows
from eddyline.synopses.store import Stub

if TYPE_CHECKING:
    from eddyline.plan.choice import Chosen


class Matches(Windows):
    """The part of the builder for operators that test whether rows have partners."""

    def choice_of(self, p: Plan) -> Chosen:
        raise AssertionError("a subclass of the builder defines this")

    def choice_of_match(self, matching: Matching) -> Chosen:
        raise AssertionError("a subclass of the builder defines this")

    def enter(self, chosen: Chosen, out: Output) -> None:
        raise AssertionError("a subclass of the builder defines this")

    def note_obstacles(self, flat: Flat) -> None:
        """Remember why memberships keep their places among the conjuncts, for the operators that say so."""
        sought = flat.sought(self.kind)
        if isinstance(sought, str) and len(flat.conjuncts) > 1:
            self.obstacles |= {j.mark: f"{self.mark_text(j, flat)} keeps its place: {sought}" for j in flat.joins}

    def judged_elements(self, p: Plan) -> Output | None:
        """``Rstream`` over rows that are judged at their own instant, and gone at the next, is what passes: each
        element brings the instant at which it is shown."""
        match p:
            case Project():
                below = self.judged_elements(p.input)
                return None if below is None else self.project(p, below)
            case Select() if (flat := flatten(p)) is not None and not flat.constant:
                sought, stream = flat.sought(self.kind), flat.stream()
                chosen = self.choice_of(p)
                if isinstance(sought, str) or stream is None or not comes_with_elements(stream[0]):
                    return None
                if chosen.operator != "match-select":
                    return None
                out = self.match_select(flat, sought, self.stream(stream[0]))
                self.enter(chosen, out)
                return out
            case _:
                return None

    def match_select(self, flat: Flat, sought: Sequence[Sought], left: Output) -> Output:
        from eddyline.operators.match_select import MatchSelect
        from eddyline.operators.membership import Marked, Membership

        memberships, nodes = [], [left.node]
        for s in sought:
            right = self.relation(s.join.right, Deletions.ALL)
            items = tuple(zip(s.schema.names, s.rights, strict=True))
            node = (
                self.add(ProjectOperator(self.name("project"), items, self.context), (right.node,)) if items else None
            )
            nodes.append(right.node if node is None else node)
            memberships.append(Membership(s.join.mark, s.lefts, s.schema, s.unknown))
        conjuncts: list[Conjunct] = []
        texts = []
        for c in flat.conjuncts:
            read = [m for m in memberships if m.mark in columns_of(c)]
            texts.append(membership_text(c, flat.joins, self.kind))
            conjuncts.append(Marked(c, read, texts[-1]) if read else c)
        name = self.name("match-select")

        def make(context: Context) -> Operator:
            return MatchSelect(
                name, left.schema, self.judge(name, left.schema, conjuncts, context.log), memberships, context
            )

        return replace(self.selection(make, conjuncts, left, tuple(nodes), " AND ".join(texts)), identity=None)

    def mark_text(self, join: MarkJoin, flat: Flat) -> str:
        return membership_text(Column(join.mark, pa.bool_()), flat.joins, self.kind)

    def match(
        self, kind: str, left: Output, right: Output, on: Sequence[Expr], mark: str | None = None, why: str = ""
    ) -> Output:
        """Left rows by their partners. Without a residual the right side goes in as a set of keys: at most one
        partner for each left row, however many rows agree."""
        from eddyline.operators.sets import SetOperator
        from eddyline.plan.comparisons import comparison

        keys, equalities, residual = split_conjuncts(on, [left.schema, right.schema])
        if not residual:
            pairs = [(a, b) if a.input == 0 else (b, a) for a, b in equalities]
            lefts = tuple(keys[0][a.key] for a, _ in pairs)
            # Without any key (EXISTS without correlation) one row stands for all.
            rights = [keys[1][b.key] for _, b in pairs] or [nodes.Literal(1, pa.int64())]
            items = tuple((f"_k{j}", e) for j, e in enumerate(rights))
            node = self.add(ProjectOperator(self.name("project"), items, self.context), (right.node,))
            schema = Schema(tuple(Field(n, e.type) for n, e in items))
            operator: Operator = SetOperator(self.name("duplicate-eliminate"), schema, "distinct", False)
            right = replace(right, node=self.add(operator, (node,)), schema=schema)
            keys = (lefts, tuple(Column(n, e.type) for n, e in items) if pairs else ())
            equalities = tuple((Member(0, j), Member(1, j)) for j in range(len(pairs)))
        bounds = comparison(keys, equalities, residual, left.schema, right.schema)
        matching = Matching(
            kind, left, right, keys, equalities, residual, bounds, self.is_constant(left), self.is_constant(right), on,
            mark, why,
        )  # fmt: skip
        return self.choice_of_match(matching).candidate.build(matching, self, Deletions.ALL)

    def mark_join(self, p: MarkJoin, left: Output | None = None, right: Output | None = None) -> Output:
        """IN and EXISTS as Boolean columns.

        IN is TRUE if a partner is found, else NULL if some row of Q compares as unknown, else FALSE. With one operand
        that row exists iff Q has a NULL, or x is NULL and Q is not empty: both are matches by key alone. Row values
        need the condition itself, pair by pair. ``left`` and ``right`` are given where they are built already.
        """
        left = left or self.relation(p.left, Deletions.ALL)
        right = right or self.relation(p.right, Deletions.ALL)
        if not p.operands:
            return self.match("mark", left, right, p.on, p.mark, self.obstacles.get(p.mark, ""))
        equal = tuple(call("eq", *pair) for pair in p.operands)
        found, hidden, empty = (f"{p.mark}.{n}" for n in ("found", "hidden", "any"))
        why = self.obstacles.get(p.mark, "")
        out = self.match("mark", left, right, (*p.on, *equal), found, why)
        if len(p.operands) == 1:
            ((x, q),) = p.operands
            nulls = self.filter(Select(p.right, (call("is_null", q),)), right)
            out = self.match("mark", out, nulls, p.on, hidden)
            out = self.match("mark", out, right, p.on, empty)
            unknown: Expr = call("or", _boolean(hidden), call("and", call("is_null", x), _boolean(empty)))
        else:
            maybe = tuple(
                call("or", call("or", call("is_null", x), call("is_null", q)), e)
                for (x, q), e in zip(p.operands, equal, strict=True)
            )
            out = self.match("mark", out, right, (*p.on, *maybe), hidden)
            unknown = _boolean(hidden)
        value = Case(
            ((_boolean(found), nodes.Literal(True, pa.bool_())), (unknown, nodes.Literal(None, pa.bool_()))),
            nodes.Literal(False, pa.bool_()),
            pa.bool_(),
        )
        kept: list[tuple[str, Expr]] = [(f.name, Column(f.name, f.type)) for f in left.schema]
        items = (*kept, (p.mark, value))
        return self.project(Project(p.left, items), out)

    def outer_join(self, p: OuterJoin) -> Output:
        """The inner join, and the rows without a partner padded with NULLs: one antijoin for each kept side."""
        from eddyline.operators.join_side import JoinInput
        from eddyline.operators.mjoin import MJoin

        left, right = self.relation(p.left, Deletions.ALL), self.relation(p.right, Deletions.ALL)
        keys, equalities, residual = split_conjuncts(p.conjuncts, [left.schema, right.schema])
        inputs: list[JoinInput] = []
        stubs: list[Callable[[], Stub] | None] = []
        for s, other, side in ((left, right, p.left), (right, left, p.right)):
            label = alias_of(side)
            if s.append_only and self.is_constant(other):
                none = Deletions.NONE
                inputs.append(JoinInput(s.schema, Range(0), deletes=none, label=label, passing=True))
                stubs.append(self.private_stub(s.schema))
            else:
                inputs.append(JoinInput(s.schema, None, by_id=s.ids, label=label))
                stubs.append(None)
        names = (*left.schema.names, *right.schema.names)
        graph = JoinGraph(keys, equalities)
        inner = MJoin(self.name("binary-join"), inputs, graph, residual, stubs, names, self.context)
        note = conjunction(p.conjuncts)
        append_only = left.append_only and right.append_only
        parts = [self.add(inner, (left.node, right.node), note=note)]
        schema = Schema((*left.schema, *right.schema))
        for keep, other, wanted in ((left, right, ("left", "full")), (right, left, ("right", "full"))):
            if p.kind in wanted:
                lonely = self.match("anti", keep, other, p.conjuncts)
                append_only = append_only and lonely.append_only
                items = tuple(
                    (
                        f.name,
                        Column(f.name, f.type)
                        if f in keep.schema.fields
                        else Cast(nodes.Literal(None, pa.null()), f.type),
                    )
                    for f in schema
                )
                parts.append(self.add(ProjectOperator(self.name("project"), items, self.context), (lonely.node,)))
        node = self.add(UnionAll(self.name("union"), schema), tuple(parts))
        return Output(node, schema, append_only=append_only)


def call(function: str, *args: Expr) -> Call:
    return Call(function, args, pa.bool_())


def _boolean(name: str) -> Column:
    return Column(name, pa.bool_())
