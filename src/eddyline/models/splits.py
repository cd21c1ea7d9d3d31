"""Split functions (Pulse 2.6.3): how the bound of a result is divided among the attributes that it depends on.

A share s of attribute a gives it the bound s·bound/L, L being the Lipschitz constant of the result in a. Shares of a
result are at most 1 together, so whatever a function prefers, errors within the shares add up to the bound at most.

    equi       the same share for every attribute of D(o)
    gradient   |x′| / Σ|x′|: what moves fast gets more of the bound, for its segments are the short ones
    f          a function of the user's (``session.split``)
"""

from __future__ import annotations

from collections.abc import Mapping

from eddyline.core.catalog import Attribute, SplitDef
from eddyline.core.errors import JobError, did_you_mean

# Of an equal share: what an attribute keeps however slowly it moves. With none, a signal that stands still would have
# to be met exactly, and its noise alone would end every segment.
LEAST_SHARE = 1 / 16
_ROUNDING = 2.0**-30


def equi_split(result: str, attributes: Mapping[Attribute, float]) -> dict[Attribute, float]:
    """The same share for every attribute that a result depends on."""
    return dict.fromkeys(attributes, 1.0 / max(1, len(attributes)))


def gradient_split(result: str, attributes: Mapping[Attribute, float]) -> dict[Attribute, float]:
    """Shares by the attributes' mean |x′|, equal ones where all are 0; none is less than a part of an equal share.

    >>> gradient_split("gap", {(0, "x"): 3.0, (1, "x"): 1.0})
    {(0, 'x'): 0.75, (1, 'x'): 0.25}
    >>> gradient_split("gap", {(0, "x"): 0.0, (1, "x"): 0.0})
    {(0, 'x'): 0.5, (1, 'x'): 0.5}
    >>> sum(gradient_split("gap", {(0, "x"): 8.0, (1, "x"): 0.0}).values())
    1.0
    """
    total = sum(attributes.values())
    if not total > 0.0:
        return equi_split(result, attributes)
    least = LEAST_SHARE / len(attributes)
    raised = {a: max(g / total, least) for a, g in attributes.items()}
    whole = sum(raised.values())
    return {a: s / whole for a, s in raised.items()}


EQUI = SplitDef("equi", equi_split)
GRADIENT = SplitDef("gradient", gradient_split)
BUILT_IN: Mapping[str, SplitDef] = {s.name: s for s in (EQUI, GRADIENT)}


def split_named(name: str, own: Mapping[str, SplitDef]) -> SplitDef:
    """The split function of a name: one of ours, or one that the session has."""
    found = BUILT_IN.get(name.lower()) or own.get(name.lower())
    if found is None:
        names = [*BUILT_IN, *(s.name for s in own.values())]
        raise JobError(
            f"SPLIT names a function that divides the bound, and {name!r} is none: there are "
            f"{', '.join(sorted(names))}; session.split(name, function) registers one.{did_you_mean(name, names)}"
        )
    return found


def shares(split: SplitDef, result: str, attributes: Mapping[Attribute, float]) -> dict[Attribute, float]:
    """What a split function gives, checked: no share is missing, none is 0, and all are at most the whole."""
    try:
        found = split.function(result, dict(sorted(attributes.items())))
    except Exception as error:
        raise JobError(
            f"the split function {split.name!r} failed for {result!r}: {type(error).__name__}: {error}. It is called "
            "with the name of a result and its attributes, and gives each a share."
        ) from error
    if not isinstance(found, Mapping):
        raise JobError(f"the split function {split.name!r} gives a share for each attribute, as a dictionary.")
    if found.keys() != attributes.keys() or not all(isinstance(s, int | float) and 0 < s <= 1 for s in found.values()):
        raise JobError(
            f"the split function {split.name!r} gives each of {sorted(attributes)} a share above 0 and at most 1, and "
            f"gave {dict(found)} for {result!r}."
        )
    if sum(found.values()) > 1.0 + _ROUNDING:
        raise JobError(
            f"the split function {split.name!r} gave shares of {sum(found.values()):g} of the bound of {result!r}."
        )
    return dict(found)
