"""State trees through ``encode`` and ``decode``: integers that are kept as 32 bits come back as they were."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from eddyline.core.aligned import Aligned
from eddyline.engine.state_codec import BLOCK_BYTES, BLOCK_ROWS, Bytes, decode, encode

SMALLEST, LARGEST = -(1 << 63), (1 << 63) - 1


class Memory(dict[str, bytes]):
    def put(self, name: str, data: Bytes) -> None:
        self[name] = bytes(data)

    def get(self, name: str) -> bytes:  # type: ignore[override]
        return self[name]

    @property
    def size(self) -> int:
        return sum(map(len, self.values()))


@pytest.mark.parametrize(
    "values",
    [
        [7],
        [0, (1 << 32) - 1],
        [0, 1 << 32],
        [SMALLEST, SMALLEST + 5],
        [LARGEST - 5, LARGEST],
        [SMALLEST, LARGEST],
        [-3, 1 << 31, -1],
    ],
)
def test_integers_come_back(values: list[int]) -> None:
    array = np.array(values, np.int64)
    tree = {
        "n": array,
        "reversed": array[::-1],
        "whole": pa.array(values, pa.int64()),
        "time": pa.array(values, pa.timestamp("us", "UTC")),
        "cut": pa.array([0, *values, 0], pa.int64()).slice(1, len(values)),
        "null": pa.array([*values, None], pa.int64()),
    }
    memory = Memory()
    back = decode(encode(tree, memory), memory)
    assert back["n"].tolist() == values
    assert back["n"].dtype == np.int64
    assert back["reversed"].tolist() == values[::-1]
    for name in ("whole", "time", "cut", "null"):
        assert back[name].equals(tree[name]), name
        assert back[name].type == tree[name].type


def test_what_differs_by_a_constant_is_kept_once() -> None:
    rng = np.random.default_rng(1)
    times = 1_700_000_000_000_000 + np.cumsum(rng.integers(0, 1000, 3 * BLOCK_ROWS))
    one, both = Memory(), Memory()
    encode(Aligned(100, {"ts": pa.array(times, pa.timestamp("us"))}, len(times)), one)
    rows = Aligned(100, {"ts": pa.array(times, pa.timestamp("us"))}, len(times))
    skeleton = encode({"rows": rows, "leaves": Aligned(100, times + 60_000_000, len(times))}, both)
    assert one.size == both.size == 4 * len(times)
    assert decode(skeleton, both)["leaves"].tolist() == (times + 60_000_000).tolist()


def test_an_array_of_several_pieces_changes_only_where_it_changes() -> None:
    array = np.arange(4 * BLOCK_BYTES // 8)
    before, after = Memory(), Memory()
    encode(array, before)
    array[0] = -5  # the smallest, which all pieces would depend on if each were kept as its distance to it
    encode(array, after)
    assert len(after.keys() - before.keys()) == 1
