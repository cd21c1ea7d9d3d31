"""The registry of strategies: each by kind and name, with its parameters and their defaults.

A kind is an option of a query (``filters``, ``routing``, ``joins``, ``caches``, ``index``, ``scheduler``); a strategy
is a value of the option: a name, and parameters in brackets after it. Options, messages, documentation and the command
``eddyline strategies`` are made from this registry. A strategy is added by registering it: nothing else changes.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from eddyline.core.errors import JobError, did_you_mean
from eddyline.streamon.parameters import NamedChoice, Parameter

Factory = TypeVar("Factory", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class Kind:
    """What an option chooses: ``noun`` is what messages call it, ``example`` how it is written with a parameter."""

    option: str
    noun: str
    example: str
    summary: str
    written: str = "WITH ({option} = '{name}')"  # how a strategy is named in a job
    of: str = "query"  # what is declared with it: a query or a stream


@dataclass(frozen=True, slots=True)
class Strategy:
    """One strategy. ``make`` constructs it; parameters without a default have no limit."""

    kind: str
    name: str
    make: Callable[..., Any]
    parameters: tuple[Parameter | NamedChoice, ...] = ()
    defaults: Mapping[str, int | float | str] = field(default_factory=dict)
    summary: str = ""

    def checked(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """Parameters as asked for, or a sentence that says what is wrong with one."""
        known = {p.name: p for p in self.parameters}
        check_options(self.name, KINDS[self.kind].noun, given, known)
        return {name: known[name].check(self.name, value) for name, value in given.items()}


KINDS: dict[str, Kind] = {
    k.option: k
    for k in (
        Kind("filters", "filter", "a-greedy(p=0.05)", "the order in which the conjuncts of a WHERE are evaluated"),
        Kind("routing", "routing", "default(sets=2)", "an order of conjuncts or joined relations for each kind of row"),
        Kind("joins", "join", "a-greedy(p=0.05)", "the order in which an element is joined with the other inputs"),
        Kind("caches", "cache", "global(interval=10000)", "the subresults that a join of three or more inputs caches"),
        Kind("index", "index", "amri(theta=0.1)", "the indexes of the states of a multi-route join"),
        Kind("constraints", "constraint", "exact(p=0.02)", "whether joins keep less than their windows hold"),
        Kind("scheduler", "scheduling", "chain(period=64)", "which operator runs next"),
        Kind(
            "slack",
            "slack",
            "auto(target=99)",
            "how long a stream waits for rows that come late, in CREATE STREAM",
            "SLACK '{name}'",
            of="stream",
        ),
    )
}
_STRATEGIES: dict[str, dict[str, Strategy]] = {option: {} for option in KINDS}


def strategy(
    *kinds: str,
    name: str | None = None,
    parameters: Iterable[Parameter | NamedChoice] | None = None,
    like: Callable[..., Any] | None = None,
) -> Callable[[Factory], Factory]:
    """Registers a class (or a function that makes an instance) under its ``name`` with its ``parameters``. Their
    defaults stand in its signature, or in that of ``like``.

    >>> @strategy("filters")
    ... class Reversed:
    ...     '''The filters from the last to the first.'''
    ...     name = "reversed-example"
    >>> strategies("filters")["reversed-example"].summary
    'The filters from the last to the first.'
    >>> withdraw("filters", "reversed-example")
    """

    def register(make: Factory) -> Factory:
        own = tuple(getattr(make, "parameters", ()) if parameters is None else parameters)
        called = name or str(make.name)  # type: ignore[attr-defined]
        summary = (inspect.getdoc(make) or "").split("\n\n")[0].replace("\n", " ")
        for kind in kinds:
            _STRATEGIES[kind][called] = Strategy(kind, called, make, own, defaults_of(like or make, own), summary)
        return make

    return register


def withdraw(kind: str, name: str) -> None:
    """Takes a strategy out of the registry: for tests that register their own."""
    del _STRATEGIES[kind][name]


def strategies(kind: str) -> Mapping[str, Strategy]:
    """The strategies of a kind by name, in the order of their registration."""
    return _STRATEGIES[kind]


def find(kind: str, text: str) -> tuple[Strategy, dict[str, Any]]:
    """The strategy that a text names, and the parameters written after it, unchecked."""
    known = _STRATEGIES[kind]
    name, written = parse(text, KINDS[kind], known)
    return known[name], written


def parse(text: str, kind: Kind, names: Iterable[str]) -> tuple[str, dict[str, Any]]:
    """A name among ``names``, and the parameters written after it.

    >>> parse("A_Greedy(p = 0.05)", KINDS["filters"], ["a-greedy"])
    ('a-greedy', {'p': 0.05})
    >>> parse("a-greedy(p)", KINDS["filters"], ["a-greedy"])
    Traceback (most recent call last):
    ...
    eddyline.core.errors.JobError: an option of a filter policy is written like 'p=0.05', not 'p' as in 'a-greedy(p)'.
    """
    found = re.fullmatch(r"\s*([\w\s-]+?)\s*(?:\((.*)\))?\s*", text)
    article = "an" if kind.noun[0] in "aeiou" else "a"
    plain, _, option_example = kind.example.rstrip(")").partition("(")
    if found is None:
        raise JobError(f"{article} {kind.noun} policy is written like {plain!r} or {kind.example!r}, not {text!r}.")
    options: dict[str, Any] = {}
    for item in filter(None, (i.strip() for i in (found.group(2) or "").split(","))):
        option = re.fullmatch(r"(\w+)\s*=\s*([-+.\w]+)", item)
        if option is None:
            raise JobError(
                f"an option of {article} {kind.noun} policy is written like {option_example!r}, "
                f"not {item!r} as in {text!r}."
            )
        if option.group(1) in options:
            raise JobError(f"the option {option.group(1)!r} is given twice in {text!r}.")
        options[option.group(1)] = _number(option.group(2))
    return known_name(found.group(1), kind.noun, names), options


def known_name(written: str, noun: str, names: Iterable[str]) -> str:
    """The papers write A-Greedy and LocalSwaps, people write a_greedy and localswaps."""
    names = list(names)
    found = {re.sub(r"\W|_", "", n): n for n in names}.get(re.sub(r"\W|_", "", written.lower()))
    if found is None:
        hint = did_you_mean(written, names) or f" There are: {', '.join(names)}."
        raise JobError(f"unknown {noun} policy {written!r}.{hint}")
    return found


def check_options(name: str, noun: str, given: Iterable[str], known: Iterable[str]) -> None:
    """Refuse options that the policy does not have."""
    known = list(known)
    for option in given:
        if option not in known:
            hint = did_you_mean(option, known) or (f" It has: {', '.join(known)}." if known else " It has none.")
            raise JobError(f"the {noun} policy {name!r} has no option {option!r}.{hint}")


def defaults_of(
    make: Callable[..., Any], parameters: Iterable[Parameter | NamedChoice]
) -> dict[str, int | float | str]:
    """The default of each parameter, by name: they stand in the constructor. One without a limit has none."""
    signature = inspect.signature(make).parameters
    return {p.name: signature[p.name].default for p in parameters if signature[p.name].default is not None}


def _number(text: str) -> int | float | str:
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text
