"""Bit-address indexes (AMRI, section 4.1) and hash indexes of a state module: insertion and search.

A key map gives each row a bucket. Rows of a bucket are chained newest first: ``heads[bucket]`` and ``links[row]`` hold
the place of a row in the index, counted from 1, and 0 means none. A chain ends at the first row that is no longer
alive, because all rows behind it are older: expiry unlinks nothing.

*Bit-address.* ``bits[a]`` bits of a bucket's number come from attribute a, the first attribute's are the highest. They
are the highest bits of the hash of the value, or, where ``ranged[a]``, the number of the boundaries that the value has
reached. A search gives a range [low, high] for each attribute it asks for: one value for equality, all values for an
attribute that it does not ask for. It visits every bucket in the product of the ranges' bucket parts.

*Hashed.* The bucket is a hash of the values of some attributes; a search must give a value for each of them.

All three searches return rows that lie in the ranges, entered no later than ``max_enter`` and leave no earlier than
``min_leave``. They stop before a request whose rows find no room, and return the number of the next request.
"""

from __future__ import annotations

import numpy as np

from eddyline.kernels.compile import borrowed, inlined, kernel
from eddyline.kernels.hashing import mix, u

HASHES, VISITS, COMPARISONS, FOUND = 0, 1, 2, 3  # of ``counts``

_I1, _I2, _S1 = "int64[::1]", "int64[:, ::1]", "int32[::1]"
_ROWS = f"{_I2}, {_I1}, {_I1}"  # codes, enter, leave
_REQUESTS = f"int64, {_I1}, {_I2}, {_I2}, {_I1}, {_I1}"  # start, asked, low, high, max_enter, min_leave
_FOUND = f"{_I1}, {_I1}, {_I1}"  # requests, rows, counts


@inlined
def part(code, a, bits, ranged, boundaries):
    """The bits of a bucket's number that attribute ``a`` gives, for a value."""
    width = bits[a]
    if width == 0:
        return np.int64(0)
    if ranged[a] == 0:
        return np.int64((mix(np.int64(a), code) >> np.int64(64 - width)) & np.int64((1 << width) - 1))
    low, high = np.int64(0), np.int64((1 << width) - 1)
    while low < high:
        middle = (low + high) // 2
        if code >= boundaries[a, middle]:
            low = middle + 1
        else:
            high = middle
    return low


@inlined
def fits(row, request, asked, low, high, max_enter, min_leave, codes, enter, leave):
    """Whether a row is an answer to a request."""
    if enter[u(row)] > max_enter[u(request)] or leave[u(row)] < min_leave[u(request)]:
        return False
    for j in range(len(asked)):
        code = codes[u(row), u(asked[u(j)])]
        if code < low[u(request), u(j)] or code > high[u(request), u(j)]:
            return False
    return True


@kernel(f"void(int64, int64, int64, {_I2}, {_I1}, {_I1}, {_I1}, {_I2}, {_S1}, {_S1})", work=lambda *a: a[1] - a[0])
def insert_bits(begin, end, base, codes, enter, bits, ranged, boundaries, heads, links):
    """Put the rows ``begin`` … ``end`` − 1 that can match (``enter`` is a time) into a bit-address index."""
    for row in range(begin, end):
        if enter[row] == np.int64(0x7FFFFFFFFFFFFFFF):
            continue
        bucket = np.int64(0)
        for a in range(len(bits)):
            bucket = (bucket << bits[a]) | part(codes[row, a], a, bits, ranged, boundaries)
        links[row - base] = heads[bucket]
        heads[bucket] = np.int32(row - base + 1)


@kernel(f"void(int64, int64, int64, {_I2}, {_I1}, {_I1}, {_S1}, {_S1})", work=lambda *a: a[1] - a[0])
def insert_hashed(begin, end, base, codes, enter, attributes, heads, links):
    """Put the rows ``begin`` … ``end`` − 1 that can match into a hash index on some attributes."""
    mask = np.int64(len(heads) - 1)
    for row in range(begin, end):
        if enter[row] == np.int64(0x7FFFFFFFFFFFFFFF):
            continue
        h = np.int64(0)
        for j in range(len(attributes)):
            h = mix(h, codes[row, attributes[j]])
        bucket = h & mask
        links[row - base] = heads[bucket]
        heads[bucket] = np.int32(row - base + 1)


@kernel(
    f"int64({_REQUESTS}, int64, int64, {_ROWS}, {_I1}, {_I1}, {_I2}, {_S1}, {_S1}, {_FOUND})",
    work=lambda *a: len(a[4]),
)
def search_bits(
    start, asked, low, high, max_enter, min_leave, base, first, codes, enter, leave, bits, ranged, boundaries,
    heads, links, out_requests, out_rows, counts,
):  # fmt: skip
    """Search a bit-address index whose rows begin at ``base``; rows before ``first`` are no longer alive."""
    n = len(bits)
    lowest = np.zeros(n, np.int64)
    highest = np.zeros(n, np.int64)
    now = np.zeros(n, np.int64)
    given = np.zeros(n, np.int64)
    for j in range(len(asked)):
        given[asked[j]] = j + 1
    found = counts[FOUND]
    for request in range(start, len(max_enter)):
        before = found
        for a in range(n):
            j = given[a] - 1
            if j < 0 or bits[a] == 0:
                lowest[a], highest[a] = 0, (1 << bits[a]) - 1
            else:
                counts[HASHES] += 1
                lowest[a] = part(low[request, j], a, bits, ranged, boundaries)
                highest[a] = lowest[a]
                if low[request, j] != high[request, j]:
                    if ranged[a] == 0:
                        lowest[a], highest[a] = 0, (1 << bits[a]) - 1
                    else:
                        highest[a] = part(high[request, j], a, bits, ranged, boundaries)
            now[a] = lowest[a]
        more = True
        for j in range(len(asked)):
            if low[request, j] > high[request, j]:
                more = False
        while more:
            bucket = np.int64(0)
            for a in range(n):
                bucket = (bucket << bits[a]) | now[a]
            counts[VISITS] += 1
            at = np.int64(heads[u(bucket)])
            while at > 0:
                row = base + at - 1
                if row < first:
                    break
                counts[COMPARISONS] += 1
                if fits(
                    row, request, borrowed(asked), borrowed(low), borrowed(high), borrowed(max_enter),
                    borrowed(min_leave), borrowed(codes), borrowed(enter), borrowed(leave),
                ):  # fmt: skip
                    if found == len(out_rows):
                        counts[FOUND] = before
                        return request
                    out_requests[found], out_rows[found] = request, row
                    found += 1
                at = np.int64(links[u(at - 1)])
            more = False  # the next bucket of the product, the last attribute fastest
            for a in range(n - 1, -1, -1):
                if now[a] < highest[a]:
                    now[a] += 1
                    more = True
                    break
                now[a] = lowest[a]
    counts[FOUND] = found
    return np.int64(len(max_enter))


@kernel(
    f"int64({_REQUESTS}, int64, int64, {_ROWS}, {_I1}, {_S1}, {_S1}, {_FOUND})",
    work=lambda *a: len(a[4]),
)
def search_hashed(
    start, asked, low, high, max_enter, min_leave, base, first, codes, enter, leave, places, heads, links,
    out_requests, out_rows, counts,
):  # fmt: skip
    """Search a hash index; ``places`` are the places of its attributes among those asked for."""
    mask = np.int64(len(heads) - 1)
    found = counts[FOUND]
    for request in range(start, len(max_enter)):
        before = found
        h = np.int64(0)
        for p in range(len(places)):
            h = mix(h, low[request, places[p]])
        counts[HASHES] += len(places)
        counts[VISITS] += 1
        at = np.int64(heads[u(h & mask)])
        while at > 0:
            row = base + at - 1
            if row < first:
                break
            counts[COMPARISONS] += 1
            if fits(
                    row, request, borrowed(asked), borrowed(low), borrowed(high), borrowed(max_enter),
                    borrowed(min_leave), borrowed(codes), borrowed(enter), borrowed(leave),
                ):  # fmt: skip
                if found == len(out_rows):
                    counts[FOUND] = before
                    return request
                out_requests[found], out_rows[found] = request, row
                found += 1
            at = np.int64(links[u(at - 1)])
    counts[FOUND] = found
    return np.int64(len(max_enter))


@kernel(f"int64({_REQUESTS}, int64, int64, {_ROWS}, {_FOUND})", work=lambda *a: len(a[4]) * max(1, a[7] - a[6]))
def search_all(
    start, asked, low, high, max_enter, min_leave, begin, end, codes, enter, leave, out_requests, out_rows, counts
):
    """Compare every row from ``begin`` to ``end`` − 1: for a search that no index serves."""
    found = counts[FOUND]
    for request in range(start, len(max_enter)):
        before = found
        for row in range(begin, end):
            counts[COMPARISONS] += 1
            if fits(
                    row, request, borrowed(asked), borrowed(low), borrowed(high), borrowed(max_enter),
                    borrowed(min_leave), borrowed(codes), borrowed(enter), borrowed(leave),
                ):  # fmt: skip
                if found == len(out_rows):
                    counts[FOUND] = before
                    return request
                out_requests[found], out_rows[found] = request, row
                found += 1
    counts[FOUND] = found
    return np.int64(len(max_enter))


@kernel(f"void({_I1}, {_I1}, {_I1}, {_I1})")
def buckets_between(bits, lowest, highest, out):
    """The numbers of the buckets in the product of the attributes' parts, the last attribute fastest."""
    now = lowest.copy()
    for i in range(len(out)):
        bucket = np.int64(0)
        for a in range(len(bits)):
            bucket = (bucket << bits[a]) | now[a]
        out[i] = bucket
        for a in range(len(bits) - 1, -1, -1):
            if now[a] < highest[a]:
                now[a] += 1
                break
            now[a] = lowest[a]
