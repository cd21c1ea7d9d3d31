"""A shared index against a list of rows, and the blocks of a pool against a dictionary."""

from __future__ import annotations

import random
from collections import Counter
from unittest.mock import patch

import numpy as np
import pytest

from eddyline.core.schema import Schema
from eddyline.kernels import join_index
from eddyline.kernels import join_layout as k
from eddyline.synopses import shared_index
from eddyline.synopses.index_pool import IndexPool, Pool
from eddyline.synopses.shared_index import IndexReader, SharedIndex
from eddyline.synopses.store import Store, Stub


def test_blocks_of_a_pool_keep_what_is_in_them() -> None:
    rng, pool, blocks = random.Random(3), Pool(), {}
    for step in range(600):
        if blocks and rng.random() < (0.4 if step % 200 < 140 else 0.8):
            at, (words, value) = blocks.popitem() if rng.random() < 0.5 else (next(iter(blocks)), (0, 0))
            words, value = (words, value) if words else blocks.pop(at)
            assert (pool.array[at : at + words] == value).all()
            pool.give(at, words)
        else:
            words = rng.choice((1, 7, 300, 5000))
            at = pool.take(words)
            assert not any(at < b + n and b < at + words for b, (n, _) in blocks.items())
            pool.array[at : at + words] = step + 1
            blocks[at] = words, step + 1
        assert pool.used == sum(n for n, _ in blocks.values())
    for at, (words, value) in list(blocks.items()):
        assert (pool.array[at : at + words] == value).all()
        pool.give(at, words)
    assert pool.used == 0 and pool.take(5) == 0


class Reader:
    """One join's way along the rows: which it holds, and how it puts them in, as the kernel does."""

    def __init__(self, index: SharedIndex, codes: np.ndarray, valid: np.ndarray, start: int) -> None:
        stub = Stub(Store(Schema(())))
        self.reader = IndexReader(stub, "k", self, ["k"])
        self.index, self.codes, self.valid = index, codes, valid
        self.first = self.tail = start

    def insert(self, begin: int, end: int) -> None:
        index = self.index
        inputs = np.zeros((1, k.INPUT_FIELDS), np.int64)
        inputs[0, [k.KIND, k.POS_MASK, k.CODE_WIDTH]] = k.RING, -1, 1
        pool = index.pool
        join_index.relink(
            0, 0, begin, end, inputs, index.row, np.zeros(1, np.int64), pool.heads.array, pool.records.array,
            self.codes, self.valid, self.valid,
        )  # fmt: skip

    def run(self, many: int, width: int) -> int:
        """Come ``many`` rows further, and hold the last ``width``."""
        self.index.make_room(self.reader, self.first, self.tail + many)
        moved = self.index.bring_to(self.first, self.tail, self.insert)
        self.check()
        self.insert(self.tail, self.tail + many)
        self.tail += many
        self.first = max(self.first, self.tail - width)
        self.index.ran(self.reader, self.first, self.tail)
        self.check()
        return moved

    def check(self) -> None:
        index, inputs = self.index, np.zeros((1, k.INPUT_FIELDS), np.int64)
        for code in range(6):
            found = np.empty(len(self.codes), np.int64)
            arrays = (index.pool.heads.array, index.pool.records.array, np.array([self.first]), found)
            many = join_index.probe(0, np.array([code]), inputs, index.row, *arrays)
            rows = np.arange(self.first, self.tail)
            expected = rows[(self.codes[rows] == code) & (self.valid[rows] != 0)]
            assert found[:many].tolist() == expected[::-1].tolist()


@pytest.mark.parametrize("seed", range(6))
def test_each_join_finds_its_own_rows_wherever_others_stand(seed: int) -> None:
    rng, seen = random.Random(seed), Counter[str]()
    codes = np.array([rng.randint(0, 5) for _ in range(13_000)])
    valid = np.array([int(rng.random() < 0.8) for _ in range(13_000)])
    with patch.object(shared_index, "INITIAL_ROOM", 2):
        index = SharedIndex(IndexPool(), ["k"], lambda: seen.update(gone=1))
        readers: list[tuple[Reader, int]] = []
        at = 0
        while at < 3000:
            if len(readers) < 2 or (len(readers) < 4 and rng.random() < 0.05):
                readers.append((Reader(index, codes, valid, at), rng.choice((1, 5, 40, 300))))
            elif len(readers) > 2 and rng.random() < 0.02:
                index.remove(readers.pop(rng.randrange(len(readers)))[0].reader)
            reader, width = rng.choice(readers)
            room = index.room
            moved = reader.run(rng.randint(0, 30), width)
            seen["moved"] += moved > 0
            seen["grown"] += index.room > room
            seen["smaller"] += index.room < room
            at = max(r.tail for r, _ in readers)
        assert seen["moved"] > 50 and seen["grown"] > 2, seen
        ahead, width = max(readers, key=lambda r: r[0].tail)
        for _ in range(300):  # others wait, and what they wait for takes no room
            ahead.run(30, width)
        assert index.room <= shared_index.SHRINK_FACTOR * (width + 30)
        for reader, _ in readers:
            index.remove(reader.reader)
        assert seen["gone"] and index.pool.nbytes == 0
