"""The layout of a join's plan and synopses in flat arrays: the columns of every table that the join kernels read.

Inputs are of two kinds. RING: rows enter in row-number order and leave in the same order, at a leave time known when
they enter (time-based windows, constant and append-only relations) or when LIMIT newer rows have come (tuple-based
windows); row number = position, expired rows are those below ``first``. BAG: distinct rows in slots with a weight
(everything else); a deletion names its slot.

Indexes: each is a chained hash table on some join columns of one input (on none: the chain of all rows, for products
and scans). A record of an index is (next, [previous,] codes of its columns), so that following a chain touches one
place. The heads of indexes on the same keys lie side by side: an element that probes two inputs and enters a third
touches one line. The chain of a ring is in descending row order: the walk ends at the first expired row. Chains of bags
are doubly linked; the first record names its head by number (−1 − its slot in the table of heads), which stays when
heads lie elsewhere. ``leave`` of a bag's slot says whether its row joins: 0 if a key is NULL.

*References* to rows, as caches hold them: the row number of a ring's row; for a bag's row its slot and the number of
its life there. Each reference shows by itself whether its row is dead, so caches need no notice of deletions.
"""

from __future__ import annotations

import numpy as np

RING, BAG = 0, 1
NO_DELETIONS, AT_ARRIVALS, ALL_DELETIONS = 0, 1, 2
LIFE = 32  # a bag's reference is slot + life · 2³²

# inputs (one row an input)
KIND, POS_OFF, POS_MASK, CODE_OFF, CODE_WIDTH, EV_OFF, EV_LEN, EV_CODE_OFF, DELETES, INDEX_FROM, INDEX_TO, LIMIT = (
    range(12)
)
ROOM = 12  # rows that a ring can hold before its contents or the heads of its indexes have to grow
INPUT_FIELDS = 13

# indexes (one row an index). The records of an index may be those of a larger ring than the contents of its input: an
# index that several joins share has a record for each row that any of them needs.
IX_INPUT, IX_HEAD_OFF, IX_HEAD_MASK, IX_HEAD_STRIDE, IX_REC_OFF, IX_REC_WIDTH, IX_COLS, IX_COL_OFF, IX_REC_MASK = range(
    9
)
INDEX_FIELDS = 9

# steps (one row a step; the pipeline of input s has rows s·(m−1) … (s+1)·(m−1)−1). What follows the first three repeats
# what is said of the target and its index, so that a step is one place in memory. READY is the level on which the probe
# depends: 0 for the element itself, d for the row bound by step d − 1. AFTER: whether binding has consequences.
ST_TARGET, ST_INDEX, ST_PROBE_OFF = range(3)
ST_COLS, ST_REC_OFF, ST_REC_WIDTH, ST_MASK, ST_HEAD_OFF, ST_HEAD_MASK, ST_HEAD_STRIDE, ST_POS_OFF, ST_BAG = range(3, 12)
ST_READY, ST_LOOKUP, ST_LOOKUP_END, ST_AFTER = range(12, 16)
ST_COND, ST_COND_END, ST_DEFER, ST_DEFER_END, ST_UPDATE, ST_UPDATE_END = range(16, 22)
STEP_FIELDS = 22

# conditions other than equalities: code of (input A, key) OP code of (input B, key)
CO_A, CO_A_KEY, CO_OP, CO_B, CO_B_KEY = range(5)
COND_FIELDS = 5
LT, LE, GT, GE, NE = range(5)

# stores: the contents of a cache, which pipelines may share (thesis 5.4.1). A bucket is (head, codes of the key[, the
# anchor]), a node (next, references to the rows of the segment's inputs). Buckets are small because most of what a
# look-up costs is to fetch one. Its head is NOTHING if there is no entry, else EMPTY or NODE + the first node.
SR_KEYS, SR_SEGMENT, SR_INPUT_OFF, SR_BUCKET_OFF, SR_BUCKETS, SR_BUCKET_WIDTH, SR_NODE_OFF, SR_NODES = range(8)
SR_COMPLETE, SR_SUPPORTED, SR_ANCHOR, SR_FREE, SR_UNUSED, SR_HAND, SR_ENTRIES, SR_LIVE = range(8, 16)
SR_PROBES, SR_MISSES, SR_PROBE_WORK, SR_UPDATES, SR_UPDATE_WORK, SR_EVICTED, SR_REPLACED, SR_FILLS = range(16, 24)
STORE_FIELDS = 24
BK_HEAD, BK_KEY = range(2)
NOTHING, EMPTY, NODE = range(3)

# look-ups (CacheLookup before a segment): FIRST … LAST are its steps; READY as for steps. A profiled one does not use
# its store: it hashes keys into a Bloom filter of BITS + 1 bits, W_d (DISTANCE) of them at a time.
LK_STORE, LK_USED, LK_FIRST, LK_LAST, LK_KEY_OFF, LK_KEYS, LK_READY = range(7)
LK_BITS_OFF, LK_BITS, LK_DISTANCE, LK_SEEN, LK_SET, LK_WINDOWS, LK_TOTAL = range(7, 14)
LOOKUP_FIELDS = 14

# updates (CacheUpdate after a prefix of another pipeline): the store, where its key is found, and the steps (as bits)
# at which only the first match counts: they bind support on which nothing else depends, and one support is enough
UP_STORE, UP_KEY_OFF, UP_FIRST = range(3)
UPDATE_FIELDS = 3

# rows of ``machine``: the nested loops of the element that is being joined. It survives a call that ran out of room.
BOUND, CURSOR, FACTOR, TICK, MEMO, MEMO_TICK, HOME, FLOOR, CACHE_HIT, BUILDING = range(10)
# … and what a call finds out before its first element: by input when its next element comes and when its oldest row
# leaves (NEVER: there is none), and whether its pipeline has more than steps
NEXT_TIME, NEXT_LEAVE, NEEDS_FULL = range(10, 13)
MACHINE_ROWS = 13
# … and its scalars
AC_ACTIVE, AC_INPUT, AC_TIME, AC_POS, AC_SIGN, AC_LEAVING, AC_DEPTH, AC_FRESH, AC_CLOCK, AC_AT, AC_ENTERS, AC_SAMPLE = (
    range(12)
)
ACTIVE_FIELDS = 12

# counters; at MAX_PROBES probes the kernel pauses; FAR: whether it has memory fetched ahead; PEAK: the most rows that
# all rings held together; from LEFT on by input the rows that were joined when they left
CN_PROBES, CN_LINKS, CN_SAMPLES, CN_PROFILING, CN_MAX_PROBES, CN_FAR, CN_PEAK, CN_LEFT = range(8)

# status of a call
DONE, FULL, GROW, PAUSE, CROWDED = range(5)
NEVER = np.int64((1 << 63) - 1)

I1 = "int64[::1]"
I2 = "int64[:, ::1]"
