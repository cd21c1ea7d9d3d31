"""Which queries of a job run in the same engines."""

from __future__ import annotations

from functools import partial
from typing import Any

import pyarrow as pa

from eddyline.core.catalog import Catalog, FunctionDef, StreamDef
from eddyline.core.schema import Schema
from eddyline.core.time import TimeKind
from eddyline.cql import bind
from eddyline.plan.partitioning import partition
from eddyline.spark.grouping import planned_together, together_in
from eddyline.spark.program import assemble
from eddyline.spark.shard import ShardEngine

SCHEMA = pa.schema([("ts", pa.int64()), ("a", pa.int64()), ("b", pa.int64())])


def catalog() -> Catalog:
    made = Catalog()
    for name in "ST":
        made.add("streams", StreamDef(name, Schema.from_arrow(SCHEMA), TimeKind.INTEGER, "ts"))
    made.functions["f"] = FunctionDef("f", lambda x: x > 1, pa.bool_(), (pa.int64(),))
    made.add("views", bind("SELECT Istream(ts, a, b) FROM S WHERE f(b)", made), "hot")
    made.add("views", bind("SELECT a, count(*) AS n FROM S [RANGE 9] GROUP BY a", made), "counted")
    return made


def found(*texts: str, **options: Any) -> list[list[int]]:
    known = catalog()
    bound = [bind(t, known, **options) for t in texts]
    return together_in(bound, partial(partition, catalog=known, shards=4))


BY_A = "SELECT a, sum(b) AS t FROM hot [RANGE 5] GROUP BY a"
BY_B = "SELECT b, count(*) AS n FROM hot [RANGE 5] GROUP BY b"
EACH = "SELECT Istream(a, b) FROM hot"


def test_queries_with_a_function_in_common_go_together_where_one_division_suits_all() -> None:
    assert found(BY_A, EACH, BY_A) == [[0, 1, 2]]
    assert found(EACH, BY_A) == [[0, 1]]  # rows that may be spread as one likes go with any column
    assert found(BY_A, BY_B, BY_A, BY_B) == [[0, 2], [1, 3]]
    assert found("SELECT a FROM counted WHERE n > 2", "SELECT Istream(a, n) FROM counted") == [[0, 1]]


def test_queries_stay_apart_that_have_nothing_dear_in_common() -> None:
    assert found("SELECT a, count(*) AS n FROM S [RANGE 5] GROUP BY a", "SELECT Istream(a) FROM S WHERE b > 3") == []
    assert found(BY_A, "SELECT a, count(*) AS n FROM T [RANGE 5] GROUP BY a") == []
    assert found(BY_A) == []


def test_a_part_that_several_queries_read_is_one_operator_of_a_shard() -> None:
    known = catalog()
    queries = [bind(t, known) for t in (EACH, BY_A, "SELECT Istream(b) FROM hot h WHERE h.b > 5")]
    planned = planned_together(queries, partial(partition, catalog=known, shards=4), known)
    assert planned is not None
    group = assemble(*planned, known, lambda name: pa.table({}))
    assert group.shards == 4
    assert not group.panes
    assert any("what they have in common runs once" in r for r in group.reasons)
    engine = ShardEngine(group, 0)
    asking = [o for o in engine.session._graph.operators if o.task.name.startswith("select")]
    (shared,) = [o for o in asking if len(o.readers) > 1]
    assert len(shared.readers) == 3
