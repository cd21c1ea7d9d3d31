"""Filter policies by name: ``'a-greedy'``, ``'sweep(p=0.05)'``, or a name and options. The same order joins."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from eddyline.adaptive.filters.a_greedy import AGreedy
from eddyline.adaptive.filters.default import Default
from eddyline.adaptive.filters.independent import Independent
from eddyline.adaptive.filters.local_swaps import LocalSwaps
from eddyline.adaptive.filters.pipeline import Pipeline
from eddyline.adaptive.filters.policy import FilterPolicy
from eddyline.adaptive.filters.static import Static
from eddyline.adaptive.filters.sweep import Sweep
from eddyline.streamon.strategies import Strategy, find, strategies, strategy

for _policy in (Static, Independent, AGreedy, Sweep, LocalSwaps, Default):
    strategy("filters", "joins")(_policy)

POLICIES: Mapping[str, Strategy] = strategies("filters")


def make_policy(text: str, pipeline: Pipeline, kind: str = "filters", **options: Any) -> FilterPolicy:
    """A policy for a pipeline, named as in ``WITH (filters = 'sweep')``; options in the text or beside it. ``kind`` is
    the option that names it.

    >>> make_policy("A-Greedy(p = 0.05, window = 200)", Pipeline(3)).p
    0.05
    >>> make_policy("local_swaps", Pipeline(3), alpha=1).alpha
    1.0
    >>> make_policy("swep", Pipeline(3))
    Traceback (most recent call last):
    ...
    eddyline.core.errors.JobError: unknown filter policy 'swep'. Did you mean 'sweep'?
    >>> make_policy("sweep", Pipeline(3), windw=5)
    Traceback (most recent call last):
    ...
    eddyline.core.errors.JobError: the filter policy 'sweep' has no option 'windw'. Did you mean 'window'?
    """
    found, written = find(kind, text)
    made: FilterPolicy = found.make(pipeline, **found.checked({**written, **options}))
    return made


def parse_policy(text: str, kind: str = "filters") -> tuple[str, dict[str, Any]]:
    """The name of a policy and the options written in brackets after it.

    >>> parse_policy("default(overhead=0.01)")
    ('default', {'overhead': 0.01})
    """
    found, written = find(kind, text)
    return found.name, written


def defaults(name: str) -> dict[str, int | float | str]:
    """The default of each parameter of a policy, by name.

    >>> defaults("sweep")
    {'p': 0.01, 'window': 500, 'alpha': 0.9, 'seed': 0}
    """
    return dict(find("filters", name)[0].defaults)
