"""Where a relation is empty but at the instants of elements: what ``Rstream`` over shards needs.

``Rstream`` shows R(τ) at each instant τ at which any input has an element. A shard knows the instants of its own
elements only (and the slides, which need no elements). That is enough where every row of R(τ) is made of an element of
the instant τ: a shard that has such a row has that element, be it split or copied.
"""

from __future__ import annotations

from eddyline.core.window import Range, Slide
from eddyline.plan.logical import (
    Aggregate,
    Distinct,
    Join,
    MarkJoin,
    OuterJoin,
    Plan,
    Project,
    RelationScan,
    Select,
    SetOperation,
    StreamScan,
    ToStream,
    Window,
    walk,
)


def momentary(p: Plan) -> bool:
    """Whether every row of a relation-typed plan is made of an element of the present instant."""
    match p:
        case Window():
            return p.spec == Range(0) and _arrives(p.input)
        case Select() | Project() | Distinct():
            return momentary(p.input)
        case Join():
            return any(map(momentary, p.inputs))
        case MarkJoin():
            return momentary(p.left)
        case OuterJoin():
            sides = {"left": (p.left,), "right": (p.right,), "full": (p.left, p.right)}[p.kind]
            return all(map(momentary, sides))
        case Aggregate():
            return p.grouped and momentary(p.input)  # without groups there is a row at every instant
        case SetOperation(kind="union"):
            return momentary(p.left) and momentary(p.right)
        case SetOperation(kind="intersect"):
            return momentary(p.left) or momentary(p.right)
        case SetOperation(kind="except"):
            return momentary(p.left)
        case _:
            return False


def _arrives(p: Plan) -> bool:
    """Whether a stream has elements only at the instants of elements that they are made of."""
    match p:
        case StreamScan():
            return True
        case Select() | Project():
            return _arrives(p.input)
        case ToStream(kind="rstream"):
            return momentary(p.input)
        case ToStream(kind="istream"):
            return momentary(p.input) or _enters_on_arrival(p.input)
        case _:
            return False


def _enters_on_arrival(p: Plan) -> bool:
    """Whether rows enter only when an element does: nothing enters because another row leaves, or at a slide."""
    linear = Window | Select | Project | Join | RelationScan
    below = _relational(p)
    some = any(isinstance(n, Window) or (isinstance(n, RelationScan) and not n.constant) for n in below)
    return some and all(
        isinstance(n, linear) and not (isinstance(n, Window) and (isinstance(n.spec, Slide) or not _arrives(n.input)))
        for n in below
    )


def _relational(p: Plan) -> list[Plan]:
    """The nodes down to the windows."""
    if isinstance(p, Window | RelationScan):
        return [p]
    found: list[Plan] = [p]
    match p:
        case Select() | Project() | Distinct() | Aggregate():
            found += _relational(p.input)
        case Join():
            found += [n for i in p.inputs for n in _relational(i)]
        case _:
            found += [n for n in walk(p) if n is not p]
    return found
