"""Runs a complete join of streams with a kind of index and counts what it does.

An *operation* is a hash, a visit of a bucket or a comparison of a row: counted, and the same in every run. Seconds are
CPU seconds of the query. Whatever the index, results have the same number.

The paper executes the stream for 15 minutes before it measures, and the first indexes are chosen from the statistics of
that time. Here the first ``TRAINING`` tuples of each stream are that time: what they cost is not counted. Indexes that
never change (``STATIC``) are chosen from ``TRAINED`` searches of each state, when windows have long been full.
"""

from __future__ import annotations

import gc
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from time import process_time
from typing import Any

import pyarrow as pa

import eddyline as ed
from eddyline.datasets.multi_route import Order, complete_join, multi_route
from eddyline.kernels.join_layout import IX_REC_WIDTH
from eddyline.operators.mjoin import MJoin
from experiments.report import Options

# A fifth of the paper's sizes: windows of 2,000 rows in partitions of 500, another order every 1,000 tuples. Values are
# fewer in the same measure, so that a first search leaves as many partial results as with the paper's windows.
WINDOW, PHASE, TUPLES = "[ROWS 2000]", 1_000, 16_000
VALUES = (20, 32, 48, 80, 160, 560)
SIZES = "partition=500, costs=counted"
TUNED = f"window=4000, periodic=12000, triggered=20000, {SIZES}"
TRAINING, TRAINED = 8_000, 200_000
STATIC = f"window={TRAINED}, scheduling=periodic, periodic=1000000000000, {SIZES}"
OPERATIONS = ("comparisons", "bucket_visits", "hashes")


@dataclass(frozen=True, slots=True)
class Measured:
    index: str
    operations: int
    comparisons: int
    visits: int
    hashes: int
    index_bytes: int
    rows: int
    changes: int
    seconds: float
    results: int
    turns: tuple[float, ...] = ()  # the seconds of several runs, of which ``seconds`` is the median

    @property
    def bytes_per_row(self) -> float:
        return self.index_bytes / max(1, self.rows)


def streams(options: Options, orders: int | Sequence[Order] | None = None) -> dict[str, pa.Table]:
    """The streams of the experiments; these orders of the states, or so many, take turns, None: each phase has one."""
    tuples = options.tuples(TRAINING + TUPLES, 4_000)
    return multi_route(tuples=tuples, phase=PHASE, values=VALUES, orders=orders)


def training(options: Options) -> int:
    """The tuples of each stream that come before what is counted."""
    return options.tuples(TRAINING, 1_000)


def measure(
    tables: Mapping[str, pa.Table],
    index: str | None,
    window: str = WINDOW,
    text: str | None = None,
    trained: int = 0,
) -> Measured:
    """One run of ``text``, else of the complete join; ``index`` None is the MJoin that orders and caches itself. What
    the first ``trained`` tuples of each stream cost is not counted. Nor is what Python's collector of garbage takes to
    go through the objects that were there before: it does so in some runs and not in others, for a third of the time
    of a short one."""
    gc.collect()
    gc.freeze()
    try:
        return _run(tables, index, text or complete_join(len(tables), window), trained)
    finally:
        gc.unfreeze()


def _run(tables: Mapping[str, pa.Table], index: str | None, text: str, trained: int) -> Measured:
    session = ed.Session()
    for name, table in tables.items():
        session.stream(name, schema=table.schema, timestamp="ts")
    options = {} if index is None else {"joins": "routes", "index": index}
    query = session.query(text, **options)
    before, start, results = Counter[str](), process_time(), 0
    for part in (slice(0, trained), slice(trained, None)):
        if part.stop == 0:
            continue
        for name, table in tables.items():
            session.push(name, table[part])
        if part.stop is None:
            session.finish()
        results += sum(batch.num_rows for batch in query.fetch())
        if part.stop is not None:
            before, start = _counts(query, index), process_time()
    seconds, after = process_time() - start, _counts(query, index)
    after.subtract(before)
    if index is None:
        (join,) = (n.operator for n in query.running.physical.nodes if isinstance(n.operator, MJoin))
        kept = [int(tail - first) for first, tail in zip(join.arrays.first, join.arrays.tail, strict=True)]
        return Measured("mjoin", after["accesses"], 0, 0, 0, _index_bytes(join, kept), sum(kept), 0, seconds, results)
    (told,) = query.statistics().values()
    states, done = told["states"].values(), [after[n] for n in OPERATIONS]
    return Measured(
        index, sum(done), *done, sum(s["index_bytes"] for s in states), sum(s["rows"] for s in states),
        after["changes"], seconds, results,
    )  # fmt: skip


def _counts(query: Any, index: str | None) -> Counter[str]:
    """What was done since the start."""
    (told,) = query.statistics().values()
    if index is None:
        return Counter(accesses=told["accesses"])
    done = {n: sum(s[n] for s in told["states"].values()) for n in OPERATIONS}
    return Counter({**done, "changes": told["changes"]})


def quickest(
    tables: Mapping[str, pa.Table],
    indexes: Sequence[str | None],
    text: str | None = None,
    trained: int = 0,
    rounds: int = 3,
    window: str = WINDOW,
) -> list[float]:
    """CPU seconds with each index: the least of several runs, in turns, the first of which loads. Where time is judged,
    indexes are chosen by what operations cost in time, not by their number."""
    timed = [i.replace("costs=counted", "costs=measured") if i is not None else None for i in indexes]
    times = [
        [measure(tables, i, window, text=text, trained=trained).seconds for i in timed] for _ in range(rounds)
    ]  # fmt: skip
    return [min(t) for t in zip(*times, strict=True)]


def time_ratio(tables: Mapping[str, pa.Table], index: str, text: str | None = None) -> float:
    """The CPU time with an index over the MJoin's."""
    mine, mjoins = quickest(tables, (index, None), text)
    return mine / mjoins


def _index_bytes(join: MJoin, kept: list[int]) -> int:
    """Of the hash indexes of an MJoin: eight bytes for each head, and a record for each row and index."""
    arrays = join.arrays
    widths = [int(arrays.indexes[list(arrays.indexes_of(i)), IX_REC_WIDTH].sum()) for i in range(len(kept))]
    return 8 * (len(arrays.heads) + sum(n * width for n, width in zip(kept, widths, strict=True)))


def check_same(found: list[Measured]) -> None:
    """Indexes never change an answer."""
    assert len({m.results for m in found}) == 1, {m.index: m.results for m in found}
