"""Policies by name: ``'a-greedy'``, ``'sweep(p=0.05)'``, or a name and options."""

from __future__ import annotations

from typing import Any

from eddyline.adaptive.filters.a_greedy import AGreedy
from eddyline.adaptive.filters.default import Default
from eddyline.adaptive.filters.independent import Independent
from eddyline.adaptive.filters.local_swaps import LocalSwaps
from eddyline.adaptive.filters.pipeline import Pipeline
from eddyline.adaptive.filters.policy import FilterPolicy
from eddyline.adaptive.filters.static import Static
from eddyline.adaptive.filters.sweep import Sweep
from eddyline.streamon import naming

Policy = type[Static | Independent | AGreedy | Sweep | LocalSwaps | Default]

POLICIES: dict[str, Policy] = {p.name: p for p in (Static, Independent, AGreedy, Sweep, LocalSwaps, Default)}


def make_policy(text: str, pipeline: Pipeline, kind: str = "filter", **options: Any) -> FilterPolicy:
    """A policy for a pipeline, named as in ``WITH (filters = 'sweep')``; options in the text or beside it. ``kind`` is
    what messages call it.

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
    name, written = parse_policy(text, kind)
    policy = POLICIES[name]
    given = {**written, **options}
    known = {p.name: p for p in policy.parameters}
    naming.check_options(name, kind, given, known)
    for option, value in given.items():
        known[option].check(name, value)
    made: FilterPolicy = policy(pipeline, **given)
    return made


def parse_policy(text: str, kind: str = "filter") -> tuple[str, dict[str, Any]]:
    """The name of a policy and the options written in brackets after it.

    >>> parse_policy("default(overhead=0.01)")
    ('default', {'overhead': 0.01})
    """
    return naming.parse_policy(text, kind, POLICIES, "a-greedy(p=0.05)")


def defaults(name: str) -> dict[str, int | float]:
    """The default of each parameter of a policy, by name.

    >>> defaults("sweep")
    {'p': 0.01, 'window': 500, 'alpha': 0.9, 'seed': 0}
    """
    return naming.defaults_of(POLICIES[naming.known_name(name, "filter", POLICIES)])
