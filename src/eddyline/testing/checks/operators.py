"""Checks of operators: the contract of ``operators.base`` and of the deltas that go in and come out (``core.delta``).

An operator is checked on calls that are known: for each call the changes of its inputs, and the frontier. ``record``
takes them from a query that runs, so that an operator needs no inputs written by hand.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from eddyline.core.delta import Delta
from eddyline.core.time import BEGINNING
from eddyline.engine.session import Session
from eddyline.operators.base import Operator
from eddyline.testing.checks.check import Check, named, require, run_all, saved
from eddyline.testing.values import canonical

Call = tuple[Sequence[Delta], int]  # the changes of each input, and the frontier
Net = Counter[tuple[Any, ...]]

SEEDS = 3  # random ways to cut the calls
RESTORED_SHARE = 0.3  # of the calls after which an operator is exchanged for one that has loaded its state


@dataclass(frozen=True, slots=True)
class OperatorExample:
    """``make`` builds a new operator that has processed nothing; ``calls`` are what it is to process, in order."""

    name: str
    make: Callable[[], Operator]
    calls: Sequence[Call]
    operator: type[Operator]


@dataclass(frozen=True, slots=True)
class QueryExample:
    """A query whose operators are checked. Streams have a column ``ts``; relations are constant."""

    text: str
    streams: Mapping[str, pa.Table]
    relations: Mapping[str, pa.Table] = field(default_factory=dict)
    functions: Mapping[str, Callable[..., Any]] = field(default_factory=dict)
    options: Mapping[str, Any] = field(default_factory=dict)

    def start(self) -> tuple[Session, Any]:
        session = Session()
        for name, table in self.streams.items():
            session.stream(name, schema=table.schema, timestamp="ts")
        for name, table in self.relations.items():
            session.relation(name, table)
        for name, function in self.functions.items():
            session.function(name, function)
        return session, session.query(self.text, **self.options)


def record(example: QueryExample, batch: int = 7) -> list[OperatorExample]:
    """Run the query with batches of so many rows, and take down what each of its operators is called with."""
    session, query = example.start()
    operators = [n.operator for n in query.running.physical.nodes if n.operator is not None]
    calls: dict[str, list[Call]] = {o.name: [] for o in operators}
    starts: dict[str, int | None] = {}
    context = query.running.physical.context
    for operator in operators:
        _listen(operator, calls[operator.name], starts, context)
    longest = max((t.num_rows for t in example.streams.values()), default=0)
    for begin in range(0, longest, batch):
        for name, table in example.streams.items():
            part = table.slice(begin, batch)
            if part.num_rows:
                session.push(name, part)
    session.finish()
    query.fetch()

    def again(name: str) -> Operator:
        _, fresh = example.start()
        fresh.running.physical.context.start = starts.get(name)
        found: Operator = next(n.operator for n in fresh.running.physical.nodes if _named(n.operator, name))
        return found

    return [
        OperatorExample(f"{o.name} of {example.text}", partial(again, o.name), calls[o.name], type(o))
        for o in operators
        if calls[o.name]
    ]


def _named(operator: Any, name: str) -> bool:
    return operator is not None and operator.name == name


def _listen(operator: Any, calls: list[Call], starts: dict[str, int | None], context: Any) -> None:
    process = operator.process

    def listening(deltas: Sequence[Delta], frontier: int) -> Delta:
        starts.setdefault(operator.name, context.start)
        calls.append((tuple(deltas), frontier))
        made: Delta = process(deltas, frontier)
        return made

    operator.process = listening


def operator_checks(example: OperatorExample) -> Iterator[Check]:
    """The checks of an operator. What several of them look at is run once."""
    runs = Runs(example)
    yield from named(
        "operator",
        example.name,
        [
            ("times lie between the frontiers", partial(_times, runs)),
            ("batch boundaries do not matter", partial(_boundaries, runs)),
            ("state and load go on identically", partial(_restored, runs)),
            ("calls without changes", partial(_quiet, runs)),
            ("multiplicities and ids are those of a relation", partial(_relation, runs)),
            ("rows and bytes are accounted", partial(_size, example)),
        ],
    )


def check_operator(name: str, make: Callable[[], Operator], calls: Sequence[Call]) -> int:
    """Check an operator on calls of one's own; how many checks there were. The first that fails raises."""
    return run_all(operator_checks(OperatorExample(name, make, calls, type(make()))))


# ── cutting calls ─────────────────────────────────────────────────────────────────────────────────────────────────────


def whole(calls: Sequence[Call]) -> list[Delta]:
    """All changes of each input."""
    found = []
    for i in range(len(calls[0][0])):
        parts = [deltas[i] for deltas, _ in calls]
        full = [p for p in parts if len(p)]
        found.append(Delta.concat(full) if full else parts[0])
    return found


def cut(calls: Sequence[Call], frontiers: Sequence[int]) -> Iterator[Call]:
    """The same changes, with other frontiers; the last must be that of the calls."""
    inputs = whole(calls)
    done = [0] * len(inputs)
    for frontier in frontiers:
        ends = [int(np.searchsorted(d.time, frontier, side="right")) for d in inputs]
        yield [d.slice(a, b) for d, a, b in zip(inputs, done, ends, strict=True)], frontier
        done = ends


def instants(calls: Sequence[Call]) -> list[int]:
    """Every instant at which something changes, and every frontier."""
    times = {int(t) for d in whole(calls) for t in d.time}
    return sorted(times | {frontier for _, frontier in calls})


def cuts(calls: Sequence[Call]) -> Iterator[tuple[str, list[int]]]:
    every, last = instants(calls), calls[-1][1]
    yield "one call", [last]
    yield "a call for each instant", every
    for seed in range(SEEDS):
        rng = random.Random(seed)
        yield f"random cut {seed}", sorted({*rng.sample(every, rng.randint(0, len(every))), last})


# ── what comes out ────────────────────────────────────────────────────────────────────────────────────────────────────


def net(parts: Sequence[Delta]) -> Net:
    """The changes by instant and value; what comes and goes within an instant is not there."""
    found: Net = Counter()
    for part in parts:
        columns = [part.columns[n].to_pylist() for n in sorted(part.columns)]
        for row, (time, weight) in enumerate(zip(part.time.tolist(), part.weights.tolist(), strict=True)):
            found[(time, *(repr(canonical(c[row])) for c in columns))] += weight
    return Counter({k: v for k, v in found.items() if v})


def run(operator: Operator, calls: Sequence[Call]) -> list[Delta]:
    return [operator.process(deltas, frontier) for deltas, frontier in calls]


@dataclass(frozen=True, slots=True)
class Cut:
    """What came of the calls cut in one way: for each call its frontier, up to where the output was complete then, and
    the output. ``error`` ended it."""

    name: str
    frontiers: list[int]
    reached: list[int]
    made: list[Delta]
    error: Exception | None


class Runs:
    """The runs of an example that more than one check looks at, each made when it is first asked for."""

    def __init__(self, example: OperatorExample) -> None:
        self.example = example
        self._plain: list[Delta] | None = None
        self._cuts: list[Cut] | None = None

    @property
    def plain(self) -> list[Delta]:
        """What came of the calls as they are."""
        if self._plain is None:
            self._plain = run(self.example.make(), self.example.calls)
        return self._plain

    @property
    def cuts(self) -> list[Cut]:
        if self._cuts is None:
            self._cuts = [self._cut(name, frontiers) for name, frontiers in cuts(self.example.calls)]
        return self._cuts

    def _cut(self, name: str, frontiers: list[int]) -> Cut:
        operator, found = self.example.make(), Cut(name, [], [], [], None)
        try:
            for deltas, frontier in cut(self.example.calls, frontiers):
                made = operator.process(deltas, frontier)
                found.frontiers.append(frontier)
                found.made.append(made)
                found.reached.append(operator.complete_to(frontier))
        except Exception as error:  # each check that looks at this run has failed
            return replace(found, error=error)
        return found


def _difference(a: Net, b: Net) -> str:
    missing, extra = a - b, b - a
    shown = [f"{sum(missing.values())} changes are missing, {sum(extra.values())} are new"]
    shown += [f"for example {next(iter(missing or extra))}"] if missing or extra else []
    return "; ".join(shown)


def _same(want: Net, got: Net, when: str) -> None:
    require(want == got, f"{when} the result differs: {_difference(want, got)}")


# ── the checks ────────────────────────────────────────────────────────────────────────────────────────────────────────


def _times(runs: Runs) -> None:
    for cut in runs.cuts:
        before = BEGINNING
        for frontier, reached, made in zip(cut.frontiers, cut.reached, cut.made, strict=False):
            time = made.time
            require((np.diff(time) >= 0).all(), f"up to {frontier} the times of the output decrease")
            require(reached <= frontier, f"the output is complete up to {reached}, behind the frontier {frontier}")
            inside = not len(time) or (before < time[0] and time[-1] <= reached)
            require(inside, f"the output has times outside ({before}, {reached}]")
            for name, column in made.columns.items():
                require(len(column) == len(time), f"the column {name!r} has {len(column)} rows, not {len(time)}")
            before = reached
        if cut.error is not None:
            raise cut.error


def _boundaries(runs: Runs) -> None:
    want = net(runs.plain)
    for cut in runs.cuts:
        if cut.error is not None:
            raise cut.error
        _same(want, net(cut.made), f"with {cut.name}")


def _restored(runs: Runs) -> None:
    example, want = runs.example, net(runs.plain)
    for seed in range(SEEDS):
        rng = random.Random(seed)
        every = instants(example.calls)
        frontiers = sorted({*rng.sample(every, min(len(every), 8)), example.calls[-1][1]})
        operator, made = example.make(), []
        for i, (deltas, frontier) in enumerate(cut(example.calls, frontiers)):
            made.append(operator.process(deltas, frontier))
            if rng.random() < RESTORED_SHARE or i == 0:
                state = saved(operator.state())
                operator = example.make()
                operator.load(state)
        _same(want, net(made), "restored now and then,")


def _quiet(runs: Runs) -> None:
    """Time that passes without changes changes nothing that is not due at that time."""
    example = runs.example
    every = instants(example.calls)
    between = sorted({*every, *(t - 1 for t in every[1:])})
    found = net(run(example.make(), list(cut(example.calls, between))))
    _same(net(runs.plain), found, "with calls in which nothing comes,")


def _relation(runs: Runs) -> None:
    counts: Net = Counter()
    living: Counter[int] = Counter()
    instant = None
    for part in runs.plain:
        columns = [part.columns[n].to_pylist() for n in sorted(part.columns)]
        ids = None if part.ids is None else part.ids.tolist()
        for row, (time, weight) in enumerate(zip(part.time.tolist(), part.weights.tolist(), strict=True)):
            if time != instant:
                _not_negative(counts, instant)
                instant = time
            counts[tuple(repr(canonical(c[row])) for c in columns)] += weight
            if ids is not None:
                require(weight > 0 or living[ids[row]] > 0, f"at {time} a row leaves whose id never came: {ids[row]}")
                living[ids[row]] += weight
        _not_negative(counts, instant)


def _not_negative(counts: Net, instant: int | None) -> None:
    below = [value for value, count in counts.items() if count < 0]
    require(not below, f"at {instant} rows leave that never came, for example {below[:1]}")


def _size(example: OperatorExample) -> None:
    operator = example.make()
    for deltas, frontier in example.calls:
        operator.process(deltas, frontier)
        rows, size = operator.size()
        require(rows >= 0 and size >= 0, f"its size is {rows} rows and {size} bytes")
        # Rows without columns that are read (count(*)) take no bytes.
        require(rows == 0 or size > 0 or not operator.schema.names, f"it keeps {rows} rows in 0 bytes")
        most = operator.most_rows(rows)
        require(most >= rows, f"it has {rows} rows, and had {most} at most")
    restored = example.make()
    restored.load(saved(operator.state()))
    require(
        restored.size()[0] == operator.size()[0],
        f"restored it has {restored.size()[0]} rows of state instead of {operator.size()[0]}",
    )
