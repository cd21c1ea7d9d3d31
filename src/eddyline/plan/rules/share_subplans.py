"""share_subplans: what a query reads in several places (a ``WITH`` query, a view) is planned, and computed, once.

The rules move filters and prune columns, which would make the copies of a repeated sub-plan different from each other.
So each is taken out, leaving a scan in its place, and the rules are applied to every part by itself: the readers filter
what they read, and the part brings the columns that any of them asks for. Then the parts are put back. The result is a
tree as before, in which repeated sub-plans are equal; ``physical`` builds operators for the first and lets the others
read from it.

Taken out is only what costs more than reading it twice: selections, projections and windows of a stream are left to the
rules, because their rows can be filtered earlier and their windows share a store anyway.
"""

from __future__ import annotations

from collections.abc import Callable

from eddyline.expr.evaluate import compile_expr
from eddyline.expr.members import calls_of
from eddyline.expr.nodes import Expr
from eddyline.plan.logical import (
    Aggregate,
    AsOfJoin,
    Distinct,
    Join,
    MarkJoin,
    OuterJoin,
    Plan,
    Project,
    Rank,
    RelationScan,
    Select,
    SetOperation,
    StreamScan,
    children,
    each,
    is_stream,
)
from eddyline.plan.numbering import Numbering
from eddyline.plan.rewrite import with_children

Rules = Callable[[Plan, frozenset[str]], Plan]
_PLACE = "#"  # no declared name begins so


def share_subplans(plan: Plan, rules: Rules) -> Plan:
    """``rules`` rewrite a part of which the given columns are read."""
    return _Parts(plan, rules).whole(plan)


class _Parts:
    def __init__(self, plan: Plan, rules: Rules) -> None:
        self.numbers, self.rules = Numbering(plan), rules
        self.written: dict[str, Plan] = {}  # the parts, by the names of the scans that stand for them
        self.below: dict[str, set[str]] = {}  # which others a part reads
        self.needs: dict[str, set[str]] = {}

    def whole(self, plan: Plan) -> Plan:
        ready = {"": self._cut(plan, "", top=True)}
        if not self.written:
            return self.rules(plan, frozenset(plan.schema.names))
        made: dict[str, Plan] = {}
        self.needs[""] = set(plan.schema.names)
        for name in self._order():
            made[name] = self.rules(ready.get(name) or self.written[name], frozenset(self.needs[name]))
            for n in each(made[name]):
                if (part := _place(n)) is not None:
                    self.needs.setdefault(part, set()).update(n.schema.names)
        for name in reversed(self._order()):
            made[name] = _filled(made[name], made)
        return made[""]

    def _cut(self, p: Plan, reader: str, top: bool = False) -> Plan:
        """A plan with scans in the places of its parts."""
        if not top and self.numbers.shared(p) and _worth(p):
            name = f"{_PLACE}{self.numbers.of(p)}"
            self.below.setdefault(reader, set()).add(name)
            if name not in self.written:
                self.written[name] = self._cut(p, name, top=True)
            if is_stream(p):
                return StreamScan(name, name, p.schema, p.schema.names)
            return RelationScan(name, name, p.schema, p.schema.names, constant=False)
        return with_children(p, [self._cut(c, reader) for c in children(p)])

    def _order(self) -> list[str]:
        """The parts, each behind all its readers."""
        found: list[str] = []

        def visit(name: str) -> None:
            if name not in found:
                for part in sorted(self.below.get(name, ())):
                    visit(part)
                found.append(name)

        visit("")
        return found[::-1]


def _place(p: Plan) -> str | None:
    name = p.stream if isinstance(p, StreamScan) else p.relation if isinstance(p, RelationScan) else ""
    return name if name.startswith(_PLACE) else None


def _filled(p: Plan, made: dict[str, Plan]) -> Plan:
    part = _place(p)
    if part is not None:
        return made[part]
    return with_children(p, [_filled(c, made) for c in children(p)])


def _worth(p: Plan) -> bool:
    return any(
        isinstance(n, Join | OuterJoin | MarkJoin | Aggregate | AsOfJoin | Distinct | Rank | SetOperation)
        or any(calls_of(e) or compile_expr(e).expensive for e in _asked(n))
        for n in each(p)
    )


def _asked(p: Plan) -> list[Expr]:
    match p:
        case Select():
            return list(p.conjuncts)
        case Project():
            return [e for _, e in p.items]
        case _:
            return []
