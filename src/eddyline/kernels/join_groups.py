"""The arrays that ``join_layout`` draws, in groups: what the parts of the join kernel hand to each other.

They exist inside the compiled kernel only. The kernel itself takes its arrays one by one (``join.mjoin``) and groups
them first: named tuples as arguments make a call three times as long (7.2 instead of 2.5 µs).
"""

from __future__ import annotations

from typing import Any, NamedTuple


class Contents(NamedTuple):
    """The inputs, what is in their windows, the hash indexes on them, and the pipelines' steps."""

    inputs: Any
    indexes: Any
    steps: Any
    index_columns: Any
    probes: Any
    heads: Any
    records: Any
    codes: Any
    leave: Any
    weight: Any
    rownum: Any
    born: Any
    first: Any
    tail: Any


class Events(NamedTuple):
    """The elements that wait, of all inputs one after another; ``next`` is how many are done, by input."""

    time: Any
    code: Any
    leave: Any
    weight: Any
    slot: Any
    valid: Any
    next: Any


class Caches(NamedTuple):
    """Stores, the cache operators that use them, conditions, Bloom filters, and room for the references of a join."""

    stores: Any
    lookups: Any
    updates: Any
    cells: Any
    segment: Any
    conditions: Any
    bits: Any
    refs: Any


class Profiling(NamedTuple):
    """Which elements are profiled, along which paths, and what they met."""

    sample_at: Any
    samples: Any
    paths: Any
    profile: Any
    path_from: Any


class Loops(NamedTuple):
    """The nested loops of the element at hand (``machine``); the codes that each step looks for (``wanted``), and the
    key of the entry that is looked up or written."""

    bound: Any
    cursor: Any
    factor: Any
    tick: Any
    memo: Any
    memo_tick: Any
    home: Any
    floor: Any
    cache_hit: Any
    building: Any
    wanted: Any
    key: Any


class Output(NamedTuple):
    """Results: times, weights, and rows by input."""

    time: Any
    weight: Any
    rows: Any


class Turns(NamedTuple):
    """By input: when its next element comes, and when its oldest row leaves (NEVER: there is none)."""

    time: Any
    leave: Any
