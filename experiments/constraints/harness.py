"""Streams that adhere to k-constraints as in section 6.5, and joins of them with their state counted.

The thesis' system joins windows of rows and emits no deletions. CQL's ``Istream`` over such windows has to know them,
so these joins are run without a query: the same operators, fed with whole instants of one element each. The thesis'
SWJ keeps all rows of the windows that pass the filters; they are counted from the data. Rows are those in memory at the
end; bytes are those that the engine counts, of rows, indexes and filters.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from time import process_time
from typing import Any

import numpy as np
import pyarrow as pa

import eddyline as ed
from eddyline.adapting.constraint_control import ConstraintWatch, PortFacts
from eddyline.adapting.join_switch import JoinSwitch, sample_of
from eddyline.adaptive.constraints.policies import parse_constraints
from eddyline.core.delta import Delta
from eddyline.core.schema import Field, Schema
from eddyline.core.window import Rows
from eddyline.expr.nodes import Call, Column, Expr, Literal
from eddyline.kernels.join_layout import NO_DELETIONS
from eddyline.operators.base import Context
from eddyline.operators.join_plan import JoinGraph, Member
from eddyline.operators.join_side import JoinInput
from eddyline.operators.join_tree import JoinTree, tree_of
from eddyline.operators.mjoin import MJoin
from eddyline.operators.switching_join import SwitchingJoin
from eddyline.synopses.spill import Spill
from eddyline.synopses.store import Store, Stub

ROWS = 50_000  # of a window
MULTIPLICITY = 5
Ints = np.ndarray[Any, np.dtype[np.int64]]


@dataclass(frozen=True, slots=True)
class Measured:
    """``seconds`` are CPU seconds of the query; ``disk`` is what was spilled, ``missing`` how many results are."""

    rows: int
    bytes: int
    results: int
    seconds: float
    disk: int = 0
    spilled: int = 0
    constraints: tuple[dict[str, Any], ...] = ()


def measure(tables: Mapping[str, pa.Table], text: str, constraints: str | None) -> Measured:
    """One run; ``constraints`` None is the plain join."""
    session = ed.Session()
    for name, table in tables.items():
        session.stream(name, table.to_batches(max_chunksize=20_000), schema=table.schema, timestamp="ts")
    query = session.query(text, constraints="off" if constraints is None else constraints)
    start = process_time()
    results = sum(batch.num_rows for batch in query.results())
    seconds = process_time() - start
    state = query.report()["state"]
    if constraints is None:
        return Measured(state["rows"], state["bytes"], results, seconds)
    told = next((s for s in query.statistics().values() if "synopses" in s), None)
    if told is None:  # the plain join was chosen
        return Measured(state["rows"], state["bytes"], results, seconds)
    spill = told["spill"]
    known = tuple(told["constraints"])
    return Measured(state["rows"], state["bytes"], results, seconds, spill["disk"], spill["rows"], known)


@dataclass(frozen=True, slots=True)
class Input:
    """A stream of a join that is run without a query: its rows, the rows of its window, and the filter of a column."""

    table: pa.Table
    rows: int = ROWS
    below: tuple[str, int] | None = None  # a column and what it must be less than

    @property
    def in_window(self) -> int:
        """What the thesis' SWJ keeps at the end: rows of the window that pass the filter."""
        last = self.table.slice(max(0, len(self.table) - self.rows))
        if self.below is None:
            return len(last)
        return int((last.column(self.below[0]).to_numpy() < self.below[1]).sum())


@dataclass
class Run:
    """A join that is fed step by step; ``constraints`` None is the plain join (MJoin)."""

    inputs: Mapping[str, Input]
    equalities: Sequence[tuple[str, str]]
    constraints: str | None
    seconds: float = 0.0
    results: int = 0
    peak: int = 0

    def __post_init__(self) -> None:
        names = list(self.inputs)
        self.schemas = [
            Schema(tuple(Field(f"{n}.{f.name}", f.type) for f in self.inputs[n].table.schema)) for n in names
        ]
        keys: list[list[Expr]] = [[] for _ in names]
        pairs = []
        for pair in self.equalities:
            members = []
            for name in pair:
                i, column = names.index(name.split(".")[0]), Column(name, pa.int64())
                if column not in keys[i]:
                    keys[i].append(column)
                members.append(Member(i, keys[i].index(column)))
            pairs.append((members[0], members[1]))
        graph = JoinGraph(tuple(map(tuple, keys)), tuple(pairs))
        specs = [
            JoinInput(schema, Rows(given.rows), deletes=NO_DELETIONS, label=n, filters=_filter(n, given.below))
            for n, schema, given in zip(names, self.schemas, self.inputs.values(), strict=True)
        ]
        output = [f"{n}.ts" for n in names]
        if self.constraints is None:
            self.join: Any = self._plain(specs, graph, output)
            return
        tree = tree_of(graph)
        assert isinstance(tree, JoinTree)
        mode, options = parse_constraints(self.constraints)
        facts = [
            [PortFacts(str(keys[i][c[0]].name), False, True) for c in tree.keys_of(i)]  # type: ignore[union-attr]
            for i in range(tree.size)
        ]
        edges = [(e.a, e.a_port, e.b, e.b_port) for e in tree.edges]
        self.watch = ConstraintWatch("join", edges, facts, tree.width, options)
        spill = None if mode == "lossy" else Spill(self.schemas, tree.width)
        self.join = SwitchingJoin(
            "join", specs, graph, tree, (), output, Context(start=0), self.watch, spill, options.collect
        )
        ordered = [(i, p) for i, mine in enumerate(facts) for p in range(len(mine))]
        sample = sample_of(edges, ordered, tree.size)
        switch = JoinSwitch("join", sample, self.watch.in_window, mode == "auto", patience=options.patience)
        self.join.follow(switch, lambda: self._plain(specs, graph, output))

    def _plain(self, specs: Sequence[JoinInput], graph: JoinGraph, output: Sequence[str]) -> MJoin:
        stubs = [lambda s=s: Stub(Store(s)) for s in self.schemas]
        return MJoin("plain", specs, graph, (), stubs, output, Context(start=0))

    def steps(self, every: int = 20_000) -> Iterator[int]:
        """Feed elements of so many instants at a time; yields how many instants are done."""
        tables = [given.table for given in self.inputs.values()]
        times = [t.column("ts").to_numpy() for t in tables]
        end = 1 + max(int(t[-1]) for t in times)
        for begin in range(0, end, every):
            deltas = []
            for table, ts, schema in zip(tables, times, self.schemas, strict=True):
                a, b = np.searchsorted(ts, [begin, begin + every])
                part = table.slice(a, b - a).combine_chunks()
                columns = {f.name: part.column(i).combine_chunks() for i, f in enumerate(schema)}
                columns = {n: c.chunk(0) if isinstance(c, pa.ChunkedArray) else c for n, c in columns.items()}
                deltas.append(Delta(ts[a:b].astype(np.int64), columns))
            start = process_time()
            found = self.join.process(deltas, begin + every - 1)
            self.seconds += process_time() - start
            self.results += len(found)
            self.peak = max(self.peak, self.join.size()[0])
            yield begin + every

    def all(self) -> Run:
        for _ in self.steps():
            pass
        return self

    @property
    def rows(self) -> int:
        return int(self.join.size()[0])

    @property
    def bytes(self) -> int:
        return int(self.join.size()[1])


def warm_up(equalities: Sequence[tuple[str, str]], tables: Mapping[str, pa.Table]) -> None:
    """Have the kernels loaded, which is no part of a measurement."""
    inputs = {n: Input(t.slice(0, 2_000), 400, ("f", 50) if "f" in t.schema.names else None) for n, t in tables.items()}
    for mode in (None, "lossy(collect=50, W=20)", "exact(collect=50, W=20)", "exact(collect=50, W=20, uses=ca)"):
        for _ in Run(inputs, equalities, mode).steps(200):
            pass


def _filter(name: str, below: tuple[str, int] | None) -> tuple[Expr, ...]:
    if below is None:
        return ()
    column = Column(f"{name}.{below[0]}", pa.int64())
    return (Call("lt", (column, Literal(below[1], pa.int64())), pa.bool_()),)


def interleaved(rates: Mapping[str, int], rounds: int) -> dict[str, Ints]:
    """Times of streams whose elements take turns by their rates: 5:1:1 is seven instants a round."""
    total, at, made = sum(rates.values()), 0, {}
    for name, rate in rates.items():
        made[name] = (np.arange(rounds)[:, None] * total + at + np.arange(rate)[None, :]).reshape(-1)
        at += rate
    return made


def star(k: int, rounds: int, seed: int = 1) -> dict[str, pa.Table]:
    """Figure 6.9(a): S1 → S2 and S1 → S3 at rates 5:1:1, join distances evenly spread over 0 … k."""
    random = np.random.default_rng(seed)
    times = interleaved({"S2": 1, "S3": 1, "S1": MULTIPLICITY}, rounds)
    now = np.repeat(np.arange(rounds), MULTIPLICITY)  # children that have come, less one
    far = [random.integers(0, k + 1, len(now)) for _ in range(2)]
    children = {
        name: pa.table({"ts": times[name], key: np.arange(rounds), "f": random.integers(0, 100, rounds)})
        for name, key in (("S2", "a"), ("S3", "b"))
    }
    return {"S1": pa.table({"ts": times["S1"], "a": now + far[0], "b": now + far[1]}), **children}


def two_parents(k: int, rounds: int, seed: int = 1) -> dict[str, pa.Table]:
    """Figure 6.9(b): S1 → S3 and S2 → S3 at rates 5:5:1; parents come after their child, clusters spread over at most
    k rows of others."""
    random = np.random.default_rng(seed)
    times = interleaved({"S3": 1, "S1": MULTIPLICITY, "S2": MULTIPLICITY}, rounds)
    made = {"S3": pa.table({"ts": times["S3"], "a": np.arange(rounds)})}
    for name in ("S1", "S2"):
        keys = np.repeat(np.arange(rounds), MULTIPLICITY)
        place = np.arange(len(keys)) + random.random(len(keys)) * k
        made[name] = pa.table({"ts": times[name], "a": keys[np.argsort(place, kind="stable")]})
    return made


def filtered(k: int, rounds: int, multiplicity: int, spread: int, seed: int = 1) -> dict[str, pa.Table]:
    """Figure 6.9(c): S1 → S2 with a filter on S2. The first parent comes up to k arrivals of S2 before its child, the
    others within ``spread`` rows of S1 after the first."""
    random = np.random.default_rng(seed)
    times = interleaved({"S2": 1, "S1": multiplicity}, rounds)
    child = np.repeat(np.arange(rounds), multiplicity)
    first = np.repeat(np.arange(rounds) - random.random(rounds) * k, multiplicity)
    later = random.random(len(child)) * spread / multiplicity * (np.arange(len(child)) % multiplicity != 0)
    keys = child[np.argsort(first + later, kind="stable")]
    s2 = pa.table({"ts": times["S2"], "a": np.arange(rounds), "f": random.integers(0, 100, rounds)})
    return {"S1": pa.table({"ts": times["S1"], "a": keys}), "S2": s2}
