"""The registered strategies as lines for people, which ``eddyline strategies`` prints, and as data for the page."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

# Importing a package of policies registers them.
from eddyline.adaptive.constraints import policies as _constraints  # noqa: F401
from eddyline.adaptive.disorder import policies as _slack  # noqa: F401
from eddyline.adaptive.filters import policies as _filters  # noqa: F401
from eddyline.adaptive.indexes import policies as _indexes  # noqa: F401
from eddyline.adaptive.joins import policies as _caches  # noqa: F401
from eddyline.adaptive.routing import policies as _routing  # noqa: F401
from eddyline.engine import scheduler as _scheduler  # noqa: F401
from eddyline.streamon.strategies import KINDS, strategies


def strategy_lines(kind: str | None = None) -> Iterator[str]:
    """A paragraph for each kind: how it is chosen, its strategies, and the parameters of each with their defaults.

    >>> for line in strategy_lines("scheduler"):
    ...     print(line)
    scheduler: which operator runs next
      WITH (scheduler = 'fifo')
        Batches are passed through all operators one after another.
      WITH (scheduler = 'greedy')
        The operator with the greatest rate of reduction in total queue size per unit time: ...
        period = 64: choices between two comparisons of statistics: fewer react sooner and cost more
        drift = 0.25: relative change of a statistic that calls for new priorities: larger is steadier
      WITH (scheduler = 'chain')
        Blocks of consecutive operators that together reduce the total queue size fastest.
        period = 64: choices between two comparisons of statistics: fewer react sooner and cost more
        drift = 0.25: relative change of a statistic that calls for new priorities: larger is steadier
      WITH (scheduler = 'round-robin')
        Queries take turns: the operator runs whose queries were served longest ago; FIFO among those of one query.
    """
    for i, option in enumerate([kind] if kind is not None else KINDS):
        if i:
            yield ""
        yield f"{option}: {KINDS[option].summary}"
        for found in strategies(option).values():
            yield f"  {KINDS[option].written.format(option=option, name=found.name)}"
            if found.summary:
                yield f"    {found.summary.replace('``', '')}"
            for p in found.parameters:
                default = found.defaults.get(p.name)
                yield f"    {p.name}{'' if default is None else f' = {default}'}: {p.trades}"


def strategies_data() -> dict[str, dict[str, dict[str, Any]]]:
    """The same as data: for each option of a query the parameters of each strategy, with default and what they trade.

    >>> strategies_data()["scheduler"]["chain"]["period"]
    {'default': 64, 'trades': 'choices between two comparisons of statistics: fewer react sooner and cost more'}
    """
    return {
        option: {
            found.name: {p.name: {"default": found.defaults.get(p.name), "trades": p.trades} for p in found.parameters}
            for found in strategies(option).values()
        }
        for option, kind in KINDS.items()
        if kind.of == "query"
    }
