"""Exact sums of doubles that can also be taken back.

A sum of a window must be a function of the bag in it alone, whatever came and went before: with rounded additions it
is not. A superaccumulator (Kulisch; Neal, "Fast exact summation using small and large superaccumulators", 2015) is a
fixed-point number wide enough for every double. Adding and taking away are exact integer operations, and the value is
rounded once, half to even, when it is read: the result equals ``math.fsum`` of the bag.

Invariants of one accumulator, a row of int64 (``ROW`` long for sums, ``SQUARE_ROW`` for sums of squares):

1. The header is ``COUNT`` (elements that are not NULL), ``LOW`` and ``HIGH`` (limbs outside [LOW, HIGH) are zero),
   ``LOAD`` (Σ|weight| since carries were last propagated), ``NANS``, ``PLUS`` and ``MINUS`` (elements counted apart).
2. The finite part is Σ limb[i] · 2^(32 i − 1074) (twice the exponent in a square row); limbs are signed and overlap:
   a double touches three of them by less than 2^35 each, so nothing can overflow before ``LOAD`` reaches 2^26.
3. All zeros is the empty accumulator, so arrays of rows grow by appending zeros.

A row takes 640 bytes (1184 for squares) for each group; only the few limbs between LOW and HIGH are ever read.
"""

from __future__ import annotations

import math

import numpy as np

from eddyline.kernels.compile import kernel

COUNT, LOW, HIGH, LOAD, NANS, PLUS, MINUS = 0, 1, 2, 3, 4, 5, 6
HEADER = 8
ROW = HEADER + 72
SQUARE_ROW = HEADER + 140

DIGIT = (1 << 32) - 1
LOAD_BITS = 26
LOAD_LIMIT = 1 << LOAD_BITS
FRACTION = (1 << 52) - 1
LOWEST_EXPONENT = -1074  # the exponent of the lowest bit of limb 0 in a sum; twice that in a sum of squares
_POWERS = np.array([2.0**k for k in range(-1000, 1001)])
_TOP_DIGITS = 6


@kernel("int64(int64)")
def bit_length(x):
    """Bits of a number in [0, 2^32)."""
    n = 0
    if x >> 16:
        n += 16
        x >>= 16
    if x >> 8:
        n += 8
        x >>= 8
    if x >> 4:
        n += 4
        x >>= 4
    if x >> 2:
        n += 2
        x >>= 2
    if x >> 1:
        n += 1
        x >>= 1
    return n + x


@kernel("float64(float64, int64)")
def scale(x, exponent):
    """x · 2^exponent; overflows to ±inf. Exact wherever the result is a double and x is about 2^54."""
    while exponent > 1000:
        x = x * 2.0**1000
        exponent -= 1000
    while exponent < -1000:
        x = x * 2.0**-1000
        exponent += 1000
    return x * float(_POWERS[exponent + 1000])


@kernel("Tuple((float64, int64))(int64, int64, int64, int64)")
def round_top(first, second, third, rest):
    """Round the number whose leading digits these are, first ≠ 0, half to even: (f, e), the value f·2^e units of third.

    ``rest`` is not zero if any lower digit is not. Nothing is rounded twice: the 55 leading bits, the last one sticky,
    fit into an int64, and its conversion to a double is the only rounding.
    """
    bits = bit_length(first)
    q = first << (55 - bits)
    if bits > 23:
        cut = bits - 23
        q |= second >> cut
        rest |= (second & ((1 << cut) - 1)) | third
    else:
        cut = bits + 9
        q |= second << (23 - bits)
        q |= third >> cut
        rest |= third & ((1 << cut) - 1)
    if rest != 0:
        q |= 1
    return float(q), bits + 9


@kernel("Tuple((float64, int64))(int64[::1], int64, int64)")
def round_digits(digits, size, sticky):
    """Round Σ digits[i]·2^(32 i), i < size (digits in [0, 2^32)): (f, e) with the value f·2^e.

    ``sticky`` is 1 if something positive but smaller than a unit of digit 0 follows.
    """
    top = size - 1
    while top >= 0 and digits[top] == 0:
        top -= 1
    if top < 0:
        return 0.0, 0
    second = digits[top - 1] if top >= 1 else 0
    third = digits[top - 2] if top >= 2 else 0
    for i in range(top - 3, -1, -1):
        sticky |= digits[i]
    f, e = round_top(digits[top], second, third, sticky)
    return f, e + 32 * (top - 2)


@kernel("void(int64[::1], int64)")
def propagate(state, row):
    """Carry from limb to limb; afterwards every limb is in [0, 2^32) but the highest, in (−2^32, 2^32).

    The highest keeps its sign: a borrow would otherwise climb one limb higher at each call.
    """
    base = row + HEADER
    low, high = state[row + LOW], state[row + HIGH]
    carry = 0
    for i in range(low, high - 1):
        t = state[base + i] + carry
        state[base + i] = t & DIGIT
        carry = t >> 32
    if high > low:
        t = state[base + high - 1] + carry
        if t > DIGIT or t < -DIGIT:
            state[base + high] = t >> 32
            state[row + HIGH] = high + 1
            t &= DIGIT
        state[base + high - 1] = t
    state[row + LOAD] = 1


@kernel("void(int64[::1], int64, int64, int64, int64)")
def add_bits(state, row, position, magnitude, weight):
    """Add weight · magnitude · 2^position units, 0 ≤ magnitude < 2^56, |weight| ≤ 2^26."""
    k = position >> 5
    offset = position & 31
    low = (magnitude & DIGIT) << offset
    high = (magnitude >> 32) << offset
    limb = row + HEADER + k
    state[limb] += (low & DIGIT) * weight
    state[limb + 1] += ((low >> 32) + (high & DIGIT)) * weight
    state[limb + 2] += (high >> 32) * weight
    if state[row + LOW] == state[row + HIGH]:
        state[row + LOW] = k
        state[row + HIGH] = k + 3
    else:
        if k < state[row + LOW]:
            state[row + LOW] = k
        if k + 3 > state[row + HIGH]:
            state[row + HIGH] = k + 3


@kernel("void(int64[::1], int64, int64, int64)")
def add(state, row, bits, weight):
    """Add ``weight`` times the double with these bits."""
    state[row + COUNT] += weight
    biased = (bits >> 52) & 2047
    magnitude = bits & FRACTION
    if biased == 2047:
        if magnitude != 0:
            state[row + NANS] += weight
        elif bits < 0:
            state[row + MINUS] += weight
        else:
            state[row + PLUS] += weight
        return
    if biased > 0:
        magnitude |= 1 << 52
        biased -= 1
    if bits < 0:
        weight = -weight
    position = biased
    while weight > LOAD_LIMIT or weight < -LOAD_LIMIT:  # a heavy weight is several light ones, shifted
        propagate(state, row)
        add_bits(state, row, position, magnitude, weight & (LOAD_LIMIT - 1))
        position += LOAD_BITS
        weight >>= LOAD_BITS
        propagate(state, row)
    state[row + LOAD] += abs(weight)
    if state[row + LOAD] > LOAD_LIMIT:
        propagate(state, row)
        state[row + LOAD] += abs(weight)
    add_bits(state, row, position, magnitude, weight)


@kernel("void(int64[::1], int64, int64, int64)")
def add_square(state, row, bits, weight):
    """Add ``weight`` times the square of a finite double: of its integer mantissa, so that nothing is ever lost."""
    biased = (bits >> 52) & 2047
    magnitude = bits & FRACTION
    if biased > 0:
        magnitude |= 1 << 52
        biased -= 1
    low = magnitude & ((1 << 26) - 1)
    high = magnitude >> 26
    position = 2 * biased
    while weight > LOAD_LIMIT or weight < -LOAD_LIMIT:
        part = weight & (LOAD_LIMIT - 1)
        propagate(state, row)
        add_bits(state, row, position, low * low, part)
        add_bits(state, row, position + 27, low * high, part)
        add_bits(state, row, position + 52, high * high, part)
        position += LOAD_BITS
        weight >>= LOAD_BITS
        propagate(state, row)
    state[row + LOAD] += abs(weight)
    if state[row + LOAD] > LOAD_LIMIT:
        propagate(state, row)
        state[row + LOAD] += abs(weight)
    add_bits(state, row, position, low * low, weight)
    add_bits(state, row, position + 27, low * high, weight)
    add_bits(state, row, position + 52, high * high, weight)


@kernel("void(int64[::1], int64)")
def clear(state, row):
    """The bag is empty: forget carries that were left over (their sum is zero), so that the row is all zeros."""
    for i in range(state[row + LOW], state[row + HIGH]):
        state[row + HEADER + i] = 0
    for i in range(HEADER):
        state[row + i] = 0


@kernel("Tuple((int64, int64, boolean))(int64[::1], int64, int64[::1])")
def magnitude_digits(state, row, digits):
    """Write the digits of |value| in base 2^32: (their number, the limb of digit 0, whether the value is negative).

    LOW and HIGH are drawn in over zero limbs, so an outlier that has left costs nothing any more.
    """
    base = row + HEADER
    low, high = state[row + LOW], state[row + HIGH]
    while high > low and state[base + high - 1] == 0:
        high -= 1
    while low < high and state[base + low] == 0:
        low += 1
    if low == high:
        low, high = 0, 0
    state[row + LOW] = low
    state[row + HIGH] = high
    carry = 0
    for i in range(low, high):
        t = state[base + i] + carry
        digits[i - low] = t & DIGIT
        carry = t >> 32
    negative = carry < 0
    if negative:
        carry = 0
        for i in range(low, high):
            t = carry - state[base + i]
            digits[i - low] = t & DIGIT
            carry = t >> 32
    size = high - low
    digits[size] = carry & DIGIT
    digits[size + 1] = carry >> 32
    return size + 2, low, negative


@kernel("float64(int64[::1], int64)")
def value_of_four(state, row):
    """``value`` in registers, for the common case of numbers of similar size: at most four limbs in use."""
    at = row + HEADER + state[row + LOW]
    a, b, c, d = state[at], state[at + 1], state[at + 2], state[at + 3]
    b1 = b + (a >> 32)
    c1 = c + (b1 >> 32)
    d1 = d + (c1 >> 32)
    negative = d1 < 0
    if negative:
        a = -a
        b1 = (a >> 32) - b
        c1 = (b1 >> 32) - c
        d1 = (c1 >> 32) - d
    a, b, c, d, top = a & DIGIT, b1 & DIGIT, c1 & DIGIT, d1 & DIGIT, d1 >> 32
    low = state[row + LOW]
    if top != 0:
        f, e = round_top(top, d, c, b | a)
        e += 64
    elif d != 0:
        f, e = round_top(d, c, b, a)
        e += 32
    elif c != 0:
        f, e = round_top(c, b, a, 0)
    elif b != 0:
        f, e = round_top(b, a, 0, 0)
        e -= 32
    elif a != 0:
        f, e = round_top(a, 0, 0, 0)
        e -= 64
    else:
        return 0.0
    x = scale(f, e + 32 * low + LOWEST_EXPONENT)
    return -x if negative else x


@kernel("float64(int64[::1], int64, int64[::1])")
def value(state, row, digits):
    """The sum, correctly rounded. Any NaN, or both infinities: NaN; else an infinity wins."""
    if state[row + NANS] | state[row + PLUS] | state[row + MINUS]:
        if state[row + NANS] != 0 or (state[row + PLUS] != 0 and state[row + MINUS] != 0):
            return math.nan
        return math.inf if state[row + PLUS] != 0 else -math.inf
    if state[row + HIGH] - state[row + LOW] <= 4:
        return value_of_four(state, row)
    size, low, negative = magnitude_digits(state, row, digits)
    f, e = round_digits(digits, size, 0)
    x = scale(f, e + 32 * low + LOWEST_EXPONENT)
    return -x if negative else x


@kernel(
    "void(int64[::1], int64[::1], boolean[::1], int64[::1], int64[::1], int64[::1], int64[::1], float64[::1], "
    "int64[::1])"
)
def sum_doubles(group, weight, valid, bits, slot, state, digits, out, count):
    """Walk the elements; where ``slot[i] ≥ 0`` write the group's sum and count there. ``valid`` is empty: no NULLs."""
    nulls = len(valid) > 0
    for i in range(len(group)):
        row = group[i] * ROW
        if weight[i] != 0 and (not nulls or valid[i]):
            add(state, row, bits[i], weight[i])
        s = slot[i]
        if s >= 0:
            count[s] = state[row + COUNT]
            if state[row + COUNT] == 0:
                clear(state, row)
                out[s] = 0.0
            else:
                out[s] = value(state, row, digits)


@kernel("int64(int64[::1], int64, int64)")
def divide(top, divisor, sticky):
    """Divide the number in ``top`` (six digits, highest last) by a divisor below 2^32, in place; the new sticky."""
    rest = np.uint64(0)
    d = np.uint64(divisor)
    for i in range(_TOP_DIGITS - 1, -1, -1):
        t = (rest << np.uint64(32)) | np.uint64(top[i])
        top[i] = np.int64(t // d)
        rest = t % d
    return 1 if rest != np.uint64(0) else sticky


@kernel("void(int64[::1], int64, int64[::1], int64, int64)")
def multiply_add(out, at, digits, size, factor):
    """out[at:] += digits · factor for a factor below 2^32; digits stay in [0, 2^32)."""
    mask, f, c = np.uint64(DIGIT), np.uint64(factor), np.uint64(0)
    for i in range(size):
        t = np.uint64(digits[i]) * f + np.uint64(out[at + i]) + c
        out[at + i] = np.int64(t & mask)
        c = t >> np.uint64(32)
    i = at + size
    while c != np.uint64(0):
        t = np.uint64(out[i]) + c
        out[i] = np.int64(t & mask)
        c = t >> np.uint64(32)
        i += 1


@kernel("float64(int64[::1], int64, int64[::1], int64, int64, boolean, int64[:, ::1])")
def spread(sums, row, squares, square_row, less, root, work):
    """(n Σx² − (Σx)²) / (n (n − less)), correctly rounded, or its square root. Needs n > less.

    The numerator is an exact integer, so there is no cancellation: ten numbers near 10^15 are as good as near zero.
    """
    n = sums[row + COUNT]
    if sums[row + NANS] | sums[row + PLUS] | sums[row + MINUS]:
        return math.nan
    s, q, left, right, top = work[0], work[1], work[2], work[3], work[4]
    s_size, s_low, _ = magnitude_digits(sums, row, s)
    q_size, q_low, _ = magnitude_digits(squares, square_row, q)
    while s_size > 0 and s[s_size - 1] == 0:
        s_size -= 1
    base = min(2 * s_low, q_low) if s_size > 0 else q_low
    size = max(q_low + q_size + 3, 2 * (s_low + s_size) + 1) - base
    for i in range(size):
        left[i] = 0
        right[i] = 0
    multiply_add(left, q_low - base, q, q_size, n & DIGIT)
    multiply_add(left, q_low - base + 1, q, q_size, n >> 32)
    for i in range(s_size):
        multiply_add(right, 2 * s_low - base + i, s, s_size, s[i])
    borrow = 0
    for i in range(size):
        t = left[i] - right[i] - borrow
        left[i] = t & DIGIT
        borrow = 1 if t < 0 else 0
    while size > 0 and left[size - 1] == 0:
        size -= 1
    if size == 0:
        return 0.0
    exponent = 2 * LOWEST_EXPONENT + 32 * (base + size - _TOP_DIGITS)
    sticky = 0
    for i in range(_TOP_DIGITS):
        j = size - _TOP_DIGITS + i
        top[i] = left[j] if j >= 0 else 0
    for j in range(size - _TOP_DIGITS):
        if left[j] != 0:
            sticky = 1
    if n <= DIGIT:
        sticky = divide(top, n, sticky)
        sticky = divide(top, n - less, sticky)
        f, e = round_digits(top, _TOP_DIGITS, sticky)
    else:
        f, e = round_digits(top, _TOP_DIGITS, sticky)
        f = f / (float(n) * float(n - less))
    e += exponent
    if not root:
        return scale(f, e)
    if e & 1:
        f *= 2.0
        e -= 1
    return scale(math.sqrt(f), e >> 1)


@kernel(
    "void(int64[::1], int64[::1], boolean[::1], int64[::1], int64[::1], int64[::1], int64[::1], int64, boolean, "
    "int64[:, ::1], float64[::1], int64[::1])"
)
def spread_doubles(group, weight, valid, bits, slot, sums, squares, less, root, work, out, count):
    """Walk the elements like ``sum_doubles``; writes the variance or deviation where there are more than ``less``."""
    nulls = len(valid) > 0
    for i in range(len(group)):
        row = group[i] * ROW
        square_row = group[i] * SQUARE_ROW
        if weight[i] != 0 and (not nulls or valid[i]):
            add(sums, row, bits[i], weight[i])
            if (bits[i] >> 52) & 2047 != 2047:
                add_square(squares, square_row, bits[i], weight[i])
        s = slot[i]
        if s >= 0:
            count[s] = sums[row + COUNT]
            out[s] = 0.0
            if sums[row + COUNT] == 0:
                clear(sums, row)
                clear(squares, square_row)
            elif sums[row + COUNT] > less:
                out[s] = spread(sums, row, squares, square_row, less, root, work)
