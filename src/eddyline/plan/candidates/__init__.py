"""From a logical node to a physical operator: candidates that register themselves, and one choice among them.

A candidate says of a node whether it *suits* (with the reason, or a refusal), what it would *cost*, and *builds* its
operators. The choice is made once for a query, before anything is built: on Spark on the driver, which ships it to the
shards. It is recorded in the query's log, is part of the plan as data, and its operators with the versions of their
state are compared before saved state is loaded.

A new operator is one file that defines a subclass of ``Candidate`` under ``@candidate``. Files in this package and in
``eddyline.adapting.candidates`` are found by themselves; a file elsewhere counts once it is imported.
"""

from __future__ import annotations

import importlib
import pkgutil
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from eddyline.core.catalog import Catalog
from eddyline.core.time import TimeKind
from eddyline.plan.deletions import Deletions
from eddyline.plan.logical import AsOfJoin, Join, MarkJoin, ModelQuery, OuterJoin, Over, Plan, Rank, Select, children
from eddyline.plan.matching import Matching
from eddyline.plan.memberships import flatten

if TYPE_CHECKING:
    from eddyline.plan.graph import Output

__all__ = [
    "Candidate",
    "Planning",
    "Refused",
    "candidate",
    "candidates_for",
    "check_options",
    "check_plan",
    "load_package",
    "subject_of",
]

T = TypeVar("T")

# What is chosen: the subjects, each with the unit of its candidates' costs.
JOIN, OUTER_JOIN, MARK, MEMBERSHIP, RANK = "join", "outer join", "mark", "membership", "rank"
MATCH = "match"  # how rows with partners are found, below an outer join, a mark or a membership
AS_OF, MODEL, OVER = "as-of join", "model query", "over"
UNITS: Mapping[str, str] = {
    JOIN: "index accesses an element",
    OUTER_JOIN: "index accesses an element",
    MARK: "index accesses a row",
    MEMBERSHIP: "index accesses a row",
    MATCH: "index accesses a row",
    RANK: "steps a change",
    AS_OF: "index accesses an element",
    MODEL: "equations a segment",
    OVER: "rows read an element",
}


@dataclass(frozen=True, slots=True)
class Planning:
    """What a choice may depend on beside the node itself: nothing that differs between the driver and a shard."""

    catalog: Catalog
    kind: TimeKind
    options: Mapping[str, Any] = field(default_factory=dict)
    _read: dict[Any, Any] = field(default_factory=dict, compare=False, repr=False)

    def read(self, reader: Callable[[Mapping[str, Any]], T]) -> T:
        """The options as a reader understands them, read once for all nodes and candidates."""
        if reader not in self._read:
            self._read[reader] = reader(self.options)
        found: T = self._read[reader]
        return found


@dataclass(frozen=True, slots=True)
class Refused:
    """Why a candidate does not suit, as a sentence without its full stop. ``asked``: an option of the query asks for
    the candidate, so that ``explain`` says why it was not taken."""

    why: str
    asked: bool = False


class Candidate(ABC):
    """One way to run the nodes of a ``subject``. Raise ``version`` when what its operators save changes its form.

    ``option`` is the option of a query that may name the candidate: ``WITH (joins = 'nested-loop')``. The named one is
    taken wherever it suits, whatever it costs.
    """

    name: ClassVar[str]
    subject: ClassVar[str] = JOIN
    version: ClassVar[int] = 1
    option: ClassVar[str | None] = None

    @abstractmethod
    def suits(self, node: Any, planning: Planning) -> str | Refused:
        """Why the candidate can run the node, or why it cannot."""

    @abstractmethod
    def cost(self, node: Any, planning: Planning) -> float:
        """The estimated cost in the unit of the subject (``UNITS``), which all candidates of a node share."""

    @abstractmethod
    def build(self, node: Any, builder: Any, need: Deletions) -> Output:
        """Add the operators to the graph by means of the builder, a ``plan.physical.Builder``. ``need`` says which
        deletions can show above."""

    def check(self, options: Mapping[str, Any]) -> None:  # noqa: B027 (most have no options of their own)
        """Refuse what is wrong in the options that are the candidate's own, before anything is planned."""

    def check_plan(self, plan: Plan, options: Mapping[str, Any]) -> None:  # noqa: B027 (most suit every plan)
        """Refuse options that are wrong for a plan as a whole."""

    def reads(self, node: Any, planning: Planning) -> Sequence[Plan]:
        """The plans that ``build`` asks the builder for."""
        return children(node)


_registered: dict[str, Candidate] = {}
C = TypeVar("C", bound=type[Candidate])


def candidate(cls: C) -> C:
    """Registers a candidate. One of the same name replaces it."""
    _registered[cls.name] = cls()
    return cls


def candidates_for(subject: str) -> list[Candidate]:
    """All candidates of a subject, in the order of their names: files are found in no order that counts."""
    return sorted((c for c in _registered.values() if c.subject == subject), key=lambda c: c.name)


def check_options(options: Mapping[str, Any]) -> None:
    """Let every candidate check its own options."""
    for c in _registered.values():
        c.check(options)


def check_plan(plan: Plan, options: Mapping[str, Any]) -> None:
    """Let every candidate check its own options against a plan."""
    for c in _registered.values():
        c.check_plan(plan, options)


def named_by(option: str, value: Any) -> Candidate | None:
    """The candidate that an option names, if it names one."""
    found = _registered.get(value) if isinstance(value, str) else None
    return found if found is not None and found.option == option else None


def names_for(option: str) -> list[str]:
    """The candidates that an option can name."""
    return sorted(c.name for c in _registered.values() if c.option == option)


def subject_of(node: Plan | Matching) -> str | None:
    """What has to be chosen for a node; None: it has one operator, whatever is around it."""
    match node:
        case Join():
            return JOIN
        case OuterJoin():
            return OUTER_JOIN
        case MarkJoin():
            return MARK
        case Rank():
            return RANK
        case AsOfJoin():
            return AS_OF
        case Matching():
            return MATCH
        case ModelQuery():
            return MODEL
        case Over():
            return OVER
        case Select() if flatten(node) is not None:
            return MEMBERSHIP
        case _:
            return None


def load_package(name: str, path: Sequence[str]) -> None:
    """Import every file of a package, so that its candidates are registered."""
    for module in pkgutil.iter_modules(path):
        importlib.import_module(f"{name}.{module.name}")
