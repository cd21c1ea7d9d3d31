"""Counts how often the values of two columns agree."""

from __future__ import annotations

import numpy as np

from eddyline.kernels.compile import kernel
from eddyline.kernels.hashing import mix

_I2 = "int64[:, ::1]"


@kernel(f"int64({_I2}, int64, {_I2}, int64)", work=lambda codes, a, others, b: len(codes) + len(others))
def agreeing_pairs(codes, a, others, b):
    """The number of pairs of a line of ``codes`` and one of ``others`` with equal values in columns ``a`` and ``b``."""
    size = 64
    while size < 2 * len(codes):
        size *= 2
    values, counts = np.zeros(size, np.int64), np.zeros(size, np.int64)
    mask = np.int64(size - 1)
    for i in range(len(codes)):
        at = mix(np.int64(0), codes[i, a]) & mask
        while counts[at] > 0 and values[at] != codes[i, a]:
            at = (at + 1) & mask
        values[at] = codes[i, a]
        counts[at] += 1
    pairs = np.int64(0)
    for i in range(len(others)):
        at = mix(np.int64(0), others[i, b]) & mask
        while counts[at] > 0 and values[at] != others[i, b]:
            at = (at + 1) & mask
        pairs += counts[at]
    return pairs
