"""Cache policies by name, as in ``WITH (caches = 'global')``: the M, P and G of section 5.8.4."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Any

from eddyline.adaptive.joins.a_caching import ACaching
from eddyline.adaptive.joins.parameters import M
from eddyline.adaptive.joins.shape import Shape
from eddyline.streamon import naming
from eddyline.streamon.parameters import Parameter

POLICIES: dict[str, tuple[Parameter, ...]] = {
    "none": (),  # a plain MJoin
    "prefix": tuple(p for p in ACaching.parameters if p is not M),
    "global": ACaching.parameters,
}


def make_caching(
    text: str, shape: Shape, names: Sequence[str], operator: str = "mjoin", **options: Any
) -> ACaching | None:
    """The policy for a join, options in the text or beside it; None for ``'none'``.

    >>> chain = Shape(3, (frozenset({0, 1}), frozenset({1, 2})))
    >>> make_caching("none", chain, "RST")
    >>> make_caching("prefix(interval = 5000)", chain, "RST").interval
    5000
    >>> make_caching("global", chain, "RST", m=8).m
    8
    >>> make_caching("prefix(m = 8)", chain, "RST")
    Traceback (most recent call last):
    ...
    eddyline.core.errors.JobError: the cache policy 'prefix' has no option 'm'. It has: interval, interval_time, W,
    threshold, W_d, alpha_bits, memory, page.
    >>> make_caching("globl", chain, "RST")
    Traceback (most recent call last):
    ...
    eddyline.core.errors.JobError: unknown cache policy 'globl'. Did you mean 'global'?
    """
    name, written = parse_policy(text)
    given = {**written, **options}
    known = {p.name: p for p in POLICIES[name]}
    naming.check_options(name, "cache", given, known)
    checked = {option: known[option].check(name, number) for option, number in given.items()}
    if name == "none":
        return None
    return ACaching(shape, names, operator=operator, global_caches=name == "global", **checked)


def parse_policy(text: str) -> tuple[str, dict[str, Any]]:
    """The name of a policy and the options written in brackets after it.

    >>> parse_policy("Global(memory=65536)")
    ('global', {'memory': 65536})
    """
    return naming.parse_policy(text, "cache", POLICIES, "global(interval=10000)")


def defaults(name: str) -> dict[str, int | float]:
    """The default of each parameter of a policy, by name; those without one have no limit.

    >>> defaults("global")["m"], "memory" in defaults("global"), defaults("none")
    (6, False, {})
    """
    signature = inspect.signature(ACaching).parameters
    known = POLICIES[naming.known_name(name, "cache", POLICIES)]
    return {p.name: signature[p.name].default for p in known if signature[p.name].default is not None}
