"""The streams of the join benchmarks.

``three_way`` is pinned: with the default dials and 60-second windows on all three streams the equi-join on ``key`` has
350,894 results. The order of the draws is part of the definition.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from eddyline.core.errors import JobError
from eddyline.datasets.generate import Generated, Int64s, timestamps

NAMES: Final = ("R", "S", "T", "U")


def three_way(events: int = 1_500_000, seconds: int = 600, keys: int = 100_000, seed: int = 1) -> dict[str, pa.Table]:
    """Streams R, S and T with columns ts, key, val.

    >>> {name: len(t) for name, t in three_way(events=1000).items()}
    {'R': 319, 'S': 317, 'T': 364}
    """
    return many_way(3, events, seconds, keys, seed)


def many_way(
    streams: int = 4, events: int = 1_500_000, seconds: int = 600, keys: int = 100_000, seed: int = 1
) -> dict[str, pa.Table]:
    """The same for up to four streams: sorted times, then the stream of each event, then its key, then a value."""
    rng = np.random.default_rng(seed)
    time = np.sort(rng.integers(0, seconds * 1_000_000, events))
    stream = rng.integers(0, streams, events)
    key = rng.integers(0, keys, events)
    value = rng.random(events)
    return {
        NAMES[i]: pa.table({"ts": _ts(time[at]), "key": key[at], "val": value[at]})
        for i in range(streams)
        for at in (np.flatnonzero(stream == i),)
    }


def chain(events: int = 1_500_000, seconds: int = 600, keys: int = 100_000, seed: int = 1) -> dict[str, pa.Table]:
    """The chain R.a = S.a, S.b = T.b: R(ts, a, val), S(ts, a, b, val), T(ts, b, val).

    >>> {name: t.column_names for name, t in chain(events=10).items()}
    {'R': ['ts', 'a', 'val'], 'S': ['ts', 'a', 'b', 'val'], 'T': ['ts', 'b', 'val']}
    """
    rng = np.random.default_rng(seed)
    time = np.sort(rng.integers(0, seconds * 1_000_000, events))
    stream = rng.integers(0, 3, events)
    a, b = rng.integers(0, keys, events), rng.integers(0, keys, events)
    value = rng.random(events)
    has = {"R": ("a",), "S": ("a", "b"), "T": ("b",)}
    tables = {}
    for i, (name, columns) in enumerate(has.items()):
        at = np.flatnonzero(stream == i)
        keyed = {c: {"a": a, "b": b}[c][at] for c in columns}
        tables[name] = pa.table({"ts": _ts(time[at]), **keyed, "val": value[at]})
    return tables


def write(tables: dict[str, pa.Table], folder: Path, rows: int | None = None) -> dict[str, Path]:
    """One Parquet file for each stream; ``rows`` is the size of a row group."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = {name: folder / f"{name}.parquet" for name in tables}
    for name, table in tables.items():
        pq.write_table(table, paths[name], row_group_size=rows)
    return paths


def join_stream(
    stream: str = "R", events: int = 1_500_000, seconds: int = 600, keys: int = 100_000, seed: int = 1
) -> Generated:
    """One stream of ``three_way`` as a generator (all of it is drawn at once: the definition is not chunked)."""
    if stream not in NAMES[:3]:
        raise JobError(f"there is no stream {stream!r}: R, S and T exist.")
    schema = pa.schema([("ts", pa.timestamp("us")), ("key", pa.int64()), ("val", pa.float64())])
    return Generated(schema, lambda: iter(three_way(events, seconds, keys, seed)[stream].to_batches()))


def _ts(micros: Int64s) -> pa.Array:
    return timestamps(micros, start=0)


@dataclass(frozen=True, slots=True)
class Arrivals:
    """Elements of several streams: for each its times, increasing, and its columns. No two elements share a time."""

    streams: tuple[tuple[Int64s, dict[str, Int64s]], ...]

    @property
    def times(self) -> tuple[int, int]:
        """The first and the last."""
        there = [t for t, _ in self.streams if len(t)]
        return min(int(t[0]) for t in there), max(int(t[-1]) for t in there)

    def between(self, after: int, upto: int) -> list[tuple[Int64s, dict[str, Int64s]]]:
        """What arrives later than ``after`` and not later than ``upto``."""
        cut = []
        for time, columns in self.streams:
            at = slice(*np.searchsorted(time, [after, upto], side="right"))
            cut.append((time[at], {name: values[at] for name, values in columns.items()}))
        return cut

    @staticmethod
    def of(positions: Sequence[np.ndarray], columns: Sequence[dict[str, np.ndarray]]) -> Arrivals:
        """Streams whose elements stand at ``positions``, any numbers: their order becomes the time, one element a
        tick; elements at the same place come in the order of their streams.

        >>> data = Arrivals.of([np.array([0.0, 2.0]), np.array([1.0])], [{"a": np.array([5, 6])}, {"a": np.array([7])}])
        >>> [(time.tolist(), keys["a"].tolist()) for time, keys in data.streams]
        [([0, 2], [5, 6]), ([1], [7])]
        """
        whose = np.repeat(np.arange(len(positions)), [len(p) for p in positions])
        order = np.argsort(np.concatenate(list(positions)), kind="stable")
        time = np.empty(len(order), np.int64)
        time[order] = np.arange(len(order))
        streams = []
        for i, keys in enumerate(columns):
            mine = time[whose == i]
            inside = np.argsort(mine)
            streams.append((mine[inside], {n: np.asarray(v, np.int64)[inside] for n, v in keys.items()}))
        return Arrivals(tuple(streams))


def in_step(
    values: int,
    multiplicity: Sequence[float],
    columns: Sequence[Sequence[str]],
    strides: Sequence[int] | None = None,
    jitter: float = 8.0,
    seed: int = 1,
) -> Arrivals:
    """Streams that draw values from one domain in the same order (thesis 5.8.3): a value comes ``multiplicity`` times
    in a stream, all streams have reached the same value at any time but for the ``jitter``, and no value comes back.

    A multiplicity below one leaves values out: of 0.5 every other. A stride leaves all out but the multiples of it.

    >>> data = in_step(4, [1, 2, 0.5], ["a", "ab", "b"], jitter=0)
    >>> [keys["b"].tolist() for _, keys in data.streams[1:]]
    [[0, 0, 1, 1, 2, 2, 3, 3], [1, 3]]
    """
    rng = np.random.default_rng(seed)
    positions, keys = [], []
    for share, names, stride in zip(multiplicity, columns, strides or [1] * len(columns), strict=True):
        v = stride * _repeated(values // stride, share)
        positions.append(v + rng.uniform(0, jitter, len(v)))
        keys.append(dict.fromkeys(names, v))
    return Arrivals.of(positions, keys)


def burst(before: int, after: int, factor: int = 20, repeats: int = 5, jitter: float = 8.0, seed: int = 1) -> Arrivals:
    """R(a), S(a, b) and T(b) in step, where T repeats each value; when S has had ``before`` values, R becomes
    ``factor`` times as fast, and repeats values as often.

    >>> [len(time) for time, _ in burst(100, 10, factor=20).streams]
    [300, 110, 550]
    """
    rng = np.random.default_rng(seed)
    late = before + _repeated(after, factor)
    drawn = [np.concatenate([_repeated(before, 1), late]), _repeated(before + after, 1)]
    drawn.append(_repeated(before + after, repeats))
    keys = [dict.fromkeys(names, v) for v, names in zip(drawn, ("a", "ab", "b"), strict=True)]
    return Arrivals.of([v + rng.uniform(0, jitter, len(v)) for v in drawn], keys)


def _repeated(values: int, share: float) -> Int64s:
    """0, 1, … as often each as ``share`` says."""
    return np.floor(np.arange(1, int(values * share) + 1) / share - 1e-9).astype(np.int64)


@dataclass(frozen=True, slots=True)
class Pairwise:
    """Distributions of one join attribute with given pairwise selectivities: Σ_a p_i(a) p_j(a) = s_ij for all pairs.

    ``p[i]`` are the probabilities of the values in stream i; columns are values."""

    p: np.ndarray

    @property
    def selectivity(self) -> np.ndarray:
        """What the distributions have, streams by streams; the diagonal is that of a self-join."""
        return np.asarray(self.p @ self.p.T)

    def draw(self, tuples: int, rates: Sequence[float], seed: int = 1) -> Arrivals:
        """Independent draws; streams arrive in proportion to ``rates``."""
        rng = np.random.default_rng(seed)
        stream = rng.choice(len(self.p), tuples, p=np.asarray(rates) / np.sum(rates))
        at = [np.flatnonzero(stream == i) for i in range(len(self.p))]
        keys = [{"a": rng.choice(self.p.shape[1], len(x), p=p)} for x, p in zip(at, self.p, strict=True)]
        return Arrivals.of(at, keys)


def pairwise(selectivity: np.ndarray, private: int = 1000) -> Pairwise:
    """Distributions for a symmetric matrix of selectivities, whose diagonal does not count.

    A *common* group of values is shared by all streams, in shares u_i that are as large as u_i u_j ≤ s_ij permits; what
    is missing of s_ij is a group that only i and j share; the rest of a stream are values of its own, at least
    ``private`` of them if nothing else is left. Common and paired values are made as equally frequent as the numbers
    permit, so that no selectivity comes from a few frequent values.

    >>> wanted = np.array([[0, 0.004, 0.005], [0.004, 0, 0.007], [0.005, 0.007, 0]])
    >>> found = pairwise(wanted).selectivity
    >>> [round(float(found[i, j]), 4) for i, j in ((0, 1), (0, 2), (1, 2))]
    [0.004, 0.005, 0.007]
    """
    s = np.asarray(selectivity, float)
    n = len(s)
    u = _common(s)
    best: tuple[float, list[tuple[np.ndarray, int]]] = (float("inf"), [])
    for share in np.linspace(0.98, 0.1, 45) if u.max() > 0 else ():
        values = max(1, round((share / u.max()) ** 2))
        groups = [(u * np.sqrt(values), values)]
        left = 1 - groups[0][0]
        missing = {(i, j): max(0.0, s[i, j] - u[i] * u[j]) for i in range(n) for j in range(i)}
        density = max(sum(e for pair, e in missing.items() if i in pair) / max(left[i], 1e-9) for i in range(n))
        for pair, e in missing.items():
            if e > 1e-12:
                size = max(1, round(e / density**2))
                groups.append((np.array([np.sqrt(e * size) if i in pair else 0.0 for i in range(n)]), size))
        total = sum(mass for mass, _ in groups)
        worst = max(float(mass.max()) / size for mass, size in groups)
        if (total <= 1 + 1e-9).all() and worst < best[0]:
            best = worst, groups
    groups = best[1]
    if not groups and (s[~np.eye(n, dtype=bool)] > 0).any():
        raise JobError("no distributions have these selectivities: they are too large, or too different.")
    for i in range(n):  # what joins with nothing
        rest = 1 - sum(float(mass[i]) for mass, _ in groups)
        if rest > 1e-9:
            mass = np.zeros(n)
            mass[i] = rest
            groups.append((mass, private if not best[1] else max(1, round(rest / best[0]))))
    p = np.hstack([np.repeat(mass[:, None] / size, size, axis=1) for mass, size in groups])
    return Pairwise(np.asarray(p / p.sum(1, keepdims=True)))


def _common(s: np.ndarray) -> np.ndarray:
    """The largest u, by their product, with u_i u_j ≤ s_ij: coordinate ascent from the smallest selectivity."""
    n = len(s)
    pairs = s[~np.eye(n, dtype=bool)]
    if not len(pairs) or pairs.min() <= 0:
        return np.zeros(n)
    u = np.full(n, np.sqrt(pairs.min()))
    for _ in range(50):
        for i in range(n):
            u[i] = min(s[i, j] / u[j] for j in range(n) if j != i)
            u[i] = min(u[i], 1.5 * np.sqrt(pairs.min()))
    return u
