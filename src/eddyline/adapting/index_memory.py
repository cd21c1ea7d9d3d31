"""What the indexes of a join take, in bytes and for a search, estimated before it runs; the quickest within a limit.

``WITH (index = 'fitting(memory = 65536)')`` limits the bytes of a join's indexes. The planner then compares an MJoin,
which has a hash index for each pattern that its pipelines use, with the indexes of a multi-route join. Bytes and times
are those of the experiment ``map_amri``; rows must be known, so that every window is a ROWS window.

A search that gives a value for one of N attributes compares all W rows where no index serves it. A bit-address index of
B bits leaves W / 2^(B / N) of them and visits 2^(B − B / N) buckets, for the best B.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from eddyline.adaptive.indexes.policies import parse_index
from eddyline.core.window import Rows
from eddyline.plan.conjuncts import split_conjuncts
from eddyline.plan.logical import Join, Plan, Select, Window

FITTING, MJOIN = "fitting", "mjoin"
MOST_BITS = 16
# Bytes of indexes for a row: of an MJoin for each attribute, of a hash index of a state, of a bit-address index.
MJOIN_BYTES, HASH_BYTES, BIT_ADDRESS_BYTES = 49.0, 4.7, 8.0
# Nanoseconds: a search of a batch whatever the index, a comparison along an array, a visited bucket or row of a chain.
SEARCH, COMPARE, VISIT = 150.0, 1.5, 2.0
ACCESS = 40.0  # of an index of an MJoin
DEAR = 1_000.0  # times the cost: what does not fit into its memory is taken only if nothing does


@dataclass(frozen=True, slots=True)
class JoinSize:
    """Rows of all windows, of the largest one, and join attributes of an input, on average by rows."""

    rows: int
    largest: int
    attributes: float


@dataclass(frozen=True, slots=True)
class IndexEstimate:
    """``index`` as it is written in a query, or ``mjoin``; ``search`` in accesses of an MJoin's index."""

    index: str
    bytes: float
    search: float


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


def estimates(size: JoinSize) -> list[IndexEstimate]:
    """What can run a join of that size, each with its bytes and the cost of a search.

    >>> for e in estimates(JoinSize(rows=40_000, largest=10_000, attributes=3)):
    ...     print(f"{e.index:8s} {e.bytes / 40_000:4.0f} bytes a row, {e.search:5.1f} accesses")
    mjoin     147 bytes a row,   1.0 accesses
    single     14 bytes a row,   3.9 accesses
    hash(1)     5 bytes a row, 253.8 accesses
    amri        8 bytes a row,  47.8 accesses
    """
    n, rows = size.attributes, size.largest
    visited = min(2 ** (b - b / n) + rows / 2 ** (b / n) for b in range(MOST_BITS + 1))
    unserved = 1 - 1 / n
    return [
        IndexEstimate(MJOIN, MJOIN_BYTES * n * size.rows, 1.0),
        IndexEstimate("single", HASH_BYTES * n * size.rows, (SEARCH + 2 * VISIT) / ACCESS),
        IndexEstimate("hash(1)", HASH_BYTES * size.rows, (SEARCH + unserved * rows * COMPARE) / ACCESS),
        IndexEstimate("amri", BIT_ADDRESS_BYTES * size.rows, (SEARCH + visited * VISIT) / ACCESS),
    ]


def quickest_within(size: JoinSize, memory: float) -> IndexEstimate:
    """The quickest that fits; the smallest if none does.

    >>> join = JoinSize(rows=40_000, largest=10_000, attributes=3)
    >>> [quickest_within(join, 40_000 * bytes).index for bytes in (4, 8, 24, 200)]
    ['hash(1)', 'amri', 'single', 'mjoin']
    """
    found = estimates(size)
    fits = [e for e in found if e.bytes <= memory]
    return min(fits, key=lambda e: e.search) if fits else min(found, key=lambda e: e.bytes)


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
    if limit is None or size is None or quickest_within(size, limit).index == MJOIN:
        return 1.0
    return DEAR
