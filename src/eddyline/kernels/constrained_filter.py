"""Blocked Bloom filters over the keys of spilled rows, and which spilled rows the rows of a run may need.

A row that arrives needs the spilled rows of its keys, those need others, and so do rows in memory that lie between. A
run first finds all of them by following equal keys from the arriving rows on (``reach``): while it runs, no filter has
to be looked at.
"""

from __future__ import annotations

import numpy as np

from eddyline.kernels.compile import inlined, kernel
from eddyline.kernels.constrained_layout import BITS_PER_KEY, BLOCK, FAILED, NB, NBP, RANGE
from eddyline.kernels.constrained_rows import B1, I1, I2, I3, ROWS, Rows, after, first
from eddyline.kernels.hashing import mix


@inlined
def maybe_spilled(port, key, filters, bits):
    """Whether the spill may have a key at a port: a Bloom filter has it, or it is among those that no filter has."""
    return filters[RANGE, port, 0] <= key <= filters[RANGE, port, 1] or in_filter(port, key, filters, bits)


@inlined
def in_filter(port, key, filters, bits):
    """Whether a Bloom filter of a port, of either generation, has a key."""
    if filters[0, port, 1] == 0 and filters[1, port, 1] == 0:
        return False
    h = mix(np.int64(0), key)
    for g in range(2):
        if filters[g, port, 1] == 0:
            continue
        base = filters[g, port, 0] + block_of(h, filters[g, port, 1])
        there = True
        for i in range(BITS_PER_KEY):
            bit = (h >> np.int64(9 * i)) & np.int64(511)
            there = there and (bits[base + (bit >> 3)] >> (bit & 7)) & 1 == 1
        if there:
            return True
    return False


@inlined
def block_of(h, blocks):
    """The first byte of the block of a hash, by its upper bits: any number of blocks, of the same share each."""
    return (((h >> np.int64(40)) & np.int64((1 << 24) - 1)) * blocks >> np.int64(24)) * BLOCK


@kernel(f"void({I1}, {B1}, int64, int64)")
def add_to_filter(keys, bits, base, blocks):
    """Put keys into a Bloom filter of so many blocks that begins at ``base``."""
    for i in range(len(keys)):
        h = mix(np.int64(0), keys[i])
        block = base + block_of(h, blocks)
        for n in range(BITS_PER_KEY):
            bit = (h >> np.int64(9 * n)) & np.int64(511)
            bits[block + (bit >> 3)] |= np.uint8(1 << (bit & 7))


@kernel(f"int64({I1}, {I1}, {I1}, {I1})")
def find_keys(column, keys, table, found):
    """Where a column has one of some keys; returns how many such places there are. ``table`` has a power of two of
    places, more than there are keys, and −1 in each."""
    last = np.int64(len(table) - 1)
    for i in range(len(keys)):
        at = mix(np.int64(1), keys[i]) & last
        while table[at] >= 0:
            at = (at + 1) & last
        table[at] = i
    many = np.int64(0)
    for i in range(len(column)):
        at = mix(np.int64(1), column[i]) & last
        while table[at] >= 0:
            if keys[table[at]] == column[i]:
                found[many] = i
                many += 1
                break
            at = (at + 1) & last
    return many


@inlined
def ask(rows, width, owner, j, key, source, filters, bits, asked, many):
    """Ask the spill for the matches of a key at a port of an input, on behalf of an element or a row (``source``)."""
    other = rows.ports[owner, j, NB]
    port = other * width + rows.ports[owner, j, NBP]
    if maybe_spilled(port, key, filters, bits):
        asked[many, 0], asked[many, 1], asked[many, 2] = port, key, source
        return many + 1
    return many


@inlined
def follow(rows, width, owner, j, key, ends, seen, stack, top):
    """Put the matches in memory of a key at a port of an input on the stack, each once for the port at which it is
    reached; those of an input without other ports lead nowhere."""
    other, p = rows.ports[owner, j, NB], rows.ports[owner, j, NBP]
    if ends[other]:
        return top
    node = first(rows, width, other * width + p, p, key)
    while node >= 0:
        at = node * width + p
        if seen[at] == 0 and rows.r16[node, 12 * width + 19] & FAILED == 0:
            seen[at] = 1
            stack[top] = at
            top += 1
        node = after(rows, width, p, node, key)
    return top


@kernel(
    f"int64({I1}, {I2}, {I1}, {I1}, {I1}, {ROWS}, {I3}, {B1}, {B1}, {B1}, {I1}, {I2})",
    work=lambda *args: len(args[0]) + len(args[4]),
    borrows=True,
)
def reach(
    state, keys, begin, stop, starts, ports, status, stream, r64, r32, r16, head, base, mask, fifo, live, cursor, stack,
    filters, bits, ends, seen, reached, asked,
):  # fmt: skip
    """Lines of port and key that rows of the spill may have which can be in a result with some of the elements given
    (of each input those from ``begin`` to ``stop`` whose ``state`` is 0, with their keys by port), or with rows that
    were brought back, in the slots ``starts``; and for whom a line asks: the place of an element, or −1 less a slot.
    ``ends`` are inputs with one port; ``seen`` and ``reached`` have room for every slot and port. Returns how many
    lines."""
    rows = Rows(ports, status, stream, r64, r32, r16, head, base, mask, fifo, live, cursor, stack)
    width = ports.shape[1]
    many, top = np.int64(0), np.int64(0)
    for owner in range(len(begin)):
        for j in range(width):
            other = ports[owner, j, NB]
            if other < 0:
                continue
            port = other * width + ports[owner, j, NBP]
            none = filters[RANGE, port, 0] > filters[RANGE, port, 1]
            if filters[0, port, 1] == 0 and filters[1, port, 1] == 0 and none and ends[other]:
                continue
            for i in range(begin[owner], stop[owner]):
                if state[i] == 0:
                    many = ask(rows, width, np.int64(owner), j, keys[i, j], i, filters, bits, asked, many)
                    top = follow(rows, width, np.int64(owner), j, keys[i, j], ends, seen, reached, top)
    for i in range(len(starts)):
        # It was asked for at one port, and others may have asked for it at another, when it was not there any more.
        s = starts[i]
        owner = np.int64(stream[s])
        for j in range(width):
            if ports[owner, j, NB] >= 0:
                many = ask(rows, width, owner, j, r64[s, j], -1 - s, filters, bits, asked, many)
                top = follow(rows, width, owner, j, r64[s, j], ends, seen, reached, top)
    while top > 0:
        top -= 1
        s, came = reached[top] // width, reached[top] % width
        owner = np.int64(stream[s])
        for j in range(width):
            if j != came and ports[owner, j, NB] >= 0:
                many = ask(rows, width, owner, j, r64[s, j], -1 - s, filters, bits, asked, many)
                top = follow(rows, width, owner, j, r64[s, j], ends, seen, reached, top)
    return many


@inlined
def places_in_set(port, key, members):
    """The two bits of a key in the set of arriving keys."""
    h = mix(port, key)
    last = np.int64(8 * len(members) - 1)
    return h & last, (h >> np.int64(32)) & last


@kernel(f"void({I1}, {I2}, {I1}, {I1}, {I3}, {B1})", borrows=True)
def note_arrivals(state, keys, begin, stop, ports, members):
    """Enter arriving keys, by port, into a set; what is not in it is certain not to come."""
    width = ports.shape[1]
    for owner in range(len(begin)):
        for i in range(begin[owner], stop[owner]):
            if state[i] != 0:
                continue
            for j in range(width):
                a, b = places_in_set(np.int64(owner) * width + j, keys[i, j], members)
                members[a >> 3] |= np.uint8(1 << (a & 7))
                members[b >> 3] |= np.uint8(1 << (b & 7))


@inlined
def may_match(rows, width, port, key, filters, bits, members):
    """Whether a port may have a match of a key: an arriving row, one in memory or, by the filters, in the spill."""
    a, b = places_in_set(port, key, members)
    if (members[a >> 3] >> (a & 7)) & (members[b >> 3] >> (b & 7)) & 1:
        return True
    node = first(rows, width, port, port % width, key)
    while node >= 0 and rows.r16[node, 12 * width + 19] & FAILED:
        node = after(rows, width, port % width, node, key)
    return node >= 0 or maybe_spilled(port, key, filters, bits)


@kernel(f"int64({I2}, {I2}, {I1}, {ROWS}, {I3}, {B1}, {B1})", borrows=True)
def drop_vain(
    asked, keys, filter_of, ports, status, stream, r64, r32, r16, head, base, mask, fifo, live, cursor, stack, filters,
    bits, members,
):  # fmt: skip
    """Of the lines that ``reach`` found, keep those that may lead to a result: the asking row may have a match at each
    of its other ports, too, and so may rows with the key asked for at their other ports, as far as these have the same
    keys (``filter_of``). Returns how many lines."""
    rows = Rows(ports, status, stream, r64, r32, r16, head, base, mask, fifo, live, cursor, stack)
    width, many = ports.shape[1], np.int64(0)
    for i in range(len(asked)):
        there, p = asked[i, 0] // width, asked[i, 0] % width
        owner, j = ports[there, p, NB], ports[there, p, NBP]
        source, possible = asked[i, 2], True
        for q in range(width):
            other = ports[owner, q, NB]
            if other >= 0 and q != j and possible:
                key = keys[source, q] if source >= 0 else r64[-1 - source, q]
                possible = may_match(rows, width, other * width + ports[owner, q, NBP], key, filters, bits, members)
            other = ports[there, q, NB]
            same = q != p and filter_of[there * width + q] == filter_of[asked[i, 0]]
            if other >= 0 and same and possible:
                at = other * width + ports[there, q, NBP]
                possible = may_match(rows, width, at, asked[i, 1], filters, bits, members)
        if possible:
            asked[many, 0], asked[many, 1], asked[many, 2] = asked[i, 0], asked[i, 1], source
            many += 1
    return many


@kernel(f"int64({I2}, {I3}, {B1})", borrows=True)
def keep_possible(asked, filters, bits):
    """Of lines of port and key keep those that the spill may have; returns how many."""
    many = np.int64(0)
    for i in range(len(asked)):
        if maybe_spilled(asked[i, 0], asked[i, 1], filters, bits):
            asked[many, 0], asked[many, 1], asked[many, 2] = asked[i, 0], asked[i, 1], asked[i, 2]
            many += 1
    return many


@kernel(f"int64({I2}, {I3}, {B1})", borrows=True)
def keep_known(asked, filters, bits):
    """Of lines of port and key keep those that a filter has; returns how many."""
    many = np.int64(0)
    for i in range(len(asked)):
        if in_filter(asked[i, 0], asked[i, 1], filters, bits):
            asked[many, 0], asked[many, 1], asked[many, 2] = asked[i, 0], asked[i, 1], asked[i, 2]
            many += 1
    return many


@kernel(f"void({I2}, int64, {ROWS}, {I3}, {B1}, {B1}, {I1})", borrows=True)
def may_complete(
    keys, port, ports, status, stream, r64, r32, r16, head, base, mask, fifo, live, cursor, stack, filters, bits,
    members, worth,
):  # fmt: skip
    """Which spilled rows, with these keys by port, that were found at a port may be part of a result: 1 in ``worth``
    for those that have a match at every other port, among arriving rows, in memory or, by the filters, in the spill."""
    rows = Rows(ports, status, stream, r64, r32, r16, head, base, mask, fifo, live, cursor, stack)
    width = ports.shape[1]
    owner, came = port // width, port % width
    for i in range(len(keys)):
        worth[i] = 1
        for j in range(width):
            other, p = ports[owner, j, NB], ports[owner, j, NBP]
            if other < 0 or j == came:
                continue
            if not may_match(rows, width, other * width + p, keys[i, j], filters, bits, members):
                worth[i] = 0
                break
