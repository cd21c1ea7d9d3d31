"""Streams whose best routes change: a complete join, in which each pair of streams shares an attribute of its own.

Every ``phase`` tuples of a stream the attributes exchange their numbers of values, so that another order of the states
becomes the best one (AMRI, section 9.1).
"""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pyarrow as pa

# Values of the pairs' attributes, of which a phase has a permutation: with windows of 10,000 rows and four streams a
# tuple has about one result, and the first state of a route leaves between 7 and 200 partial results.
VALUES = (50, 80, 120, 200, 400, 1400)


def pair_names(streams: int) -> list[tuple[int, int, str]]:
    """The pairs of streams with the name of the attribute that they share.

    >>> pair_names(3)
    [(0, 1, 'a01'), (0, 2, 'a02'), (1, 2, 'a12')]
    """
    return [(i, j, f"a{i}{j}") for i, j in combinations(range(streams), 2)]


def multi_route(
    streams: int = 4, tuples: int = 20_000, phase: int = 5_000, orders: int | None = None,
    values: tuple[int, ...] = VALUES, seed: int = 1,
) -> dict[str, pa.Table]:  # fmt: skip
    """``tuples`` for each stream S0, S1, …; ``orders`` is how many different permutations the phases take turns in (1:
    routes never change; None: each phase has its own).

    >>> tables = multi_route(streams=3, tuples=10)
    >>> sorted(tables), tables["S1"].column_names
    (['S0', 'S1', 'S2'], ['ts', 'a01', 'a12'])
    """
    rng = np.random.default_rng(seed)
    pairs = pair_names(streams)
    phases = -(-tuples // phase)
    drawn = [rng.permutation(np.resize(values, len(pairs))) for _ in range(phases if orders is None else orders)]
    tables = {}
    for s in range(streams):
        ts = np.sort(rng.integers(0, tuples * streams, tuples))
        columns = {"ts": ts}
        for at, (i, j, name) in enumerate(pairs):
            if s in (i, j):
                most = np.repeat([drawn[p % len(drawn)][at] for p in range(phases)], phase)[:tuples]
                columns[name] = rng.integers(0, most)
        tables[f"S{s}"] = pa.table(columns)
    return tables


def complete_join(streams: int, window: str = "[ROWS 10000]") -> str:
    """The query over these streams.

    >>> complete_join(2)
    'SELECT Istream(S0.ts AS t) FROM S0 [ROWS 10000], S1 [ROWS 10000] WHERE S0.a01 = S1.a01'
    """
    sources = ", ".join(f"S{s} {window}" for s in range(streams))
    equal = " AND ".join(f"S{i}.{name} = S{j}.{name}" for i, j, name in pair_names(streams))
    return f"SELECT Istream(S0.ts AS t) FROM {sources} WHERE {equal}"
