"""Aggregates with a declared error: their parameters.

Both are functions of the bag alone, so no answer depends on batches, plans or shards, and rows that leave can be taken
out again. That is why they are not sketches that draw random numbers (KLL, REQ) or depend on the order (HyperLogLog
with its historic estimator, t-digest).
"""

from __future__ import annotations

from math import ceil, log2
from typing import Final

DISTINCT: Final = "approx_count_distinct"
PERCENTILE: Final = "approx_percentile"
APPROXIMATE: Final = (DISTINCT, PERCENTILE)
DEFAULT_ERROR: Final = {DISTINCT: 0.05, PERCENTILE: 0.01}
ERRORS: Final = (0.001, 0.25)  # the least and the greatest that may be declared


def hashes_kept(error: float) -> int:
    """How many least hashes give a relative standard error (Bar-Yossef et al. 2002; that of k values is 1/√(k − 2)).

    >>> hashes_kept(0.05), hashes_kept(0.01)
    (402, 10002)
    """
    return ceil(round(1 / error**2, 6)) + 2


def mantissa_bits(error: float) -> int:
    """How many bits of a double's mantissa number the buckets, so that the middle of a bucket is nowhere further than
    the relative error from its values.

    >>> mantissa_bits(0.01), mantissa_bits(0.25)
    (6, 1)
    """
    return max(1, ceil(log2(1 / error)) - 1)
