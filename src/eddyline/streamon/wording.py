"""Sentences for people from templates and evidence. Nothing here is read by a policy.

A template names the evidence in braces. A number gets its unit; ``{f:name}`` is the name of the filter with that
number, ``{n:place}`` counts from one, ``{x:percent}`` is a share. What cannot be said by a template is said by a
function that a policy's package registers under a name (``sentence``), which then stands where a template would.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from string import Formatter
from typing import Any

Evidence = Mapping[str, Any]

_SENTENCES: dict[str, Callable[[Evidence], str]] = {}


def sentence(name: str) -> Callable[[Callable[[Evidence], str]], Callable[[Evidence], str]]:
    """Registers a function from evidence to a sentence.

    >>> @sentence("an example for the documentation")
    ... def _example(evidence):
    ...     return f"{len(evidence['caches'])} caches pay"
    >>> render("an example for the documentation", {"caches": ["R⋈S", "S⋈T"]})
    '2 caches pay'
    """

    def register(make: Callable[[Evidence], str]) -> Callable[[Evidence], str]:
        _SENTENCES[name] = make
        return make

    return register


def render(template: str, evidence: Evidence, units: Mapping[str, str] | None = None, names: Sequence[str] = ()) -> str:
    """The sentence of a decision.

    >>> render("a profile tuple takes {saved} ± {error} less", {"saved": 0.52, "error": 0.03}, {"saved": "accesses"})
    'a profile tuple takes 0.52 accesses ± 0.03 less'
    >>> render("{f:name} comes to position {at:place}", {"f": 2, "at": 0})
    'F3 comes to position 1'
    """
    if template in _SENTENCES:
        return _SENTENCES[template](evidence)
    parts: list[str] = []
    for text, key, form, _ in Formatter().parse(template):
        parts.append(text)
        if key is not None:
            parts.append(_shown(evidence[key], (units or {}).get(key, ""), form or "", names))
    return "".join(parts)


def _shown(value: Any, unit: str, form: str, names: Sequence[str]) -> str:
    if form == "name":
        return names[value] if value < len(names) else f"F{value + 1}"
    if form == "place":
        return str(value + 1)
    if form == "percent":
        return f"{value:.0%}"
    if isinstance(value, list | tuple):
        return ", ".join(_shown(v, unit, form, names) for v in value)
    if unit == "s":
        return in_units(value)
    number = format(value, form or ".3g") if isinstance(value, float) else str(value)
    return f"{number} {unit}" if unit else number


def in_units(seconds: float) -> str:
    """
    >>> in_units(3.2e-5), in_units(4e-8), in_units(0.5), in_units(0.0)
    ('32 µs', '40 ns', '500 ms', '0 s')
    """
    if not seconds:
        return "0 s"
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)):
        if abs(seconds) >= size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds / 1e-9:.3g} ns"


def decided_line(decision: Mapping[str, Any]) -> str:
    """A decision as plain data (``Decision.to_dict``) in one line.

    >>> decided_line({"operator": "select 1", "time": 7, "kind": "filter order", "after": ["b", "a"],
    ...     "reason": "b is cheaper", "expected_gain": 1.3, "measured_gain": None})
    'select 1 at 7: filter order b, a (b is cheaper; expected gain 1.30×)'
    """
    parts = [decision["reason"]] if decision.get("reason") else []
    if decision["expected_gain"] is not None:
        parts.append(f"expected gain {decision['expected_gain']:.2f}×")
    if decision.get("cost"):
        parts.append(f"costs {decision['cost']:,.0f} {decision['units'].get('cost', '')}".rstrip())
    if decision["measured_gain"] is not None:
        parts.append(f"measured {decision['measured_gain']:.2f}×")
    if not decision.get("applied", True):
        parts.append("not applied: the query is pinned")
    at = "" if decision["time"] is None else f" at {decision['time']}"
    why = f" ({'; '.join(parts)})" if parts else ""
    return f"{decision['operator']}{at}: {decision['kind']} {brief(decision['after'])}{why}"


def brief(value: Any) -> str:
    """
    >>> brief({"R": ["S", "T"], "S": []})
    'R → S, T; S → none'
    """
    if isinstance(value, Mapping):
        return "; ".join(f"{k} → {brief(v)}" for k, v in value.items())
    if isinstance(value, list | tuple):
        return ", ".join(map(brief, value)) or "none"
    return str(value)
