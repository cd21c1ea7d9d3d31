"""Texts and evidence of decisions about caches, for the log."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from eddyline.adaptive.joins.candidates import Candidate
from eddyline.adaptive.joins.model import Statistics, Value, net, upkeep
from eddyline.streamon.decision import Decision
from eddyline.streamon.wording import sentence

Values = Mapping[Candidate, Value]

KIND = "join caches"
SELECTED = "caches by benefit less cost"  # the name of a sentence
REORDERED = "the new order of {pipelines} leaves {lost} without its place or its maintenance"
UNPROFITABLE = "{lost}: now spares {benefit} and costs {upkeep} to maintain"


def labels(some: Iterable[Candidate], names: Sequence[str]) -> tuple[str, ...]:
    return tuple(c.label(names) for c in some)


def changes(
    before: Sequence[Candidate],
    after: Sequence[Candidate],
    values: Values,
    misses: Mapping[Candidate, float],
    statistics: Statistics,
    names: Sequence[str],
) -> dict[str, Any]:
    """What the new caches bring, and what the old ones that go would have brought, as evidence."""
    paid: set[Any] = {c.store for c in before}
    taken, dropped = [], []
    for c in after:
        if c not in before:
            taken.append(
                {
                    "cache": c.label(names),
                    "benefit": values[c].benefit,
                    "work": statistics.work(c.pipeline, c.operators),
                    "cost": None if c.store in paid else values[c].cost,
                    "miss": misses[c],
                }
            )
            paid.add(c.store)
    for c in before:
        if c not in after:
            known = {"benefit": values[c].benefit, "cost": values[c].cost} if c in values else {}
            dropped.append({"cache": c.label(names), **known})
    return {"taken": taken, "dropped": dropped}


@sentence(SELECTED)
def _selected(evidence: Mapping[str, Any]) -> str:
    said = []
    for c in evidence["taken"]:
        upkeep_ = "is maintained already" if c["cost"] is None else f"costs {c['cost']:.3g} to maintain"
        said.append(
            f"{c['cache']} spares {c['benefit']:.3g} of {c['work']:.3g} and {upkeep_}, "
            f"missing {100 * c['miss']:.0f} % of its probes"
        )
    for c in evidence["dropped"]:
        if "benefit" in c:
            said.append(f"{c['cache']} would spare {c['benefit']:.3g} for {c['cost']:.3g}")
        else:
            said.append(f"nothing is known of {c['cache']} any more")
    return "; ".join(said)


def figures(some: Iterable[Candidate], values: Values, misses: Mapping[Candidate, float], names: Sequence[str]) -> Any:
    """The estimates of some caches, by label."""
    return {
        c.label(names): {"benefit": values[c].benefit, "cost": values[c].cost, "miss": misses[c]}
        for c in some
        if c in values
    }


def table(
    states: Mapping[Candidate, str | None],
    values: Values,
    misses: Mapping[Candidate, float],
    pages: Mapping[Any, int],
    names: Sequence[str],
) -> list[dict[str, Any]]:
    """A line for each candidate; None where nothing is known."""
    return [
        {
            "cache": c.label(names),
            "state": state,
            "benefit": values[c].benefit if c in values else None,
            "cost": values[c].cost if c in values else None,
            "miss": misses.get(c),
            "pages": pages.get(c.store),
        }
        for c, state in states.items()
    ]


def gain(
    before: Iterable[Candidate], after: Iterable[Candidate], values: Values, statistics: Statistics
) -> float | None:
    """The work of the whole join with the caches before, over that with the caches after; None if one of those that
    make the difference is not known."""
    old, new = set(before), set(after)
    if any(c not in values for c in old ^ new):
        return None
    work, known = statistics.total, values.keys()
    left = work - net(sorted(new & known), values)
    return (work - net(sorted(old & known), values)) / left if left > 0 else None


def fill_cost(filling: Mapping[Candidate, int], values: Values) -> float | None:
    """What a change to new caches costs: the accesses that they do not spare yet while they fill, ``filling`` tuples
    each. Hits grow from none to those that the benefit rests on, so that is half of it; None: it is not known."""
    if any(c not in values for c in filling):
        return None
    return sum(0.5 * max(0.0, values[c].benefit) * tuples for c, tuples in filling.items())


def total(some: Sequence[Candidate], values: Values) -> tuple[float, float]:
    """Σ benefit and Σ cost, shared caches paying once."""
    return sum(values[c].benefit for c in some), sum(upkeep(some, values).values())


def decision(
    now: int | None,
    operator: str,
    names: Sequence[str],
    before: Iterable[Candidate],
    after: Iterable[Candidate],
    because: str,
    evidence: Mapping[str, Any],
    expected_gain: float | None = None,
    cost: float | None = None,
) -> Decision:
    return Decision(
        KIND,
        labels(before, names),
        labels(after, names),
        because,
        evidence,
        {"work": "accesses an element", **({} if cost is None else {"cost": "accesses"})},
        expected_gain,
        cost,
        operator=operator,
        time=now,
    )
