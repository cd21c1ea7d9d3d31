"""The input manager against a naive model, row by row; then its edges one by one."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass, field, replace
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eddyline.core.catalog import StreamDef
from eddyline.core.errors import DataError, EddylineError, JobError
from eddyline.core.schema import Schema
from eddyline.core.time import BEGINNING, NEVER, TimeKind
from eddyline.engine.closing import frontier, start
from eddyline.engine.input_manager import InputStream, StreamReader
from eddyline.engine.side_output import Diverted
from eddyline.testing.clock import ManualClock

ARROW = pa.schema([("ts", pa.int64()), ("n", pa.int64()), ("text", pa.string())])
SCHEMA = Schema.from_arrow(ARROW)
INTEGER = StreamDef("S", SCHEMA, TimeKind.INTEGER, "ts")


def batch(*rows: tuple[int | None, int]) -> pa.RecordBatch:
    """Rows (ts, n); the text column repeats n."""
    return pa.RecordBatch.from_pydict(
        {"ts": [r[0] for r in rows], "n": [r[1] for r in rows], "text": [str(r[1]) for r in rows]}, schema=ARROW
    )


def stream(slack: int = 0, clock: ManualClock | None = None, idle: int | None = None, **options: object) -> InputStream:
    return InputStream(replace(INTEGER, slack=slack, idle=idle), clock or ManualClock(), **options)  # type: ignore[arg-type]


def taken(reader: StreamReader, up_to: int) -> list[tuple[int, int]]:
    delta = reader.take(up_to)
    assert delta.weight is None
    assert all(len(c) == len(delta) for c in delta.columns.values())
    if "text" in delta.columns:
        assert delta.columns["text"].to_pylist() == [str(n) for n in delta.columns["n"].to_pylist()]
    return list(zip(delta.time.tolist(), delta.columns["n"].to_pylist(), strict=True))


@dataclass
class Model:
    """The rules, one row at a time."""

    slack: int
    shown: int | None = None
    on_time: list[tuple[int, int]] = field(default_factory=list)
    late: list[int] = field(default_factory=list)
    invalid: list[int] = field(default_factory=list)

    def row(self, ts: int | None, n: int) -> None:
        if ts is None:
            self.invalid.append(n)
        elif self.shown is not None and ts < self.shown - self.slack:
            self.late.append(n)
        else:
            self.on_time.append((ts, n))
            self.show(ts)

    def show(self, ts: int) -> None:
        self.shown = ts if self.shown is None else max(self.shown, ts)

    @property
    def closed(self) -> int | None:
        return None if self.shown is None else self.shown - self.slack - 1


EVENTS = st.lists(
    st.one_of(
        st.tuples(st.just("rows"), st.lists(st.one_of(st.integers(-20, 40), st.none()), max_size=12)),
        st.tuples(st.just("drift"), st.integers(0, 30)),  # time goes on
        st.tuples(st.just("heartbeat"), st.integers(0, 10)),
        st.tuples(st.just("take"), st.integers(0, 5)),
    ),
    max_size=25,
)


@settings(max_examples=300, deadline=None)
@given(EVENTS, st.integers(0, 25))
def test_any_disorder_any_batches_equal_the_model(events: list[tuple[str, object]], slack: int) -> None:
    s, model = stream(slack), Model(slack)
    handed: list[Diverted] = []
    s.late.subscribers.append(handed.append)
    readers = [s.reader(["n"]), s.reader(["text", "n"], name="second")]
    got: list[list[tuple[int, int]]] = [[], []]
    n, base = 0, 0
    for kind, value in events:
        if kind == "rows":
            assert isinstance(value, list)
            rows = [(None if t is None else base + t, n + i) for i, t in enumerate(value)]
            n += len(rows)
            s.accept(batch(*rows))
            for ts, number in rows:
                model.row(ts, number)
        elif kind == "drift":
            base += value  # type: ignore[operator]
        elif kind == "heartbeat":
            s.heartbeat(base + value)  # type: ignore[operator]
            model.show(base + value)  # type: ignore[operator]
        else:
            closed = frontier([s])
            assert closed == model.closed
            if closed is not None:
                # The second reader lags behind, as a query with a slower second stream would.
                got[0] += taken(readers[0], closed)
                got[1] += taken(readers[1], closed - value)  # type: ignore[operator]
    s.finish()
    assert s.bound == NEVER
    for r, rows in zip(readers, got, strict=True):
        rows += taken(r, NEVER - 1)
        assert rows == sorted(model.on_time, key=lambda e: e[0])
    assert s.late.count == len(model.late)
    assert [row["n"] for row in s.late.to_pylist()] == model.late
    assert [n for p in handed for n in p.rows["n"].to_pylist()] == model.late
    assert all(a <= b for a, b in pairwise(int(t) for p in handed for t in p.at))
    assert [row["n"] for row in s.invalid.to_pylist()] == model.invalid
    times = [t for t, _ in model.on_time]
    assert (s.first_time, s.last_time) == ((min(times), max(times)) if times else (None, None))
    assert s.arrived == n
    assert s.accepted == len(times)
    assert s.buffered == 0


@settings(max_examples=100, deadline=None)
@given(EVENTS, st.integers(0, 25), st.integers(0, 24))
def test_a_snapshot_anywhere_changes_nothing(events: list[tuple[str, object]], slack: int, where: int) -> None:
    def go(cut: int | None) -> tuple[list[tuple[int, int]], int, int]:
        s = stream(slack)
        readers = [s.reader(["n"]), s.reader(["n", "text"])]
        out: list[tuple[int, int]] = []
        n, base = 0, 0
        for i, (kind, value) in enumerate(events):
            if i == cut:
                state = s.state()
                s = stream(slack)
                readers = [s.reader(["n"]), s.reader(["n", "text"])]
                s.load(state)
            if kind == "rows":
                assert isinstance(value, list)
                s.accept(batch(*((None if t is None else base + t, n + j) for j, t in enumerate(value))))
                n += len(value)
            elif kind == "drift":
                base += value  # type: ignore[operator]
            elif kind == "heartbeat":
                s.heartbeat(base + value)  # type: ignore[operator]
            elif (closed := frontier([s])) is not None:
                taken(readers[0], closed)
                out += taken(readers[1], closed - value)  # type: ignore[operator]
        s.finish()
        return out + taken(readers[1], NEVER - 1), s.late.count, s.invalid.count

    assert go(where) == go(None)


def test_what_is_late_does_not_depend_on_batches() -> None:
    rows = [(10, 0), (4, 1), (12, 2), (9, 3), (8, 4)]
    whole, single = stream(3), stream(3)
    whole.accept(batch(*rows))
    for r in rows:
        single.accept(batch(r))
    assert [r["n"] for r in whole.late.to_pylist()] == [r["n"] for r in single.late.to_pylist()] == [1, 4]
    assert "slack" in whole.late.to_pylist()[0]["_reason"]


def test_data_in_order_are_not_copied() -> None:
    s = stream()
    reader = s.reader(["n"])
    given = batch(*((t, t) for t in range(100)))
    s.accept(given)
    delta = reader.take(50)
    assert delta.columns["n"].buffers()[1].address == given.column(1).buffers()[1].address
    assert np.shares_memory(delta.time, given.column(0).to_numpy())


def test_a_later_reader_sees_only_later_elements_and_may_need_other_columns() -> None:
    s = stream(slack=10)
    early = s.reader(["n"])
    s.accept(batch((5, 0), (3, 1)))
    late = s.reader(["text"])
    s.accept(batch((4, 2), (30, 3)))
    assert taken(early, 19) == [(3, 1), (4, 2), (5, 0)]
    delta = late.take(19)
    assert (delta.time.tolist(), delta.columns["text"].to_pylist()) == ([4], ["2"])
    s.finish()
    assert late.take(30).columns["text"].to_pylist() == ["3"]


def test_memory_is_released_when_all_readers_have_passed() -> None:
    s = stream()
    fast, slow = s.reader(["n"]), s.reader(["n"])
    s.accept(batch(*((t, t) for t in range(10))))
    taken(fast, 8)
    assert s.buffered == 10  # nine for the slow reader, and the instant that is still open
    taken(slow, 8)
    assert s.buffered == 1
    slow.close()
    fast.close()
    assert s.buffered == 0
    s.accept(batch((11, 11)))
    assert s.buffered == 0


def test_heartbeats_close_instants_and_make_stragglers_late() -> None:
    s = stream(slack=2)
    reader = s.reader(["n"])
    s.heartbeat(10)
    assert frontier([s]) == 7
    s.accept(batch((8, 0), (7, 1)))
    assert s.late.count == 1
    assert (s.first_time, s.last_time) == (8, 8)
    s.finish()
    assert frontier([s]) == 8
    assert taken(reader, 8) == [(8, 0)]


def test_an_idle_stream_stops_holding_others_back_until_it_speaks() -> None:
    clock = ManualClock()
    quiet, busy = stream(clock=clock, idle=5_000_000), stream(clock=clock)
    reader = quiet.reader(["n"])
    quiet.accept(batch((10, 0)))
    busy.accept(batch((10, 0), (40, 1)))
    assert frontier([quiet, busy]) == 9
    clock.advance(seconds=4.9)
    quiet.tick()
    assert frontier([quiet, busy]) == 9
    clock.advance(seconds=0.1)
    quiet.tick()
    assert quiet.idle
    assert quiet.bound == NEVER
    reached = frontier([quiet, busy])
    assert reached == 39
    assert taken(reader, reached) == [(10, 0)]

    quiet.accept(batch((20, 1), (39, 2), (40, 3)))  # it speaks again, behind what was closed meanwhile
    assert not quiet.idle
    assert [(r["n"], "idle" in r["_reason"]) for r in quiet.late.to_pylist()] == [(1, True), (2, True)]
    assert frontier([quiet, busy], reached) == 39
    busy.accept(batch((60, 2)))
    assert frontier([quiet, busy], reached) == 39
    quiet.accept(batch((41, 4)))
    assert frontier([quiet, busy], reached) == 40
    assert taken(reader, 40) == [(40, 3)]


def test_a_frontier_does_not_go_back_when_an_idle_stream_wakes_with_old_news() -> None:
    clock = ManualClock()
    quiet, busy = stream(clock=clock, idle=1), stream(clock=clock)
    reader = quiet.reader()
    busy.accept(batch((40, 1)))
    clock.advance(1)
    quiet.tick()
    reached = frontier([quiet, busy])
    assert reached == 39
    reader.take(reached)
    quiet.accept(batch((5, 0)))
    assert quiet.late.count == 1
    assert quiet.bound == 40
    assert frontier([quiet, busy]) == 39


def test_all_idle_closes_what_was_shown() -> None:
    clock = ManualClock()
    s = stream(slack=5, clock=clock, idle=10)
    reader = s.reader(["n"])
    s.accept(batch((7, 0), (4, 1)))
    clock.advance(10)
    s.tick()
    assert frontier([s]) == 7
    assert taken(reader, 7) == [(4, 1), (7, 0)]


def test_closing_of_several_streams() -> None:
    a, b = stream(slack=3), stream()
    assert frontier([a, b]) is None
    a.accept(batch((10, 0)))
    assert frontier([a, b]) is None  # b was never heard of
    b.accept(batch((100, 0)))
    assert frontier([a, b]) == 6
    assert start([a, b], 6) is None  # 7, 8 and 9 may still come
    a.finish()
    assert frontier([a, b]) == 99
    assert start([a, b], 99) == 10
    b.finish()
    assert frontier([a, b]) == 100  # the end of time is the last timestamp, not NEVER
    assert frontier([a]) == 10


def test_another_querys_end_of_time_is_not_mine() -> None:
    a, b = stream(), stream()
    wide, narrow = a.reader(["n"]), a.reader(["n"])
    for s, t in ((a, 10), (b, 500)):
        s.accept(batch((t, 0)))
        s.finish()
    taken(wide, frontier([a, b]) or 0)
    assert frontier([a]) == 10
    assert taken(narrow, 10) == [(10, 0)]


def test_an_empty_input_ends_without_time() -> None:
    s = stream()
    reader = s.reader()
    s.accept(batch())
    s.finish()
    assert (frontier([s]), start([s], None), s.bound) == (None, None, NEVER)
    assert len(reader.take(0)) == 0
    with pytest.raises(EddylineError, match="ended"):
        s.accept(batch((1, 1)))


def test_stamped_on_arrival_and_never_backwards() -> None:
    clock = ManualClock(100)
    schema = Schema.from_arrow(pa.schema([("n", pa.int64())]))
    s = InputStream(StreamDef("S", schema, TimeKind.TIMESTAMP, None, slack=1000), clock)
    reader = s.reader()
    s.accept(pa.RecordBatch.from_pydict({"n": [1, 2]}))
    assert frontier([s]) == 99  # slack means nothing here
    s.accept(pa.RecordBatch.from_pydict({"n": [3]}), arrival_time=90)  # a clock set back
    clock.advance(50)
    s.tick()
    assert frontier([s]) == 149
    assert reader.take(149).time.tolist() == [100, 100, 100]
    assert s.late.count == 0
    assert s.last_time == 100


@pytest.mark.parametrize(
    ("kind", "values", "ticks"),
    [
        (pa.int32(), [1, -2], [1, -2]),
        (pa.uint64(), [5, 2], [5, 2]),
        (pa.timestamp("s"), [1, 2], [1_000_000, 2_000_000]),
        (pa.timestamp("ms"), [1, -1], [1000, -1000]),
        (pa.timestamp("us", "Europe/Berlin"), [7, 8], [7, 8]),
        (pa.timestamp("ns"), [1999, -1], [1, -1]),
        (pa.date32(), [1, 0], [86_400_000_000, 0]),
        (pa.date64(), [86_400_000], [86_400_000_000]),
    ],
)
def test_every_kind_of_time_becomes_ticks(kind: pa.DataType, values: list[int], ticks: list[int]) -> None:
    column = pa.array(values, kind if pa.types.is_integer(kind) else pa.int64())
    if not pa.types.is_integer(kind):
        column = column.cast(pa.int32()).view(kind) if pa.types.is_date32(kind) else column.view(kind)
    schema = Schema.from_arrow(pa.schema([("ts", kind)]))
    time_kind = TimeKind.INTEGER if pa.types.is_integer(kind) else TimeKind.TIMESTAMP
    s = InputStream(StreamDef("S", schema, time_kind, "ts", slack=1 << 61), ManualClock())
    reader = s.reader()
    s.accept(pa.RecordBatch.from_arrays([column], names=["ts"]))
    s.finish()
    assert reader.take(NEVER - 1).time.tolist() == sorted(ticks)


def test_values_are_read_as_declared_and_those_that_cannot_be_are_invalid() -> None:
    s = stream()
    reader = s.reader()
    s.accept(
        pa.RecordBatch.from_pydict(
            {"ts": ["1", "2", "x", None, "5"], "n": ["1", "y", "3", "4", "5"], "text": [1, 2, 3, 4, 5]}
        )
    )
    s.finish()
    assert taken(reader, 5) == [(1, 1), (5, 5)]
    rows = s.invalid.to_pylist()
    assert [r["text"] for r in rows] == [2, 3, 4]  # as they came
    assert "'n'" in rows[0]["_reason"]
    assert "'y'" in rows[0]["_reason"]
    assert "'ts'" in rows[1]["_reason"]
    assert "NULL" in rows[2]["_reason"]
    assert (s.arrived, s.accepted, s.invalid.count) == (5, 2, 3)


def test_a_timestamp_out_of_range_is_invalid() -> None:
    s = stream(slack=1 << 70)
    reader = s.reader(["n"])
    s.accept(batch((3, 0), (NEVER, 1), (BEGINNING, 2), (1, 3)))
    s.accept(batch((NEVER, 4)))
    s.finish()
    assert taken(reader, NEVER - 1) == [(1, 3), (3, 0)]
    assert s.invalid.count == 3


def test_strict_names_the_first_invalid_row() -> None:
    s = stream(strict=True)
    s.accept(batch((1, 1), (2, 2)))
    with pytest.raises(DataError, match=r"row 4 of 'S'.*NULL"):
        s.accept(batch((3, 3), (None, 4), (None, 5)))
    with pytest.raises(DataError, match="2 fields instead of 3"):
        s.reject(["1,2"], ["line 7: 2 fields instead of 3"])


def test_rejected_text_is_kept_with_its_reason() -> None:
    s = stream()
    s.reject(["1,2"], ["line 7: 2 fields instead of 3"])
    assert s.invalid.to_pylist() == [{"_row": "1,2", "_reason": "line 7: 2 fields instead of 3", "_at": 0}]
    assert s.arrived == 1


def test_side_outputs_are_bounded_but_counted_exactly() -> None:
    s = stream(keep=10)
    s.accept(batch((1000, 0)))
    for i in range(5):
        s.accept(batch(*((i, 7 * i + j) for j in range(7))))
    assert s.late.count == 35
    assert [r["n"] for r in s.late.to_pylist()] == list(range(25, 35))


def test_mistakes_in_the_timestamp_name_the_column_and_the_remedy() -> None:
    clock = ManualClock()
    with pytest.raises(JobError, match=r"no column 'tss'.*Did you mean 'ts'\?"):
        InputStream(replace(INTEGER, timestamp="tss"), clock)
    with pytest.raises(JobError, match=r"'text' of 'S' has type string.*Columns that could serve: ts, n"):
        InputStream(replace(INTEGER, timestamp="text"), clock)
    with pytest.raises(JobError, match=r"declared as a timestamp"):
        InputStream(replace(INTEGER, time_kind=TimeKind.TIMESTAMP), clock)
    s = InputStream(INTEGER, clock)
    with pytest.raises(JobError, match=r"no timestamp column 'ts'.*They have: n, ts_"):
        s.accept(pa.RecordBatch.from_pydict({"n": [1], "ts_": [1]}))
    with pytest.raises(JobError, match=r"no column 'm'"):
        s.reader(["m"])


def test_data_of_an_impossible_type_are_a_mistake_of_the_job() -> None:
    s = stream()
    with pytest.raises(JobError, match=r"'n' of 'S' is declared as int64, but its data are list"):
        s.accept(pa.RecordBatch.from_pydict({"ts": [1], "n": [[1]], "text": ["a"]}))
    s.reader(["n"])
    with pytest.raises(JobError, match=r"no column 'n'"):
        s.accept(pa.RecordBatch.from_pydict({"ts": [1]}))


def test_columns_match_whatever_their_case_and_order() -> None:
    s = stream()
    reader = s.reader(["text", "n"])
    s.accept(pa.RecordBatch.from_pydict({"N": [4], "extra": [0], "Text": ["4"], "TS": [1]}))
    s.accept(batch((2, 5)))
    s.finish()
    assert taken(reader, 2) == [(1, 4), (2, 5)]


def test_dictionaries_stay_dictionaries_and_mix_with_plain_text() -> None:
    definition = replace(INTEGER, slack=5)
    s = InputStream(definition, ManualClock())
    reader = s.reader(["text"])
    coded = pa.array(["a", "b"]).dictionary_encode()
    s.accept(pa.RecordBatch.from_arrays([pa.array([4, 2]), pa.array([0, 0]), coded], names=ARROW.names))
    other = pa.array(["c", "a"]).dictionary_encode()
    s.accept(pa.RecordBatch.from_arrays([pa.array([3, 9]), pa.array([0, 0]), other], names=ARROW.names))
    delta = reader.take(3)
    assert pa.types.is_dictionary(delta.columns["text"].type)
    assert delta.columns["text"].to_pylist() == ["b", "c"]
    s.accept(batch((8, 1)))
    s.finish()
    assert reader.take(9).columns["text"].to_pylist() == ["a", "1", "a"]


def test_no_columns_at_all_still_counts_elements() -> None:
    s = stream(slack=9)
    reader = s.reader([])
    s.accept(batch((3, 0), (2, 0)))
    s.accept(batch((1, 0)))
    s.finish()
    delta = reader.take(3)
    assert (delta.time.tolist(), dict(delta.columns)) == ([1, 2, 3], {})


def test_many_small_batches_with_much_slack_keep_few_runs() -> None:
    s = stream(slack=1 << 40)
    reader = s.reader(["n"])
    rng = np.random.default_rng(3)
    times = rng.integers(0, 10_000, 3000)
    for i, t in enumerate(times.tolist()):
        s.accept(batch((t, i)))
    assert len(s._buffer._runs) <= 32
    s.finish()
    order = np.argsort(times, kind="stable")
    assert taken(reader, 10_000) == [(int(times[i]), int(i)) for i in order]


def test_timestamps_as_text_are_read_when_declared() -> None:
    schema = Schema.from_arrow(pa.schema([("ts", pa.timestamp("us"))]))
    s = InputStream(StreamDef("S", schema, TimeKind.TIMESTAMP, "ts"), ManualClock())
    reader = s.reader()
    s.accept(pa.RecordBatch.from_pydict({"ts": ["2024-01-01 00:00:01", "soon"]}))
    s.finish()
    expected = dt.datetime(2024, 1, 1, 0, 0, 1, tzinfo=dt.UTC)
    assert reader.take(NEVER - 1).time.tolist() == [int(expected.timestamp()) * 1_000_000]
    assert s.invalid.count == 1
