"""Aggregates of models with bounds of their error, and with pieces in doubt.

|∫x − ∫x̂| ≤ ∫e, so the bound of an integral is the integral of the bound. |min xᵢ − min x̂ᵢ| ≤ max eᵢ over all keys that
have a value, and over a window the supremum of that: the bound of an extreme is an upper envelope of bounds. A result
is in doubt if any piece that its window covers is.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from eddyline.core.delta import combine
from eddyline.models.aggregating import aggregate
from eddyline.models.error_bounds import same_everywhere
from eddyline.models.joining import joined
from eddyline.models.pieces import Pieces, Value
from eddyline.synopses.keys import numbered

_ERROR, _DOUBT, _LEFT, _RIGHT = "\x00error", "\x00doubt", "\x00left", "\x00right"


def aggregate_within(
    pieces: Pieces, groups: Sequence[str], function: str, argument: str, name: str, width: float, partial: bool,
    scale: float, order: Sequence[str] = (),
) -> Pieces:  # fmt: skip
    """``aggregate``, with the bound of the result's error where the argument has one."""
    found = aggregate(pieces, groups, function, argument, name, width, partial, scale, order)
    error, doubt = pieces.values[argument].error, pieces.doubt
    if error is None or not len(found):
        return found

    def of(part: str, function: str, value: Value) -> Pieces:
        given = pieces.with_columns({part: value}, pieces.columns)
        return aggregate(given, groups, function, part, part, width, partial, scale, order)

    if function in ("sum", "avg"):
        bound = of(_ERROR, function, Value(error)).values[_ERROR].c
    elif same_everywhere([error]):
        bound = np.full((len(found), 1), error[0, 0])
    else:
        found = beside(found, of(_ERROR, "max", Value(error)), groups, scale)
        bound = found.values[_ERROR].c
    value = found.values[name]
    values = {name: Value(value.c, value.root, value.over, bound)}
    found = found.with_columns(values, found.columns)
    if doubt is not None and doubt.any():
        indicator = Value(doubt.astype(np.float64).reshape(-1, 1))
        found = beside(found, of(_DOUBT, "max", indicator), groups, scale)
        found = found.with_doubt(found.values[_DOUBT].c[:, 0] > 0.5)
        found = found.with_columns({name: found.values[name]}, found.columns)
    return found


def beside(found: Pieces, other: Pieces, groups: Sequence[str], scale: float) -> Pieces:
    """The values of both for each group, where both are defined; NULL is a group, too."""
    columns = [combine([found.columns[g], other.columns[g]]) for g in groups]
    columns = [c.dictionary_decode() if pa.types.is_dictionary(c.type) else c for c in columns]
    n = len(found)
    code = numbered(columns, n + len(other))[0] if groups else np.zeros(n + len(other), np.int64)
    found = found.with_columns(found.values, {**found.columns, _LEFT: pa.array(code[:n])})
    both = joined(found, other.with_columns(other.values, {_RIGHT: pa.array(code[n:])}), [(_LEFT, _RIGHT)], scale)
    return both.with_columns(both.values, {g: both.columns[g] for g in groups})
