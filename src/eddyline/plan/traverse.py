"""Going through a logical plan: its places, its nodes, the streams that it reads."""

from __future__ import annotations

from collections.abc import Iterator

from eddyline.plan.logical import Plan, RelationScan, StreamScan, children


def depth(p: Plan) -> int:
    """The number of operators one below another; without recursion, because this guards what recurses."""
    level, nodes = 0, [p]
    while nodes:
        # By identity: a plan that uses one part twice has it once at a level.
        level, nodes = level + 1, list({id(c): c for n in nodes for c in children(n)}.values())
    return level


def walk(p: Plan) -> Iterator[Plan]:
    """Every place of a plan, from left to right: a part that is read twice comes twice.

    A query whose named queries read each other repeatedly has very many places; a caller that needs none twice calls
    ``each``.
    """
    yield p
    for c in children(p):
        yield from walk(c)


MAX_PLACES_WALKED = 1024  # a plan with more places is walked node by node: equal sub-plans are treated alike


def count_places(p: Plan) -> int:
    """How many places ``walk`` would come to, without going there."""
    known: dict[int, int] = {}

    def of(n: Plan) -> int:
        if id(n) not in known:
            known[id(n)] = 1 + sum(map(of, children(n)))
        return known[id(n)]

    return of(p)


def each(p: Plan) -> Iterator[Plan]:
    """Every node of a plan (the very object) once, in the order in which ``walk`` meets it first."""
    seen: set[int] = set()
    stack = [p]
    while stack:
        n = stack.pop()
        if id(n) not in seen:
            seen.add(id(n))
            yield n
            stack.extend(reversed(children(n)))


def streams_of(p: Plan) -> tuple[str, ...]:
    """The declared streams (and timed relations) a plan reads, each once, in order of appearance."""
    seen: dict[str, None] = {}
    for n in each(p):
        if isinstance(n, StreamScan):
            seen.setdefault(n.stream)
        elif isinstance(n, RelationScan) and not n.constant:
            seen.setdefault(n.relation)
    return tuple(seen)
