"""Reads bound rows: the codes of their keys, and conditions between two rows that are no equalities."""

from __future__ import annotations

from eddyline.kernels import join_layout as k
from eddyline.kernels.compile import inlined
from eddyline.kernels.hashing import u


@inlined
def code_of(at, members, bound, inputs, codes):
    """The code of the member at ``at``: members are pairs of an input and the number of a key."""
    i = u(members[u(at)])
    row = inputs[i, k.CODE_OFF] + (bound[i] & inputs[i, k.POS_MASK]) * inputs[i, k.CODE_WIDTH]
    return codes[u(row + members[u(at + 1)])]


@inlined
def holds_for(x, conditions, inputs, codes, bound):
    """Whether a condition between two bound rows holds."""
    left = code_of(k.CO_A, conditions[u(x)], bound, inputs, codes)
    right = code_of(k.CO_B, conditions[u(x)], bound, inputs, codes)
    op = conditions[u(x), k.CO_OP]
    if op == k.LT:
        return left < right
    if op == k.LE:
        return left <= right
    if op == k.GT:
        return left > right
    if op == k.GE:
        return left >= right
    return left != right
