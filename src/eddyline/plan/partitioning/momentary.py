"""Relations that are empty except at the instants of elements: the condition for ``Rstream`` over shards.

``Rstream`` shows R(τ) at each instant τ at which any input has an element. A shard has the instants of its own
elements only (and the slides, which need no elements, and the ends of its own sessions). That is enough where every row
of R(τ) is made of an element of the instant τ, or of a session that closes then: a shard that has such a row has that
element or session, be it split or copied.
"""

from __future__ import annotations

from collections.abc import Callable

from eddyline.core.window import Range, Session, Stepping
from eddyline.plan.deletions import is_constant
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
    RelationScan,
    Select,
    SetOperation,
    StreamScan,
    ToStream,
    Window,
    WithArrivals,
)

Known = dict[tuple[str, int], bool]  # what was found of a node (the very object), by question


def momentary(p: Plan, known: Known | None = None) -> bool:
    """Whether every row of a relation-typed plan is made of an element of the present instant."""
    return _answered_once("momentary", _momentary, p, {} if known is None else known)


def comes_with_elements(p: Plan, known: Known | None = None) -> bool:
    """Whether a stream has elements only at instants of elements that they are made of."""
    return _answered_once("comes", _comes_with_elements, p, {} if known is None else known)


def _answered_once(question: str, answer: Callable[[Plan, Known], bool], p: Plan, known: Known) -> bool:
    """Each node is asked about once, however often it is read."""
    key = question, id(p)
    if key not in known:
        known[key] = answer(p, known)
    return known[key]


def _momentary(p: Plan, known: Known) -> bool:
    match p:
        case Window():
            # The rows of a session exist at the instant at which it closes and at no other; its shard has that instant.
            return isinstance(p.spec, Session) or (p.spec == Range(0) and comes_with_elements(p.input, known))
        case Select() | Project() | Distinct() | Explode() | Rank():
            return momentary(p.input, known)
        case Join():
            return any(momentary(i, known) for i in p.inputs)
        case MarkJoin():
            return momentary(p.left, known)
        case OuterJoin():
            sides = {"left": (p.left,), "right": (p.right,), "full": (p.left, p.right)}[p.kind]
            return all(momentary(side, known) for side in sides)
        case Aggregate():
            return p.grouped and momentary(p.input, known)  # without groups there is a row at every instant
        case SetOperation(kind="union"):
            return momentary(p.left, known) and momentary(p.right, known)
        case SetOperation(kind="intersect"):
            return momentary(p.left, known) or momentary(p.right, known)
        case SetOperation(kind="except"):
            return momentary(p.left, known)
        case _:
            return False


def _comes_with_elements(p: Plan, known: Known) -> bool:
    match p:
        case StreamScan():
            return True
        case Select() | Project() | Over() | WithArrivals():
            return comes_with_elements(p.input, known)
        case AsOfJoin():
            # An element without a partner comes when its time is up, and no element comes with it.
            before = comes_with_elements(p.left, known) and p.backward
            return before or (not p.outer and not p.backward and comes_with_elements(p.right, known))
        case ToStream(kind="rstream"):
            return momentary(p.input, known)
        case ToStream(kind="istream"):
            return momentary(p.input, known) or _enters_with_elements(p.input, known)
        case _:
            return False


def _enters_with_elements(p: Plan, known: Known) -> bool:
    """Whether rows of a relation enter only with an element: not at a slide, not because another row leaves, and not
    because time starts, which it does for a constant relation even where a shard has no element."""
    return _answered_once("enters", _enters, p, known)


def _enters(p: Plan, known: Known) -> bool:
    match p:
        case Window():
            return not isinstance(p.spec, Stepping | Session) and comes_with_elements(p.input, known)
        case RelationScan():
            return not p.constant
        case Select() | Project() | Distinct() | Explode():
            return _enters_with_elements(p.input, known)
        case Join():
            entering = [_enters_with_elements(i, known) for i in p.inputs]
            return any(entering) and all(e or is_constant(i) for e, i in zip(entering, p.inputs, strict=True))
        case _:
            return False
