"""Hashing, in one place: 64-bit mixing that agrees with and without compilation.

Keys are int64 codes. ``mix`` is the finaliser of splitmix64; all arithmetic is modulo 2⁶⁴, which numba's uint64 does by
itself and plain Python by masking, hence the two bodies; a test compares them.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba.core import config, types
from numba.extending import intrinsic

from eddyline.kernels.compile import inlined, kernel
from eddyline.kernels.uncompiled import stands_for

_MASK = (1 << 64) - 1
_A = 0xBF58476D1CE4E5B9
_B = 0x94D049BB133111EB
_C = 0x9E3779B97F4A7C15


def mix_python(h: int, key: int) -> int:
    """The uncompiled body of ``mix``.

    >>> mix_python(0, 1) == mix_python(0, 1), mix_python(0, 1) == mix_python(0, 2)
    (True, False)
    """
    x = (int(h) * 31 + int(key) + _C) & _MASK
    x = ((x ^ (x >> 30)) * _A) & _MASK
    x = ((x ^ (x >> 27)) * _B) & _MASK
    x ^= x >> 31
    return x - (1 << 64) if x >> 63 else x


def above_python(low: int, value: int) -> int:
    """The uncompiled body of ``above``.

    >>> above_python(3, 5), above_python(5, 3) == 2**64 - 2
    (2, True)
    """
    return (int(value) - int(low)) & _MASK


def spread_python(key: int, mask: int) -> int:
    """The uncompiled body of ``spread``.

    >>> [spread_python(16 + i, 1023) ^ spread_python(16, 1023) for i in range(4)]
    [0, 1, 2, 3]
    >>> len({spread_python(key, 1023) for key in range(7, 500)})
    493
    """
    x = (int(key) & _MASK) >> 4
    x ^= x >> 32
    x = (x ^ (x >> 16)) * _C & _MASK
    return ((x >> 32) * (int(mask) + 1) >> 32 ^ (int(key) & 15)) & int(mask)


def hash_bytes_python(data: np.ndarray, start: int, stop: int) -> int:
    """The uncompiled body of ``hash_bytes``: eight bytes at a time, then the rest, then the length."""
    h, word, shift = 0, 0, 0
    for i in range(start, stop):
        word |= int(data[i]) << shift
        shift += 8
        if shift == 64:
            h, word, shift = mix_python(h, word), 0, 0
    return mix_python(mix_python(h, word), stop - start)


if config.DISABLE_JIT:
    mix: Any = mix_python
    above: Any = above_python
    spread: Any = spread_python
    hash_bytes: Any = hash_bytes_python
    u: Any = int
else:

    @intrinsic
    def u(typingctx: Any, i: Any) -> Any:
        """An index that is known not to be negative: an unsigned one spares the check for Python's a[-1]. Kernels have
        hundreds of them: a helper that numba inlines would take half of the compiler's time."""
        if not isinstance(i, types.Integer):
            return None

        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            return context.cast(builder, args[0], i, types.uint64)

        return types.uint64(i), codegen

    @inlined
    def mix(h, key):
        """Fold ``key`` into the hash ``h``."""
        x = np.uint64(h) * np.uint64(31) + np.uint64(key) + np.uint64(_C)
        x = (x ^ (x >> np.uint64(30))) * np.uint64(_A)
        x = (x ^ (x >> np.uint64(27))) * np.uint64(_B)
        x = x ^ (x >> np.uint64(31))
        return np.int64(x)

    @inlined
    def above(low, value):
        """How far ``value`` is above ``low``, modulo 2⁶⁴: a value is in [low, high] if it is no farther than ``high``
        is. One comparison, and no branch, where two would be needed."""
        return np.uint64(value) - np.uint64(low)

    @inlined
    def spread(key, mask):
        """A place in a hash table of ``mask`` + 1 places, a power of two: cheaper than ``mix``, and sixteen keys that
        follow one another lie side by side, within one line of the processor's cache. Sixteens are multiplied by the
        golden ratio, of which the upper bits count: those that follow one another come to lie as far apart as can be,
        so that keys which were counted up hardly ever share a place. The upper bits of keys are folded first, so that
        keys which all are multiples of a number are no worse than random ones."""
        x = np.uint64(key) >> np.uint64(4)
        x = x ^ (x >> np.uint64(32))
        x = (x ^ (x >> np.uint64(16))) * np.uint64(_C)
        place = ((x >> np.uint64(32)) * (np.uint64(mask) + np.uint64(1))) >> np.uint64(32)
        return np.int64((place ^ (np.uint64(key) & np.uint64(15))) & np.uint64(mask))

    @inlined
    def hash_bytes(data, start, stop):
        """Hash the bytes in [start, stop)."""
        h = np.int64(0)
        word = np.uint64(0)
        shift = np.uint64(0)
        for i in range(start, stop):
            word |= np.uint64(data[i]) << shift
            shift += np.uint64(8)
            if shift == np.uint64(64):
                h = mix(h, np.int64(word))
                word = np.uint64(0)
                shift = np.uint64(0)
        return mix(mix(h, np.int64(word)), stop - start)

    stands_for(u, int)
    stands_for(mix, mix_python)
    stands_for(above, above_python)
    stands_for(spread, spread_python)
    stands_for(hash_bytes, hash_bytes_python)


_BYTES = types.Array(types.uint8, 1, "C", readonly=True)  # Arrow's buffers may not be written to
_OFFSETS = types.Array(types.int32, 1, "C", readonly=True)


def _bytes(offsets: Any, data: Any, out: Any) -> int:
    return int(offsets[-1]) - int(offsets[0]) if len(offsets) else 0


@kernel(types.void(_OFFSETS, _BYTES, types.int64[::1]), work=_bytes)
def hash_strings(offsets, data, out):
    """One hash for each string of an Arrow string array (its offsets and data buffers)."""
    for i in range(len(out)):
        out[i] = hash_bytes(data, np.int64(offsets[i]), np.int64(offsets[i + 1]))
