"""Counts of keys as of any instant of a batch, against a replay of all changes."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from eddyline.engine.state_codec import decode, encode
from eddyline.synopses.key_counts import KeyCounts, Tally

CHANGES = st.lists(st.tuples(st.integers(0, 6), st.sampled_from("abc"), st.sampled_from([1, 1, -1])), max_size=12)


class Memory(dict[str, bytes]):
    def put(self, name: str, data: bytes) -> None:
        self[name] = data

    def get(self, name: str) -> bytes:  # type: ignore[override]
        return self[name]


@given(st.lists(CHANGES, min_size=1, max_size=4), st.booleans())
def test_as_of_every_instant(batches: list[list[tuple[int, str, int]]], saved: bool) -> None:
    counts, tally = KeyCounts([pa.string(), pa.int64()]), Tally()
    past: list[tuple[int, str, int]] = []
    for number, batch in enumerate(batches):
        changes = sorted(((number * 10 + t, k, w) for t, k, w in batch), key=lambda c: c[0])
        if changes:
            time, weight = (np.array([c[i] for c in changes], np.int64) for i in (0, 2))
            counts.change(time, columns([k for _, k, _ in changes]), weight)
            tally.change(time, weight)
        past += changes
        asked = [(number * 10 + t, k) for t in range(-1, 8) for k in "abcd"]
        instants = np.array([t for t, _ in asked], np.int64)
        instants = np.maximum(instants, number * 10 - 1)
        want: list[Any] = [sum(w for t, key, w in past if t <= at and key == k) for at, k in asked]
        assert counts.at(columns([k for _, k in asked]), instants).tolist() == want
        assert tally.at(instants).tolist() == [sum(w for t, _, w in past if t <= at) for at, _ in asked]
        counts.settle()
        tally.settle()
        there = Counter[str]()
        for _, k, w in past:
            there[k] += w
        assert len(counts) == sum(n != 0 for n in there.values())
        if saved:
            memory = Memory()
            state = decode(encode(counts.state(), memory), memory)
            counts = KeyCounts([pa.string(), pa.int64()])
            counts.load(state)


def columns(keys: list[str]) -> list[pa.Array]:
    return [pa.array(keys, pa.string()), pa.array([ord(k) for k in keys], pa.int64())]
