"""Whether the indexes of a join fit into a limit of memory: what is decided before it runs.

``WITH (index = 'fitting(memory = 65536)')`` limits the bytes of a join's indexes. An MJoin has a hash index for each
pattern that its pipelines use, and is the quickest where they fit. Else a multi-route join is taken, whose indexes are
chosen while it runs (``adaptive.indexes.fitting``), because which are the best depends on values and searches. The rows
must be known for that, so that every window is a ROWS window.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from eddyline.adaptive.indexes.cost import UnitCosts
from eddyline.adaptive.indexes.fitting import first_choice
from eddyline.adaptive.indexes.policies import parse_index
from eddyline.core.window import Rows
from eddyline.plan.conjuncts import split_conjuncts
from eddyline.plan.logical import Join, Plan, Select, Window

FITTING = "fitting"
# Bytes of an MJoin's indexes for a row and join attribute, about. An index has 8 bytes for a bucket, and for each row 8
# and 8 for each of its attributes; N pipelines search a state of N attributes, each by some of them.
MJOIN_BYTES = 49.0
DEAR = 1_000.0  # times the cost: what does not fit into its memory is taken only if nothing does


@dataclass(frozen=True, slots=True)
class JoinSize:
    """Rows of all windows, of the largest one, and join attributes of an input, on average by rows."""

    rows: int
    largest: int
    attributes: float


def size_of(node: Join) -> JoinSize | None:
    """The size of a join over ROWS windows; None if the rows of an input are not known before it runs."""
    counts = [_rows(i) for i in node.inputs]
    if None in counts:
        return None
    rows = [c for c in counts if c is not None]
    keys = split_conjuncts(node.conjuncts, [i.schema for i in node.inputs])[0]
    total = sum(rows)
    attributes = sum(len(k) * r for k, r in zip(keys, rows, strict=True)) / max(1, total)
    return JoinSize(total, max(rows), max(1.0, attributes))


def _rows(p: Plan) -> int | None:
    while isinstance(p, Select):
        p = p.input
    return p.spec.count if isinstance(p, Window) and isinstance(p.spec, Rows) else None


def fits_mjoin(size: JoinSize, memory: float) -> bool:
    """Whether the hash indexes of an MJoin fit.

    >>> join = JoinSize(rows=40_000, largest=10_000, attributes=3)
    >>> [fits_mjoin(join, 40_000 * bytes) for bytes in (8, 64, 200)]
    [False, False, True]
    """
    return mjoin_bytes(size) <= memory


def mjoin_bytes(size: JoinSize) -> float:
    """What the hash indexes of an MJoin take, about."""
    return MJOIN_BYTES * size.attributes * size.rows


def search_cost(size: JoinSize, memory: float, unit: UnitCosts) -> float:
    """What a search of a multi-route join costs within a limit of memory, in accesses of an MJoin's index, as long as
    nothing is known of values and searches: an access is a hash, a bucket and a row.

    >>> join = JoinSize(rows=40_000, largest=10_000, attributes=3)
    >>> [round(search_cost(join, 40_000 * bytes, UnitCosts()), 1) for bytes in (1, 8, 24)]
    [3333.3, 294.4, 1.7]
    """
    best = first_choice(max(1, round(size.attributes)), size.largest, memory * size.largest / size.rows, unit)
    return best.cost / (unit.hash + unit.visit + unit.compare)


def memory_limit(options: Mapping[str, Any]) -> int | None:
    """The bytes that ``index = 'fitting(memory = …)'`` gives the indexes of a join; None: no such limit.

    >>> memory_limit({"index": "fitting(memory = 65536)"}), memory_limit({"index": "amri"}), memory_limit({})
    (65536, None, None)
    """
    written = options.get("index")
    if not isinstance(written, str):
        return None
    name, found = parse_index(written)
    return found.memory if name == FITTING else None


def memory_factor(node: Join, options: Mapping[str, Any]) -> float:
    """By what the cost of an MJoin is multiplied: more than 1 if its indexes do not fit."""
    limit, size = memory_limit(options), size_of(node)
    if limit is None or size is None or fits_mjoin(size, limit):
        return 1.0
    return DEAR
