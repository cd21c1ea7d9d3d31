"""A changed query against an old checkpoint: what is said, without Spark."""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping
from typing import Any

import pyarrow as pa
import pytest

from eddyline.core.catalog import Catalog, RelationDef, StreamDef
from eddyline.core.errors import EddylineError
from eddyline.core.schema import Schema
from eddyline.core.time import TimeKind
from eddyline.cql import bind
from eddyline.spark.compatibility import changes, explain, facts, fingerprint, pack, unpack, wrong_format
from eddyline.spark.program import Program, plan_group
from eddyline.spark.shard_state import Head, SegmentLog
from tests.shards.shards import Memory

JOIN = "SELECT Istream(R.a, S.b) FROM R [RANGE 60], S [RANGE 60] WHERE R.a = S.a"
CHAIN = "SELECT Istream(R.a, T.b) FROM R [RANGE 9], S [RANGE 9], T [RANGE 9] WHERE R.a = S.a AND S.b = T.b"
NAMED = "SELECT Istream(R.a, n.label) FROM R [RANGE 9], names n WHERE R.a = n.a"
ROWS = {"a": [1, 2], "label": ["one", "two"]}


def found(
    *texts: str,
    shards: int = 8,
    rates: Mapping[str, float] | None = None,
    a: pa.DataType | None = None,
    slack: int = 0,
    time: str = "ts",
    rows: Mapping[str, list[Any]] | None = None,
) -> dict[str, Any]:
    """The facts of a program after a round trip through the state store."""
    schema = pa.schema([("ts", pa.int64()), ("ts2", pa.int64()), ("a", a or pa.int64()), ("b", pa.int64())])
    catalog = Catalog()
    for name in "RST":
        catalog.add("streams", StreamDef(name, Schema.from_arrow(schema), TimeKind.INTEGER, time, slack))
    table = pa.table(dict(rows or ROWS))
    catalog.add("relations", RelationDef("names", Schema.from_arrow(table.schema)))
    groups = [plan_group([bind(t, catalog)], catalog, lambda _: table, shards=shards, rates=rates) for t in texts]
    return unpack(pack(facts(Program(tuple(groups)))))


def said(then: dict[str, Any], now: dict[str, Any]) -> str:
    """The first change in words; the two must not take over each other's state."""
    assert fingerprint(then) != fingerprint(now)
    first, *_ = changes(then, now)
    return str(first)


@pytest.mark.parametrize(
    "now",
    [
        found(JOIN.replace(" FROM ", "\n  -- what we read\nfrom\t").replace("WHERE", "where")),
        found(JOIN, slack=5),
        found(JOIN, rates={"R": 100.0}),
    ],
    ids=["layout", "slack", "rates"],
)
def test_what_may_change(now: dict[str, Any]) -> None:
    then = found(JOIN)
    assert fingerprint(then) == fingerprint(now)
    assert changes(then, now) == []


def test_an_option_that_changes_the_operator() -> None:
    then = found(f"{CHAIN} WITH (joins = 'a-greedy', caches = 'none')")
    assert said(then, found(f"{CHAIN} WITH (tree = '((R, S), T)')")) == (
        "the join of R, S, T was run by adaptive-join and would now be run by tree-join; use the options (or the"
        " version of Eddyline) that it had"
    )
    assert "gives the same answers" in explain(then, found(f"{CHAIN} WITH (joins = 'static', caches = 'none')"))


@pytest.mark.parametrize("options", ["joins = 'sweep'", "caches = 'prefix'", "filters = 'a-greedy'"])
def test_an_option_that_keeps_the_operator(options: str) -> None:
    then, now = found(CHAIN), found(f"{CHAIN} WITH ({options})")
    assert fingerprint(then) == fingerprint(now) and changes(then, now) == []


def test_a_checkpoint_that_names_no_operators_is_refused() -> None:
    then = found(CHAIN)
    for q in then["groups"][0]["queries"]:
        del q["operators"]
    assert said(then, found(CHAIN)).startswith(
        "other operators were chosen: none became adaptive-join; use the options"
    )


def test_window() -> None:
    text = said(found(JOIN), found(JOIN.replace("S [RANGE 60]", "S [RANGE 30]")))
    assert text == "the query is another one: ‹… S [RANGE 60] WHERE R.a …› became ‹… S [RANGE 30] WHERE R.a …›"


def test_a_long_query_is_shown_where_it_changed() -> None:
    condition = " AND ".join(f"R.a <> {i}" for i in range(200))
    then, now = found(f"{JOIN} AND {condition} AND R.a > 7"), found(f"{JOIN} AND {condition} AND R.a > 8")
    assert said(then, now) == "the query is another one: ‹… R.a > 7› became ‹… R.a > 8›"
    shown = str(EddylineError(explain(then, now)))
    assert shown == explain(then, now)


def test_select_list() -> None:
    assert "Istream(R.b)" in said(found(JOIN), found(JOIN.replace("R.a, S.b", "R.b")))


def test_shards() -> None:
    then, now = found(JOIN), found(JOIN, shards=16)
    assert said(then, now) == "it had 8 shards and now has 16; pass shards=8 (--shards 8)"
    assert len(changes(then, now)) == 1
    text = explain(then, now)
    assert "empty checkpoint directory" in text
    assert "a replay from their start gives the same answers" in text
    assert said(found(JOIN, shards=1), now) == "it had 1 shard and now has 16; pass shards=1 (--shards 1)"


def test_rates_that_change_the_grid() -> None:
    then, now = found(CHAIN, shards=16), found(CHAIN, shards=16, rates={"R": 100.0})
    assert then["groups"][0]["shares"] != now["groups"][0]["shares"]
    assert "rates" in said(then, now) or "shards=" in said(then, now)
    assert "gives the same answers" in explain(then, now)


def test_columns() -> None:
    then, now = found(JOIN), found(JOIN, a=pa.int32())
    text = explain(then, now)
    assert "of the stream R other columns are read: a was bigint and is int; cast or rename them" in text
    assert "a replay from their start gives the answers of the query as it is now" in text


def test_time() -> None:
    assert "the time of R was ts and is now ts2." in explain(found(JOIN), found(JOIN, time="ts2"))


def test_constant_relation() -> None:
    assert fingerprint(found(NAMED)) == fingerprint(found(NAMED, rows={"a": [2, 1], "label": ["two", "one"]}))
    text = said(found(NAMED), found(NAMED, rows={"a": [1, 3], "label": ["one", "two"]}))
    assert text.startswith("the constant relation names has other rows")


def test_queries() -> None:
    text = said(found(JOIN), found(JOIN, NAMED))
    assert text == f"it now has 2 queries instead of 1: new is ‹{NAMED}›"
    assert f"gone is ‹{NAMED}›" in said(found(JOIN, NAMED), found(JOIN))
    assert fingerprint(found(JOIN, NAMED)) != fingerprint(found(NAMED, JOIN))


def test_the_same_text_with_another_plan() -> None:
    then = found(JOIN)
    now = json.loads(json.dumps(then))
    now["groups"][0]["queries"][0]["plan"] = then["groups"][0]["queries"][0]["plan"].replace("join on", "join by")
    assert "the same text and another plan" in said(then, now)


def test_facts_are_written_once() -> None:
    memory = Memory()
    log = SegmentLog(memory)
    head = log.save({"n": 1}, None, "first", b"facts")
    log.save({"n": 2}, head, "first", b"other")
    assert log.facts() == b"facts"


def test_another_format() -> None:
    tree = json.loads(zlib.decompress(Head("nonce", "program").pack()))
    with pytest.raises(EddylineError) as refused:
        Head.unpack(zlib.compress(json.dumps(tree | {"format": 0}).encode()))
    assert str(refused.value) == wrong_format(0)
    assert "empty checkpoint directory" in str(refused.value)
