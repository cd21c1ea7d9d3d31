"""Frozen records as plain data (dictionaries, lists, numbers, texts) that a snapshot or JSON can hold."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import fields, is_dataclass
from typing import Any

_SCALARS = (str, int, float, bool, bytes, type(None))


def plain_copy(value: Any) -> Any:
    """What ``dataclasses.asdict`` makes of a record, at a tenth of its cost: numbers and texts are not copied.

    >>> from eddyline.core.bound import Bound
    >>> plain_copy({"pairs": [(1, 2.5)], "bound": Bound(rows=3)})
    {'pairs': [(1, 2.5)], 'bound': {'rows': 3, 'ticks': None, 'each': None}}
    """
    kind = type(value)
    if kind in _SCALARS:
        return value
    if kind is dict:
        return {k: plain_copy(v) for k, v in value.items()}
    if kind is tuple or kind is list:
        return kind([plain_copy(v) for v in value])
    if is_dataclass(kind):
        return {f.name: plain_copy(getattr(value, f.name)) for f in fields(value)}
    return deepcopy(value)
