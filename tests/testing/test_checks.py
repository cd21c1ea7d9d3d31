"""Everything that is registered keeps its contract, and the checks catch what does not."""

from __future__ import annotations

import importlib
import inspect
import itertools
import pkgutil
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pytest

import eddyline.operators
from eddyline.adaptive.filters.base import OrderingPolicy
from eddyline.adaptive.filters.pipeline import Pipeline
from eddyline.core.delta import Bools, Delta, Float64s, Int64s
from eddyline.core.errors import JobError
from eddyline.core.schema import Field, Schema
from eddyline.engine import scheduler
from eddyline.io.memory import memory_source
from eddyline.io.sinks import open_sink
from eddyline.io.source import BATCH_ROWS, SourceBatch
from eddyline.operators.base import Operator
from eddyline.streamon.decision import Decision
from eddyline.streamon.parameters import P
from eddyline.streamon.strategies import KINDS, strategies
from eddyline.testing import checks
from eddyline.testing.checks import CheckFailed, all_checks, check_operator, check_policy, check_sink, check_source
from eddyline.testing.checks.io_examples import rows
from eddyline.testing.checks.operator_examples import operator_examples
from eddyline.testing.checks.operators import Call
from eddyline.testing.checks.synopses import Row, check_synopsis
from eddyline.testing.checks.synopsis_examples import InStub, InTail

pytestmark = pytest.mark.filterwarnings("ignore::eddyline.core.errors.DivertedRowsWarning")


@pytest.mark.parametrize("check", list(all_checks("policy", "synopsis", "source", "sink")), ids=str)
def test_what_is_registered(check: checks.Check) -> None:
    check()


@pytest.mark.parametrize("place", range(4))
def test_operators(place: int) -> None:
    """In four parts: the examples are recorded from queries that run, which is not done while tests are collected. The
    checks of an operator stay together, because they share its runs."""
    operators = [list(mine) for _, mine in itertools.groupby(all_checks("operator"), key=lambda check: check.subject)]
    assert sum(map(len, operators)) > 320
    for check in itertools.chain(*operators[place::4]):
        check()


def test_every_operator_class_has_an_example() -> None:
    """An operator that no example query uses would be checked by nobody."""
    for module in pkgutil.iter_modules(eddyline.operators.__path__):
        importlib.import_module(f"eddyline.operators.{module.name}")
    seen = Counter(o for e in operator_examples() for o in _around(e.make()))
    concrete = {c for c in _subclasses(Operator) if not inspect.isabstract(c) and c.__module__.startswith("eddyline.")}
    assert {c.__name__ for c in concrete - seen.keys() if not c.__subclasses__()} == set()


def _around(operator: Any) -> Iterator[type]:
    while operator is not None:
        yield type(operator)
        operator = getattr(operator, "inner", None)


def _subclasses(base: type) -> Iterator[type]:
    for c in base.__subclasses__():
        yield c
        yield from _subclasses(c)


def test_every_registered_strategy_is_checked() -> None:
    names = {(c.kind, c.subject) for c in all_checks("policy")}
    assert names == {(f"{kind} policy", name) for kind in KINDS for name in strategies(kind)}
    with pytest.raises(ValueError, match="not of 'operators'"):
        list(all_checks("operators"))


def test_what_users_register_is_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checks, "_REGISTERED", [])
    table = pa.table({"ts": [1, 2, 3]})
    checks.register(checks.SourceExample("mine", lambda: memory_source(table), "ts"))
    text = "SELECT count(*) AS n FROM Q [RANGE 2]"
    checks.register(checks.QueryExample(text, {"Q": table}))
    assert sum(c.subject == "mine" for c in all_checks("source")) == 7
    assert sum(c.subject.endswith(text) for c in all_checks("operator")) >= 12
    assert checks.check_query(checks.QueryExample(text, {"Q": table})) >= 12


# ── broken policies ───────────────────────────────────────────────────────────────────────────────────────────────────


class Broken(OrderingPolicy):
    """Turns the order round every thousand rows."""

    name: ClassVar[str] = "broken"

    def __init__(self, pipeline: Pipeline) -> None:
        super().__init__(pipeline)
        self.rows = 0

    def turned(self) -> tuple[int, ...]:
        walls = self.pipeline.segments
        return tuple(sorted(self.order, key=lambda f: (walls[f], -self.order.index(f))))

    def processed(self, rows_in: Int64s, rows_out: Int64s, seconds: Float64s) -> None:
        self.rows += int(rows_in.max())

    def due(self) -> bool:
        return self.rows == 1000

    def gain(self) -> float | None:
        return None

    def decide(self, now: int | None = None) -> Decision | None:
        before, after = self.order, self.turned()
        if not self.due() or before == after:
            return None
        self.order = after
        return Decision(
            "filter order", before, after, "{rows} rows", {"rows": self.rows}, time=now, expected_gain=self.gain(),
            operator=self.pipeline.operator,
        )  # fmt: skip

    def state(self) -> dict[str, Any]:
        return {**super().state(), "rows": self.rows}

    def load(self, state: Mapping[str, Any]) -> None:
        super().load(state)
        self.rows = int(state["rows"])


class ForgetsItsState(Broken):
    """Does not save its count."""

    def state(self) -> dict[str, Any]:
        return OrderingPolicy.state(self)

    def load(self, state: Mapping[str, Any]) -> None:
        OrderingPolicy.load(self, state)


class CrossesWalls(Broken):
    """Moves pinned filters."""

    def turned(self) -> tuple[int, ...]:
        return self.order[::-1]


class NeverSettles(Broken):
    """Turns the order round again and again."""

    def due(self) -> bool:
        return self.rows > 0 and self.rows % 1000 == 0


class PromisesTooMuch(Broken):
    """Promises a gain where there is none."""

    def gain(self) -> float:
        return 1.5


class HidesADecision(Broken):
    """Changes the order and says nothing."""

    def decide(self, now: int | None = None) -> Decision | None:
        super().decide(now)
        return None


class Grows(Broken):
    """Remembers every batch."""

    def __init__(self, pipeline: Pipeline) -> None:
        super().__init__(pipeline)
        self.batches: list[int] = []

    def processed(self, rows_in: Int64s, rows_out: Int64s, seconds: Float64s) -> None:
        self.batches.append(self.rows)
        super().processed(rows_in, rows_out, seconds)

    def state(self) -> dict[str, Any]:
        return {**super().state(), "batches": list(self.batches)}

    def load(self, state: Mapping[str, Any]) -> None:
        super().load(state)
        self.batches = list(state["batches"])


class ThrowsDice(Broken):
    """Decides at random, without a seed."""

    def due(self) -> bool:
        return bool(np.random.default_rng().random() < 0.2)


class ProfilesAlways(Broken):
    """Profiles where nothing can move."""

    @property
    def reach(self) -> Bools:
        return np.triu(np.ones((self.pipeline.filters, self.pipeline.filters), np.bool_), 1)

    def wants_profile(self, count: int) -> Int64s:
        return np.arange(count)


class AcceptsAnything(Broken):
    """Has a parameter that does not say what it trades."""

    parameters: ClassVar[Any] = (type(P)("p", 0, 1, ""),)

    def __init__(self, pipeline: Pipeline, *, p: float = 2.0) -> None:
        super().__init__(pipeline)


def test_the_policy_without_a_fault_passes() -> None:
    assert check_policy("filters", Broken) == 12 and "broken" not in strategies("filters")


@pytest.mark.parametrize(
    ("policy", "message"),
    [
        (ForgetsItsState, "state and load go on identically: loaded after"),
        (CrossesWalls, "is no permutation within walls"),
        (NeverSettles, "still reorders filters that are equal"),
        (PromisesTooMuch, "promises a gain of 1.5 between filters that are equal"),
        (HidesADecision, "without a decision"),
        (Grows, "the state grew from"),
        (ThrowsDice, "decide"),
        (ProfilesAlways, "profiles where no filter can move"),
        (AcceptsAnything, "must be a number above 0 and at most 1, not 2.0"),
    ],
)
def test_a_broken_policy_is_caught(policy: type[Broken], message: str) -> None:
    with pytest.raises(CheckFailed, match=message):
        check_policy("filters", policy)
    assert "broken" not in strategies("filters")


def test_a_broken_scheduler_is_caught() -> None:
    class Stubborn(scheduler.Fifo):
        """Always the first task of the plan."""

        name = "stubborn"

        def attach(self, tasks: Sequence[Any]) -> None:
            self.first = tasks[0]

        def next(self, ready: Sequence[Any]) -> Any:
            return self.first

    with pytest.raises(CheckFailed, match="'operator 0', which is not ready"):
        check_policy("scheduler", Stubborn)


# ── broken operators ──────────────────────────────────────────────────────────────────────────────────────────────────

SCHEMA = Schema((Field("v", pa.int64()),))


def calls() -> list[Call]:
    found: list[Call] = []
    for t in range(0, 40, 4):
        time = np.array([t, t + 1, t + 1, t + 3])
        found.append(((Delta(time, {"v": pa.array(time % 3)}),), t + 3))
    return found


class RunningCount(Operator):
    """How many elements there were, at each instant with one."""

    def __init__(self) -> None:
        super().__init__("count", SCHEMA)
        self.seen = 0

    def process(self, deltas: Sequence[Delta], frontier: int) -> Delta:
        (delta,) = deltas
        times, counts = np.unique(delta.time, return_counts=True)
        totals = self.seen + np.cumsum(counts)
        self.seen += len(delta)
        return Delta(times, {"v": pa.array(totals)})

    def state(self) -> dict[str, Any]:
        return {"seen": self.seen}

    def load(self, state: dict[str, Any]) -> None:
        self.seen = int(state["seen"])

    def size(self) -> tuple[int, int]:
        return 1, 8


class ByCall(RunningCount):
    """Counts calls, not elements."""

    def process(self, deltas: Sequence[Delta], frontier: int) -> Delta:
        self.seen += 1
        return Delta(np.array([frontier]), {"v": pa.array([self.seen])})


class SavesNothing(RunningCount):
    """Has no state to be saved."""

    def state(self) -> dict[str, Any]:
        return {"seen": 0}


class TooLate(RunningCount):
    """Its results are of the last call."""

    def process(self, deltas: Sequence[Delta], frontier: int) -> Delta:
        made = super().process(deltas, frontier)
        return Delta(made.time - 4, made.columns)


class FailsWithoutRows(RunningCount):
    """Expects something in every call."""

    def process(self, deltas: Sequence[Delta], frontier: int) -> Delta:
        deltas[0].time[0]
        return super().process(deltas, frontier)


class TakesAway(RunningCount):
    """Deletes rows that were never there."""

    def process(self, deltas: Sequence[Delta], frontier: int) -> Delta:
        made = super().process(deltas, frontier)
        return Delta(made.time, made.columns, np.full(len(made), -1))


class KeepsForFree(RunningCount):
    """Rows without bytes."""

    def size(self) -> tuple[int, int]:
        return 3, 0


def test_an_operator_without_a_fault_passes() -> None:
    assert check_operator("running count", RunningCount, calls()) == 6


@pytest.mark.parametrize(
    ("operator", "message"),
    [
        (ByCall, "batch boundaries do not matter: with"),
        (SavesNothing, "restored now and then, the result differs"),
        (TooLate, r"times outside"),
        (FailsWithoutRows, "IndexError"),
        (TakesAway, "rows leave that never came"),
        (KeepsForFree, "3 rows in 0 bytes"),
    ],
)
def test_a_broken_operator_is_caught(operator: type[Operator], message: str) -> None:
    with pytest.raises(CheckFailed, match=message):
        check_operator("broken", operator, calls())  # type: ignore[arg-type]


# ── broken synopses ───────────────────────────────────────────────────────────────────────────────────────────────────


class ForgetsTooMuch(InTail):
    def expire(self, rows: Sequence[Row]) -> None:
        self.tail.forget(min(len(rows) + 1, len(self.tail)))


class LosesItsState(InStub):
    def load(self, state: Any) -> None:
        pass


@pytest.mark.parametrize(("broken", "message"), [(ForgetsTooMuch, "rows instead of"), (LosesItsState, "restored")])
def test_a_broken_synopsis_is_caught(broken: Any, message: str) -> None:
    with pytest.raises(CheckFailed, match=message):
        check_synopsis("broken", broken)


# ── broken sources ────────────────────────────────────────────────────────────────────────────────────────────────────


class Wrapped:
    """A source that passes on what another yields."""

    def __init__(self) -> None:
        self.inner = memory_source(rows())
        self.schema, self.finite = self.inner.schema, True

    def open(self, columns: Sequence[str] | None = None, batch_rows: int = BATCH_ROWS) -> Iterator[SourceBatch]:
        yield from self.inner.open(columns, batch_rows)


class Unbounded(Wrapped):
    def open(self, columns: Sequence[str] | None = None, batch_rows: int = BATCH_ROWS) -> Iterator[SourceBatch]:
        yield from self.inner.open(columns, BATCH_ROWS)


class AllColumns(Wrapped):
    def open(self, columns: Sequence[str] | None = None, batch_rows: int = BATCH_ROWS) -> Iterator[SourceBatch]:
        yield from self.inner.open(None, batch_rows)


class DropsATail(Wrapped):
    def open(self, columns: Sequence[str] | None = None, batch_rows: int = BATCH_ROWS) -> Iterator[SourceBatch]:
        batches = list(self.inner.open(columns, batch_rows))
        yield from batches[: max(1, len(batches) - 1)]


class NeverTheSame(Wrapped):
    opened = 0

    def open(self, columns: Sequence[str] | None = None, batch_rows: int = BATCH_ROWS) -> Iterator[SourceBatch]:
        NeverTheSame.opened += 1
        for batch in self.inner.open(columns, batch_rows):
            yield SourceBatch(batch.rows.slice(NeverTheSame.opened % 2))


class LargeTypes(Wrapped):
    def __init__(self) -> None:
        super().__init__()
        self.schema = pa.schema(
            [pa.field(f.name, pa.large_string() if f.name == "name" else f.type) for f in self.schema]
        )


def test_a_source_without_a_fault_passes() -> None:
    def missing() -> Any:
        raise JobError("there is no such thing: make one.")

    assert check_source("wrapped", Wrapped, timestamp="ts", broken=missing) == 8


@pytest.mark.parametrize(
    ("source", "message"),
    [
        (Unbounded, "a batch has 40 rows, more than 1"),
        (AllColumns, "a batch has the columns"),
        (DropsATail, "with batches of 1 rows it yields other rows"),
        (NeverTheSame, "opened again"),
        (LargeTypes, "has the type large_string"),
    ],
)
def test_a_broken_source_is_caught(source: Any, message: str) -> None:
    with pytest.raises(CheckFailed, match=message):
        check_source("broken", source, timestamp="ts")


def test_an_error_that_is_no_sentence_is_caught() -> None:
    def missing() -> Any:
        raise FileNotFoundError("rows.csv")

    with pytest.raises(CheckFailed, match="raises FileNotFoundError, not an EddylineError"):
        check_source("broken", Wrapped, broken=missing)
    with pytest.raises(CheckFailed, match="raises nothing"):
        check_source("broken", Wrapped, broken=Wrapped)


# ── broken sinks ──────────────────────────────────────────────────────────────────────────────────────────────────────


class Plain:
    """A sink that writes lines straight into its file."""

    def __init__(self, folder: Path, schema: pa.Schema) -> None:
        self.file, self.rows = (folder / "out.jsonl").open("w"), 0

    def write(self, batch: pa.RecordBatch) -> None:
        self.rows += batch.num_rows
        self.file.writelines(f"{row}\n" for row in batch.to_pylist())
        self.file.flush()

    def close(self) -> None:
        self.file.close()

    abort = close

    def __enter__(self) -> Plain:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def test_a_broken_sink_is_caught() -> None:
    def read(folder: Path) -> pa.Table | None:
        path = folder / "out.jsonl"
        if not path.exists():
            return None
        found = [eval(line) for line in path.read_text().splitlines()]
        return pa.Table.from_pylist(
            found, pa.schema([("ts", pa.int64()), ("name", pa.string()), ("value", pa.float64())])
        )

    with pytest.raises(CheckFailed, match="visible before it is closed"):
        check_sink("plain", Plain, read)  # type: ignore[arg-type]

    def deaf(folder: Path, schema: pa.Schema) -> Any:
        sink: Any = open_sink(folder / "out.parquet", schema)
        write, dropped = sink.write, itertools.count()
        sink.write = lambda batch: write(batch.slice(1) if next(dropped) == 0 else batch)
        return sink

    with pytest.raises(CheckFailed, match="it counts 49 rows instead of 50"):
        check_sink("deaf", deaf, read)
