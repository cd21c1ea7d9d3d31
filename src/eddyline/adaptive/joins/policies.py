"""Cache policies by name, as in ``WITH (caches = 'global')``: the M, P and G of section 5.8.4."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from eddyline.adaptive.joins.a_caching import ACaching
from eddyline.adaptive.joins.parameters import M
from eddyline.adaptive.joins.shape import Shape
from eddyline.streamon.strategies import Strategy, find, strategies, strategy

POLICIES: Mapping[str, Strategy] = strategies("caches")


@strategy("caches", name="none")
def _no_caches(*_: Any, **__: Any) -> None:
    """A plain MJoin: nothing is cached."""


@strategy("caches", name="prefix", parameters=[p for p in ACaching.parameters if p is not M], like=ACaching)
def _prefix_invariant(*join: Any, **options: Any) -> ACaching:
    """A-Caching with caches that satisfy the prefix invariant."""
    return ACaching(*join, global_caches=False, **options)


@strategy("caches", name="global", parameters=ACaching.parameters, like=ACaching)
def _globally_consistent(*join: Any, **options: Any) -> ACaching:
    """A-Caching with globally-consistent caches beside those that satisfy the prefix invariant."""
    return ACaching(*join, global_caches=True, **options)


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
    found, written = find("caches", text)
    made: ACaching | None = found.make(shape, names, operator=operator, **found.checked({**written, **options}))
    return made


def parse_policy(text: str) -> tuple[str, dict[str, Any]]:
    """The name of a policy and the options written in brackets after it.

    >>> parse_policy("Global(memory=65536)")
    ('global', {'memory': 65536})
    """
    found, written = find("caches", text)
    return found.name, written


def defaults(name: str) -> dict[str, int | float | str]:
    """The default of each parameter of a policy, by name; those without one have no limit.

    >>> defaults("global")["m"], "memory" in defaults("global"), defaults("none")
    (6, False, {})
    """
    return dict(find("caches", name)[0].defaults)
