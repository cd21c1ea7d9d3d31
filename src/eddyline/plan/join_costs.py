"""The estimated cost of a join before anything was measured, in index accesses for an arriving element.

Before anything is measured, only the number of inputs of a join is known. The look-ups of a pipeline are assumed to
find between half a partner and two, evenly spread (as powers of two): only such differences make one order cheaper
than another.
"""

from __future__ import annotations

from itertools import accumulate
from math import comb
from operator import mul

MIN_PARTNERS_PER_LOOK_UP, MAX_PARTNERS_PER_LOOK_UP = 0.5, 2.0  # assumed, where nothing is measured


def fan_outs(inputs: int) -> list[float]:
    """Partners found by each look-up of a pipeline, the fewest first.

    >>> fan_outs(2), fan_outs(4)
    ([1.0], [0.5, 1.0, 2.0])
    """
    look_ups = inputs - 1
    if look_ups < 2:
        return [1.0] * look_ups
    ratio = MAX_PARTNERS_PER_LOOK_UP / MIN_PARTNERS_PER_LOOK_UP
    return [MIN_PARTNERS_PER_LOOK_UP * ratio ** (i / (look_ups - 1)) for i in range(look_ups)]


def best_order(inputs: int) -> float:
    """Accesses where the look-ups that find the fewest come first.

    >>> best_order(2), best_order(4)
    (1.0, 2.0)
    """
    found = fan_outs(inputs)
    return sum(accumulate(found[:-1], mul, initial=1.0))


def any_order(inputs: int) -> float:
    """Accesses on average over all orders: the estimate for an order that was chosen without statistics.

    >>> any_order(2), round(any_order(4), 2)
    (1.0, 3.33)
    """
    found = fan_outs(inputs)
    products = [1.0] + [0.0] * len(found)  # elementary symmetric polynomials of what look-ups find
    for f in found:
        for k in range(len(found), 0, -1):
            products[k] += f * products[k - 1]
    return sum(products[k] / comb(len(found), k) for k in range(len(found)))
