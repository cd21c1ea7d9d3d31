"""Minimum, maximum, first and last: structures that keep an order while elements come and go.

Values are int64 keys whose order is the order of the values (``order_keys`` for doubles, NaN greatest); the maximum is
computed as it is, the minimum as the maximum of the complements. The walks have the form of ``kernels.aggregates``.

Nodes of all groups live in one pool, a flat int64 array with a fixed stride. Node 0 is no node, so zeros mean "empty"
and per-group arrays grow by appending zeros. ``control`` is (head of the free list, nodes ever used, a random state);
the caller gives a pool with room for one node more for each element.
"""

from __future__ import annotations

from eddyline.kernels.compile import kernel

FREE, USED, RANDOM = 0, 1, 2
GREATEST = (1 << 63) - 1

DEQUE_STRIDE = 4  # key, id, previous, next
KEY, ID, PREVIOUS, NEXT = 0, 1, 2, 3

TREE_STRIDE = 5  # key, count, priority, left, right
COUNT, PRIORITY, LEFT, RIGHT = 1, 2, 3, 4


@kernel("void(int64[::1], int64[::1])")
def order_keys(bits, out):
    """Bits of doubles (one NaN, one zero) to integers in the same order, NaN greatest; and back: it undoes itself."""
    for i in range(len(bits)):
        b = bits[i]
        out[i] = b ^ GREATEST if b < 0 else b


@kernel("int64(int64[::1], int64[::1], int64)")
def take_node(pool, control, stride):
    """A free node; free nodes are chained through their last field."""
    node = control[FREE]
    if node != 0:
        control[FREE] = pool[node * stride + stride - 1]
    else:
        control[USED] += 1
        node = control[USED]
    return node


@kernel("void(int64[::1], int64[::1], int64, int64)")
def give_node(pool, control, stride, node):
    pool[node * stride + stride - 1] = control[FREE]
    control[FREE] = node


@kernel(
    "void(int64[::1], int64[::1], boolean[::1], int64[::1], int64[::1], int64[::1], int64, boolean, int64[:, ::1], "
    "int64[::1], int64[::1], int64[::1], boolean[::1])"
)
def fifo_extreme(group, weight, valid, keys, ids, slot, flip, forever, ends, pool, control, out, present):
    """Maximum (``flip`` 0) or minimum (``flip`` −1) where the elements of a group leave in the order they came in.

    ``ends[g]`` are front and back of a deque of candidates, keys decreasing: an element is dropped as soon as a later
    one is at least as great, because it will also leave earlier. O(1) amortised. With ``forever`` nothing ever leaves,
    and the front alone is kept. Wrong if deletions overtake each other within a group: use ``tree_extremes``.
    """
    nulls = len(valid) > 0
    for i in range(len(group)):
        g = group[i]
        if weight[i] > 0 and (not nulls or valid[i]):
            key = keys[i] ^ flip
            back = ends[g, 1]
            if not (forever and back != 0 and pool[back * DEQUE_STRIDE + KEY] >= key):
                while back != 0 and pool[back * DEQUE_STRIDE + KEY] <= key:
                    before = pool[back * DEQUE_STRIDE + PREVIOUS]
                    give_node(pool, control, DEQUE_STRIDE, back)
                    back = before
                node = take_node(pool, control, DEQUE_STRIDE)
                at = node * DEQUE_STRIDE
                pool[at + KEY] = key
                pool[at + ID] = ids[i]
                pool[at + PREVIOUS] = back
                pool[at + NEXT] = 0
                if back == 0:
                    ends[g, 0] = node
                else:
                    pool[back * DEQUE_STRIDE + NEXT] = node
                ends[g, 1] = node
        elif weight[i] < 0:
            front = ends[g, 0]
            if front != 0 and pool[front * DEQUE_STRIDE + ID] == ids[i]:
                after = pool[front * DEQUE_STRIDE + NEXT]
                give_node(pool, control, DEQUE_STRIDE, front)
                ends[g, 0] = after
                if after == 0:
                    ends[g, 1] = 0
                else:
                    pool[after * DEQUE_STRIDE + PREVIOUS] = 0
        s = slot[i]
        if s >= 0:
            front = ends[g, 0]
            present[s] = front != 0
            out[s] = pool[front * DEQUE_STRIDE + KEY] ^ flip if front != 0 else 0


@kernel("void(int64[::1], int64[::1], int64[::1], int64, int64, int64)")
def tree_change(pool, roots, control, g, key, weight):
    """Change the multiplicity of a key in the group's treap; a node whose count is zero is removed.

    Links are positions in the pool, and node 0's left field stands in for the root, so no case is special.
    """
    pool[LEFT] = roots[g]
    link = LEFT
    node = pool[link]
    while node != 0 and pool[node * TREE_STRIDE + KEY] != key:
        link = node * TREE_STRIDE + (LEFT if key < pool[node * TREE_STRIDE + KEY] else RIGHT)
        node = pool[link]
    if node != 0:
        at = node * TREE_STRIDE
        pool[at + COUNT] += weight
        if pool[at + COUNT] == 0:
            a, b = pool[at + LEFT], pool[at + RIGHT]
            while a != 0 and b != 0:
                if pool[a * TREE_STRIDE + PRIORITY] >= pool[b * TREE_STRIDE + PRIORITY]:
                    pool[link] = a
                    link = a * TREE_STRIDE + RIGHT
                    a = pool[link]
                else:
                    pool[link] = b
                    link = b * TREE_STRIDE + LEFT
                    b = pool[link]
            pool[link] = a if a != 0 else b
            give_node(pool, control, TREE_STRIDE, node)
    else:
        control[RANDOM] = (control[RANDOM] + 1) * 48271 % 2147483647
        priority = control[RANDOM]
        link = LEFT
        node = pool[link]
        while node != 0 and pool[node * TREE_STRIDE + PRIORITY] >= priority:
            link = node * TREE_STRIDE + (LEFT if key < pool[node * TREE_STRIDE + KEY] else RIGHT)
            node = pool[link]
        fresh = take_node(pool, control, TREE_STRIDE)
        at = fresh * TREE_STRIDE
        pool[link] = fresh
        pool[at + KEY] = key
        pool[at + COUNT] = weight
        pool[at + PRIORITY] = priority
        # Split the rest of the path into what is less and what is greater.
        less, greater = at + LEFT, at + RIGHT
        while node != 0:
            if pool[node * TREE_STRIDE + KEY] < key:
                pool[less] = node
                less = node * TREE_STRIDE + RIGHT
                node = pool[less]
            else:
                pool[greater] = node
                greater = node * TREE_STRIDE + LEFT
                node = pool[greater]
        pool[less] = 0
        pool[greater] = 0
    roots[g] = pool[LEFT]


@kernel(
    "void(int64[::1], int64[::1], boolean[::1], int64[::1], int64[::1], int64[::1], int64[::1], int64[::1], "
    "int64[::1], int64[::1], boolean[::1])"
)
def tree_extremes(group, weight, valid, keys, slot, roots, pool, control, least, greatest, present):
    """Minimum and maximum under any deletions: a multiset for each group, O(log n) for each element."""
    nulls = len(valid) > 0
    for i in range(len(group)):
        g = group[i]
        if weight[i] != 0 and (not nulls or valid[i]):
            tree_change(pool, roots, control, g, keys[i], weight[i])
        s = slot[i]
        if s >= 0:
            node = roots[g]
            present[s] = node != 0
            least[s] = 0
            greatest[s] = 0
            if node != 0:
                while pool[node * TREE_STRIDE + LEFT] != 0:
                    node = pool[node * TREE_STRIDE + LEFT]
                least[s] = pool[node * TREE_STRIDE + KEY]
                node = roots[g]
                while pool[node * TREE_STRIDE + RIGHT] != 0:
                    node = pool[node * TREE_STRIDE + RIGHT]
                greatest[s] = pool[node * TREE_STRIDE + KEY]


@kernel(
    "int64(int64[::1], int64[::1], int64[::1], int64[::1], int64[::1], boolean, int64[:, ::1], int64[:, ::1], "
    "int64[::1], int64[::1], int64[::1])"
)
def arrival_ends(group, weight, nodes, ids, slot, forever, ends, links, first, last, dead):
    """First and last element of a group in order of ids; elements leave in any order.

    ``nodes`` names the element of each change (the same for its insertion and deletion, never 0). ``links[node]`` is
    (id, previous, next), ``ends[g]`` (first, last). Writes nodes, 0 for none. A node that is no longer needed goes to
    ``dead``, whose length is returned; it must not be used again before the next batch, for ``first`` and ``last``
    may name it. With ``forever`` nothing leaves, and only the two ends are kept.
    """
    gone = 0
    for i in range(len(group)):
        g, node = group[i], nodes[i]
        if weight[i] > 0:
            before = ends[g, 1]
            if forever and before != ends[g, 0]:
                dead[gone] = before
                gone += 1
                before = links[before, 1]
            after = 0
            while before != 0 and links[before, 0] > ids[i]:
                after = before
                before = links[before, 1]
            links[node, 0] = ids[i]
            links[node, 1] = before
            links[node, 2] = after
            if before != 0:
                links[before, 2] = node
            else:
                ends[g, 0] = node
            if after != 0:
                links[after, 1] = node
            else:
                ends[g, 1] = node
        elif weight[i] < 0:
            before, after = links[node, 1], links[node, 2]
            if before != 0:
                links[before, 2] = after
            else:
                ends[g, 0] = after
            if after != 0:
                links[after, 1] = before
            else:
                ends[g, 1] = before
            dead[gone] = node
            gone += 1
        s = slot[i]
        if s >= 0:
            first[s] = ends[g, 0]
            last[s] = ends[g, 1]
    return gone


@kernel("void(int64[::1], int64[::1], int64[:, ::1], int64[::1], int64[::1], int64[::1], int64)")
def match_arrivals(row, weight, queues, pool, control, ids, next_id):
    """Give ids to elements that have none: an insertion gets the next one, a deletion that of the oldest equal row.

    ``row`` are dense ids of whole rows, weights ±1 (0 is ignored); ``queues[row]`` is (front, back) of a queue of ids
    in a pool of stride 2 (id, next).
    """
    for i in range(len(row)):
        r = row[i]
        if weight[i] > 0:
            node = take_node(pool, control, 2)
            pool[node * 2] = next_id
            pool[node * 2 + 1] = 0
            if queues[r, 1] != 0:
                pool[queues[r, 1] * 2 + 1] = node
            else:
                queues[r, 0] = node
            queues[r, 1] = node
            ids[i] = next_id
            next_id += 1
        elif weight[i] < 0:
            front = queues[r, 0]
            ids[i] = pool[front * 2]
            queues[r, 0] = pool[front * 2 + 1]
            if queues[r, 0] == 0:
                queues[r, 1] = 0
            give_node(pool, control, 2, front)
