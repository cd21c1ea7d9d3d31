"""``UNIQUE (key) [WITHIN d]``: elements that repeat a key are invalid rows, whatever the batches and restarts."""

from __future__ import annotations

import random
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import eddyline as ed
from eddyline.core.catalog import StreamDef
from eddyline.core.errors import DataError, InvalidRowsWarning, JobError
from eddyline.core.schema import Schema
from eddyline.core.time import BEGINNING, TimeKind
from eddyline.engine import unique_keys
from eddyline.engine.reorder import Chunk
from eddyline.engine.unique_keys import UniqueKeys
from eddyline.testing.cases import Case, draw_case
from eddyline.testing.reference import StreamData, split_repeated
from tests.semantics.engine import Way, mismatch, run_engine
from tests.shards.shards import check as check_shards
from tests.shards.test_shards import draw_way

TS_ID = pa.schema([("ts", pa.int64()), ("id", pa.int64())])


@pytest.fixture(autouse=True)
def quiet() -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", InvalidRowsWarning)
        yield


def keyed(seed: str, within: bool | None = None) -> Case:
    """A random case in which an element repeats a key."""
    for i in range(1000):
        case = draw_case(random.Random(f"{seed}/{i}"))
        found = [d for d in case.streams.values() if d.unique]
        if found and (within is None or any((d.within is not None) == within for d in found)):
            repeated = [split_repeated([e for e in d.elements if e[0] is not None], d.unique, d.within) for d in found]
            if any(r for _, r in repeated):
                return case
    raise AssertionError("no case with a key")


@pytest.mark.parametrize("i", range(12))
def test_random_cases(i: int) -> None:
    case = keyed(f"keys/{i}", within=i % 2 == 0)
    expected = case.reference().run()
    ways = Way(seed=i), Way(seed=i, batch=3, snapshot=True, interleave=True), Way(seed=i, batch=1, heartbeats=True)
    for way in (*ways, Way(seed=i, twins=2, encoded=True, snapshot=True)):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            assert mismatch(case, expected, run_engine(case, way)) is None, case.snippet()


@pytest.mark.parametrize("i", range(8))
def test_shards(i: int) -> None:
    rng = random.Random(f"shards of keys/{i}")
    case = keyed(f"shards of keys/{i}")
    assert check_shards(case, draw_way(rng)) is None, case.snippet()


@pytest.mark.parametrize("within", [None, 0, 7, 60])
@pytest.mark.parametrize("kind", ["one number", "texts", "both"])
def test_many_keys_against_the_definition(kind: str, within: int | None, monkeypatch: pytest.MonkeyPatch) -> None:
    """In chunks of any size, with old keys swept out and state saved in between."""
    monkeypatch.setattr(unique_keys, "KEYS_BETWEEN_SWEEPS", 16)
    rng = random.Random(f"{kind} {within}")
    times = sorted(rng.randint(0, 200) for _ in range(900))
    rows = [{"a": rng.choice([*range(40), None]), "s": rng.choice(["u", "v", "é", None])} for _ in times]
    unique = {"one number": ("a",), "texts": ("s",), "both": ("a", "s")}[kind]
    schema = Schema.from_arrow(pa.schema([("a", pa.int64()), ("s", pa.string())]))
    definition = StreamDef("S", schema, TimeKind.INTEGER, unique=(unique,), within=within)
    keys, at, repeated = UniqueKeys(definition), 0, []
    while at < len(times):
        end = min(len(times), at + rng.choice([1, 2, 30, 90]))
        batch = pa.RecordBatch.from_pylist(rows[at:end], schema.to_arrow())
        held = keys.judge(Chunk(np.array(times[at:end]), batch, at))
        if held is not None:
            repeated += [at + i for i in np.flatnonzero(held != BEGINNING).tolist()]
        if rng.random() < 0.3:
            state, keys = keys.state(), UniqueKeys(definition)
            keys.load(state)
        at = end
    elements = [(t, {**row, "n": n}) for n, (t, row) in enumerate(zip(times, rows, strict=True))]
    assert repeated == [row["n"] for _, row in split_repeated(elements, unique, within)[1]]  # type: ignore[index]
    assert len(repeated) > 0


def session_of(**options: Any) -> ed.Session:
    session = ed.Session()
    session.stream("S", schema=TS_ID, timestamp="ts", unique=["id"], **options)
    return session


def test_duplicates_are_counted_and_readable() -> None:
    session = session_of(slack=5)
    query = session.query("SELECT Istream(id, ts) FROM S [ROWS 1]", name="q")
    side = session.query("SELECT Istream(stream, reason, row) FROM invalid(q)")
    # By time and not by arrival: the row of time 2 has the key 7, though it came last.
    session.push("S", {"ts": [4, 5, 2], "id": [7, 8, 7]})
    session.finish()
    assert [(r["id"], r["ts"]) for r in query.to_arrow().to_pylist()] == [(7, 2), (8, 5)]
    assert query.report()["invalid"] == 1
    [found] = query.invalid()
    assert found["id"] == 7 and found["_reason"] == "at 4 the key id = 7 is repeated, which an element at 2 has"
    [row] = side.to_arrow().to_pylist()
    assert (row["stream"], row["_time"]) == ("S", 4) and '"id": 7' in row["row"]


def test_keys_from_before_a_query_count() -> None:
    session = session_of()
    session.push("S", {"ts": [1, 2], "id": [7, 8]})
    query = session.query("SELECT Istream(id) FROM S")
    session.push("S", {"ts": [3, 4], "id": [7, 9]})
    session.finish()
    assert query.to_arrow()["id"].to_pylist() == [9]


def test_late_rows_have_no_key() -> None:
    session = session_of()
    query = session.query("SELECT Istream(id) FROM S")
    with pytest.warns(ed.LateRowsWarning):
        session.push("S", {"ts": [5, 1, 6], "id": [7, 8, 8]})
        session.finish()
    assert query.to_arrow()["id"].to_pylist() == [7, 8]


def test_the_first_duplicate_is_named_by_its_line(tmp_path: Path) -> None:
    (tmp_path / "s.csv").write_text("ts,id,v\n1,7,a\n2,8,b\n2,8,c\n3,7,d\n")
    session = ed.Session(base=tmp_path)
    session.execute("CREATE STREAM S FROM 's.csv' TIMESTAMP BY ts UNIQUE (id);")
    query = session.query("SELECT Istream(v) FROM S")
    assert query.to_arrow()["v"].to_pylist() == ["a", "b"]
    first, second = (row["_reason"] for row in query.invalid())
    assert first == "s.csv, line 4: at 2 the key id = 8 is repeated, which an element at the same time has"
    assert second == "at 3 the key id = 7 is repeated, which an element at 1 has"
    strict = ed.Session(base=tmp_path, strict=True)
    strict.execute("CREATE STREAM S FROM 's.csv' TIMESTAMP BY ts UNIQUE (id) WITHIN 0;")
    with pytest.raises(DataError, match=r"of 'S' is invalid: s.csv, line 4: at 2 the key id = 8 is repeated"):
        strict.query("SELECT Istream(v) FROM S").to_arrow()


def test_within_is_written_and_checked() -> None:
    session = ed.Session()
    session.stream("S", schema=TS_ID, timestamp="ts", unique=["id"], within="3 seconds")
    assert session.catalog.streams["s"].within == 3
    with pytest.raises(JobError, match="within belongs to unique"):
        session.stream("T", schema=TS_ID, timestamp="ts", within=3)
    with pytest.raises(JobError, match="negative"):
        session.stream("T", schema=TS_ID, timestamp="ts", unique=["id"], within=-3)


def test_a_stream_that_nobody_reads_holds_keys_and_no_rows() -> None:
    session = session_of(within=100)
    for at in range(0, 60_000, 500):
        session.push("S", {"ts": list(range(at, at + 500)), "id": list(range(at, at + 500))})
    stream = session.inputs["s"]
    assert stream.buffered <= 1 and stream.report()["keys"] < 3_000


def test_reference_example() -> None:
    data = StreamData([(1, {"id": 7}), (2, {"id": None}), (3, {"id": None}), (8, {"id": 7})], unique=("id",))
    assert [ts for ts, _ in split_repeated(list(data.elements), data.unique)[1]] == [8]  # type: ignore[arg-type]
