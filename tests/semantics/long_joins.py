"""Random joins under aggregates that run for thousands of elements, and what they must answer, by tensor products.

A window is known as soon as it is known when each element enters and leaves it. So the contents of an input at all
instants are one array: how many live rows there are of each combination of join columns. The number of results at an
instant is the product of these arrays, summed over all columns, with one index for all columns that must be equal:
for the cycle R.b = S.a, S.b = T.a, T.b = R.a it is Σ R[a, b] · S[b, c] · T[c, a]. Nothing here probes, orders or
caches anything, and a cycle is no special case.
"""

from __future__ import annotations

import itertools
import random
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cached_property
from typing import Any
from unittest.mock import patch

import numpy as np
import pyarrow as pa

import eddyline as ed
from eddyline.operators.mjoin import MJoin

Ints = np.ndarray[Any, np.dtype[np.int64]]
Place = tuple[int, str]  # an input and one of its columns
COLUMNS = "abcd"
SHAPES = ("chain", "star", "class", "cycle", "chord", "pairs", "shared", "parallel", "random")
WINDOWS = ("range", "rows", "slide", "partition", "mixed")
COMPARE = {"<": np.less, "<=": np.less_equal, "<>": np.not_equal}
CHUNK = 256  # instants that are multiplied at once
SCHEMA = pa.schema([("ts", pa.int64()), *((c, pa.int64()) for c in COLUMNS), ("v", pa.int64())])


@dataclass(frozen=True, slots=True)
class Window:
    """``size`` is a width in ticks, or a number of rows."""

    kind: str
    size: int
    slide: int = 0

    def __str__(self) -> str:
        return {
            "range": f"[RANGE {self.size}]",
            "slide": f"[RANGE {self.size} SLIDE {self.slide}]",
            "rows": f"[ROWS {self.size}]",
            "partition": f"[PARTITION BY a ROWS {self.size}]",
        }[self.kind]

    def stays(self, ts: Ints, parts: Ints) -> tuple[Ints, Ints]:
        """When each element enters, and when it leaves; ``parts`` are the values of the column a."""
        if self.kind == "range":
            return ts, ts + self.size + 1
        if self.kind == "slide":
            return -(-ts // self.slide) * self.slide, -(-(ts + self.size) // self.slide) * self.slide
        leaves = np.full(len(ts), np.iinfo(np.int64).max)
        for part in np.unique(parts) if self.kind == "partition" else [None]:
            mine = np.arange(len(ts)) if part is None else np.flatnonzero(parts == part)
            leaves[mine[: -self.size]] = ts[mine[self.size :]]
        return ts, leaves


@dataclass(frozen=True)
class LongJoin:
    """``streams[i]`` is what input i reads; in the tables −1 is NULL."""

    shape: str
    windows: tuple[Window, ...]
    streams: tuple[str, ...]
    equalities: tuple[tuple[Place, Place], ...]
    thetas: tuple[tuple[Place, str, Place], ...]
    group: Place | None
    tables: Mapping[str, Mapping[str, Ints]]

    @property
    def kind(self) -> str:
        kinds = {w.kind for w in self.windows}
        return kinds.pop() if len(kinds) == 1 else "mixed"

    @property
    def text(self) -> str:
        def name(place: Place) -> str:
            return f"i{place[0]}.{place[1]}"

        sources = [f"{s} {w} i{i}" for i, (s, w) in enumerate(zip(self.streams, self.windows, strict=True))]
        conditions = [f"{name(x)} = {name(y)}" for x, y in self.equalities]
        conditions += [f"{name(x)} {op} {name(y)}" for x, op, y in self.thetas]
        key = "" if self.group is None else f"{name(self.group)} AS g, "
        end = "" if self.group is None else f" GROUP BY {name(self.group)}"
        return (
            f"SELECT Rstream({key}count(*) AS n, sum(i0.v) AS s)"
            f" FROM {', '.join(sources)} WHERE {' AND '.join(conditions)}{end}"
        )

    @cached_property
    def instants(self) -> Ints:
        """Where Rstream speaks: at each element, and at each slide between the first and the last."""
        times = [self.tables[s]["ts"] for s in set(self.streams)]
        first, last = min(int(t[0]) for t in times), max(int(t[-1]) for t in times)
        slides = [np.arange(-(-first // w.slide) * w.slide, last + 1, w.slide) for w in self.windows if w.slide]
        return np.unique(np.concatenate([*times, *slides]))

    @cached_property
    def indices(self) -> dict[Place, str]:
        """The letter of each column that a condition or the grouping reads: the same for columns that must be equal."""
        found: dict[Place, int] = {}
        places = [p for pair in self.equalities for p in pair]
        places += [p for x, _, y in self.thetas for p in (x, y)] + ([] if self.group is None else [self.group])
        for place in places:
            found.setdefault(place, len(found))
        for _ in found:
            for x, y in self.equalities:
                found[x] = found[y] = min(found[x], found[y])
        return {place: "abcdefghijklmnopqrs"[n] for place, n in found.items()}

    @cached_property
    def domain(self) -> int:
        return 1 + max(int(t[c].max()) for t in self.tables.values() for c in COLUMNS)

    def contents(self, i: int, weighted: bool) -> tuple[str, Ints]:
        """By instant and columns: the live rows of an input, or the sum of their v."""
        table = self.tables[self.streams[i]]
        columns = [c for c in COLUMNS if (i, c) in self.indices]
        joins = np.all([table[c] >= 0 for c in columns], axis=0)  # a NULL is equal to nothing
        enters, leaves = self.windows[i].stays(table["ts"], table["a"])
        out = np.zeros((len(self.instants) + 1, *[self.domain] * len(columns)), np.int64)
        codes = tuple(table[c][joins] for c in columns)
        amount = table["v"][joins] if weighted else np.int64(1)
        np.add.at(out, (np.searchsorted(self.instants, enters[joins]), *codes), amount)
        np.subtract.at(out, (np.searchsorted(self.instants, leaves[joins]), *codes), amount)
        return "z" + "".join(self.indices[i, c] for c in columns), out.cumsum(0)[:-1]

    def expected(self) -> tuple[Ints, Ints]:
        """By instant (and value of the group): the number of results, and the sum of v."""
        compare = [
            (self.indices[x] + self.indices[y], COMPARE[op].outer(np.arange(self.domain), np.arange(self.domain)))
            for x, op, y in self.thetas
        ]
        answers = []
        for weighted in (False, True):
            rows = [self.contents(i, weighted and i == 0) for i in range(len(self.streams))]
            terms = ",".join(letters for letters, _ in (*rows, *compare))
            terms += "->z" + ("" if self.group is None else self.indices[self.group])
            masks = [m.astype(np.int64) for _, m in compare]
            first = [a[:CHUNK] for _, a in rows]
            path = np.einsum_path(terms, *first, *masks, optimize="greedy")[0]
            parts = [
                np.einsum(terms, *(a[at : at + CHUNK] for _, a in rows), *masks, optimize=path)
                for at in range(0, len(self.instants), CHUNK)
            ]
            answers.append(np.concatenate(parts))
        return answers[0], answers[1]

    def found(self, answer: pa.Table) -> tuple[Ints, Ints]:
        """An answer of the engine in the form of ``expected``; −1 results where an instant has no row."""
        grouped = self.group is not None
        shape = (len(self.instants), self.domain) if grouped else (len(self.instants),)
        counts, sums = np.full(shape, 0 if grouped else -1), np.zeros(shape, np.int64)
        columns = {n: answer[n].to_numpy() for n in ("n", "_time", *(["g"] if grouped else []))}
        at = np.searchsorted(self.instants, columns["_time"])
        assert (self.instants[np.minimum(at, len(self.instants) - 1)] == columns["_time"]).all()
        place = (at, columns["g"]) if grouped else (at,)
        assert len(set(zip(*(p.tolist() for p in place), strict=True))) == len(at), "a row comes twice"
        counts[place], sums[place] = columns["n"], answer["s"].fill_null(0).to_numpy()
        return counts, sums

    def difference(self, answer: pa.Table, expected: tuple[Ints, Ints]) -> str | None:
        """Where an answer differs from what it must be."""
        found = self.found(answer)
        wrong = sorted({int(n) for f, e in zip(found, expected, strict=True) for n in np.argwhere(f != e)[:, 0]})
        if not wrong:
            return None
        n = wrong[0]
        return (
            f"{len(wrong)} of {len(self.instants)} instants are wrong, the first at {self.instants[n]}: "
            f"{found[0][n]}, {found[1][n]} instead of {expected[0][n]}, {expected[1][n]}"
        )

    def arrow(self, stream: str) -> pa.Table:
        table = self.tables[stream]
        columns = {c: pa.array(table[c], mask=table[c] < 0) for c in COLUMNS}
        return pa.table({"ts": table["ts"], **columns, "v": table["v"]})


# ── running ───────────────────────────────────────────────────────────────────────────────────────────────────────


def start(case: LongJoin, options: dict[str, Any]) -> tuple[ed.Session, Any]:
    session = ed.Session()
    for name in case.tables:
        session.stream(name, schema=SCHEMA, timestamp="ts")
    return session, session.query(case.text, **options)


def run(
    case: LongJoin, rng: random.Random, options: dict[str, Any], batches_drawn: Sequence[int] = (1, 5, 40)
) -> pa.Table:
    """The engine's answer, from batches of random sizes, sometimes with a restart while caches are filled. The number
    of batches is one of ``batches_drawn``."""
    session, query = start(case, options)
    tables = {name: case.arrow(name) for name in case.tables}
    last = int(case.instants[-1])
    cuts = sorted({*(rng.randint(0, last) for _ in range(rng.choice(batches_drawn))), last + 1})
    stop = rng.choice(cuts) if rng.random() < 0.3 else None
    batches: list[pa.RecordBatch] = []
    before = 0
    with ExitStack() as stack:
        if rng.random() < 0.2:
            stack.enter_context(patch.object(MJoin, "FIRST_RESULT_ROOM", 16))
        for cut in cuts:
            for name, table in tables.items():
                ts = case.tables[name]["ts"]
                session.push(name, table.filter(pa.array((ts >= before) & (ts < cut))))
            if cut == stop:
                batches += query.fetch()
                with tempfile.TemporaryDirectory() as folder:
                    session.snapshot(folder)
                    session, query = start(case, options)
                    session.restore(folder)
            before = cut
        session.finish()
    return pa.Table.from_batches([*batches, *query.fetch()], query.schema)


# ── drawing ───────────────────────────────────────────────────────────────────────────────────────────────────────


def draw(rng: random.Random, number: int, most: int, inputs: Sequence[int] = (3, 4, 4, 5, 5, 6)) -> LongJoin:
    """The shape and the kind of window follow from the number; ``most`` elements a stream. Windows are made smaller
    until the join has no more results than a run can afford."""
    shape, kind = SHAPES[number % len(SHAPES)], WINDOWS[number // len(SHAPES) % len(WINDOWS)]
    m = 4 if shape == "pairs" else max({"chord": 4, "shared": 3}.get(shape, 0), rng.choice(inputs))
    equalities = edges(rng, shape, m)
    streams = ["RSTUVW"[i] for i in range(m)]
    if rng.random() < 0.2:  # a stream that is joined with itself
        streams[m - 1] = streams[0]
    used: dict[Place, None] = {p: None for pair in equalities for p in pair}
    wide = max(sum(p[0] == i for p in used) for i in range(m))
    domain = {1: 12, 2: 9, 3: 5}.get(wide, 3)
    ticks = most * rng.choice([1, 2, 3])
    tables = {s: draw_table(rng, most, ticks, domain, nulls=rng.choice([0.0, 0.0, 0.05])) for s in set(streams)}
    thetas: tuple[tuple[Place, str, Place], ...] = ()
    if rng.random() < 0.25:
        letters = LongJoin("", (), (), tuple(equalities), (), None, {}).indices
        x, y = rng.sample(sorted(used), 2)
        thetas = ((x, rng.choice(list(COMPARE)), y),) if x[0] != y[0] and letters[x] != letters[y] else ()
    group = rng.choice(sorted(used)) if rng.random() < 0.4 else None
    rows = rng.randint(4, 16)
    while True:
        windows = tuple(draw_window(rng, kind, rows, len(tables[s]["ts"]) / ticks) for s in streams)
        case = LongJoin(shape, windows, tuple(streams), tuple(equalities), thetas, group, tables)
        count = case.expected()[0].reshape(len(case.instants), -1).sum(1)
        changes = int(np.abs(np.diff(count)).sum())
        if rows <= 2 or (count.mean() < 300 and count.max() < 20_000 and changes < 60 * len(case.instants)):
            return case
        rows -= 1 + rows // 4


def edges(rng: random.Random, shape: str, m: int) -> list[tuple[Place, Place]]:
    """No input has two columns of one class: there caches are refused."""
    around = [((i, "b"), ((i + 1) % m, "a")) for i in range(m)]
    if shape == "chain":
        return around[:-1]
    if shape == "star":
        return [((0, COLUMNS[(i - 1) % 3]), (i, "a")) for i in range(1, m)]
    if shape == "class":
        return [((0, "a"), (i, "a")) for i in range(1, m)]
    if shape == "cycle":
        return around
    if shape == "chord":
        i = rng.randrange(m)
        return [*around, ((i, "c"), ((i + rng.randint(2, m - 2)) % m, "c"))]
    if shape == "pairs":
        return [((i, COLUMNS[j - 1]), (j, COLUMNS[i])) for i in range(m) for j in range(i + 1, m)]
    if shape == "shared":  # a class of three or more and a path that closes a cycle beside it
        some = rng.randint(3, m)
        path = [0, *range(some, m), some - 1]
        return [
            *(((0, "a"), (i, "a")) for i in range(1, some)),
            *(((i, "b" if n == 0 else "c"), (j, "b")) for n, (i, j) in enumerate(itertools.pairwise(path))),
        ]
    if shape == "parallel":
        return [*around[: m - 1], *(((i, "d"), (i + 1, "c")) for i in range(m - 1) if rng.random() < 0.6)]
    while True:
        found = [((rng.randrange(i), rng.choice("abc")), (i, rng.choice("abc"))) for i in range(1, m)]
        for _ in range(rng.randint(1, 3)):
            i, j = rng.sample(range(m), 2)
            found.append(((i, rng.choice("abc")), (j, rng.choice("abc"))))
        letters = LongJoin("", (), (), tuple(found), (), None, {}).indices
        if all(len({letters[p] for p in letters if p[0] == i}) == sum(p[0] == i for p in letters) for i in range(m)):
            return found


def draw_table(rng: random.Random, most: int, ticks: int, domain: int, nulls: float) -> dict[str, Ints]:
    """Two to four phases: rates and skews change, so that caches pay now here, now there."""
    generator = np.random.default_rng(rng.randrange(1 << 30))
    phases = rng.randint(2, 4)
    parts: list[dict[str, Ints]] = []
    for phase in range(phases):
        count = max(8, int(most / phases * rng.choice([0.1, 0.3, 1.0])))
        skew = rng.choice([0.6, 1.2, 2.0])
        part = {"ts": np.sort(generator.integers(phase * ticks // phases, (phase + 1) * ticks // phases, count))}
        for c in COLUMNS:
            values = np.minimum(generator.pareto(skew, count).astype(np.int64), domain - 1)
            part[c] = np.where(generator.random(count) < nulls, -1, values)
        part["v"] = generator.integers(-50, 50, count)
        parts.append(part)
    return {c: np.concatenate([p[c] for p in parts]) for c in parts[0]}


def draw_window(rng: random.Random, kind: str, rows: int, rate: float) -> Window:
    """A window that holds about so many rows of a stream with so many elements a tick."""
    kind = rng.choice(WINDOWS[:-1]) if kind == "mixed" else kind
    rows = max(1, rng.randint(rows // 2, rows))
    if kind == "rows":
        return Window(kind, rows)
    if kind == "partition":
        return Window(kind, max(1, rows // 4))
    width = max(2, round(rows / rate))
    return Window(kind, width, 0 if kind == "range" else rng.randint(1, width))
