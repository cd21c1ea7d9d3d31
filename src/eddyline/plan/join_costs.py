"""What a join costs before anything was measured, in index accesses for an arriving element.

Nothing is known of a join then but its number of inputs. The look-ups of a pipeline are taken to find between half a
partner and two, evenly spread (as powers of two): what an order is worth depends on such differences alone.
"""

from __future__ import annotations

from itertools import accumulate
from math import comb
from operator import mul

FEWEST_PARTNERS, MOST_PARTNERS = 0.5, 2.0  # that a look-up finds


def fan_outs(inputs: int) -> list[float]:
    """Partners found by each look-up of a pipeline, the fewest first.

    >>> fan_outs(2), fan_outs(4)
    ([1.0], [0.5, 1.0, 2.0])
    """
    look_ups = inputs - 1
    if look_ups < 2:
        return [1.0] * look_ups
    return [FEWEST_PARTNERS * (MOST_PARTNERS / FEWEST_PARTNERS) ** (i / (look_ups - 1)) for i in range(look_ups)]


def best_order(inputs: int) -> float:
    """Accesses where the look-ups that find the fewest come first.

    >>> best_order(2), best_order(4)
    (1.0, 2.0)
    """
    found = fan_outs(inputs)
    return sum(accumulate(found[:-1], mul, initial=1.0))


def any_order(inputs: int) -> float:
    """Accesses on average over all orders: those of an order that nothing recommends.

    >>> any_order(2), round(any_order(4), 2)
    (1.0, 3.33)
    """
    found = fan_outs(inputs)
    products = [1.0] + [0.0] * len(found)  # elementary symmetric polynomials of what look-ups find
    for f in found:
        for k in range(len(found), 0, -1):
            products[k] += f * products[k - 1]
    return sum(products[k] / comb(len(found), k) for k in range(len(found)))
