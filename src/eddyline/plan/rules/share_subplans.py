"""share_subplans: what is read in several places (a ``WITH`` query, a view, a named query) is planned, and computed,
once, whether the places are in one query or in several.

The rules move filters and prune columns, which would make the copies of a repeated sub-plan different from each other.
So each is taken out, leaving a scan in its place, and the rules are applied to every part by itself: the readers filter
what they read, and the part brings the columns that any of them asks for. Then the parts are put back. The result is a
tree as before, in which repeated sub-plans are equal; ``physical`` builds operators for the first and lets the others
read from it.

A sub-plan is taken out only if it costs more than reading its input twice. Selections, projections and windows of a
stream stay where they are, because their rows can be filtered earlier and their windows share a store anyway.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

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
    Over,
    Plan,
    Project,
    Rank,
    RelationScan,
    Select,
    SetOperation,
    StreamScan,
    children,
    is_stream,
)
from eddyline.plan.numbering import Numbering, repeats_inputs
from eddyline.plan.rewrite import with_children
from eddyline.plan.traverse import each

Rules = Callable[[Plan, frozenset[str]], Plan]
_PLACE = "#"  # no declared name begins so


def share_subplans(plans: Sequence[Plan], rules: Rules) -> list[Shared]:
    """``rules`` rewrite a part whose given columns are read."""
    if not repeats_inputs(plans):  # so there is no sub-plan that is read twice
        return [Shared(rules(p, frozenset(p.schema.names))) for p in plans]
    return _Parts(plans, rules).whole()


def cut_again(plan: Plan, rules: Rules, cuts: Cuts) -> Shared:
    """The plan that ``share_subplans`` made, perhaps together with others that were removed since."""
    return _Parts([plan], rules, cuts).whole()[0]


@dataclass(frozen=True, slots=True)
class Cuts:
    """Which parts were taken out of a plan: by the place of a part (in the order of ``each``) the columns that are
    read of it, and the places of those that other plans read, too. Enough to make the same plan again."""

    needs: Mapping[int, tuple[str, ...]] = field(default_factory=dict)
    by_others: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Shared:
    """A plan, and those of its parts that other plans read, too: the very objects, by their ids."""

    plan: Plan
    read_by_others: Mapping[int, Plan] = field(default_factory=dict)
    cuts: Cuts = field(default_factory=Cuts)


class _Parts:
    def __init__(self, plans: Sequence[Plan], rules: Rules, cuts: Cuts | None = None) -> None:
        self.plans, self.numbers, self.rules = plans, Numbering(*plans), rules
        self.written: dict[str, Plan] = {}  # the parts, by the names of the scans that stand for them
        self.below: dict[str, set[str]] = {}  # which others a part reads
        self.needs: dict[str, set[str]] = {}
        self.given: Cuts | None = cuts
        self.places = [self._places(p) for p in plans]
        if cuts is not None:
            names = {place: name for name, place in self.places[0].items()}
            self.needs = {names[place]: set(columns) for place, columns in cuts.needs.items()}
            self.forced = frozenset(self.needs)

    def whole(self) -> list[Shared]:
        roots = [self._name(p) for p in self.plans]
        for name, p in zip(roots, self.plans, strict=True):
            if name not in self.written:
                self.written[name] = self._cut(p, name, top=True)
            self.needs.setdefault(name, set()).update(p.schema.names)
        order, made = self._order(roots), dict[str, Plan]()
        for name in order:
            made[name] = self.rules(self.written[name], frozenset(self.needs[name]))
            for n in each(made[name]):
                if (part := _place(n)) is not None:
                    self.needs.setdefault(part, set()).update(n.schema.names)
        for name in reversed(order):
            made[name] = _filled(made[name], made)
        within = {name: self._within(name) for name in roots}
        found = []
        for name, places in zip(roots, self.places, strict=True):
            others = within[name] & {part for other in within if other != name for part in within[other]}
            if self.given is not None:
                others = {part for part in within[name] if places[part] in self.given.by_others}
            needs = {places[part]: tuple(sorted(self.needs[part])) for part in sorted(within[name]) if part != name}
            cuts = Cuts(needs, tuple(sorted(places[part] for part in others)))
            found.append(Shared(made[name], {id(made[p]): made[p] for p in others}, cuts))
        return found

    def _places(self, plan: Plan) -> dict[str, int]:
        """By the name of each different sub-plan where it stands first."""
        found: dict[str, int] = {}
        for i, p in enumerate(each(plan)):
            found.setdefault(self._name(p), i)
        return found

    def _is_part(self, p: Plan) -> bool:
        if self.given is not None:
            return self._name(p) in self.forced
        return self.numbers.shared(p) and worth_sharing(p)

    def _name(self, p: Plan) -> str:
        return f"{_PLACE}{self.numbers.of(p)}"

    def _cut(self, p: Plan, reader: str, top: bool = False) -> Plan:
        """A plan with scans in the places of its parts."""
        if not top and self._is_part(p):
            name = self._name(p)
            self.below.setdefault(reader, set()).add(name)
            if name not in self.written:
                self.written[name] = self._cut(p, name, top=True)
            if is_stream(p):
                return StreamScan(name, name, p.schema, p.schema.names)
            return RelationScan(name, name, p.schema, p.schema.names, constant=False)
        return with_children(p, [self._cut(c, reader) for c in children(p)])

    def _order(self, roots: Sequence[str]) -> list[str]:
        """The parts, each behind all its readers."""
        found: dict[str, None] = {}

        def visit(name: str) -> None:
            if name not in found:
                for part in sorted(self.below.get(name, ())):
                    visit(part)
                found[name] = None

        for name in roots:
            visit(name)
        return list(found)[::-1]

    def _within(self, name: str) -> set[str]:
        """The parts that a plan reads, itself included."""
        found, waiting = {name}, [name]
        while waiting:
            for part in self.below.get(waiting.pop(), ()):
                if part not in found:
                    found.add(part)
                    waiting.append(part)
        return found


def _place(p: Plan) -> str | None:
    name = p.stream if isinstance(p, StreamScan) else p.relation if isinstance(p, RelationScan) else ""
    return name if name.startswith(_PLACE) else None


def _filled(p: Plan, made: dict[str, Plan]) -> Plan:
    part = _place(p)
    if part is not None:
        return made[part]
    return with_children(p, [_filled(c, made) for c in children(p)])


def worth_sharing(p: Plan) -> bool:
    """Whether a sub-plan costs more than reading its elements twice."""
    return any(
        isinstance(n, Join | OuterJoin | MarkJoin | Aggregate | AsOfJoin | Distinct | Over | Rank | SetOperation)
        or any(calls_of(e) or compile_expr(e).expensive for e in _evaluated(n))
        for n in each(p)
    )


def _evaluated(p: Plan) -> list[Expr]:
    match p:
        case Select():
            return list(p.conjuncts)
        case Project():
            return [e for _, e in p.items]
        case _:
            return []
