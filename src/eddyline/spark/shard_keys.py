"""Keys of shards, chosen so that Spark spreads the shards of a group evenly over its state partitions.

Spark sends a row to partition ``murmur3(key) mod n``. Plain shard numbers would fall where chance has it (of eight
shards five on one of two partitions), and the fullest partition sets the pace. Murmur3 is a bijection in each of its
words, so the upper half of a key can be *solved for*: for any lower half (group and shard), the key gets exactly the
hash ``group + shard``. So shards are spread evenly over any number of partitions, which need not be known.
"""

from __future__ import annotations

from functools import cache
from typing import Final

GROUP_BITS: Final = 16
_LOW: Final = (1 << 32) - 1
_C1: Final = 0xCC9E2D51
_C2: Final = 0x1B873593
_STEP: Final = 0xE6546B64
_FINAL: Final = (0x85EBCA6B, 0xC2B2AE35)
_SEED: Final = 42  # Spark's, for hash partitioning
_BYTES: Final = 8  # of a long


@cache
def key_of(group: int, shard: int) -> int:
    """The key of a shard: a long whose lower half names it.

    >>> [murmur3(key_of(2, shard)) for shard in range(4)]
    [2, 3, 4, 5]
    """
    low = group << GROUP_BITS | shard
    before = _mix_hash(_SEED, _mix_word(low))
    after = _unfinish(group + shard) ^ _BYTES
    mixed = _rotate((after - _STEP) * pow(5, -1, 1 << 32) & _LOW, 32 - 13) ^ before
    high = _rotate(mixed * pow(_C2, -1, 1 << 32) & _LOW, 32 - 15) * pow(_C1, -1, 1 << 32) & _LOW
    key = high << 32 | low
    return key - (1 << 64) if key >> 63 else key


def group_of(key: int) -> int:
    """
    >>> group_of(key_of(3, 5)), shard_of(key_of(3, 5))
    (3, 5)
    """
    return (key & _LOW) >> GROUP_BITS


def shard_of(key: int) -> int:
    return key & ((1 << GROUP_BITS) - 1)


def murmur3(key: int) -> int:
    """The hash that Spark gives to a long, as an unsigned number.

    >>> murmur3(1)  # hash(1L) is -1712319331
    2582647965
    """
    h = _mix_hash(_SEED, _mix_word(key & _LOW))
    h = _mix_hash(h, _mix_word(key >> 32 & _LOW)) ^ _BYTES
    h = (h ^ h >> 16) * _FINAL[0] & _LOW
    h = (h ^ h >> 13) * _FINAL[1] & _LOW
    return h ^ h >> 16


def _mix_word(k: int) -> int:
    return _rotate(k * _C1 & _LOW, 15) * _C2 & _LOW


def _mix_hash(h: int, k: int) -> int:
    return (_rotate(h ^ k, 13) * 5 + _STEP) & _LOW


def _unfinish(h: int) -> int:
    """The inverse of murmur3's last steps; x ^ x >> s is undone by shifting again until nothing is left."""
    h ^= h >> 16
    h = h * pow(_FINAL[1], -1, 1 << 32) & _LOW
    h ^= h >> 13 ^ h >> 26
    h = h * pow(_FINAL[0], -1, 1 << 32) & _LOW
    return h ^ h >> 16


def _rotate(x: int, by: int) -> int:
    return (x << by | x >> 32 - by) & _LOW
