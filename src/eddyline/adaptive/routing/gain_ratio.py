"""Gain ratio: how well the class of an attribute predicts the output of an operator: equations (1) to (5), and 4.5.

Everything is computed from counts by class, over the last axis: ``tuples_in`` that an operator was shown and
``tuples_out`` that it passed; leading axes are attributes, or operators × attributes.

*Bias.* In a sample the classes of an attribute that has nothing to do with an operator differ by chance, so its
information gain is above zero: by (b − 1)/(2·|R|·ln 2) bits on average for b classes that occur (Miller and Madow).
With Table 2's 150 tuples in 24 buckets that is 0.11 bits, a gain ratio of about 0.02. ``corrected`` subtracts it. The
same number in units of its own spread, ``significance``, shows whether the rest may be chance: 2·|R|·ln 2·InfoGain is
distributed like χ² with b − 1 degrees of freedom, which Wilson and Hilferty turn into a normal deviate.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from eddyline.core.delta import Float64s

_BITS = 2 * math.log(2)
_MAX_CORRECTION = 1.15  # factor: the correction is an expansion that overshoots where classes hold a handful of tuples


def entropy(share: Float64s) -> Float64s:
    """Equation (2): bits in *passed or dropped* when a share of the tuples passes.

    >>> entropy(np.array([0.0, 0.5, 0.9])).round(3).tolist()
    [0.0, 1.0, 0.469]
    """
    p = np.asarray(share, np.float64)
    return _bits(p) + _bits(1 - p) + 0.0


def info_gain(tuples_in: Float64s, tuples_out: Float64s) -> Float64s:
    """Equation (3).

    A classifier of two equally frequent values, one passed and one dropped, predicts every outcome:

    >>> float(info_gain(np.array([50, 50]), np.array([50, 0])))
    1.0
    """
    total = tuples_in.sum(-1)
    whole = np.maximum(total, 1e-12)
    inside = entropy(tuples_out / np.where(tuples_in > 0, tuples_in, 1.0))
    gained: Float64s = entropy(tuples_out.sum(-1) / whole) - (tuples_in * inside).sum(-1) / whole
    return np.maximum(gained, 0.0)


def split_information(tuples_in: Float64s) -> Float64s:
    """Equation (4): 0 for a constant, log₂ d for d equally frequent values."""
    bits: Float64s = _bits(tuples_in / np.maximum(tuples_in.sum(-1), 1e-12)[..., None]).sum(-1)
    return bits


def gain_ratio(tuples_in: Float64s, tuples_out: Float64s) -> Float64s:
    """Equation (5); 0 where an attribute has one value only.

    Table 1, for O1, O2 and O3 (the paper prints 0.33, 0.63 and 0.37, which its equations do not give):

    >>> out = np.array([[32, 31, 27], [10, 20, 90], [55, 65, 60]])
    >>> gain_ratio(np.full((3, 3), 100), out).round(3).tolist()
    [0.001, 0.264, 0.003]
    """
    return _ratio(info_gain(tuples_in, tuples_out), split_information(tuples_in))


@dataclass(frozen=True, slots=True)
class Correlation:
    """``ratio`` as estimated, ``corrected`` for its bias, and what the test for chance rests on: ``chi``, with ``free``
    degrees of freedom.
    """

    ratio: Float64s
    corrected: Float64s
    chi: Float64s
    free: Float64s

    @property
    def significance(self) -> Float64s:
        """Standard deviations beyond chance."""
        return deviate(self.chi, self.free)


def correlation(tuples_in: Float64s, tuples_out: Float64s) -> Correlation:
    """Gain ratio for filters.

    >>> rng = np.random.default_rng(1)
    >>> buckets, passed = rng.integers(0, 24, (1000, 150)), rng.random((1000, 150)) < 0.5
    >>> counts = [np.array([np.bincount(b, w, 24) for b, w in zip(buckets, ws)]) for ws in (passed * 0 + 1, passed)]
    >>> chance = correlation(*counts)
    >>> print(chance.ratio.mean().round(3), abs(chance.corrected.mean()) < 0.002, (chance.significance > 3).mean())
    0.029 True 0.003
    """
    total, used = tuples_in.sum(-1), (tuples_in > 0).sum(-1)
    gained, split = info_gain(tuples_in, tuples_out), split_information(tuples_in)
    free = np.maximum(used - 1.0, 0.0)
    passed = tuples_out.sum(-1)
    # Williams: classes with few tuples, or an operator that passes nearly all or none, have more of it.
    rare = total / np.maximum(passed, 1.0) + total / np.maximum(total - passed, 1.0) - 1
    thin = total * np.where(tuples_in > 0, 1 / np.maximum(tuples_in, 1e-12), 0.0).sum(-1) - 1
    more = np.minimum(1 + np.maximum(rare * thin, 0.0) / np.maximum(6 * total * free, 1.0), _MAX_CORRECTION)
    bias = free * more / np.maximum(_BITS * total, 1e-12)
    chi = _BITS * total * gained / more
    return Correlation(_ratio(gained, split), _ratio(gained - bias, split), chi, free)


def explained_variance(tuples_in: Float64s, tuples_out: Float64s, squares: Float64s) -> Correlation:
    """The same for operators that multiply tuples (4.5): the share of the variance of tuples out per tuple in that
    lies between classes, per bit of split information, so that the thresholds mean much the same. ``squares`` are sums
    of squared outs. The correction is that of the adjusted coefficient of determination.

    >>> one = explained_variance(np.array([50.0, 50]), np.array([100.0, 300]), np.array([210.0, 1810]))
    >>> print(one.ratio.round(3), one.corrected.round(3), one.significance.round(1))
    0.952 0.952 8.0
    """
    total, used = tuples_in.sum(-1), (tuples_in > 0).sum(-1)
    some = np.maximum(total, 1e-12)
    mean = tuples_out.sum(-1) / some
    whole = squares.sum(-1) - some * mean**2
    between = (tuples_out**2 / np.where(tuples_in > 0, tuples_in, 1.0)).sum(-1) - some * mean**2
    share = np.where(whole > 1e-9, np.clip(between / np.maximum(whole, 1e-9), 0.0, 1.0), 0.0)
    free, left = np.maximum(used - 1.0, 0.0), np.maximum(total - used, 1.0)
    adjusted = 1 - (1 - share) * (total - 1) / left
    split = split_information(tuples_in)
    return Correlation(_ratio(share, split), _ratio(adjusted, split), total * share, free)


def _bits(p: Float64s) -> Float64s:
    bits: Float64s = -p * np.log2(np.where(p > 0, p, 1.0))
    return bits


def _ratio(part: Float64s, split: Float64s) -> Float64s:
    ratio: Float64s = np.where(split > 1e-9, part / np.maximum(split, 1e-9), 0.0)
    return ratio


def deviate(chi: Float64s, free: Float64s) -> Float64s:
    """The normal deviate of a χ² with so many degrees of freedom.

    >>> deviate(np.array([3.84, 35.17]), np.array([1.0, 23.0])).round(2).tolist()  # 5 % of chance each
    [1.67, 1.65]
    """
    k = np.maximum(free, 1.0)
    deviate: Float64s = (np.cbrt(chi / k) - (1 - 2 / (9 * k))) / np.sqrt(2 / (9 * k))
    return np.where(free > 0, deviate, -np.inf)
