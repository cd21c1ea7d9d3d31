"""Planning for shards is linear in a chain of ``WITH`` queries that each read the one before twice: the plan of thirty
has 2³⁰ places, and none of them may be visited one by one. Calls are counted, because seconds depend on the machine."""

from __future__ import annotations

import sys
from typing import Any

import pyarrow as pa
import pytest

from eddyline.core.catalog import Catalog, StreamDef
from eddyline.core.schema import Schema
from eddyline.core.time import TimeKind
from eddyline.cql import bind
from eddyline.plan.traverse import count_places
from eddyline.spark.compatibility import facts
from eddyline.spark.program import Program, plan_group
from eddyline.spark.shard import ShardEngine

FORMS = {
    "join": ("SELECT x.a, y.b FROM q{0} x, q{0} y WHERE x.a = y.a", 10),
    "union": ("SELECT a, b FROM q{0} UNION SELECT b, a FROM q{0}", 10),
    # A query may have 100 operators one below another, and these have more of them.
    "outer join": ("SELECT x.a, y.b FROM q{0} x LEFT JOIN q{0} y ON x.a = y.a", 9),
    "membership": ("SELECT a, b FROM q{0} WHERE a IN (SELECT b FROM q{0})", 9),
    "exists": ("SELECT a, b FROM q{0} x WHERE EXISTS (SELECT * FROM q{0} y WHERE y.a = x.a AND y.b > x.b)", 9),
}
STEP = {10: 10, 9: 4}


def calls(form: str, n: int) -> int:
    """Calls of functions from a bound query to what is shipped to the shards, its facts, and the operators of one."""
    parts = ["q0 AS (SELECT a, count(*) AS b FROM S [RANGE 5] GROUP BY a)"]
    parts += [f"q{i + 1} AS ({FORMS[form][0].format(i)})" for i in range(n)]
    schema = Schema.from_arrow(pa.schema([(c, pa.int64()) for c in ("ts", "a", "b")]))
    catalog = Catalog()
    catalog.add("streams", StreamDef("S", schema, TimeKind.INTEGER, "ts"))
    bound = bind(f"WITH {', '.join(parts)} SELECT * FROM q{n}", catalog)
    assert count_places(bound.plan) > 2**n
    count = 0

    def counting(frame: Any, event: str, argument: Any) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    sys.setprofile(counting)
    try:
        group = plan_group([bound], catalog, lambda _: pa.table({}), shards=8)
        facts(Program((group,)))
        ShardEngine(group, 0)
    finally:
        sys.setprofile(None)
    return count


@pytest.mark.parametrize("form", FORMS)
def test_planning_for_shards_is_linear(form: str) -> None:
    first = FORMS[form][1]
    step = STEP[first]
    calls(form, 2)  # imports and caches
    one, two, three = (calls(form, first + i * step) for i in range(3))
    assert (three - two) / (two - one) < 1.5, (one, two, three)
