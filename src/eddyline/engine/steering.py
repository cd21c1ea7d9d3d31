"""Steering: what a user changes of a query that runs.

``ALTER QUERY`` changes options, ``PIN QUERY`` keeps the plans as they are, ``UNDO DECISION`` sets back what a decision
changed. All of them

- are *checked before anything changes*: a mistake is one sentence, and the query goes on as it was;
- take effect *between two instants*: the session is at work for one caller at a time, and between two calls every
  operator has answered whole instants. Only how an answer is computed changes, so no row is lost or repeated;
- are *decisions* by the user in the query's log, and can be undone like others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Protocol, TypeVar

from eddyline.adapting.filter_choice import Filtering
from eddyline.adapting.join_choice import Joining, memory_of
from eddyline.core import arguments as check
from eddyline.core.errors import JobError, did_you_mean
from eddyline.engine.session_protocols import SteeredQuery
from eddyline.operators.base import Operator
from eddyline.plan.candidates import named_by
from eddyline.streamon.decision import POLICY, USER, Decision

ALTERABLE: Final = ("caches", "filters", "joins", "memory", "priority", "routing", "scheduler", "strict_order", "tree")
OPTION, PINNED, STREAM = "option ", "pinned", "stream "  # kinds of decisions by the user; streams stand as operators


@dataclass(frozen=True, slots=True)
class Altered:
    """Options before and after a change, and what they are about."""

    before: Mapping[str, Any]
    after: Mapping[str, Any]

    @property
    def changed(self) -> tuple[str, ...]:
        names = dict.fromkeys((*self.before, *self.after))
        return tuple(n for n in names if self.before.get(n) != self.after.get(n))

    @property
    def parameters(self) -> frozenset[str]:
        """Options that are parameters of the policy of the selections, before or after."""
        return frozenset((*Filtering.of(self.before).options, *Filtering.of(self.after).options))

    @property
    def selections(self) -> bool:
        return any(n in self.parameters or n in ("filters", "routing", "strict_order") for n in self.changed)

    @property
    def joins(self) -> bool:
        return any(n in ("joins", "caches", "tree") for n in self.changed)


class Steering:
    """The options of a query as they are now, whether it is pinned, and the ways to change both."""

    def __init__(self, query: SteeredQuery) -> None:
        self._query = query
        self.options: dict[str, Any] = dict(query.running.query.options)
        self.pinned = False

    @property
    def _operators(self) -> list[Operator]:
        return [n.operator for n in self._query.running.physical.nodes if n.operator is not None]

    # ── options ───────────────────────────────────────────────────────────────────────────────────────────────────

    def alter(self, given: Mapping[str, Any], because: str = "the user set it") -> list[Decision]:
        """Change options; None sets one back to its default. Returns the records of what changed."""
        altered = Altered(self.options, merged(self.options, given))
        self._apply(altered)
        return [self._record(OPTION + n, altered.before.get(n), altered.after.get(n), because) for n in altered.changed]

    def _apply(self, altered: Altered) -> None:
        from eddyline.adapting import change_policies

        for change in self._prepared(altered):
            change()
        if "scheduler" in altered.changed:
            self._query.session._schedule(str(altered.after.get("scheduler", "fifo")))
        if "priority" in altered.changed:
            self._query.session._prioritise(self._query.running, int(altered.after.get("priority", 0)))
        if altered.joins or "memory" in altered.changed:
            self._query.session._limit_memory(self._query.running, memory_of(altered.after))
        self.options = dict(altered.after)
        if self.pinned:
            change_policies.pin(self._operators, True)

    def check(self, given: Mapping[str, Any]) -> None:
        """Refuse what ``alter`` would refuse, and change nothing."""
        self._prepared(Altered(self.options, merged(self.options, given)))

    def _prepared(self, altered: Altered) -> list[Callable[[], None]]:
        from eddyline.adapting import change_policies

        session, bound = self._query.session, self._query.running.query
        session._check_options(replace(bound, options=altered.after))
        if "pinned" in altered.changed:
            raise JobError(
                "the option 'pinned' says how a query starts; while it runs, write PIN QUERY or UNPIN QUERY."
            )
        for name in altered.changed:
            if any(named_by(name, options.get(name)) is not None for options in (altered.before, altered.after)):
                raise JobError(
                    f"the option {name!r} names an operator, which is chosen when a query starts: drop"
                    f" {self._query.name!r} and register it again with it."
                )
            if name not in ALTERABLE and name not in altered.parameters:
                raise JobError(
                    f"the option {name!r} is decided when a query starts: drop {self._query.name!r} and register it"
                    " again with it."
                )
        filtering, joining = Filtering.of(altered.after, session.clock), Joining.of(altered.after, session.clock)
        joining.check(self._query.running.plan)
        policies = change_policies.Policies(filtering, joining)
        return policies.prepare(self._operators, selections=altered.selections, joins=altered.joins)

    # ── pinning ───────────────────────────────────────────────────────────────────────────────────────────────────

    def pin(self, pinned: bool, because: str = "") -> list[Decision]:
        """Keep all plans as they are, or let policies change them again. Nothing is recorded where nothing changes."""
        from eddyline.adapting import change_policies

        if pinned == self.pinned:
            return []
        change_policies.pin(self._operators, pinned)
        self.pinned = pinned
        stays = "plans stay as they are; what would have been done is reported"
        return [self._record(PINNED, not pinned, pinned, because or (stays if pinned else "plans may change again"))]

    # ── undoing ───────────────────────────────────────────────────────────────────────────────────────────────────

    def undo(self, number: int) -> list[Decision]:
        """Set back what a decision changed, and keep its policy from taking it again before the statistics drift."""
        from eddyline.adapting import change_policies

        decision, query = self._undoable(number), self._query
        because = f"undoes decision {number}"
        try:
            if decision.kind.startswith(OPTION):
                return self.alter({decision.kind.removeprefix(OPTION): decision.before}, because)
            if decision.kind == PINNED:
                return self.pin(bool(decision.before), because)
            if decision.operator.startswith(STREAM):
                ticks = decision.evidence["before"]
                return query.session._set_width(decision.operator.removeprefix(STREAM), decision.kind, ticks, because)
            if decision.operator not in query.running.operators:
                raise JobError(f"there is no operator {decision.operator!r} any more.")
            change_policies.undo(query.running.operators[decision.operator].operator, decision, query.running.reached)
        except JobError as error:
            raise JobError(f"decision {number} of {query.name!r} cannot be undone: {error}") from error
        return [self._record(decision.kind, decision.after, decision.before, because, decision)]

    def _undoable(self, number: int) -> Decision:
        log, name = self._query.running.physical.context.log, self._query.name
        decision = log.find(check.integer(number, "the number of a decision"))
        if decision is None:
            there = f"those from {log.left_out + 1} to {log.taken}" if len(log) else "none"
            raise JobError(f"{name!r} has no decision {number} in its log; it has {there}.")
        cannot = f"decision {number} of {name!r} cannot be undone:"
        if not decision.applied:
            raise JobError(f"{cannot} it was not applied, because the query was pinned.")
        if decision.by not in (POLICY, USER) or not decision.operator:
            raise JobError(f"{cannot} it was made by the {decision.by}; name another option with ALTER QUERY instead.")
        if decision.before == decision.after:
            raise JobError(f"{cannot} it changed nothing.")
        later = [d for d in log if (d.sequence or 0) > number and d.applied and _about(d) == _about(decision)]
        if later:
            raise JobError(f"{cannot} decision {later[-1].sequence} has replaced it; undo that one instead.")
        return decision

    # ── the log, and state ────────────────────────────────────────────────────────────────────────────────────────

    def _record(self, kind: str, before: Any, after: Any, because: str, undone: Decision | None = None) -> Decision:
        running = self._query.running
        decision = Decision(kind, before, after, because, operator="query", time=running.reached, by=USER)
        if undone is not None:
            decision = replace(decision, operator=undone.operator, names=undone.names)
        return running.physical.context.log.record(decision)

    def state(self) -> dict[str, Any]:
        """What is otherwise than the query's declaration says, which may be another one after a restart."""
        altered = Altered(self._query.running.query.options, self.options)
        return {"altered": {n: self.options.get(n) for n in altered.changed}, "pinned": self.pinned}

    def load(self, state: Mapping[str, Any]) -> None:
        """Go on with what was altered before a snapshot. The log has the decisions; nothing is recorded anew."""
        from eddyline.adapting import change_policies

        if state["altered"]:
            self._apply(Altered(self.options, merged(self.options, state["altered"])))
        self.pinned = bool(state["pinned"])
        change_policies.pin(self._operators, self.pinned)


class Named(Protocol):
    """A query that is called by its name, inline or on Spark."""

    name: str


NamedItem = TypeVar("NamedItem", bound=Named)


def named_query(queries: Sequence[NamedItem], name: str | None) -> NamedItem:
    """The query that a statement is about; one that names none is about the only one."""
    if name is None:
        if len(queries) == 1:
            return queries[0]
        raise JobError(f"{len(queries)} queries are running: say whose decision, with OF QUERY and its name.")
    found = next((q for q in queries if q.name.lower() == name.lower()), None)
    if found is None:
        names = [q.name for q in queries]
        said = did_you_mean(name, names) or (f" The running queries are {', '.join(names)}." if names else "")
        raise JobError(f"no query {name!r} is running.{said}")
    return found


def merged(before: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """Options after a change. What cannot stand beside a new value is removed, unless it is given, too: parameters of
    the policy before, ``filters`` beside ``routing``, and ``tree`` beside ``joins`` and ``caches``.

    >>> merged({"filters": "a-greedy", "p": 0.1, "scheduler": "chain"}, {"routing": "default"})
    {'scheduler': 'chain', 'routing': 'default'}
    >>> merged({"filters": "sweep"}, {"filters": None})
    {}
    """
    out = dict(before)

    def leave(names: Iterable[str]) -> None:
        for n in names:
            if n not in given:
                out.pop(n, None)

    if "filters" in given or "routing" in given:
        leave(Filtering.of(before).options)
    for one, others in _EXCLUSIVE.items():
        if given.get(one) is not None:
            leave(others)
    for name, value in given.items():
        out.pop(name, None)
        if value is not None:
            out[name] = value
    return out


_EXCLUSIVE: Final = {
    "filters": ("routing",),
    "routing": ("filters",),
    "tree": ("joins", "caches"),
    "joins": ("tree",),
    "caches": ("tree",),
}


def _about(decision: Decision) -> tuple[str, str]:
    """What a decision changes: a later one about the same has replaced it."""
    kind = "classifier" if decision.kind.startswith("classifier") else decision.kind
    return decision.operator, kind
