"""Routing policies by name: ``'content-learns'``, ``'default(sets=2)'``, or a name and options.

Content-Knows is not among them: it needs selectivities that no query can give. Known-Classifier is: a query names its
classifier beside it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from eddyline.adaptive.routing.content_learns import ContentLearns
from eddyline.adaptive.routing.default import Default
from eddyline.adaptive.routing.policy import RoutingPolicy
from eddyline.adaptive.routing.sbr import SourceBasedRouting
from eddyline.adaptive.routing.setting import Setting
from eddyline.streamon.strategies import Strategy, find, strategies, strategy

for _policy in (SourceBasedRouting, ContentLearns, Default):
    strategy("routing")(_policy)

POLICIES: Mapping[str, Strategy] = strategies("routing")


def make_policy(text: str, setting: Setting, **options: Any) -> RoutingPolicy:
    """A policy for a setting, named as in ``WITH (routing = 'content-learns')``; options in the text or beside it.

    >>> from eddyline.adaptive.filters.pipeline import Pipeline
    >>> setting = Setting(Pipeline(3), ("sensor",))
    >>> make_policy("Content-Learns(P = 0.1, R = 300)", setting).R
    300
    >>> make_policy("magic", setting)
    Traceback (most recent call last):
    ...
    eddyline.core.errors.JobError: unknown routing policy 'magic'. There are: sbr, content-learns, default.
    >>> make_policy("content-learns", setting, gama=0.1)
    Traceback (most recent call last):
    ...
    eddyline.core.errors.JobError: the routing policy 'content-learns' has no option 'gama'. Did you mean 'gamma'?
    """
    found, written = find("routing", text)
    made: RoutingPolicy = found.make(setting, **found.checked({**written, **options}))
    return made


def parse_policy(text: str) -> tuple[str, dict[str, Any]]:
    """The name of a policy and the options written in brackets after it.

    >>> parse_policy("SBR(greed=2)")
    ('sbr', {'greed': 2})
    """
    found, written = find("routing", text)
    return found.name, written


def defaults(name: str) -> dict[str, int | float | str]:
    """The default of each parameter of a policy, by name.

    >>> defaults("sbr")
    {'alpha': 0.95, 'greed': 1.0, 'cost_aware': 0, 'seed': 0}
    """
    return dict(find("routing", name)[0].defaults)
