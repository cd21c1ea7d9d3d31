"""Ranks within partitions: rows in order, numbered from the first, while rows come and go.

A row is a *node*, named by the caller (never 0). Its key is a row of int64 codes whose lexicographic order is the order
of the rows; the last code is the node's own, so no two keys are equal. Each partition has a treap of its nodes, to find
the place of a row in O(log n), and a list of them in order, to walk along. A *ranked* node has a position and a rank;
the ranked nodes are the first ones of the list.

A row that comes or goes changes the ranks of those behind it, up to the limit, and of no others. The walk along them
starts at the change and ends at the first row whose rank stays as it was, or that neither was nor is ranked. Since a
rank follows from that of the row before, the walk can be interrupted when there is no more room for results.
"""

from __future__ import annotations

from eddyline.kernels.compile import kernel

# Fields of a node.
LEFT, RIGHT, PRIORITY, PREVIOUS, NEXT, POSITION, RANK, ALIVE = 0, 1, 2, 3, 4, 5, 6, 7
FIELDS = 8
ROOT, FIRST = 0, 1  # of a partition
ROW_NUMBER, BY_POSITION, DENSE = 0, 1, 2  # what a rank is
# Progress of a walk through a batch.
ELEMENT, CURSOR, FOUND, RANDOM = 0, 1, 2, 3


@kernel("int64(int64[:, ::1], int64, int64, int64)")
def compare(keys, a, b, width):
    """-1, 0 or 1 by the first ``width`` codes."""
    for j in range(width):
        if keys[a, j] != keys[b, j]:
            return -1 if keys[a, j] < keys[b, j] else 1
    return 0


@kernel("void(int64[:, ::1], int64[:, ::1], int64[:, ::1], int64, int64, int64)")
def insert(keys, nodes, parts, part, node, priority):
    """Put a node into the treap and the list of its partition. Node 0 stands in for a missing neighbour."""
    width = keys.shape[1]
    before, after = 0, 0
    nodes[0, LEFT] = parts[part, ROOT]
    parent, side = 0, LEFT
    at = nodes[0, LEFT]
    while at != 0 and nodes[at, PRIORITY] >= priority:
        if compare(keys, node, at, width) < 0:
            after = at
            parent, side = at, LEFT
        else:
            before = at
            parent, side = at, RIGHT
        at = nodes[parent, side]
    nodes[parent, side] = node
    nodes[node, PRIORITY] = priority
    # Split what was there into what comes before the node and what comes behind.
    less, less_side, more, more_side = node, LEFT, node, RIGHT
    while at != 0:
        if compare(keys, at, node, width) < 0:
            before = at
            nodes[less, less_side] = at
            less, less_side = at, RIGHT
            at = nodes[at, RIGHT]
        else:
            after = at
            nodes[more, more_side] = at
            more, more_side = at, LEFT
            at = nodes[at, LEFT]
    nodes[less, less_side] = 0
    nodes[more, more_side] = 0
    parts[part, ROOT] = nodes[0, LEFT]
    nodes[node, PREVIOUS] = before
    nodes[node, NEXT] = after
    if before != 0:
        nodes[before, NEXT] = node
    else:
        parts[part, FIRST] = node
    if after != 0:
        nodes[after, PREVIOUS] = node
    nodes[node, POSITION] = 0
    nodes[node, RANK] = 0
    nodes[node, ALIVE] = 1


@kernel("void(int64[:, ::1], int64[:, ::1], int64[:, ::1], int64, int64)")
def remove(keys, nodes, parts, part, node):
    width = keys.shape[1]
    nodes[0, LEFT] = parts[part, ROOT]
    parent, side = 0, LEFT
    at = nodes[0, LEFT]
    while at != node:
        parent, side = at, (LEFT if compare(keys, node, at, width) < 0 else RIGHT)
        at = nodes[parent, side]
    a, b = nodes[node, LEFT], nodes[node, RIGHT]
    while a != 0 and b != 0:
        if nodes[a, PRIORITY] >= nodes[b, PRIORITY]:
            nodes[parent, side] = a
            parent, side = a, RIGHT
            a = nodes[a, RIGHT]
        else:
            nodes[parent, side] = b
            parent, side = b, LEFT
            b = nodes[b, LEFT]
    nodes[parent, side] = a if a != 0 else b
    parts[part, ROOT] = nodes[0, LEFT]
    nodes[node, ALIVE] = 0
    before, after = nodes[node, PREVIOUS], nodes[node, NEXT]
    if before != 0:
        nodes[before, NEXT] = after
    else:
        parts[part, FIRST] = after
    if after != 0:
        nodes[after, PREVIOUS] = before


@kernel("int64(int64[:, ::1], int64[:, ::1], int64, int64, int64)")
def rank_of(keys, nodes, node, function, sorted_by):
    """The rank that follows from the row before; ``sorted_by`` is how many codes stand for ORDER BY."""
    before = nodes[node, PREVIOUS]
    if before == 0:
        return 1
    if function == ROW_NUMBER:
        return nodes[before, POSITION] + 1
    if compare(keys, before, node, sorted_by) == 0:
        return nodes[before, RANK]
    return nodes[before, POSITION] + 1 if function == BY_POSITION else nodes[before, RANK] + 1


@kernel(
    "boolean(int64[::1], int64[::1], int64[::1], int64[:, ::1], int64[:, ::1], int64[:, ::1], int64, int64, int64, "
    "boolean, boolean, int64[::1], int64[::1], int64[::1], int64[::1], int64[::1])"
)
def rank_changes(
    part, weight, node, keys, nodes, parts, function, sorted_by, limit, numbered, forever, progress, element, row, rank,
    sign,
):  # fmt: skip
    """The changes of ranked rows that a batch of changes (weights ±1) leads to; True: there was no room for more, and
    the caller takes what was found and calls again.

    With ``numbered`` a row whose rank changes goes with the old one and comes with the new one. With ``forever``
    nothing is ever deleted, and what is beyond the limit is forgotten.
    """
    room = len(row) - 2
    found = 0
    i, at = progress[ELEMENT], progress[CURSOR]
    while i < len(part):
        p = part[i]
        if at == 0:
            if found >= room:
                progress[ELEMENT], progress[CURSOR], progress[FOUND] = i, 0, found
                return True
            x = node[i]
            if weight[i] > 0:
                progress[RANDOM] = (progress[RANDOM] + 1) * 48271 % 2147483647
                insert(keys, nodes, parts, p, x, progress[RANDOM])
                before = nodes[x, PREVIOUS]
                at = x if before == 0 or nodes[before, RANK] != 0 else 0
                if at == 0 and forever:
                    remove(keys, nodes, parts, p, x)
            else:
                remove(keys, nodes, parts, p, x)
                if nodes[x, RANK] != 0:
                    element[found], row[found], rank[found], sign[found] = i, x, nodes[x, RANK], -1
                    found += 1
                    at = nodes[x, NEXT]
        while at != 0:
            if found >= room:
                progress[ELEMENT], progress[CURSOR], progress[FOUND] = i, at, found
                return True
            before, after, old = nodes[at, PREVIOUS], nodes[at, NEXT], nodes[at, RANK]
            position = 1 if before == 0 else nodes[before, POSITION] + 1
            new = rank_of(keys, nodes, at, function, sorted_by)
            same = old == new and (function == DENSE or nodes[at, POSITION] == position)
            ranked = new <= limit and (before == 0 or nodes[before, RANK] != 0)
            nodes[at, POSITION] = position if ranked else 0
            nodes[at, RANK] = new if ranked else 0
            if old != 0 and not (ranked and (old == new or not numbered)):
                element[found], row[found], rank[found], sign[found] = i, at, old, -1
                found += 1
            if ranked and not (old != 0 and (old == new or not numbered)):
                element[found], row[found], rank[found], sign[found] = i, at, new, 1
                found += 1
            if not ranked and forever:
                remove(keys, nodes, parts, p, at)
            at = 0 if same or (old == 0 and not ranked) else after
        i += 1
    progress[ELEMENT], progress[CURSOR], progress[FOUND] = 0, 0, found
    return False
