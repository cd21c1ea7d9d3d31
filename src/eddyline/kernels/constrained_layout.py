"""The arrays of a constrained join: rows in slots, chains of equal keys, and what is known of every port.

A *port* is one end of an edge of the join's tree: port j of input S leads to input ``ports[S, j, NB]``, whose own end
is its port ``ports[S, j, NBP]``. Ports are numbered ``S · J + j``, where J is the largest number of ports of an input.

A slot is one record of bytes, read through three views (``r64``, ``r32``, ``r16``), so that a look at a row touches one
or two lines of the processor's cache:

    r64   key by port, number, leave, time (when the row came)
    r32   since by port (how many rows the neighbour had received when the row came, modulo 2³²), following and before
          by port (its place in the chain of its key), later and earlier (its place in the list of its input's rows by
          age), place (where the row itself is stored)
    r16   gone by port (why no row of the neighbour will match it), closed by port (why the neighbour's rows of that
          key have all come), why it is useless, flags

``status`` and ``stream`` are arrays of their own: a garbage collection runs along them. Each port has a hash table of
its own, ``head[base[port] + hash & mask[port]]``: a chain has rows of one input only.
"""

from __future__ import annotations

# Status of a slot (thesis, Definition 6.3.1). A waiting row has a slot and has not arrived yet.
FREE, UNKNOWN, YES, NO, STATUSES = 0, 1, 2, 3, 4

# Fields of a port: the neighbour and its port; DOWN: the neighbour is a child of the directed join graph; MANY_ONE: a
# row matches at most one of the neighbour's; TWO_WAY: it is one-one.
NB, NBP, DOWN, MANY_ONE, TWO_WAY, PORT_FIELDS = 0, 1, 2, 3, 4, 5

# Flags of a slot. FAILED: a filter above a tuple-based window rejects the row, which counts and joins with nothing.
# SAMPLED: the row is useless and stays, to see what the others of its kind would have missed. VICTIM: it is useless and
# goes into the spill at the end of the run. Above them are two bits for each of the first KNOWN_PORTS ports that lead
# to a child: the best status of the row's matches there (YES, then UNKNOWN, then NO); FREE: it is looked for. Of a port
# that leads to a parent they say YES if a match of the row has left as soon as it came.
FAILED, QUEUED, SAMPLED, VICTIM = 1, 2, 4, 8
KNOWN_AT, KNOWN_PORTS = 4, 6

# Flags of an arrival.
INVALID, REJECTED = 1, 2

# Why a row is useless: a kind, and 16 times the number of the port at which that was inferred.
BY_FILTER, BY_EXPIRY, BY_RIDS, BY_OAC, BY_CA, BY_OAP, BY_MANY_ONE, KINDS = 1, 2, 3, 4, 5, 6, 7, 16

# What a run of the kernel ends with: all is done; results find no room; rows find no room; the control is to be asked
# before the next garbage collection.
DONE, FULL, GROW, CONSULT = 0, 1, 2, 3

# Places of ``progress``: results found, the slot whose results are not out yet, whether to collect garbage first,
# elements since the last collection, elements until the next, collections since the control was asked, collections in
# all, the time of the last arrival, rows taken out by collections, elements applied by this run, the most rows. What
# follows is not saved: whether the next collection looks at all rows.
FOUND, PENDING, COLLECT, SINCE, DUE, COLLECTED, COLLECTIONS, NOW, DROPPED, APPLIED, PEAK, SAVED = range(12)
WHOLE, PROGRESS = SAVED, SAVED + 1

NEVER_USED = 1 << 62  # a k that no distance reaches
LOWEST = -(1 << 63)  # a bound below all keys
# Marks of a port: rows of the neighbour, the largest of their keys, how many rows there were at the last mark, when,
# marks made; then of each of the last MARKS the count, the largest key and the time.
MARKS, MARKED, MARKED_AT, TURN, FIRST_MARK = 32, 2, 3, 4, 5
WRAP = (1 << 32) - 1  # differences of counts are taken modulo 2³²
ARRIVALS, TICKS = 0, 1  # what a distance counts: rows of a stream, or time
# Lines of ``notice``, by port: distances and bounds on keys from which on a constraint is about to cease to hold, so
# that the control is asked before the next garbage collection; how many arrivals or ticks ago the bound's keys came;
# rows of the neighbour, or ticks, from one mark to the next; whether such a distance or key was seen (first port only).
NOTICE_WAIT, NOTICE_LOW, NOTICE_LAG, MARK_EVERY, NOTICED, NOTICES = range(6)
CHANGED = 1 << 13  # rows whose status changed that are remembered for the next collection; after more it looks at all
STEPS = 32  # distances by port that are remembered between two questions to the control

BLOCK = 64  # bytes of a block of a Bloom filter: one line of the processor's cache
BITS_PER_KEY = 5  # bits that a key sets within its block
RANGE = 2  # the line of the filters, behind two generations, that has the range of the keys that no filter has


def number_at(width: int) -> int:
    """The column of r64 that has a row's number."""
    return width


def leave_at(width: int) -> int:
    """The column of r64 that says when a row leaves a time-based window."""
    return width + 1


def time_at(width: int) -> int:
    """The column of r64 that says when a row came."""
    return width + 2


def since_at(width: int) -> int:
    """The first of the columns of r32 that say how many rows the neighbours had received."""
    return 2 * width + 6


def later_at(width: int) -> int:
    """The column of r32 that has the next slot of an input by age, of a free slot the next free one."""
    return 5 * width + 6


def place_at(width: int) -> int:
    """The column of r32 that says where a row is stored."""
    return 5 * width + 8


def gone_at(width: int) -> int:
    """The first of the columns of r16 that say why no row of a neighbour will match; ``closed`` follows."""
    return 10 * width + 18


def why_at(width: int) -> int:
    """The column of r16 that says why a row is useless; the flags follow."""
    return 12 * width + 18


def record_bytes(width: int) -> int:
    """Bytes of a slot.

    >>> record_bytes(1), record_bytes(2)
    (64, 88)
    """
    return 24 * width + 40
