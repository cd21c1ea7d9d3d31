"""Starting plans (thesis 3.1): what an earlier run of the same query learned is where the next one begins.

Only plans are taken over: the order of conjuncts, the orders of pipelines, the caches in use. Policies begin as ever,
and look hardest at their beginning: so a plan that is no longer good is left as soon as the written one would be, and
costs what a badly written one costs. Selectivities and prices are kept to judge by: a starting plan whose statistics
turn out to be others, or that a policy leaves at once, is *stale*, and that is a decision of its own in the log.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from eddyline.adapting.adaptive_join import AdaptiveJoin
from eddyline.adapting.conjunction import AdaptiveConjunction
from eddyline.adapting.plan_hold import impose
from eddyline.adapting.tuple_router import TupleRouter
from eddyline.adaptive.filters.static import Static
from eddyline.adaptive.joins.reasons import labels
from eddyline.operators.adaptive_select import SelectionOperator
from eddyline.operators.base import Operator
from eddyline.operators.mjoin import MJoin
from eddyline.operators.star_look_up import StarLookUp
from eddyline.streamon.decision import SESSION, Decision

KIND: Final = "starting plan"
REVIEWED_ROWS, REVIEWED_ELEMENTS = 4096, 65_536  # after which a starting plan of a selection, of a join, has stood
ASKED_ROWS = 256  # of a conjunct, without which its selectivity says nothing
MOVED_SELECTIVITY = 0.2  # of the rows: a selectivity that has moved by more is another one

Learned = Mapping[str, Any]


def learned_by(known: Mapping[str, Any]) -> dict[str, Any] | None:
    """What of the statistics of an operator the next run can use, as plain data; None if it adapts nothing."""
    if "filters" in known and "order" in known:
        names = ("filters", "order", "selectivity", "seconds_per_row", "rows")
        return {n: known[n] for n in names if n in known}
    if known.get("ordering") is not None or known.get("caching") is not None:
        caches = [c["cache"] for c in known.get("caches", ()) if c["state"] == "used"]
        return {"inputs": known["inputs"], "orders": known["orders"], "caches": caches, "elements": known["elements"]}
    return None


def start_from(operator: Operator, learned: Learned) -> Decision | None:
    """Begin with a plan that was learned; the decision to enter, or None where nothing fits or nothing changes."""
    if isinstance(operator, SelectionOperator | StarLookUp):
        router = operator.conjunction if isinstance(operator, SelectionOperator) else operator.routes
        if isinstance(router, AdaptiveConjunction | TupleRouter):
            return _start_filters(operator.name, router, learned)
    if isinstance(operator, MJoin) and isinstance(operator.adapter, AdaptiveJoin):
        return _start_join(operator, operator.adapter, learned)
    return None


def _start_filters(name: str, router: AdaptiveConjunction | TupleRouter, learned: Learned) -> Decision | None:
    texts, order = list(router.texts), [int(f) for f in learned.get("order", ())]
    if learned.get("filters") != texts or sorted(order) != list(range(len(texts))):
        return None
    pipeline = router.pipeline if isinstance(router, TupleRouter) else router.policy.pipeline
    segments = [int(pipeline.segments[f]) for f in order]
    if segments != sorted(segments):
        return None
    before = _order(router)
    if isinstance(router, TupleRouter):
        router.initial[:] = order
    elif isinstance(router.policy, Static):
        return None  # as written, because somebody said so
    else:
        impose(router.policy, order)
    if before == order:
        return None
    evidence = {n: learned[n] for n in ("selectivity", "seconds_per_row", "rows") if n in learned}
    told = "an earlier run found this order best, over {rows} rows" if "rows" in evidence else "an earlier run's order"
    shown = [[texts[f] for f in one] for one in (before, order)]
    return Decision(KIND, shown[0], shown[1], told, evidence, operator=name, by=SESSION)


def _order(router: AdaptiveConjunction | TupleRouter) -> list[int]:
    return router.usual if isinstance(router, TupleRouter) else list(router.policy.order)


def _start_join(operator: MJoin, adapter: AdaptiveJoin, learned: Learned) -> Decision | None:
    names, shape = list(adapter.names), adapter.shape
    wanted = learned.get("orders", {})
    if learned.get("inputs") != names or set(wanted) != set(names):
        return None
    orders = [tuple(names.index(x) for x in wanted[n] if x in names) for n in names]
    if not all(shape.avoids_products(i, order) for i, order in enumerate(orders)):
        return None
    before = _named(adapter, operator.arrays.orders)
    if adapter.ordering is not None:
        for i, order in enumerate(orders):
            adapter.ordering.impose(i, order)
    else:
        orders = list(operator.arrays.orders)  # they stay, because somebody said so
    adapter.replan(operator.arrays, orders)
    caches: list[str] = []
    if adapter.caching is not None:
        known = dict(zip(labels(adapter.caching.states, names), adapter.caching.states, strict=True))
        caches = [c for c in learned.get("caches", ()) if c in known]
        adapter.caching.adopt([known[c] for c in caches])
        adapter.replan(operator.arrays)
    after = _named(adapter, orders)
    if after == before and not caches:
        return None
    evidence = {"caches": caches, "elements": learned.get("elements", 0)}
    told = "an earlier run ended with these orders and caches: {caches}"
    return Decision(KIND, before, after, told, evidence, operator=operator.name, by=SESSION)


def _named(adapter: AdaptiveJoin, orders: Any) -> dict[str, list[str]]:
    return {n: [adapter.names[x] for x in orders[i]] for i, n in enumerate(adapter.names)}


def review(operator: Operator, learned: Learned) -> tuple[bool, Decision | None]:
    """Whether a starting plan has been judged by now, and the decision to enter if it was found stale."""
    known = operator.statistics()
    if not any(form in known and form in learned for form in ("orders", "order")):
        return True, None  # the user has altered it since: it adapts no more, or in another way
    if "orders" in known and "orders" in learned:
        if known["orders"] == learned["orders"] or not isinstance(operator, MJoin):
            return known["elements"] >= REVIEWED_ELEMENTS, None
        because = "stale: the data of this run call for other orders than those of the earlier one"
        return True, _stale(operator, learned["orders"], known["orders"], because, {})
    texts, order = known["filters"], known["order"]
    if order != learned["order"]:
        before, after = ([texts[f] for f in one] for one in (learned["order"], order))
        because = "stale: the data of this run call for another order than those of the earlier one"
        return True, _stale(operator, before, after, because, {})
    if known.get("rows", 0) < REVIEWED_ROWS:
        return False, None
    for f, (was, now) in enumerate(zip(learned.get("selectivity", ()), known["selectivity"], strict=False)):
        if (
            was is not None
            and now is not None
            and known["asked"][f] >= ASKED_ROWS
            and abs(was - now) > MOVED_SELECTIVITY
        ):
            evidence = {"filter": texts[f], "was": was, "now": now}
            because = "stale: {filter} passes {now:percent} of its rows, and passed {was:percent} in the earlier run"
            names = [texts[f] for f in order]
            return True, _stale(operator, names, names, because, evidence)
    return True, None


def _stale(operator: Operator, before: Any, after: Any, because: str, evidence: Mapping[str, Any]) -> Decision:
    return Decision(KIND, before, after, because, evidence, operator=operator.name, by=SESSION)
