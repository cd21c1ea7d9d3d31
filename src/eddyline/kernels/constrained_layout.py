"""The arrays of a constrained join: rows in slots, chains of equal keys, and what is known of every port.

A *port* is one end of an edge of the join's tree: port j of input S leads to input ``ports[S, j, NB]``, whose own end
is its port ``ports[S, j, NBP]``. Ports are numbered ``S · J + j``, where J is the largest number of ports of an input.

``slot[s]`` has for the row in slot s a few numbers and then, for each port, its key, how many rows the neighbour had
received when the row came (``since``), why no row of the neighbour will match it (``gone``), whether the neighbour's
rows of that key have all come (``closed``), and its place in the chain of its key (``following`` and ``before``).
"""

from __future__ import annotations

# Kinds of events.
LEAVE, COUNT, ARRIVE = -1, 0, 1

# Status of a slot (thesis, Definition 6.3.1). A waiting row has a slot and has not arrived yet.
FREE, UNKNOWN, YES, NO, WAITING = 0, 1, 2, 3, 4

# Fields of a port: the neighbour and its port; DOWN: the neighbour is a child of the directed join graph; MANY_ONE: a
# row matches at most one of the neighbour's; TWO_WAY: it is one-one.
NB, NBP, DOWN, MANY_ONE, TWO_WAY, PORT_FIELDS = 0, 1, 2, 3, 4, 5

# Fields of a slot. FAILED: a filter above a tuple-based window rejects the row, which counts and joins with nothing.
# SAMPLED: the row is useless and stays, to see what the others of its kind would have missed. From KEY on there is a
# number for each port, for each of the GROUPS.
FAILED, WHY, QUEUED, SAMPLED, KEY = 0, 1, 2, 3, 4
GROUPS = 6  # keys, since, gone, closed, following, before

# Why a row is useless: a kind, and 16 times the number of the port at which that was inferred.
BY_FILTER, BY_EXPIRY, BY_RIDS, BY_OAC, BY_CA, BY_OAP, BY_MANY_ONE, KINDS = 1, 2, 3, 4, 5, 6, 7, 16

# What a run of the kernel ends with.
DONE, FULL, FETCH = 0, 1, 2

# Places of ``progress``: the next event, results found, rows asked for from the spill, distances recorded.
EVENT, FOUND, ASKED, MEASURED = 0, 1, 2, 3

NEVER_USED = 1 << 62  # a k that no distance reaches
LOWEST = -(1 << 63)  # a bound below all keys

BLOCK = 64  # bytes of a block of a Bloom filter: one line of the processor's cache
BITS_PER_KEY = 5  # bits that a key sets within its block
