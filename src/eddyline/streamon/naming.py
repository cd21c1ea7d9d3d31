"""Policies as users write them: a name, and options in brackets after it."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable
from typing import Any

from eddyline.core.errors import JobError, did_you_mean


def parse_policy(text: str, kind: str, names: Iterable[str], example: str) -> tuple[str, dict[str, Any]]:
    """The name of a policy of some kind, as in ``names``, and the options written after it.

    >>> parse_policy("A_Greedy(p = 0.05)", "filter", ["a-greedy"], "a-greedy(p=0.05)")
    ('a-greedy', {'p': 0.05})
    >>> parse_policy("a-greedy(p)", "filter", ["a-greedy"], "a-greedy(p=0.05)")
    Traceback (most recent call last):
    ...
    eddyline.core.errors.JobError: an option of a filter policy is written like 'p=0.05', not 'p' as in 'a-greedy(p)'.
    """
    found = re.fullmatch(r"\s*([\w\s-]+?)\s*(?:\((.*)\))?\s*", text)
    plain, _, option_example = example.rstrip(")").partition("(")
    if found is None:
        raise JobError(f"a {kind} policy is written like {plain!r} or {example!r}, not {text!r}.")
    options: dict[str, Any] = {}
    for item in filter(None, (i.strip() for i in (found.group(2) or "").split(","))):
        option = re.fullmatch(r"(\w+)\s*=\s*([-+.\w]+)", item)
        if option is None:
            raise JobError(
                f"an option of a {kind} policy is written like {option_example!r}, not {item!r} as in {text!r}."
            )
        if option.group(1) in options:
            raise JobError(f"the option {option.group(1)!r} is given twice in {text!r}.")
        options[option.group(1)] = _number(option.group(2))
    return known_name(found.group(1), kind, names), options


def known_name(written: str, kind: str, names: Iterable[str]) -> str:
    """The papers write A-Greedy and LocalSwaps, people write a_greedy and localswaps."""
    names = list(names)
    found = {re.sub(r"\W|_", "", n): n for n in names}.get(re.sub(r"\W|_", "", written.lower()))
    if found is None:
        hint = did_you_mean(written, names) or f" There are: {', '.join(names)}."
        raise JobError(f"unknown {kind} policy {written!r}.{hint}")
    return found


def check_options(name: str, kind: str, given: Iterable[str], known: Iterable[str]) -> None:
    """Refuse options that the policy does not have."""
    known = list(known)
    for option in given:
        if option not in known:
            hint = did_you_mean(option, known) or (f" It has: {', '.join(known)}." if known else " It has none.")
            raise JobError(f"the {kind} policy {name!r} has no option {option!r}.{hint}")


def defaults_of(policy: Any) -> dict[str, int | float]:
    """The default of each parameter of a policy, by name: they stand in its constructor."""
    signature = inspect.signature(policy).parameters
    return {p.name: signature[p.name].default for p in policy.parameters}


def _number(text: str) -> int | float | str:
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text
