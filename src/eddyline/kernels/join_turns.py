"""Chooses the next element of a join and applies its changes to the synopses: parts of the kernel in ``join``.

An element is a row that leaves its window (``begin_leaving``, then ``expire``) or one that arrives (``begin_arrival``,
then ``enter``); between the two it runs through its pipeline.
"""

from __future__ import annotations

import numpy as np

from eddyline.kernels import join_layout as k
from eddyline.kernels.compile import inlined
from eddyline.kernels.hashing import u
from eddyline.kernels.join_ahead import AHEAD, NEARER, fetch_heads, fetch_records
from eddyline.kernels.join_index import link, unlink
from eddyline.kernels.join_profile import drops

ASKED_FOR = -2  # as the number of a sample: the element is to be profiled if there is room


@inlined
def first_turns(contents, events, turns):
    """When the next element of each input arrives, and when its oldest row leaves. Returns how many rows rings hold."""
    inputs, first, tail = contents.inputs, contents.first, contents.tail
    held = np.int64(0)
    for i in range(inputs.shape[0]):
        turns.time[i] = turns.leave[i] = k.NEVER
        if events.next[i] < inputs[i, k.EV_LEN]:
            turns.time[i] = events.time[inputs[i, k.EV_OFF] + events.next[i]]
        if inputs[i, k.KIND] == k.RING and first[i] < tail[i]:
            turns.leave[i] = contents.leave[inputs[i, k.POS_OFF] + (first[i] & inputs[i, k.POS_MASK])]
            held += tail[i] - first[i]
            if inputs[i, k.LIMIT] > 0 and tail[i] - first[i] >= inputs[i, k.LIMIT]:
                turns.leave[i] = turns.time[i]
    return held


@inlined
def pipelines_with_more(m, steps, needs_full):
    """Which pipelines have more than steps: look-ups, or something to do after a step."""
    needs_full[:m] = 0
    for row in range(m * (m - 1)):
        if steps[row, k.ST_LOOKUP_END] > steps[row, k.ST_LOOKUP] or steps[row, k.ST_AFTER] != 0:
            needs_full[row // (m - 1)] = 1


@inlined
def next_in_time(m, turns):
    """The input whose element arrives next, with its time, and the one whose row leaves next, with its time."""
    s, t, d, e = np.int64(-1), k.NEVER, np.int64(-1), k.NEVER
    for i in range(m):
        if turns.time[u(i)] < t:
            t, s = turns.time[u(i)], np.int64(i)
        if turns.leave[u(i)] < e:
            e, d = turns.leave[u(i)], np.int64(i)
    return s, t, d, e


@inlined
def crowded_store(stores):
    """A complete store that is nearly full; −1 if there is none."""
    found = np.int64(-1)
    for i in range(stores.shape[0]):
        if stores[i, k.SR_COMPLETE] != 0 and (
            2 * stores[i, k.SR_ENTRIES] >= stores[i, k.SR_BUCKETS]
            or 8 * stores[i, k.SR_LIVE] > 7 * stores[i, k.SR_NODES]
        ):
            found = np.int64(i)
    return found


@inlined
def begin_leaving(s, pos, full, far, contents, profiling, counters):
    """The turn of a row to leave, where that is wanted: whether it joins with anything, and whether it is profiled."""
    inputs, codes = contents.inputs, contents.codes
    sample = np.int64(-1)
    shows = contents.weight[u(inputs[u(s), k.POS_OFF] + (pos & inputs[u(s), k.POS_MASK]))] != 0
    counters[u(k.CN_LEFT + s)] += np.int64(shows)
    if full and profiling.sample_at[2, u(s)] > 0 and pos % profiling.sample_at[2, u(s)] == 0:
        sample = np.int64(ASKED_FOR)
    if far:
        width, behind = inputs[u(s), k.CODE_WIDTH], contents.tail[u(s)] - pos
        if behind > AHEAD:
            place = inputs[u(s), k.CODE_OFF] + ((pos + AHEAD) & inputs[u(s), k.POS_MASK]) * width
            fetch_heads(s, codes, place, inputs, contents.indexes, contents.index_columns, contents.heads)
        if behind > NEARER:
            place = inputs[u(s), k.CODE_OFF] + ((pos + NEARER) & inputs[u(s), k.POS_MASK]) * width
            fetch_records(
                s, codes, place, inputs, contents.steps, contents.probes, contents.heads, contents.records
            )  # fmt: skip
    return shows, sample


@inlined
def begin_arrival(s, at, shows, full, far, contents, events, profiling):
    """The turn of an element to arrive: its position, whether it enters its indexes, and whether it is profiled. Its
    codes are written where its row will be: the pipeline reads them there."""
    inputs, codes, sample_at = contents.inputs, contents.codes, profiling.sample_at
    sample, done = np.int64(-1), events.next[u(s)]
    enters = shows
    if inputs[u(s), k.KIND] == k.RING:
        pos = contents.tail[u(s)]
    else:
        pos = events.slot[at]
        where = u(inputs[u(s), k.POS_OFF] + (pos & inputs[u(s), k.POS_MASK]))
        if contents.weight[where] != 0:
            enters = False
        else:  # another life, also of a row that joins with nothing: what died here must stay dead
            contents.born[where] += 1
    width = inputs[u(s), k.CODE_WIDTH]
    place = inputs[u(s), k.CODE_OFF] + (pos & inputs[u(s), k.POS_MASK]) * width
    source = inputs[u(s), k.EV_CODE_OFF] + done * width
    for c in range(width):
        codes[u(place + c)] = events.code[u(source + c)]
    if far:
        behind = inputs[u(s), k.EV_LEN] - done
        if behind > AHEAD:
            heads = contents.heads
            fetch_heads(s, events.code, source + AHEAD * width, inputs, contents.indexes, contents.index_columns, heads)
        if behind > NEARER:
            fetch_records(
                s, events.code, source + NEARER * width, inputs, contents.steps, contents.probes, contents.heads,
                contents.records,
            )  # fmt: skip
    if full and done == sample_at[0, u(s)]:
        sample = np.int64(ASKED_FOR)
        sample_at[1, u(s)] += 1
        sample_at[0, u(s)] = profiling.samples[u(sample_at[1, u(s)])]
    return pos, enters, sample


@inlined
def begin_profile(s, pos, m, contents, conditions, profiling, wanted, counters):
    """Begin the profile of an element with what its logical filters would do: the number of the profile."""
    profile = profiling.profile
    sample = counters[k.CN_SAMPLES]
    counters[k.CN_SAMPLES] += 1
    for c in range(profile.shape[1]):
        profile[sample, c] = 0
    profile[sample, 0] = s
    for f in range(m - 1):
        row = s * (m - 1) + f
        work = drops(
            s, pos, profiling.path_from[row], profiling.path_from[row + 1], contents.inputs, profiling.paths,
            conditions, contents.probes, contents.heads, contents.records, contents.codes, contents.first,
            wanted[m + 1], wanted[m + 2],
        )  # fmt: skip
        profile[sample, 1 + f] = work
        counters[k.CN_PROFILING] += abs(work)
    return sample


@inlined
def expire(own, contents, turns):
    """Take the oldest row out of its window; indexes and caches see by its number that it has gone."""
    inputs, first = contents.inputs, contents.first
    first[own] += 1
    turns.leave[own] = k.NEVER
    if first[own] < contents.tail[own]:
        turns.leave[own] = contents.leave[u(inputs[own, k.POS_OFF] + (first[own] & inputs[own, k.POS_MASK]))]


@inlined
def enter(own, pos, at, sign, shows, enters, contents, events, turns):
    """Put an element that has been joined into its own input, and into the indexes on it if it joins with anything."""
    inputs, leave, weight, first, tail = contents.inputs, contents.leave, contents.weight, contents.first, contents.tail
    ring, mask = inputs[own, k.KIND] == k.RING, inputs[own, k.POS_MASK]
    where = u(inputs[own, k.POS_OFF] + (pos & mask))
    if ring:
        leave[where] = events.leave[at]
        weight[where] = events.valid[at]  # 0: has a NULL key, joins with nothing
        if first[own] == tail[own]:
            turns.leave[own] = events.leave[at]
        tail[own] += 1
    else:
        before = weight[where]
        weight[where] = before + sign
        leave[where] = events.valid[at]
        if shows and before != 0 and weight[where] == 0:
            unlink(np.int64(own), pos, inputs, contents.indexes, contents.heads, contents.records)
    if enters:
        place = inputs[own, k.CODE_OFF] + (pos & mask) * inputs[own, k.CODE_WIDTH]
        for x in range(inputs[own, k.INDEX_FROM], inputs[own, k.INDEX_TO]):
            link(
                u(x), pos, contents.codes, place, ring, contents.indexes, contents.index_columns, contents.heads,
                contents.records,
            )  # fmt: skip
    events.next[own] += 1
    turns.time[own] = k.NEVER
    if events.next[own] < inputs[own, k.EV_LEN]:
        turns.time[own] = events.time[u(inputs[own, k.EV_OFF] + events.next[own])]
    if inputs[own, k.LIMIT] > 0 and tail[own] - first[own] >= inputs[own, k.LIMIT]:
        turns.leave[own] = turns.time[own]  # a full tuple-based window: the next element expels the oldest
