"""Generators by name, with their dials given as texts: what ``generate:`` URIs in jobs refer to."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable, Mapping
from typing import Any, Final

from eddyline.core.errors import JobError, did_you_mean
from eddyline.datasets.generate import Generated

# Module and function. A job without generated streams starts without loading them.
GENERATORS: Final[Mapping[str, tuple[str, str]]] = {
    "packets": ("packets", "link"),
    "intrusion": ("packets", "intrusion"),
    "targets": ("packets", "targets"),
    "trades": ("trades", "trades"),
    "join": ("joins", "join_stream"),
    "nexmark": ("nexmark", "nexmark"),
    "linear_road": ("linear_road", "linear_road"),
    "moving": ("moving", "moving"),
}


def generator(name: str) -> Callable[..., Generated]:
    """
    >>> generator("packets").__name__
    'link'
    """
    module, function = GENERATORS[name]
    found: Callable[..., Generated] = getattr(importlib.import_module(f"eddyline.datasets.{module}"), function)
    return found


def generate(name: str, dials: Mapping[str, str]) -> Generated:
    """A generator with its dials turned.

    >>> generate("packets", {"link": "B", "seconds": "2"}).schema.names
    ['ts', 'pid', 'size']
    >>> generate("packets", {"rat": "5"})
    Traceback (most recent call last):
    ...
    eddyline.core.errors.JobError: generate:packets has no dial 'rat'. Did you mean 'rate'?
    """
    if name not in GENERATORS:
        near = did_you_mean(name, GENERATORS) or f" There are: {', '.join(GENERATORS)}."
        raise JobError(f"there is no generator {name!r}.{near}")
    make = generator(name)
    parameters = inspect.signature(make).parameters
    given: dict[str, Any] = {}
    for dial, text in dials.items():
        if dial not in parameters:
            near = did_you_mean(dial, parameters) or f" It has: {', '.join(parameters)}."
            raise JobError(f"generate:{name} has no dial {dial!r}.{near}")
        given[dial] = _value(f"generate:{name}", dial, text, str(parameters[dial].annotation))
    return make(**given)


def _value(place: str, dial: str, text: str, annotation: str) -> Any:
    kind: Callable[[str], Any] = str
    for prefix, wanted in (("int", int), ("float", float)):
        if annotation.startswith(prefix):
            kind = wanted
    try:
        return kind(text)
    except ValueError as error:
        raise JobError(f"{place}: {dial} = {text!r} is not a number.") from error
