"""Streams whose best routes change: a complete join, in which each pair of streams shares an attribute of its own.

Every ``phase`` tuples of a stream the attributes exchange their numbers of values, so that another order of the states
becomes the best one (AMRI, section 9.1).
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations, permutations, product
from typing import Any

import numpy as np
import pyarrow as pa

Order = tuple[int, ...]  # numbers of values of the pairs' attributes

# Numbers of values of the pairs' attributes; each phase has a permutation of them. With windows of 10,000 rows and four
# streams a tuple has about one result, and the first state of a route leaves between 7 and 200 partial results.
VALUES = (50, 80, 120, 200, 400, 1400)


def pair_names(streams: int) -> list[tuple[int, int, str]]:
    """The pairs of streams with the name of the attribute that they share.

    >>> pair_names(3)
    [(0, 1, 'a01'), (0, 2, 'a02'), (1, 2, 'a12')]
    """
    return [(i, j, f"a{i}{j}") for i, j in combinations(range(streams), 2)]


def multi_route(
    streams: int = 4, tuples: int = 20_000, phase: int = 5_000, orders: int | Sequence[Order] | None = None,
    values: tuple[int, ...] = VALUES, seed: int = 1,
) -> dict[str, pa.Table]:  # fmt: skip
    """``tuples`` for each stream S0, S1, …; ``orders`` is how many different permutations the phases take turns in (1:
    routes never change; None: each phase has its own), or these themselves.

    >>> tables = multi_route(streams=3, tuples=10)
    >>> sorted(tables), tables["S1"].column_names
    (['S0', 'S1', 'S2'], ['ts', 'a01', 'a12'])
    """
    rng = np.random.default_rng(seed)
    pairs = pair_names(streams)
    phases = -(-tuples // phase)
    drawn: list[Any]
    if orders is None or isinstance(orders, int):
        count = phases if orders is None else orders
        drawn = [rng.permutation(np.resize(values, len(pairs))) for _ in range(count)]
    else:
        drawn = list(orders)
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


def best_path(stream: int, order: Order, streams: int = 4) -> tuple[int, ...]:
    """The states that the tuples of a stream go to, each time to that which leaves the fewest partial results.

    >>> best_path(0, (50, 80, 120, 200, 400, 1400))
    (3, 2, 1)
    """
    values = {frozenset(pair[:2]): count for pair, count in zip(pair_names(streams), order, strict=True)}
    bound, rest = [stream], [s for s in range(streams) if s != stream]
    while rest:
        fewest = max(rest, key=lambda s: np.prod([float(values[frozenset((s, b))]) for b in bound]))
        rest.remove(fewest)
        bound.append(fewest)
    return tuple(bound[1:])


def orders_with_paths(paths: Sequence[int], values: Order = VALUES) -> list[Order]:
    """Orders of four streams in which stream s has ``paths[s]`` different best paths, 2 or 6 of the six that there are:
    the fluctuations of Figure 10 (AMRI).

    >>> orders = orders_with_paths((2, 2, 2, 6))
    >>> [len({best_path(s, order) for order in orders}) for s in range(4)]
    [2, 2, 2, 6]
    """
    by_order = {order: [best_path(s, order) for s in range(4)] for order in permutations(values)}
    some = [s for s in range(4) if paths[s] == 2]
    for pairs in product(*([*combinations(permutations([x for x in range(4) if x != s]), 2)] for s in some)):
        left = {order: found for order, found in by_order.items()
                if all(found[s] in pair for s, pair in zip(some, pairs, strict=True))}  # fmt: skip
        wanted = {(s, p) for found in left.values() for s, p in enumerate(found)}
        if len(wanted) != sum(paths):
            continue
        chosen: list[Order] = []
        while wanted:  # each time the order with the most paths that are lacking
            best = max(left, key=lambda order: len(wanted.intersection(enumerate(left[order]))))
            chosen.append(best)
            wanted -= set(enumerate(left[best]))
        return chosen
    raise ValueError(f"no orders of these values give {paths} paths")


def complete_join(streams: int, window: str = "[ROWS 10000]") -> str:
    """The query over these streams.

    >>> complete_join(2)
    'SELECT Istream(S0.ts AS t) FROM S0 [ROWS 10000], S1 [ROWS 10000] WHERE S0.a01 = S1.a01'
    """
    sources = ", ".join(f"S{s} {window}" for s in range(streams))
    equal = " AND ".join(f"S{i}.{name} = S{j}.{name}" for i, j, name in pair_names(streams))
    return f"SELECT Istream(S0.ts AS t) FROM {sources} WHERE {equal}"
