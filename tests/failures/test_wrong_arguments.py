"""Every public function with arguments of every wrong kind: it works, or it says in a sentence what it wants."""

from __future__ import annotations

import datetime as dt
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import eddyline as ed
import eddyline.spark as eds
from eddyline.spark import frames

SCHEMA = pa.schema([("ts", pa.int64()), ("v", pa.int64()), ("name", pa.string())])
ROWS = [{"ts": 1, "v": 1, "name": "a"}, {"ts": 2, "v": 2, "name": "b"}]


class Odd:
    pass


class SparkFrame:
    """What a session takes for a Spark DataFrame, without a JVM; rows cannot be iterated over there either."""

    columns = ("ts", "k")

    def __getitem__(self, item: Any) -> Any:
        raise AssertionError


SparkFrame.__name__, SparkFrame.__module__ = "DataFrame", "pyspark.sql.dataframe"

WRONG: dict[str, Callable[[], Any]] = {
    "None": lambda: None,
    "int": lambda: 7,
    "negative": lambda: -1,
    "huge": lambda: 10**30,
    "float": lambda: 1.5,
    "nan": lambda: float("nan"),
    "bool": lambda: True,
    "bytes": lambda: b"x",
    "empty": lambda: "",
    "text": lambda: "nonsense ;",
    "long text": lambda: "x" * 100_000,
    "NUL": lambda: "a\0b",
    "surrogate": lambda: "\ud800",
    "list": lambda: [1],
    "empty list": list,
    "list of None": lambda: [None],
    "list of texts": lambda: ["x"],
    "list of dict": lambda: [{}],
    "tuple": lambda: (1, 2),
    "set": lambda: {1},
    "dict": lambda: {"a": 1},
    "empty dict": dict,
    "dict of None": lambda: {None: None},
    "object": object,
    "class": lambda: Odd,
    "function": lambda: lambda: None,
    "numpy integer": lambda: np.int64(3),
    "numpy array": lambda: np.arange(3),
    "matrix": lambda: np.zeros((2, 2)),
    "series": lambda: pd.Series([1]),
    "frame": lambda: pd.DataFrame({"a": [1]}),
    "frame with a name twice": lambda: pd.DataFrame([[1, 2]], columns=["a", "a"]),
    "table": lambda: pa.table({"a": [1]}),
    "table with a name twice": lambda: pa.Table.from_arrays([pa.array([1]), pa.array([2])], names=["a", "a"]),
    "schema": lambda: pa.schema([("a", pa.int64())]),
    "empty schema": lambda: pa.schema([]),
    "schema with a name twice": lambda: pa.schema([("a", pa.int64()), ("a", pa.int64())]),
    "type": pa.int64,
    "nested type": lambda: pa.union([pa.field("a", pa.int64())], "dense"),
    "path": lambda: Path("/nowhere/x"),
    "datetime": lambda: dt.datetime(2020, 1, 1),
    "timedelta": lambda: dt.timedelta(seconds=3),
    "negative timedelta": lambda: dt.timedelta(seconds=-3),
    "complex": lambda: 1j,
    "iterator": lambda: iter([]),
    "generator": lambda: (x for x in [1]),
    "exception": lambda: ValueError("x"),
    "module": lambda: sys,
    "Spark DataFrame": SparkFrame,
}


def session() -> ed.Session:
    made = ed.Session()
    made.stream("S", schema=SCHEMA, timestamp="ts")
    return made


def read(declare: Callable[[ed.Session], None], text: str = "SELECT * FROM X") -> None:
    made = ed.Session()
    declare(made)
    made.query(text).to_arrow()


def pushed(declare: Callable[[ed.Session], None], text: str) -> None:
    made = session()
    declare(made)
    made.query(text)
    made.push("S", ROWS)
    made.finish()


JOIN = "SELECT a.v FROM S [ROWS 2] a, S [ROWS 2] b WHERE a.v = b.v AND a.v > 1 AND b.v < 9"
CALLS: dict[str, Callable[[Any], Any]] = {
    "Session(spark)": lambda x: None if x is None else ed.Session(x),
    "Session(base=)": lambda x: ed.Session(base=x),
    "Session(clock=)": lambda x: ed.Session(clock=x).stream("S", schema=SCHEMA, timestamp="ts"),
    "Session(strict=)": lambda x: ed.Session(strict=x).stream("S", schema=SCHEMA, timestamp="ts"),
    "Session(sharing=)": lambda x: ed.Session(sharing=x),
    "sharing": lambda x: setattr(session(), "sharing", x),
    "stream(name)": lambda x: ed.Session().stream(x, schema=SCHEMA, timestamp="ts"),
    "stream(source)": lambda x: read(lambda s: s.stream("X", x, timestamp="a")),
    "stream(source, schema=)": lambda x: read(lambda s: s.stream("X", x, timestamp="ts", schema=SCHEMA)),
    "stream(timestamp=)": lambda x: ed.Session().stream("S", schema=SCHEMA, timestamp=x),
    "stream(slack=)": lambda x: ed.Session().stream("S", schema=SCHEMA, timestamp="ts", slack=x),
    "stream(idle=)": lambda x: ed.Session().stream("S", schema=SCHEMA, timestamp="ts", idle=x),
    "stream(schema=)": lambda x: ed.Session().stream("S", schema=x, timestamp="a"),
    "stream(rows, schema=)": lambda x: read(lambda s: s.stream("X", ROWS, schema=x, timestamp="a")),
    "stream(header=, strict=)": lambda x: ed.Session().stream("S", ROWS, timestamp="ts", header=x, strict=x),
    "stream(format=)": lambda x: ed.Session().stream("S", "a.csv", timestamp="ts", format=x),
    "stream(delimiter=)": lambda x: ed.Session().stream("S", "a.csv", timestamp="ts", delimiter=x),
    "stream(null=, quote=)": lambda x: ed.Session().stream("S", "a.csv", timestamp="ts", null=x, quote=x),
    "stream(poll=, until_idle=)": lambda x: ed.Session().stream("S", ".", timestamp="ts", poll=x, until_idle=x),
    "relation(name)": lambda x: ed.Session().relation(x, ROWS),
    "relation(source)": lambda x: read(lambda s: s.relation("X", x)),
    "relation(timestamp=)": lambda x: ed.Session().relation("R", ROWS, timestamp=x),
    "relation(key=)": lambda x: ed.Session().relation("R", ROWS, key=x),
    "relation(sign=)": lambda x: ed.Session().relation("R", ROWS, timestamp="ts", sign=x),
    "relation(schema=)": lambda x: read(lambda s: s.relation("X", ROWS, schema=x)),
    "view(name)": lambda x: session().view(x, "SELECT v FROM S"),
    "view(text)": lambda x: session().view("w", x),
    "function(name)": lambda x: session().function(x, len),
    "function(function)": lambda x: session().function("f", x),
    "function(returns=)": lambda x: pushed(lambda s: s.function("f", len, x), "SELECT f(name) AS x FROM S"),
    "function(arguments=)": lambda x: pushed(lambda s: s.function("f", len, "bigint", x), "SELECT f(name) AS x FROM S"),
    "function(kind=)": lambda x: session().function("f", len, kind=x),
    "function(cost=)": lambda x: session().function("f", len, cost=x),
    "function(deterministic=)": lambda x: session().function("f", len, deterministic=x),
    **{
        f"result of a {kind} function": lambda x, kind=kind: pushed(
            lambda s: s.function("f", lambda v: x, "bigint", kind=kind), "SELECT f(name) AS x FROM S"
        )
        for kind in ("row", "arrow", "pandas")
    },
    "aggregate(name)": lambda x: session().aggregate(x, max),
    "aggregate(function)": lambda x: pushed(lambda s: s.aggregate("f", x), "SELECT f(v) AS x FROM S"),
    "aggregate(returns=)": lambda x: pushed(lambda s: s.aggregate("f", max, x), "SELECT f(v) AS x FROM S"),
    "result of an aggregate": lambda x: pushed(
        lambda s: s.aggregate("f", lambda v: x, "bigint"), "SELECT f(v) AS x FROM S"
    ),
    "execute(job)": lambda x: session().execute(x),
    "declare(statement)": lambda x: session().declare(x),
    "register(bound)": lambda x: session().register(x),
    "query(text)": lambda x: session().query(x),
    "query(name=)": lambda x: session().query("SELECT v FROM S", name=x),
    **{
        f"query({option}=)": lambda x, option=option: session().query(JOIN, **{option: x})
        for option in ("caches", "filters", "joins", "on_error", "routing", "scheduler", "strict_order", "tree", "none")
    },
    "push(name)": lambda x: session().push(x, ROWS),
    "push(rows)": lambda x: session().push("S", x),
    "heartbeat(name)": lambda x: session().heartbeat(x, 1),
    "heartbeat(time)": lambda x: session().heartbeat("S", x),
    "finish(name)": lambda x: session().finish(x),
    "run(each)": lambda x: None if callable(x) else session().run(x),
    "drop(query)": lambda x: session().drop(x),
    "snapshot(directory)": lambda x: session().snapshot(x),
    "snapshot(extra)": lambda x: session().snapshot("saved", x),
    "restore(directory)": lambda x: session().restore(x),
    "predicate(function)": lambda x: ed.predicate(x, "a"),
    "predicate(column)": lambda x: ed.predicate(len, x),
    "predicate(kind=)": lambda x: ed.predicate(len, "a", kind=x),
    "predicate(cost=)": lambda x: ed.predicate(len, "a", cost=x),
    "predicate(name=)": lambda x: ed.predicate(len, "a", name=x),
    "predicate(deterministic=)": lambda x: ed.predicate(len, "a", deterministic=x),
}
# Beyond these checks a Spark DataFrame must be a real one.
ON_SPARK: dict[str, Callable[[Any], Any]] = {
    "query(text)": lambda x: eds.query(x, streams={"S": None}),
    "query(streams)": lambda x: eds.query("SELECT 1", streams=x),
    "query(stream)": lambda x: eds.query("SELECT 1", streams={"S": x}),
    "window_join(streams)": lambda x: eds.window_join(x, on="k", within=1),
    "window_join(on)": lambda x: eds.window_join({"A": None, "B": 7}, on=x, within=1),
    "window_join(within)": lambda x: frames.join_text({"A": ["ts", "k"], "B": ["ts", "k"]}, ["k"], x),
    "adaptive_filter(df)": lambda x: eds.adaptive_filter(x, "a > 1"),
    "explain(what)": lambda x: eds.explain(x),
    "explain(streams)": lambda x: eds.explain("SELECT 1", x),
    "report(source)": lambda x: eds.report(x),
    "sentence(error)": lambda x: eds.sentence(x),
    "stream(df)": lambda x: eds.query("SELECT 1", {"S": eds.stream(x, x, slack=x, idle=x)}),
}


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.csv").write_text("ts,v\n1,2\n")
    yield


def judge(call: Callable[[Any], Any], kind: str) -> None:
    try:
        call(WRONG[kind]())
    except ed.EddylineError as error:
        said = str(error)
        message = said.split("\n  line ")[0]
        assert len(message.split()) > 2 and "Traceback" not in message, f"{kind}: {said}"
        assert len(message) < 3_000 or kind == "long text", f"{kind}: {len(message)} characters"
    except Exception as error:
        raise AssertionError(f"{kind}: {type(error).__name__}: {error}") from error


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", CALLS)
def test_wrong_arguments(name: str) -> None:
    for kind in WRONG:
        judge(CALLS[name], kind)


@pytest.mark.parametrize("name", ON_SPARK)
def test_wrong_arguments_on_spark(name: str) -> None:
    for kind in WRONG:
        if kind != "Spark DataFrame":
            judge(ON_SPARK[name], kind)


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: session().heartbeat("S", None), "the time of a heartbeat, in ticks .* is an integer, not None."),  # type: ignore[arg-type]
        (lambda: session().heartbeat("S", 1.5), "is an integer, not 1.5 .float.."),  # type: ignore[arg-type]
        (lambda: session().push("S", SparkFrame()), r"only ed.Session\(spark\) reads a Spark DataFrame"),
        (lambda: ed.Session().stream("S", SparkFrame()), r"only ed.Session\(spark\) reads a Spark DataFrame"),
        (lambda: ed.Session().relation("R", SparkFrame()), r"pass df.toArrow\(\)"),
        (lambda: ed.Session(5), r"takes a SparkSession, not 5 \(int\); without one"),
        (lambda: ed.Session().stream(5, ROWS), r"the name of a stream is a text, not 5 \(int\)"),  # type: ignore[arg-type]
        (lambda: ed.Session().stream("S", schema={"a": "int"}), "the schema of 'S' is a pyarrow.Schema, such as"),  # type: ignore[arg-type]
        (lambda: ed.Session().stream("S", ROWS, timestamp="ts", slack=None), "slack is a number or a text"),  # type: ignore[arg-type]
        (lambda: session().query(None), "a query is a text, not None"),  # type: ignore[arg-type]
        (lambda: session().snapshot(5), "snapshot needs the path of a directory, not 5"),  # type: ignore[arg-type]
        (lambda: eds.window_join({}, on=object(), within=1), "on takes names of columns, on='k' or"),  # type: ignore[arg-type]
        (lambda: eds.window_join({}, on=["k", 5], within=1), r"and this is 5 \(int\); for other conditions use"),  # type: ignore[list-item]
        (lambda: eds.query("SELECT 1", streams=[1]), "streams is a dictionary of DataFrames by name"),  # type: ignore[arg-type]
    ],
)
def test_what_is_said(call: Callable[[], Any], said: str) -> None:
    with pytest.raises(ed.JobError, match=said):
        call()


def test_one_key_needs_no_list() -> None:
    made = ed.Session()
    made.relation("R", ROWS, key="name")
    assert made.catalog.relations["r"].key == ("name",)
