"""Examples 5.1.1, 5.4.1, 5.4.2 and 5.4.4 of the thesis on the operator itself, tuple by tuple.

R1 ⋈_{R1.A=R2.A} R2 ⋈_{R2.B=R3.B} R3. Figure 5.2(b) is lost; these windows are the smallest with which all four examples
hold: R2 = {⟨1, 2⟩, ⟨1, 3⟩, ⟨2, 3⟩} and R3 = {⟨2⟩}. The pipelines are those of Figure 5.7, as Example 5.4.3 tells them.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from eddyline.core.delta import Delta
from eddyline.core.schema import Field, Schema
from eddyline.core.window import Unbounded
from eddyline.expr.nodes import Column
from eddyline.kernels import join_layout as k
from eddyline.operators.base import Context
from eddyline.operators.join_plan import CacheSpec, JoinGraph, Member
from eddyline.operators.join_side import JoinInput
from eddyline.operators.mjoin import MJoin
from eddyline.synopses.registry import Registry

SCHEMAS = [Schema(tuple(Field(n, pa.int64()) for n in names)) for names in (("R1.A",), ("R2.A", "R2.B"), ("R3.B",))]
ORDERS = [(1, 2), (2, 0), (1, 0)]
CACHE = CacheSpec(0, 0, 1, (1, 2), (0,))  # R2 ⋈ R3 in ΔR1, by R1.A = R2.A
Rows = list[tuple[int, ...]]


class Windows:
    """The join, and the rows of its windows by their numbers."""

    def __init__(self, cached: bool) -> None:
        keys = tuple(tuple(Column(f.name, f.type) for f in s) for s in SCHEMAS)
        graph = JoinGraph(keys, ((Member(0, 0), Member(1, 0)), (Member(1, 1), Member(2, 0))))
        registry = Registry()
        stubs = [(lambda s=s: registry.stub(None, s, "")) for s in SCHEMAS]
        names = [n for s in SCHEMAS for n in s.names]
        inputs = [JoinInput(s, Unbounded(), deletes=k.ALL_DELETIONS) for s in SCHEMAS]
        self.join = MJoin("mjoin 1", inputs, graph, [], stubs, names, Context(start=0))
        self.join.arrays.set_plan(ORDERS, [CACHE] if cached else [])
        self.rows: list[Rows] = [[], [], []]
        self.now = 0
        for row in ((1, 2), (1, 3), (2, 3)):
            assert self.insert(1, row) == []
        assert self.insert(2, (2,)) == []

    def insert(self, window: int, row: tuple[int, ...]) -> Rows:
        """The results of an insertion, as the thesis writes them: R1.A, R2.A, R2.B, R3.B."""
        self.now += 1
        deltas = []
        for i, schema in enumerate(SCHEMAS):
            part = [row] if i == window else []
            columns = {n: pa.array([r[c] for r in part], pa.int64()) for c, n in enumerate(schema.names)}
            deltas.append(Delta(np.full(len(part), self.now, np.int64), columns))
        out = self.join.process(deltas, self.now)
        self.rows[window].append(row)
        return sorted(zip(*(c.to_pylist() for c in out.columns.values()), strict=True))

    @property
    def counts(self) -> tuple[int, int, int]:
        """Probes, misses and calls of insert."""
        found = self.join.arrays.cache_operators.caches.counts(CACHE.store)
        return found.probes, found.misses, found.updates

    @property
    def entries(self) -> dict[int, Rows]:
        """What the cache holds, by its key."""
        caches = self.join.arrays.cache_operators.caches
        (store,), cells = caches.stores.tolist(), caches.cells.tolist()
        key_of = dict(zip(self._codes(1, 0), (a for a, _ in self.rows[1]), strict=True))
        found: dict[int, Rows] = {}
        for b in range(store[k.SR_BUCKETS]):
            at = store[k.SR_BUCKET_OFF] + b * store[k.SR_BUCKET_WIDTH]
            if cells[at + k.BK_HEAD] == k.NOTHING:
                continue
            held = found.setdefault(key_of[cells[at + k.BK_KEY]], [])
            node = cells[at + k.BK_HEAD] - k.NODE
            while node >= 0:
                here = store[k.SR_NODE_OFF] + node * 3
                held.append((*self.rows[1][cells[here + 1]], *self.rows[2][cells[here + 2]]))
                node = cells[here]
            held.sort()
        return found

    def _codes(self, window: int, column: int) -> list[int]:
        inputs, codes = self.join.arrays.inputs, self.join.arrays.codes
        width = int(inputs[window, k.CODE_WIDTH])
        start = int(inputs[window, k.CODE_OFF])
        return [int(codes[start + n * width + column]) for n in range(len(self.rows[window]))]


def test_example_5_1_1() -> None:
    """⟨1⟩ on ΔR1 joins with R2 to ⟨1, 1, 2⟩ and ⟨1, 1, 3⟩, then with R3 to the output ⟨1, 1, 2, 2⟩."""
    windows = Windows(cached=False)
    windows.join.arrays.sample([[0], [], []], 8)
    assert windows.insert(0, (1,)) == [(1, 1, 2, 2)]
    ((source, *rest),) = windows.join.arrays.profiles().tolist()
    assert source == 0 and rest[2:5] == [1, 2, 1]  # tuples before each join, and results
    assert windows.join.arrays.rows()[0] == 1  # finally, ⟨1⟩ is inserted into R1


def test_example_5_4_1() -> None:
    """The first ⟨1⟩ on ΔR1 misses, and its joining ⟨1, 2, 2⟩ is inserted into the cache; the second is a hit."""
    windows = Windows(cached=True)
    assert windows.entries == {}
    assert windows.insert(0, (1,)) == [(1, 1, 2, 2)]
    assert windows.entries == {1: [(1, 2, 2)]}
    assert windows.counts[:2] == (1, 1)
    probes = int(windows.join.arrays.counters[k.CN_PROBES])
    assert windows.insert(0, (1,)) == [(1, 1, 2, 2)]
    assert windows.counts[:2] == (2, 1)
    assert int(windows.join.arrays.counters[k.CN_PROBES]) == probes  # the join operators are bypassed


def test_example_5_4_2() -> None:
    """⟨3⟩ inserted into R3 adds ⟨1, 3, 3⟩ to the entry of ⟨1⟩, so that the next ⟨1⟩ on ΔR1 has two results."""
    windows = Windows(cached=True)
    windows.insert(0, (1,))
    assert windows.entries == {1: [(1, 2, 2)]}
    windows.insert(2, (3,))
    assert windows.entries == {1: [(1, 2, 2), (1, 3, 3)]}
    assert windows.insert(0, (1,)) == [(1, 1, 2, 2), (1, 1, 3, 3)]
    assert windows.counts[:2] == (2, 1)


def test_example_5_4_4() -> None:
    """⟨1, 3, 3⟩ and ⟨2, 3, 3⟩ pass the CacheUpdate operator of ΔR3. The key ⟨1⟩ is present; the insert call for ⟨2⟩ is
    ignored, and the first ⟨2⟩ on ΔR1 misses."""
    windows = Windows(cached=True)
    windows.insert(0, (1,))
    before = windows.counts[2]
    assert windows.insert(2, (3,)) == [(1, 1, 3, 3)]
    assert windows.counts[2] - before == 2
    assert windows.entries == {1: [(1, 2, 2), (1, 3, 3)]}
    assert windows.insert(0, (2,)) == [(2, 2, 3, 3)]
    assert windows.counts[:2] == (2, 2)
    assert windows.entries == {1: [(1, 2, 2), (1, 3, 3)], 2: [(2, 3, 3)]}
