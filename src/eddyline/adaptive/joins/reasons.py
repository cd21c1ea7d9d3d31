"""Decisions about caches in words and numbers, for the log."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from eddyline.adaptive.joins.candidates import Candidate
from eddyline.adaptive.joins.model import Statistics, Value, net, upkeep
from eddyline.streamon.decision import Decision

Values = Mapping[Candidate, Value]

KIND = "join caches"


def labels(some: Iterable[Candidate], names: Sequence[str]) -> tuple[str, ...]:
    return tuple(c.label(names) for c in some)


def why(
    before: Sequence[Candidate],
    after: Sequence[Candidate],
    values: Values,
    misses: Mapping[Candidate, float],
    statistics: Statistics,
    names: Sequence[str],
) -> str:
    """What the new caches bring, and what the old ones that go would have brought."""
    said = []
    paid: set[Any] = {c.store for c in before}
    for c in after:
        if c not in before:
            work, upkeep_ = statistics.work(c.pipeline, c.operators), values[c].cost
            shared = "is maintained already" if c.store in paid else f"costs {upkeep_:.3g} to maintain"
            said.append(
                f"{c.label(names)} spares {values[c].benefit:.3g} of {work:.3g} and {shared}, "
                f"missing {100 * misses[c]:.0f} % of its probes"
            )
            paid.add(c.store)
    for c in before:
        if c in after:
            continue
        if c in values:
            said.append(f"{c.label(names)} would spare {values[c].benefit:.3g} for {values[c].cost:.3g}")
        else:
            said.append(f"nothing is known of {c.label(names)} any more")
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


def total(some: Sequence[Candidate], values: Values) -> tuple[float, float]:
    """Σ benefit and Σ cost, shared caches paying once."""
    return sum(values[c].benefit for c in some), sum(upkeep(some, values).values())


def decision(
    now: int | None,
    operator: str,
    names: Sequence[str],
    before: Iterable[Candidate],
    after: Iterable[Candidate],
    reason: str,
    evidence: Mapping[str, Any],
    expected_gain: float | None = None,
) -> Decision:
    return Decision(now, operator, KIND, labels(before, names), labels(after, names), reason, evidence, expected_gain)
