"""Policies by name: ``'a-greedy'``, ``'sweep(p=0.05)'``, or a name and options."""

from __future__ import annotations

import inspect
import re
from typing import Any

from eddyline.adaptive.filters.a_greedy import AGreedy
from eddyline.adaptive.filters.default import Default
from eddyline.adaptive.filters.independent import Independent
from eddyline.adaptive.filters.local_swaps import LocalSwaps
from eddyline.adaptive.filters.pipeline import Pipeline
from eddyline.adaptive.filters.policy import FilterPolicy
from eddyline.adaptive.filters.static import Static
from eddyline.adaptive.filters.sweep import Sweep
from eddyline.core.errors import JobError, did_you_mean

Policy = type[Static | Independent | AGreedy | Sweep | LocalSwaps | Default]

POLICIES: dict[str, Policy] = {p.name: p for p in (Static, Independent, AGreedy, Sweep, LocalSwaps, Default)}


def make_policy(text: str, pipeline: Pipeline, **options: Any) -> FilterPolicy:
    """A policy for a pipeline, named as in ``WITH (filters = 'sweep')``; options in the text or beside it.

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
    name, written = parse_policy(text)
    policy = POLICIES[name]
    given = {**written, **options}
    known = {p.name: p for p in policy.parameters}
    for option, value in given.items():
        if option not in known:
            hint = did_you_mean(option, known) or (f" It has: {', '.join(known)}." if known else " It has none.")
            raise JobError(f"the filter policy {name!r} has no option {option!r}.{hint}")
        known[option].check(name, value)
    made: FilterPolicy = policy(pipeline, **given)
    return made


def parse_policy(text: str) -> tuple[str, dict[str, Any]]:
    """The name of a policy and the options written in brackets after it.

    >>> parse_policy("default(overhead=0.01)")
    ('default', {'overhead': 0.01})
    """
    found = re.fullmatch(r"\s*([\w\s-]+?)\s*(?:\((.*)\))?\s*", text)
    if found is None:
        raise JobError(f"a filter policy is written like 'a-greedy' or 'a-greedy(p=0.05)', not {text!r}.")
    name = _name(found.group(1))
    options: dict[str, Any] = {}
    for item in filter(None, (i.strip() for i in (found.group(2) or "").split(","))):
        option = re.fullmatch(r"(\w+)\s*=\s*([-+.\w]+)", item)
        if option is None:
            raise JobError(f"an option of a filter policy is written like 'p=0.05', not {item!r} as in {text!r}.")
        if option.group(1) in options:
            raise JobError(f"the option {option.group(1)!r} is given twice in {text!r}.")
        options[option.group(1)] = _number(option.group(2))
    return name, options


def defaults(name: str) -> dict[str, int | float]:
    """The default of each parameter of a policy, by name.

    >>> defaults("sweep")
    {'p': 0.01, 'window': 500, 'alpha': 0.9, 'seed': 0}
    """
    policy = POLICIES[_name(name)]
    signature = inspect.signature(policy).parameters
    return {p.name: signature[p.name].default for p in policy.parameters}


def _name(written: str) -> str:
    """The papers write A-Greedy and LocalSwaps, people write a_greedy and localswaps."""
    plain = {re.sub(r"\W|_", "", n): n for n in POLICIES}
    found = plain.get(re.sub(r"\W|_", "", written.lower()))
    if found is None:
        hint = did_you_mean(written, POLICIES) or f" There are: {', '.join(POLICIES)}."
        raise JobError(f"unknown filter policy {written!r}.{hint}")
    return found


def _number(text: str) -> int | float | str:
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text
