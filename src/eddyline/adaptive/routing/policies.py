"""Routing policies by name: ``'content-learns'``, ``'default(sets=2)'``, or a name and options.

Content-Knows is not among them: it must be told what no query can say.
"""

from __future__ import annotations

import ast
import inspect
import re
from typing import Any

from eddyline.adaptive.routing.content_learns import ContentLearns
from eddyline.adaptive.routing.default import Default
from eddyline.adaptive.routing.policy import RoutingPolicy
from eddyline.adaptive.routing.sbr import SourceBasedRouting
from eddyline.adaptive.routing.setting import Setting
from eddyline.core.errors import JobError, did_you_mean

Policy = type[SourceBasedRouting | ContentLearns | Default]

POLICIES: dict[str, Policy] = {p.name: p for p in (SourceBasedRouting, ContentLearns, Default)}


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
    name, written = parse_policy(text)
    policy = POLICIES[name]
    known = [p.name for p in policy.parameters]
    given = {**written, **options}
    for option in given:
        if option not in known:
            hint = did_you_mean(option, known) or f" It has: {', '.join(known)}."
            raise JobError(f"the routing policy {name!r} has no option {option!r}.{hint}")
    made: RoutingPolicy = policy(setting, **given)
    return made


def parse_policy(text: str) -> tuple[str, dict[str, Any]]:
    """The name of a policy and the options written in brackets after it.

    >>> parse_policy("SBR(greed=2)")
    ('sbr', {'greed': 2})
    """
    found = re.fullmatch(r"\s*([\w\s-]+?)\s*(?:\((.*)\))?\s*", text)
    if found is None:
        raise JobError(f"a routing policy is written like 'default' or 'default(sets=2)', not {text!r}.")
    options: dict[str, Any] = {}
    for item in filter(None, (i.strip() for i in (found.group(2) or "").split(","))):
        option = re.fullmatch(r"(\w+)\s*=\s*([-+.\w]+)", item)
        if option is None:
            raise JobError(f"an option of a routing policy is written like 'R=300', not {item!r} as in {text!r}.")
        if option.group(1) in options:
            raise JobError(f"the option {option.group(1)!r} is given twice in {text!r}.")
        options[option.group(1)] = _number(option.group(2))
    return _name(found.group(1)), options


def defaults(name: str) -> dict[str, int | float]:
    """The default of each parameter of a policy, by name.

    >>> defaults("sbr")
    {'alpha': 0.95, 'greed': 1.0, 'cost_aware': 0, 'seed': 0}
    """
    policy = POLICIES[_name(name)]
    signature = inspect.signature(policy).parameters
    return {p.name: signature[p.name].default for p in policy.parameters}


def _name(written: str) -> str:
    """The paper writes Content-Learns and SBR, people write content_learns and Sbr."""
    plain = {re.sub(r"\W|_", "", n): n for n in POLICIES}
    found = plain.get(re.sub(r"\W|_", "", written.lower()))
    if found is None:
        hint = did_you_mean(written, POLICIES) or f" There are: {', '.join(POLICIES)}."
        raise JobError(f"unknown routing policy {written!r}.{hint}")
    return found


def _number(text: str) -> Any:
    try:
        return ast.literal_eval(text)
    except (SyntaxError, ValueError):
        return text
