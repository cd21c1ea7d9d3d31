"""Bit-address indexes (AMRI, section 4.1) and hash indexes of a state module: insertion and search.

A key map gives each row a bucket. Rows of a bucket are chained newest first. Each row has a *slot* of a ring that is as
long as ``links``; slots are taken in turn and used again when their rows are no longer alive. ``heads[bucket]`` is the
slot of the bucket's newest row, counted from 1, and 0 means none. ``links[slot]`` is how many rows before its row the
next row of the chain came, 0 at the end. So both are smaller than the number of rows in the index, and two bytes are
enough for 65,534 of them. A chain ends at the first row that is no longer alive, because all rows behind it are older:
expiry unlinks nothing, but no head may point to a slot when it is used again.

*Bit-address.* ``bits[a]`` bits of a bucket's number come from attribute a, the first attribute's are the highest. They
are the highest bits of the hash of the value, or, where ``ranged[a]``, the number of the boundaries that the value has
reached. A search gives a range [low, high] for each attribute it asks for: one value for equality, all values for an
attribute that it does not ask for. It visits every bucket in the product of the ranges' bucket parts.

*Hashed.* The bucket is a hash of the values of some attributes; a search must give a value for each of them.

All three searches return rows that lie in the ranges, entered no later than ``max_enter`` and leave no earlier than
``min_leave``. They stop before a request whose rows find no room, and return the number of the next request; ``counts``
are of the requests before it.

The kernels of indexes have two forms, for two and for four bytes a slot (``wide``).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from eddyline.kernels.compile import borrowed, inlined, kernel
from eddyline.kernels.hashing import above, mix, u

HASHES, VISITS, COMPARISONS, FOUND = 0, 1, 2, 3  # of ``counts``
NARROW_SLOTS = 65_534  # most slots that two bytes can count, with 0 for none
ROWS_PER_BLOCK = 16  # compared together: more take fewer branches, but a match in a block is more likely
MAX_COMBINED = 3  # attributes that are compared as one number: more leave fewer false matches, and take preparation

_I1, _I2 = "int64[::1]", "int64[:, ::1]"
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


class Rows(NamedTuple):
    """The rows of a state module: their values, and when they enter and leave their window."""

    codes: Any
    enter: Any
    leave: Any


class Wanted(NamedTuple):
    """What a request asks for: of each attribute of ``asked`` a value not below ``low`` and at most ``span`` above it.
    These are filled in for one request after another; the times are those of all requests."""

    asked: Any
    low: Any
    span: Any
    max_enter: Any
    min_leave: Any


class Answers(NamedTuple):
    """Room for answers: the request and the row of each."""

    requests: Any
    rows: Any


@inlined
def want(request, low, high, wanted):
    """Fill in the ranges of a request: whether each of them has a value."""
    possible = True
    for j in range(len(wanted.asked)):
        least, most = low[u(request), u(j)], high[u(request), u(j)]
        wanted.low[u(j)], wanted.span[u(j)] = least, above(least, most)
        if least > most:
            possible = False
    return possible


@inlined
def fits(row, first, request, wanted, rows):
    """Whether a row is an answer to a request, as far as the attributes from place ``first`` on and times decide. Most
    rows of a bucket differ in a value: values come first."""
    for j in range(first, len(wanted.asked)):
        if above(wanted.low[u(j)], rows.codes[u(row), u(wanted.asked[u(j)])]) > wanted.span[u(j)]:
            return False
    return rows.enter[u(row)] <= wanted.max_enter[u(request)] and rows.leave[u(row)] >= wanted.min_leave[u(request)]


@inlined
def write(row, request, found, answers):
    """Write an answer down: how many there are now, −1 if this one found no room."""
    if found == len(answers.rows):
        return np.int64(-1)
    answers.requests[u(found)], answers.rows[u(found)] = request, row
    return found + 1


@inlined
def follow_chain(slot, request, found, compared, first, newest, newest_slot, links, wanted, rows, answers):
    """Compare the rows of a chain from ``slot`` on (negative: there is none): how many answers there are now, −1 if one
    found no room, and how many rows were compared so far."""
    if slot < 0:
        return found, compared
    row = newest - (newest_slot - slot)
    if slot > newest_slot:
        row -= len(links)
    while row >= first:
        compared += 1
        if fits(row, 0, request, wanted, rows):
            found = write(row, request, found, answers)
            if found < 0:
                break
        distance = np.int64(links[u(slot)])
        if distance == 0:
            break
        row -= distance
        slot -= distance
        if slot < 0:
            slot += len(links)
    return found, compared


@inlined
def next_parts(now, lowest, highest):
    """Go on to the next parts of the ranges, the last attribute fastest: whether there are any."""
    for j in range(len(now) - 1, -1, -1):
        if now[j] < highest[j]:
            now[j] += 1
            return True
        now[j] = lowest[j]
    return False


@inlined
def link(bucket, slot, heads, links):
    """Put the row of a slot before the others of its bucket."""
    place = np.int64(heads[bucket])
    links[slot] = 0
    if place > 0:
        distance = slot - (place - 1)
        links[slot] = distance if distance > 0 else distance + len(links)
    heads[bucket] = slot + 1


def insert_bits(begin, end, slot, codes, enter, bits, ranged, boundaries, heads, links):
    """Put the rows ``begin`` … ``end`` − 1 that can match (``enter`` is a time) into a bit-address index; the first of
    them takes ``slot``."""
    for row in range(begin, end):
        if enter[row] != np.int64(0x7FFFFFFFFFFFFFFF):
            bucket = np.int64(0)
            for a in range(len(bits)):
                bucket = (bucket << bits[a]) | part(codes[row, a], a, bits, ranged, boundaries)
            link(bucket, slot, heads, links)
        slot = slot + 1 if slot + 1 < len(links) else np.int64(0)


def insert_hashed(begin, end, slot, codes, enter, sizes, attributes, heads, links):
    """Put the rows ``begin`` … ``end`` − 1 that can match into several hash indexes, a line each of ``heads`` and
    ``links``: index i is on the first ``sizes[i]`` of its ``attributes``. One call serves all of them, because a call
    costs more than to insert the few rows that a batch brings to a state."""
    mask, first = np.int64(heads.shape[1] - 1), slot
    for i in range(len(sizes)):
        slot, my_heads, my_links = first, heads[i], links[i]
        for row in range(begin, end):
            if enter[row] != np.int64(0x7FFFFFFFFFFFFFFF):
                h = np.int64(0)
                for j in range(sizes[i]):
                    h = mix(h, codes[row, attributes[i, j]])
                link(h & mask, slot, my_heads, my_links)
            slot = slot + 1 if slot + 1 < len(my_links) else np.int64(0)


def clear_heads(after, upto, wrapped, heads):
    """No head points to the slots from ``after`` to ``upto`` − 1 of the ring, nor to those before ``wrapped``."""
    for i in range(heads.shape[0]):
        for b in range(heads.shape[1]):
            head = np.int64(heads[i, b])  # slots count from 1 here
            if (head > after and head <= upto) or head <= wrapped:
                heads[i, b] = 0


def search_bits(
    start, asked, low, high, max_enter, min_leave, first, newest, newest_slot, codes, enter, leave, bits, ranged,
    boundaries, heads, links, out_requests, out_rows, counts,
):  # fmt: skip
    """Search a bit-address index whose last row is ``newest``; rows before ``first`` are no longer alive.

    The buckets of a search have the bits of its values, and any bits where it asks for nothing (``anything``). Only
    attributes that a range leaves some of their parts (``ranges`` counts them) go through these one after another.
    """
    n = len(asked)
    lows, spans = np.zeros(n, np.int64), np.zeros(n, np.uint64)
    wanted = Wanted(borrowed(asked), borrowed(lows), borrowed(spans), borrowed(max_enter), borrowed(min_leave))
    rows = Rows(borrowed(codes), borrowed(enter), borrowed(leave))
    answers = Answers(borrowed(out_requests), borrowed(out_rows))
    bits, ranged, boundaries = borrowed(bits), borrowed(ranged), borrowed(boundaries)
    low, high, heads, links = borrowed(low), borrowed(high), borrowed(heads), borrowed(links)
    lowest, highest, now = np.zeros(n, np.int64), np.zeros(n, np.int64), np.zeros(n, np.int64)
    shift = np.zeros(n, np.int64)  # of the bits of each attribute that is asked for, in a bucket's number
    not_asked, below = np.int64(0), np.int64(0)
    for a in range(len(bits) - 1, -1, -1):
        not_asked |= ((1 << bits[a]) - 1) << below
        for j in range(n):
            if asked[j] == a:
                not_asked &= (1 << below) - 1
                shift[j] = below
        below += bits[a]
    found, hashes, visits, compared = counts[FOUND], counts[HASHES], counts[VISITS], counts[COMPARISONS]
    for request in range(start, len(max_enter)):
        counts[FOUND], counts[HASHES], counts[VISITS], counts[COMPARISONS] = found, hashes, visits, compared
        more = want(request, low, high, wanted)
        anything, bits_of_values, ranges = not_asked, np.int64(0), 0
        for j in range(n):
            a = asked[u(j)]
            width = bits[u(a)]
            if width == 0:
                continue
            if spans[u(j)] == 0:
                hashes += 1
                bits_of_values |= part(lows[u(j)], a, bits, ranged, boundaries) << shift[u(j)]
            elif ranged[u(a)] == 0:  # any bits: hashes keep no order
                anything |= ((1 << width) - 1) << shift[u(j)]
            else:
                hashes += 1
                ranges += 1
                lowest[j] = part(lows[u(j)], a, bits, ranged, boundaries)
                highest[j] = part(high[u(request), u(j)], a, bits, ranged, boundaries)
                now[j] = lowest[j]
        while more:
            here = bits_of_values
            for j in range(n if ranges > 0 else 0):
                here |= now[j] << shift[j]
            others = np.int64(0)
            while True:
                visits += 1
                slot = np.int64(heads[u(here | others)]) - 1
                found, compared = follow_chain(
                    slot, request, found, compared, first, newest, newest_slot, links, wanted, rows, answers
                )
                if found < 0:
                    return request
                others = (others - anything) & anything
                if others == 0:
                    break
            more = ranges > 0 and next_parts(now, lowest, highest)
        for j in range(n if ranges > 0 else 0):
            lowest[j], highest[j], now[j] = 0, 0, 0
    counts[FOUND], counts[HASHES], counts[VISITS], counts[COMPARISONS] = found, hashes, visits, compared
    return np.int64(len(max_enter))


def search_hashed(
    start, asked, low, high, max_enter, min_leave, first, newest, newest_slot, codes, enter, leave, places, heads,
    links, out_requests, out_rows, counts,
):  # fmt: skip
    """Search a hash index; ``places`` are the places of its attributes among those asked for."""
    lows, spans = np.zeros(len(asked), np.int64), np.zeros(len(asked), np.uint64)
    wanted = Wanted(borrowed(asked), borrowed(lows), borrowed(spans), borrowed(max_enter), borrowed(min_leave))
    rows = Rows(borrowed(codes), borrowed(enter), borrowed(leave))
    answers = Answers(borrowed(out_requests), borrowed(out_rows))
    mask = np.int64(len(heads) - 1)
    found, compared = counts[FOUND], counts[COMPARISONS]
    for request in range(start, len(max_enter)):
        counts[FOUND], counts[COMPARISONS] = found, compared
        if not want(request, low, high, wanted):
            continue
        h = np.int64(0)
        for p in range(len(places)):
            h = mix(h, lows[u(places[u(p)])])
        slot = np.int64(heads[u(h & mask)]) - 1
        found, compared = follow_chain(
            slot, request, found, compared, first, newest, newest_slot, borrowed(links), wanted, rows, answers
        )
        if found < 0:
            return request
        counts[HASHES] += len(places)
        counts[VISITS] += 1
    counts[FOUND], counts[COMPARISONS] = found, compared
    return np.int64(len(max_enter))


_REQUESTED = {"work": lambda *a: len(a[4])}
_INSERTED = {"work": lambda *a: a[1] - a[0]}
_INSERTED_IN_EACH = {"work": lambda *a: (a[1] - a[0]) * len(a[5])}
_CLEARED = {"work": lambda *a: a[3].size}
_INSERT_BITS = f"void(int64, int64, int64, {_I2}, {_I1}, {_I1}, {_I1}, {_I2}, %s, %s)"
_INSERT_HASHED = f"void(int64, int64, int64, {_I2}, {_I1}, {_I1}, {_I2}, %s, %s)"
_CLEAR = "void(int64, int64, int64, %s)"
_SEARCH_BITS = f"int64({_REQUESTS}, int64, int64, int64, {_ROWS}, {_I1}, {_I1}, {_I2}, %s, %s, {_FOUND})"
_SEARCH_HASHED = f"int64({_REQUESTS}, int64, int64, int64, {_ROWS}, {_I1}, %s, %s, {_FOUND})"


def both_widths(signature, function, work, lines="::1"):
    """The kernel for two bytes a slot and the one for four, by whether it is ``wide``; ``lines`` is the form of heads
    and links."""
    forms = (("uint16", function.__name__), ("uint32", f"{function.__name__}_wide"))
    slots = signature.count("%s")
    return tuple(
        kernel(signature % ((f"{kind}[{lines}]",) * slots), name=name, **work)(function) for kind, name in forms
    )


INSERT_BITS = both_widths(_INSERT_BITS, insert_bits, _INSERTED)
INSERT_HASHED = both_widths(_INSERT_HASHED, insert_hashed, _INSERTED_IN_EACH, lines=":, ::1")
CLEAR_HEADS = both_widths(_CLEAR, clear_heads, _CLEARED, lines=":, ::1")
SEARCH_BITS = both_widths(_SEARCH_BITS, search_bits, _REQUESTED)
SEARCH_HASHED = both_widths(_SEARCH_HASHED, search_hashed, _REQUESTED)


@inlined
def combined(codes, row, places, count):
    """The codes of a row at the first ``count`` places as one number: where they are equal, it is."""
    value = codes[u(row), u(places[0])]
    for j in range(1, count):
        code, shift = codes[u(row), u(places[u(j)])], np.int64(64 // MAX_COMBINED * j)
        value ^= (code << shift) ^ (code >> (np.int64(64) - shift))
    return value


@kernel(f"int64({_REQUESTS}, int64, int64, int64, {_ROWS}, {_FOUND})", work=lambda *a: len(a[4]) * max(1, a[7] - a[6]))
def search_all(
    start, asked, low, high, max_enter, min_leave, begin, end, exact, codes, enter, leave, out_requests, out_rows,
    counts,
):  # fmt: skip
    """Compare every row from ``begin`` to ``end`` − 1: for a search that no index serves.

    What is compared first is put side by side, once for all requests. So the processor compares several at a time, and
    only blocks with a row that fits are looked into. It is the code of the first attribute; where each request asks for
    values, the first ``exact`` attributes as one number, so that few rows fit that are no answers.
    """
    n = len(asked)
    lows, spans = np.zeros(max(1, n), np.int64), np.zeros(max(1, n), np.uint64)
    wanted = Wanted(borrowed(asked), borrowed(lows), borrowed(spans), borrowed(max_enter), borrowed(min_leave))
    rows = Rows(borrowed(codes), borrowed(enter), borrowed(leave))
    answers = Answers(borrowed(out_requests), borrowed(out_rows))
    column = np.zeros(max(0, end - begin), np.int64)  # all fit where no attribute is asked for
    places, together = np.arange(n), max(1, exact)
    if n > 0:
        for i in range(len(column)):
            column[u(i)] = combined(codes, begin + i, asked, together)
    certain = 1 if together == 1 else 0  # attributes that a row which fits agrees in for certain
    found = counts[FOUND]
    for request in range(start, len(max_enter)):
        counts[FOUND] = found
        if not want(request, low, high, wanted):
            continue
        least, span = lows[0], spans[0]
        if exact > 1:
            least, span = combined(low, request, places, exact), np.uint64(0)
        for block in range(0, len(column), ROWS_PER_BLOCK):
            stop = min(len(column), block + ROWS_PER_BLOCK)
            fitting = 0
            for i in range(block, stop):
                fitting += above(least, column[u(i)]) <= span
            if fitting == 0:
                continue
            for i in range(block, stop):
                if above(least, column[u(i)]) <= span and fits(begin + i, certain, request, wanted, rows):
                    found = write(begin + i, request, found, answers)
                    if found < 0:
                        return request
        counts[COMPARISONS] += end - begin
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
