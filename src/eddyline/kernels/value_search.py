"""Searches of a state module by one value for each attribute of the search: the usual case in joins.

They find and count what the searches by ranges do (``kernels.bit_address``), in half the time: nothing is prepared for
ranges, and a row of a bucket is compared with values. The first attribute that is compared is the one with the fewest
bits of the index, because the rows of a bucket differ in it most.

An index has two forms here too, for two and for four bytes a slot (``wide``).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from eddyline.kernels.bit_address import COMPARISONS, FOUND, HASHES, VISITS, both_widths, part
from eddyline.kernels.compile import borrowed, inlined
from eddyline.kernels.hashing import mix, u

_I1, _I2 = "int64[::1]", "int64[:, ::1]"
_REQUESTS = f"int64, {_I1}, {_I2}, {_I1}, {_I1}"  # start, asked, values, max_enter, min_leave
_STORED = f"int64, int64, int64, {_I2}, {_I1}, {_I1}"  # first, newest, newest_slot, codes, enter, leave
_FOUND = f"{_I1}, {_I1}, {_I1}"  # requests, rows, counts


class Bucket(NamedTuple):
    """Where chains lie and what is compared with their rows; ``order`` are the places of the attributes asked for."""

    first: Any
    newest: Any
    newest_slot: Any
    links: Any
    order: Any
    asked: Any
    values: Any
    max_enter: Any
    min_leave: Any
    codes: Any
    enter: Any
    leave: Any
    out_requests: Any
    out_rows: Any


@inlined
def compare_chain(slot, request, found, compared, b):
    """Compare the rows of a chain from ``slot`` on with a request: how many answers there are now, −1 if one found no
    room, and how many rows were compared so far."""
    row = b.newest - (b.newest_slot - slot)
    if slot > b.newest_slot:
        row -= len(b.links)
    value, attribute = b.values[u(request), u(b.order[0])], b.asked[u(b.order[0])]
    while row >= b.first:
        compared += 1
        if b.codes[u(row), u(attribute)] == value:
            fits = b.enter[u(row)] <= b.max_enter[u(request)] and b.leave[u(row)] >= b.min_leave[u(request)]
            for i in range(1, len(b.order)):
                j = b.order[u(i)]
                if b.codes[u(row), u(b.asked[u(j)])] != b.values[u(request), u(j)]:
                    fits = False
                    break
            if fits:
                if found == len(b.out_rows):
                    return np.int64(-1), compared
                b.out_requests[u(found)], b.out_rows[u(found)] = request, row
                found += 1
        distance = np.int64(b.links[u(slot)])
        if distance == 0:
            break
        row -= distance
        slot -= distance
        if slot < 0:
            slot += len(b.links)
    return found, compared


def search_bits_by_value(
    start, asked, values, max_enter, min_leave, first, newest, newest_slot, codes, enter, leave, bits, ranged,
    boundaries, heads, links, out_requests, out_rows, counts,
):  # fmt: skip
    """Search a bit-address index whose last row is ``newest``; rows before ``first`` are no longer alive."""
    n = len(asked)
    order, shift, indexed = np.zeros(n, np.int64), np.zeros(n, np.int64), np.zeros(n, np.int64)
    hashed = 0  # attributes that are asked for and have bits; ``indexed`` are their places
    anything, below = np.int64(0), np.int64(0)  # the bits of what is not asked for
    for a in range(len(bits) - 1, -1, -1):
        open_bits = ((1 << bits[a]) - 1) << below
        for j in range(n):
            if asked[j] == a:
                open_bits = 0
                shift[j] = below
                if bits[a] > 0:
                    indexed[hashed] = j
                    hashed += 1
        anything |= open_bits
        below += bits[a]
    for j in range(n):  # the attribute with the fewest bits first
        order[j] = j
        i = j
        while i > 0 and bits[asked[order[i - 1]]] > bits[asked[order[i]]]:
            order[i - 1], order[i] = order[i], order[i - 1]
            i -= 1
    b = Bucket(
        first, newest, newest_slot, borrowed(links), borrowed(order), borrowed(asked), borrowed(values),
        borrowed(max_enter), borrowed(min_leave), borrowed(codes), borrowed(enter), borrowed(leave),
        borrowed(out_requests), borrowed(out_rows),
    )  # fmt: skip
    bits, ranged, boundaries, heads = borrowed(bits), borrowed(ranged), borrowed(boundaries), borrowed(heads)
    shift, indexed = borrowed(shift), borrowed(indexed)
    found, visits, compared = counts[FOUND], np.int64(0), np.int64(0)
    request = start
    while request < len(max_enter):
        bucket, before, compared_before = np.int64(0), found, compared
        for i in range(hashed):
            j = indexed[u(i)]
            bucket |= part(b.values[u(request), u(j)], asked[u(j)], bits, ranged, boundaries) << shift[u(j)]
        others = np.int64(0)
        while True:
            slot = np.int64(heads[u(bucket | others)]) - 1
            if slot >= 0:
                found, compared = compare_chain(slot, request, found, compared, b)
                if found < 0:
                    break
            others = (others - anything) & anything
            if others == 0:
                break
        if found < 0:  # what was found for this request is found again
            found, compared = before, compared_before
            break
        request += 1
    each = np.int64(1)
    others = anything
    while others != 0:
        others &= others - 1
        each *= 2
    visits = (request - start) * each
    counts[FOUND] = found
    counts[HASHES] += (request - start) * hashed
    counts[VISITS] += visits
    counts[COMPARISONS] += compared
    return request


def search_hashed_by_value(
    start, asked, values, max_enter, min_leave, first, newest, newest_slot, codes, enter, leave, places, heads, links,
    out_requests, out_rows, counts,
):  # fmt: skip
    """Search a hash index; ``places`` are the places of its attributes among those asked for."""
    n = len(asked)
    order = np.zeros(n, np.int64)
    at = 0
    for indexed in range(2):  # the attributes that the index has not first
        for j in range(n):
            inside = 0
            for p in range(len(places)):
                if places[p] == j:
                    inside = 1
            if inside == indexed:
                order[at] = j
                at += 1
    b = Bucket(
        first, newest, newest_slot, borrowed(links), borrowed(order), borrowed(asked), borrowed(values),
        borrowed(max_enter), borrowed(min_leave), borrowed(codes), borrowed(enter), borrowed(leave),
        borrowed(out_requests), borrowed(out_rows),
    )  # fmt: skip
    places, heads = borrowed(places), borrowed(heads)
    mask = np.int64(len(heads) - 1)
    found, compared = counts[FOUND], np.int64(0)
    request = start
    while request < len(max_enter):
        h, before, compared_before = np.int64(0), found, compared
        for p in range(len(places)):
            h = mix(h, b.values[u(request), u(places[u(p)])])
        slot = np.int64(heads[u(h & mask)]) - 1
        if slot >= 0:
            found, compared = compare_chain(slot, request, found, compared, b)
            if found < 0:
                found, compared = before, compared_before
                break
        request += 1
    counts[FOUND] = found
    counts[HASHES] += (request - start) * len(places)
    counts[VISITS] += request - start
    counts[COMPARISONS] += compared
    return request


_REQUESTED = {"work": lambda *a: len(a[3])}
SEARCH_BITS_BY_VALUE = both_widths(
    f"int64({_REQUESTS}, {_STORED}, {_I1}, {_I1}, {_I2}, %s, %s, {_FOUND})", search_bits_by_value, _REQUESTED
)
SEARCH_HASHED_BY_VALUE = both_widths(
    f"int64({_REQUESTS}, {_STORED}, {_I1}, %s, %s, {_FOUND})", search_hashed_by_value, _REQUESTED
)
