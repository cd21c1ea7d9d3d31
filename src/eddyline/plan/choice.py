"""The choice of operators: which candidate runs each node of a plan, what it costs, and why the others do not.

The choice is a function of the plan and of ``Planning`` alone. It is made from the root down, along what the chosen
candidates read, and each different node is asked about once, however often it is read.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from eddyline.core.errors import JobError
from eddyline.plan.candidates import (
    MARK,
    MEMBERSHIP,
    OUTER_JOIN,
    UNITS,
    Candidate,
    Planning,
    Refused,
    candidates_for,
    named_by,
    subject_of,
)
from eddyline.plan.graph import alias_of, distinct
from eddyline.plan.logical import BoundQuery, Join, Plan, children
from eddyline.plan.matching import Matching
from eddyline.plan.numbering import Numbering
from eddyline.streamon.decision import PLANNER, Decision
from eddyline.streamon.wording import Evidence, sentence

CHOICE = "choice of an operator"
BACK = "use the options (or the version of Eddyline) that it had"


@dataclass(frozen=True, slots=True)
class Chosen:
    """The candidate of one node. ``costs`` are those of all that suit, ``refused`` says why the others do not, and
    ``asked`` names those of them that an option asks for."""

    candidate: Candidate
    label: str  # what the node is for people
    reason: str
    costs: Mapping[str, float]
    refused: Mapping[str, str] = field(default_factory=dict)
    asked: tuple[str, ...] = ()
    matches: tuple[Chosen, ...] = ()  # how rows with partners are found below it, in the order in which it is built

    @property
    def operator(self) -> str:
        return self.candidate.name

    @property
    def cost(self) -> float:
        return self.costs[self.operator]

    @property
    def unit(self) -> str:
        return UNITS[self.candidate.subject]

    def decision(self, operator: str) -> Decision:
        """The choice for the log; ``operator`` is the name of the operator that was built."""
        evidence: dict[str, Any] = {
            "reason": self.reason,
            "costs": dict(self.costs),
            "refused": dict(self.refused),
            "asked": list(self.asked),
            "chosen": self.operator,
            "unit": self.unit,
        }
        if self.matches:
            evidence["matching"] = [{"operator": m.operator, "reason": m.reason, "costs": dict(m.costs),
                                     "refused": dict(m.refused)} for m in self.matches]  # fmt: skip
        kind = f"{self.candidate.subject} operator"
        units = {"costs": self.unit}
        return Decision(kind, None, self.operator, CHOICE, evidence, units, operator=operator, by=PLANNER)

    def fact(self) -> dict[str, Any]:
        """What saved state depends on."""
        fact: dict[str, Any] = {"of": self.label, "operator": self.operator, "version": self.candidate.version}
        if self.matches:
            fact["matching"] = [{"operator": m.operator, "version": m.candidate.version} for m in self.matches]
        return fact

    def shown(self) -> dict[str, Any]:
        """For the plan as data."""
        return {"subject": self.candidate.subject, **self.fact(), "cost": self.cost, "unit": self.unit}


@dataclass(frozen=True, slots=True)
class Choices:
    """The choices of one plan, each with its node. Pickled together with the plan they can be shipped."""

    made: tuple[tuple[Plan, Chosen], ...] = ()

    def facts(self) -> list[dict[str, Any]]:
        return [c.fact() for _, c in self.made]

    @property
    def match(self) -> bool:
        """Whether some operator asks for rows with partners."""
        return any(c.candidate.subject in (OUTER_JOIN, MARK, MEMBERSHIP) for _, c in self.made)

    def by_number(self, numbers: Numbering) -> dict[int, Chosen]:
        """By the number of the node: also nodes that a candidate makes anew are found."""
        return {numbers.of(node): chosen for node, chosen in self.made}


@dataclass(frozen=True, slots=True)
class PlannedQuery:
    """A query with its optimized plan and the operators that were chosen for it: all that is needed to build it.
    ``shared`` are the parts of the plan, the very objects, that queries beside it read, too."""

    query: BoundQuery
    plan: Plan
    choices: Choices
    shared: tuple[Plan, ...] = ()


def choose(plan: Plan, planning: Planning) -> Choices:
    """Choose an operator for every node of a plan that has candidates."""
    made = tuple(_choices(plan, planning))
    _check_named([c for _, c in made], planning)
    return Choices(made)


def _choices(plan: Plan, planning: Planning) -> Iterator[tuple[Plan, Chosen]]:
    numbers = Numbering(plan)
    seen: set[int] = set()
    stack = [plan]
    while stack:
        node = stack.pop()
        if numbers.repeats or subject_of(node) is not None:  # others have no candidates, and come once
            number = numbers.of(node)
            if number in seen:
                continue
            seen.add(number)
        chosen = choose_for(node, planning)
        below: Sequence[Plan] = children(node)
        if chosen is not None:
            yield node, chosen
            below = chosen.candidate.reads(node, planning)
        stack.extend(reversed(below))


def choose_for(node: Plan | Matching, planning: Planning) -> Chosen | None:
    """The candidate of one node; None where there is nothing to choose."""
    subject = subject_of(node)
    if subject is None:
        return None
    suiting: dict[str, tuple[Candidate, str, float]] = {}
    refused: dict[str, Refused] = {}
    named = _named(planning, subject)
    for c in candidates_for(subject):
        found = c.suits(node, planning)
        if isinstance(found, Refused):
            refused[c.name] = Refused(found.why, asked=found.asked or c is named)
        else:
            suiting[c.name] = c, found, c.cost(node, planning)
    if named is not None and named.name in suiting:
        others = [n for n in suiting if n != named.name]
        refused |= {n: Refused(f"the option '{named.option}' names {named.name}") for n in others}
        suiting = {named.name: suiting[named.name]}
    if not suiting:
        raise AssertionError(f"no candidate suits {label_of(node, subject)}: {refused}")
    best, reason, _ = min(suiting.values(), key=lambda found: (found[2], found[0].name))
    return Chosen(
        best,
        label_of(node, subject),
        reason,
        {n: cost for n, (_, _, cost) in suiting.items()},
        {n: r.why for n, r in refused.items()},
        tuple(n for n, r in refused.items() if r.asked),
    )


def _named(planning: Planning, subject: str) -> Candidate | None:
    found = (named_by(option, value) for option, value in planning.options.items())
    return next((c for c in found if c is not None and c.subject == subject), None)


def _check_named(made: Sequence[Chosen], planning: Planning) -> None:
    """An operator that is asked for by its name must suit somewhere."""
    for option, value in planning.options.items():
        named = named_by(option, value)
        if named is None or any(c.candidate is named for c in made):
            continue
        why = next((c.refused[named.name] for c in made if named.name in c.refused), "")
        what = f"it suits no {named.subject} of this query: {why}" if why else f"this query has no {named.subject}"
        raise JobError(f"the option '{option}' names the operator {value!r}, but {what}; leave the option out.")


def label_of(node: Plan | Matching, subject: str) -> str:
    """A node as people call it: ``the join of R, S, T``."""
    if isinstance(node, Matching):
        return f"the {node.operator}'s rows with partners"
    inputs = node.inputs if isinstance(node, Join) else children(node)
    return f"the {subject} of {', '.join(distinct([alias_of(i) for i in inputs]))}"


def exchanged(then: Sequence[Mapping[str, Any]], now: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """The operators (``Chosen.fact``) of one plan that cannot take over each other's state, in words.

    >>> old = {"of": "the join of R, S", "operator": "tree-join", "version": 1}
    >>> list(exchanged([old], [{**old, "operator": "fixed-join"}]))
    ['the join of R, S was run by tree-join and would now be run by fixed-join']
    >>> list(exchanged([old], [{**old, "version": 2}]))
    ['the join of R, S was run by tree-join with state of version 1, and this tree-join has version 2']
    """
    if [f["of"] for f in then] != [f["of"] for f in now]:
        before, after = (", ".join(f["operator"] for f in facts) or "none" for facts in (then, now))
        yield f"other operators were chosen: {before} became {after}"
        return
    for old, new in zip(then, now, strict=True):
        if old["operator"] != new["operator"]:
            yield f"{old['of']} was run by {old['operator']} and would now be run by {new['operator']}"
        elif old["version"] != new["version"]:
            name = old["operator"]
            yield (
                f"{old['of']} was run by {name} with state of version {old['version']}, and this {name} has version"
                f" {new['version']}"
            )
        else:
            yield from _matched(old, new)


def _matched(old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[str]:
    """As ``exchanged``, of how partners are found below one operator; saved state of earlier versions does not say."""
    if "matching" not in old or "matching" not in new:
        return
    then, now = old["matching"], new["matching"]
    before, after = (", ".join(m["operator"] for m in found) or "nothing" for found in (then, now))
    if before != after:
        yield f"{old['of']} found partners by {before} and would now find them by {after}"
        return
    for was, will in zip(then, now, strict=True):
        if was["version"] != will["version"]:
            name = was["operator"]
            yield (
                f"{old['of']} found partners by {name} with state of version {was['version']}, and this {name} has"
                f" version {will['version']}"
            )
            return


@sentence(CHOICE)
def _sentence(evidence: Evidence) -> str:
    costs, chosen = dict(evidence["costs"]), evidence["chosen"]
    parts = [f"{evidence['reason']}: about {costs.pop(chosen):.3g} {evidence['unit']}"]
    parts += [f"{name} about {cost:.3g}" for name, cost in sorted(costs.items(), key=lambda item: item[1])]
    parts += [f"not {name}: {evidence['refused'][name]}" for name in evidence["asked"]]
    return "; ".join(parts)
