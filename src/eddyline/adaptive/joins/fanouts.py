"""Orders of joins that multiply elements: by the rows that each join finds, and not by the elements that it drops.

A policy for filters orders joins by the elements that they drop. It learns nothing from an element that finds partners
in every input; and where elements find many, nearly all accesses are those of partial results, whose number depends on
the order. A join with input x finds for a partial result

    f(x) = rows of x · Π P(a row of x agrees with the partial result in an attribute)

rows, over the attributes that x shares with what is bound: the more is bound, the fewer. With N partial results before
it the join takes N · f accesses to follow rows, and a probe for each partial result of the level that the probe
depends on. Agreements of different attributes are taken as independent; whether that describes the data is seen by
comparing the work of the present orders with what was counted (``JoinFanouts``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

Fanout = Callable[[int, tuple[int, ...]], float]  # rows of an input that a partial result with these inputs bound finds


def pipeline_work(steps: Iterable[tuple[float, int]]) -> float:
    """Accesses of one element. A step is the rows that it finds for one partial result, and how many of the inputs
    before it are bound when its probe is known: it is made again only when one of these changes.

    >>> pipeline_work([(10.0, 0), (0.5, 0)]), pipeline_work([(0.5, 0), (10.0, 0)])
    (17.0, 7.0)
    """
    partial, work = [1.0], 0.0
    for fanout, ready in steps:
        work += min(partial[ready], partial[-1]) + partial[-1] * fanout
        partial.append(partial[-1] * fanout)
    return work


def fewest_first(
    source: int, inputs: int, fanout: Fanout, connected: Callable[[int, Iterable[int]], bool]
) -> tuple[int, ...]:
    """An order for elements of ``source``: each time the join that finds fewest rows, products last.

    >>> rows = {1: 10.0, 2: 0.5, 3: 2.0}
    >>> fewest_first(0, 4, lambda target, bound: rows[target], lambda target, bound: target != 2 or 3 in bound)
    (3, 2, 1)
    """
    bound: tuple[int, ...] = (source,)
    rest = [i for i in range(inputs) if i != source]
    while rest:
        possible = [i for i in rest if connected(i, bound)] or rest
        best = min(possible, key=lambda i: fanout(i, bound))
        rest.remove(best)
        bound = (*bound, best)
    return bound[1:]
