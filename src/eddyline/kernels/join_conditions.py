"""Conditions between two bound rows that are no equalities."""

from __future__ import annotations

from eddyline.kernels.compile import inlined
from eddyline.kernels.hashing import u
from eddyline.kernels.join_layout import (
    CO_A,
    CO_A_KEY,
    CO_B,
    CO_B_KEY,
    CO_OP,
    CODE_OFF,
    CODE_WIDTH,
    GE,
    GT,
    LE,
    LT,
    POS_MASK,
)


@inlined
def holds_for(x, conditions, inputs, codes, bound):
    """Whether a condition between two bound rows holds."""
    a, b = u(conditions[x, CO_A]), u(conditions[x, CO_B])
    left = codes[
        u(inputs[a, CODE_OFF] + (bound[a] & inputs[a, POS_MASK]) * inputs[a, CODE_WIDTH] + conditions[x, CO_A_KEY])
    ]
    right = codes[
        u(inputs[b, CODE_OFF] + (bound[b] & inputs[b, POS_MASK]) * inputs[b, CODE_WIDTH] + conditions[x, CO_B_KEY])
    ]
    op = conditions[x, CO_OP]
    if op == LT:
        return left < right
    if op == LE:
        return left <= right
    if op == GT:
        return left > right
    if op == GE:
        return left >= right
    return left != right
