"""Steering of an adaptive join by the user: its memory, pinning of its plan, and undoing of decisions."""

from __future__ import annotations

from eddyline.adapting.adaptive_join import AdaptiveJoin
from eddyline.adaptive.joins.reasons import KIND as CACHES
from eddyline.adaptive.joins.reasons import labels
from eddyline.core.errors import JobError
from eddyline.operators.join_arrays import JoinArrays
from eddyline.streamon.decision import Decision

ORDER = "order of Δ"  # before the name of an input: the kind of a decision about its pipeline


def retire(join: AdaptiveJoin) -> None:
    """Enter what was done; another policy goes on."""
    join.close()
    join.run_history.gains.settle()
    join.run_history.log.not_measured_by(join.run_history.gains)


def take_over(join: AdaptiveJoin, old: AdaptiveJoin, arrays: JoinArrays) -> None:
    """Go on after another policy on the same join: with its caches as far as they are candidates here, and with all
    that was learned where it is the same policy."""
    join.run_history.load(old.run_history.state())
    if join.ordering is not None and old.ordering is not None and join.asked == old.asked:
        join.policies, join.ordering, join.fanouts = old.policies, old.ordering, old.fanouts
    mine, theirs = join.cache_choice, old.cache_choice
    if mine is None or theirs is None:
        return
    before, now = ({**c.caching.given, "memory": None} for c in (theirs, mine))
    memory = mine.caching.given["memory"]
    if before == now:
        join.cache_choice, join.caching, join.elements = theirs, theirs.caching, old.elements
        if memory != theirs.caching.given["memory"]:
            theirs.caching.resize(memory)
    else:
        mine.sizes = theirs.sizes
        mine.caching.orders(arrays.orders, None)
        mine.caching.adopt(theirs.caching.states.current)
        mine.skip(arrays)


def resize(join: AdaptiveJoin, memory: int | None, arrays: JoinArrays) -> None:
    """Give the caches another budget in bytes; None: no limit."""
    if join.caching is not None and join.caching.given["memory"] != memory:
        join.close()
        join.caching.resize(memory)
        join.replan(arrays)


def pin(join: AdaptiveJoin, pinned: bool, arrays: JoinArrays) -> None:
    """Keep orders and caches as they are. A cache that is out of use only while others are profiled comes back."""
    for hold in join.holds:
        hold.pin(pinned)
    if pinned and join.caching is not None and join.caching.suspended:
        join.close()
        join.caching.settle()
        join.replan(arrays)


def undo(join: AdaptiveJoin, decision: Decision, now: int | None, arrays: JoinArrays) -> None:
    """Put an order or a set of caches back to what it was before a decision, and leave it until statistics drift."""
    if decision.kind.startswith(ORDER):
        _undo_order(join, decision, arrays)
    elif decision.kind == CACHES:
        _undo_caches(join, decision, now, arrays)
    else:
        raise JobError(f"a decision of the kind {decision.kind!r} cannot be undone.")
    join.run_history.gains.settle()


def _undo_order(join: AdaptiveJoin, decision: Decision, arrays: JoinArrays) -> None:
    i = join.names.index(decision.kind.removeprefix(ORDER))
    if [join.names[x] for x in arrays.orders[i]] != list(decision.after):
        raise JobError(f"{decision.kind} in {decision.operator} has changed since that decision.")
    orders = list(arrays.orders)
    orders[i] = tuple(join.names.index(n) for n in decision.before)
    if join.ordering is not None:
        join.ordering.impose(i, orders[i])
        join.ordering.holds[i].wait()
    join.replan(arrays, orders)


def _undo_caches(join: AdaptiveJoin, decision: Decision, now: int | None, arrays: JoinArrays) -> None:
    choice, caching = join.cache_choice, join.caching
    if choice is None or caching is None or set(labels(caching.states.current, join.names)) != set(decision.after):
        raise JobError(f"the caches of {decision.operator} have changed since that decision.")
    known = dict(zip(labels(caching.states, join.names), caching.states, strict=True))
    if missing := [c for c in decision.before if c not in known]:
        raise JobError(f"the cache {missing[0]!r} cannot be restored: the order of its pipeline has changed since.")
    join.close()
    caching.use([known[c] for c in decision.before], now)
    join.replan(arrays)
    choice.hold.wait()
