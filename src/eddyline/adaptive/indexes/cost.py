"""What an index configuration costs: Equation 1 of the paper, with its missing F_ap and a term for bucket visits.

    C_D = λ_d·N_A·C_h                                 compute the bucket of each arriving tuple
        + λ_r·Σ F_ap·N_A,ap·C_h                       compute the buckets of each search
        + λ_r·Σ F_ap·v_ap·C_b                         visit those buckets
        + λ_r·Σ F_ap·(λ_d·W / 2^B_ap)·C_c             compare the tuples in them

An *index configuration* is the number of bits of each join attribute, B their sum and B_ap the sum over the attributes
of a pattern. A search that leaves B − B_ap bits open visits v_ap = P·2^(B − B_ap) buckets, where P is the number of
different indexes in the window; the paper leaves this term out, although with its 64 bits it would be all that counts.
A search whose buckets would cost more than to compare all rows compares all rows instead, one after another. That
costs little for a row that does not fit, C_scan, and more for one that does, C_hit.
Values repeat: where two rows agree in an attribute with probability s, the rows that share its b bits are the share
s + (1 − s) / 2^b of all, so that bits beyond the number of values gain nothing. An attribute that is searched by a
range, which admits the share s of the rows, leaves at least s. The paper has s = 0.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from eddyline.core.delta import Float64s, Int64s

Configuration = tuple[int, ...]  # bits of each join attribute


@dataclass(frozen=True, slots=True)
class UnitCosts:
    """Average costs in one unit, nanoseconds where they were measured: C_h of a hash, C_c of a comparison with a row of
    a bucket, C_b of a bucket visit; ``scan`` of a comparison with the next row of all, where no index is used, and
    ``hit`` what it costs more if that row fits; C_insert and C_delete move a tuple into or out of a bucket.

    ``call`` is what it costs to search one index more for a batch of requests, whatever they are, ``put`` to put a
    batch of arriving rows into an index, beside inserting the rows, and ``put_more`` into each further one, ``build``
    to make an index for stored rows beside inserting them. None is an operation: where these are counted, all are 0.
    """

    hash: float = 1.0
    compare: float = 1.0
    visit: float = 1.0
    insert: float = 1.0
    delete: float = 1.0
    scan: float = 1.0
    call: float = 0.0
    build: float = 0.0
    put: float = 0.0
    put_more: float = 0.0
    hit: float = 0.0


EQUAL_COSTS = UnitCosts()
NEVER_SAME = 1e-30  # the least probability that two rows agree: its logarithm is a number
# Nanoseconds, for where nothing was measured yet.
TYPICAL_COSTS = UnitCosts(
    2.0,
    compare=3.0,
    visit=2.5,
    insert=15.0,
    delete=1.0,
    scan=0.4,
    call=3e3,
    build=27e3,
    put=1500.0,
    put_more=100.0,
    hit=6.0,
)


@dataclass(frozen=True, slots=True)
class Patterns:
    """The patterns of a load as arrays: their numbers, which attributes (down) each of them (across) asks for, their
    frequencies, and the share of the rows that a search by each finds; and how often rows agree in each attribute."""

    masks: Int64s
    asked: Float64s
    frequencies: Float64s
    fitting: Float64s
    agreeing: Float64s


@dataclass(frozen=True, slots=True)
class Workload:
    """A state's load: λ_d tuples arrive and λ_r searches come in a unit of time; the window is W such units long.

    ``frequencies`` are F_ap by pattern, ``indexes`` is P, the number of different indexes that a search goes through,
    ``agreeing`` the probability that two rows agree in an attribute, ``admitted`` the share of the rows that a range
    admits, ``batch`` the requests of a batch that search a state together, ``brought`` the rows that a batch brings.
    """

    arrivals: float
    searches: float
    window: float
    frequencies: Mapping[int, float]
    indexes: float = 1.0
    agreeing: Mapping[int, float] = field(default_factory=dict)
    admitted: Mapping[int, float] = field(default_factory=dict)
    batch: float = 1.0
    brought: float = 1.0
    _patterns: dict[int, Patterns] = field(default_factory=dict, init=False, repr=False, compare=False)

    def patterns(self, n: int) -> Patterns:
        """Its patterns as those of ``n`` attributes."""
        if n not in self._patterns:
            masks = np.array(list(self.frequencies), np.int64)
            asked = (masks >> np.arange(n - 1, -1, -1)[:, None] & 1).astype(np.float64)
            agreeing = [self.agreeing.get(a, 0.0) for a in range(n)]
            same = np.array([max(s, self.admitted.get(a, 0.0), NEVER_SAME) for a, s in enumerate(agreeing)])
            fitting, frequencies = np.exp2(np.log2(same) @ asked), np.array(list(self.frequencies.values()))
            self._patterns[n] = Patterns(masks, asked, frequencies, fitting, np.array(agreeing))
        return self._patterns[n]

    @property
    def rows(self) -> float:
        """Tuples in the window, λ_d·W."""
        return self.arrivals * self.window


def dependent_cost(configuration: Sequence[int], load: Workload, unit: UnitCosts = EQUAL_COSTS) -> float:
    """C_D of one configuration.

    >>> table2 = {0b100: .04, 0b010: .10, 0b001: .10, 0b110: .04, 0b101: .16, 0b011: .10, 0b111: .46}
    >>> load = Workload(arrivals=1, searches=1, window=1, frequencies=table2)
    >>> round(dependent_cost((1, 1, 2), load, UnitCosts(hash=0, visit=0)), 5)
    0.16625
    """
    return float(dependent_costs(np.asarray([configuration], dtype=np.int64), load, unit)[0])


def dependent_costs(configurations: Int64s, load: Workload, unit: UnitCosts = EQUAL_COSTS) -> Float64s:
    """C_D of each row of a matrix of configurations, one column for each attribute."""
    hashing = load.arrivals * (configurations > 0).sum(axis=1) * unit.hash
    fixed, share, weight = _by_pattern(configurations, load, unit)
    scan = costs_of_all_rows(configurations.shape[1], np.array([load.rows]), load, unit)
    search = np.minimum(fixed + load.rows * share * unit.compare, scan)
    costs: Float64s = hashing + load.searches * (search * weight).sum(axis=1)
    return costs


def _by_pattern(configurations: Int64s, load: Workload, unit: UnitCosts) -> tuple[Float64s, Float64s, Float64s]:
    """For each configuration (down) and pattern (across) what hashes and visits cost and the share of the rows that are
    compared; and the frequency of each pattern."""
    patterns = load.patterns(configurations.shape[1])
    asked = patterns.asked
    bits = configurations.astype(np.float64)
    open_bits = bits @ (1.0 - asked)
    if load.admitted:
        open_bits += _open_bits_of_ranges(configurations, load.admitted) @ asked
    share = np.exp2(np.log2(_shares(bits, load)) @ asked)  # the product over the attributes that are asked for
    fixed = ((bits > 0) @ asked) * unit.hash + load.indexes * np.exp2(open_bits) * unit.visit
    return fixed, share, patterns.frequencies


def search_costs(configuration: Sequence[int], rows: Float64s, load: Workload, unit: UnitCosts) -> Float64s:
    """What one search of the load costs on average in an index with that many rows, for each of several numbers.

    >>> load = Workload(arrivals=1, searches=1, window=1, frequencies={0b10: 0.5, 0b11: 0.5})
    >>> search_costs((2, 1), np.array([0.0, 2.0, 64.0]), load, UnitCosts(hash=0)).tolist()
    [0.0, 1.625, 13.5]
    """
    fixed, share, weight = _by_pattern(np.asarray([configuration], dtype=np.int64), load, unit)
    scan = costs_of_all_rows(len(configuration), rows, load, unit)
    search = np.minimum(fixed + rows[:, None] * share * unit.compare, scan)
    costs: Float64s = (search * weight).sum(axis=1)
    return costs


def costs_of_all_rows(n: int, rows: Float64s, load: Workload, unit: UnitCosts) -> Float64s:
    """What it costs to compare all rows, for each of several numbers of them (down) and pattern of the load (across).

    >>> load = Workload(1, 1, 1, {0b10: 0.5, 0b11: 0.5}, agreeing={0: 0.5, 1: 0.1})
    >>> costs_of_all_rows(2, np.array([10.0, 20.0]), load, UnitCosts(scan=1, hit=4)).round(9).tolist()
    [[30.0, 12.0], [60.0, 24.0]]
    """
    costs: Float64s = rows[:, None] * (unit.scan + load.patterns(n).fitting * unit.hit)
    return costs


def _shares(configurations: Float64s, load: Workload) -> Float64s:
    """The share of the rows that are in the buckets of a search, as far as one attribute decides; never 0."""
    same = load.patterns(configurations.shape[1]).agreeing
    shares: Float64s = same + (1 - same) * np.exp2(-configurations)  # without bits that is 1
    for attribute, share in load.admitted.items():
        indexed = configurations[:, attribute] > 0
        shares[:, attribute] = np.where(indexed, np.maximum(shares[:, attribute], share), 1.0)
    return shares


def _open_bits_of_ranges(configurations: Int64s, admitted: Mapping[int, float]) -> Float64s:
    """A search by a range visits the buckets of all values that it admits, at least one for each attribute."""
    open_bits = np.zeros(configurations.shape)
    for attribute, share in admitted.items():
        if share > 0:
            open_bits[:, attribute] = np.maximum(configurations[:, attribute] + np.log2(share), 0.0)
    return open_bits
