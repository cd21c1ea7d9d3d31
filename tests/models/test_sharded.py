"""Queries on models on shards, as Spark runs them but in this process: which are split by their keys, and that all
shards together answer as one session does."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import eddyline as ed
from eddyline.cql import bind
from eddyline.io.segments import batches_of_segments
from eddyline.spark.packing import ARRIVAL, Packer
from eddyline.spark.program import Group, Program, plan_group
from eddyline.spark.shard import ShardEngine
from eddyline.spark.shard_keys import shard_of
from tests.models.test_error_within import CASES, asked, signals
from tests.models.test_tuples_or_models import SCHEMA, mixed

SHARDS = 5
WITHIN = {
    "SELECT k, 2 * x - y AS z FROM S WHERE x > y OR NOT x < 3 {} SAMPLE EVERY 1": "5 shards: 5 by",
    "SELECT k, x FROM S WHERE x > 0 {}": "5 shards: 5 by",
    "SELECT k, avg(x) AS m FROM S [RANGE 9 SLIDE 3] GROUP BY k HAVING avg(x) > 0 {}": "5 shards: 5 by",
    "SELECT k, min(x) AS low, max(x) AS high FROM S [RANGE 6] GROUP BY k PARTIAL {} SAMPLE EVERY 2": "5 shards: 5 by",
    "SELECT k, min(sqrt(x * x + y * y)) AS r FROM S [RANGE 8 SLIDE 2] GROUP BY k {}": "5 shards: 5 by",
    "SELECT S.k, S.x - T.x AS gap FROM S JOIN T ON S.k = T.k WHERE S.x > T.x {} SAMPLE EVERY 1": "5 shards: 5 by",
    "SELECT a.k, b.k AS other, a.x - b.x AS gap FROM S a JOIN S b ON a.k < b.k WHERE a.x > b.x {} SAMPLE EVERY 1": (
        "is copied"
    ),
    "SELECT s.k, s.m - l.m AS d FROM (SELECT k, avg(x) AS m FROM S [size 4 advance 2]) AS s JOIN "
    "(SELECT k, avg(x) AS m FROM S [size 12 advance 2]) AS l ON s.k = l.k WHERE s.m > l.m {}": "5 shards: 5 by",
    "SELECT min(x) AS low FROM S {} SAMPLE EVERY 1": "one shard: min(S.x) is over the signals of several keys",
    "SELECT k, x * y AS p FROM S ERROR WITHIN 0.4 MAX GAP 6 SAMPLE EVERY 1": "one shard: the bounds of samples follow",
}
STORED = {
    "SELECT k, x FROM S WHERE x > 0": "5 shards: 5 by",
    "SELECT k, max(x) AS m FROM S [RANGE 9 SLIDE 3] GROUP BY k": "5 shards: 5 by",
    "SELECT S.k, S.x - T.x AS gap FROM S JOIN T ON S.k = T.k WHERE S.x > T.x SAMPLE EVERY 1": "5 shards: 5 by",
    "SELECT k, min(sqrt(x * x + 1)) AS m FROM S [RANGE 9 SLIDE 3] GROUP BY k": "5 shards: 5 by",
    "SELECT max(x) AS m FROM S SAMPLE EVERY 3": "one shard: max(S.x) is over the signals of several keys",
    "SELECT k, x FROM S WHERE x > 0 SAMPLE EVERY 3 HORIZON 9 PREDICT": "one shard: predictions are computed again",
}


def answer(table: pa.Table) -> list[str]:
    rounded = [{n: round(v, 6) if isinstance(v, float) else v for n, v in r.items()} for r in table.to_pylist()]
    return sorted(map(str, rounded))


def inline(text: str, tables: Mapping[str, pa.Table], timestamp: str | None, **options: Any) -> tuple[pa.Table, Any]:
    session = ed.Session()
    for name, table in tables.items():
        session.stream(name, table, **({} if timestamp is None else {"timestamp": timestamp}))
    return session.query(text, **options).to_arrow(), session.catalog


def as_read(table: pa.Table) -> pa.Table:
    """The columns that a source gives: of segments one for each coefficient."""
    source = batches_of_segments(table.schema, table.to_batches(), "the table")
    return table if source is None else pa.Table.from_batches([b.rows for b in source.open()])


def sharded(text: str, tables: Mapping[str, pa.Table], catalog: Any, rng: random.Random, **options: Any) -> Any:
    bound = bind(text, catalog)
    bound = replace(bound, options={**bound.options, **options})
    names = frozenset(n.lower() for n in tables)
    group: Group = plan_group([bound], catalog, lambda name: tables[name], shards=SHARDS, positions=names)
    program = Program((group,))
    engines = [ShardEngine(group, shard) for shard in range(group.shards)]
    packers = {n: Packer(program.routes(n), program.timestamp(n)) for n in program.sources()}
    batches, found = rng.choice([1, 3, 6]), []
    flat = {n: as_read(t) for n, t in tables.items()}
    numbered = {n: t.append_column(ARRIVAL, pa.array(np.arange(len(t)))) for n, t in flat.items()}
    for number in range(batches):
        packed: list[list[Any]] = [[] for _ in engines]
        for name, packer in packers.items():
            rows = numbered[name]
            low, high = (len(rows) * i // batches for i in (number, number + 1))
            batch = rows.slice(low, high - low).combine_chunks().to_batches() or [
                pa.RecordBatch.from_pylist([], rows.schema)
            ]
            for out in packer(iter(batch), ended=number == batches - 1):
                for r in out.to_pylist():
                    low, high = (None if r[n] is None else int(r[n]) for n in ("low", "high"))
                    packed[shard_of(r["key"])].append(
                        (r["lane"], r["kind"], low, high, r["rows"], r["ended"], r["blob"])
                    )
        for engine, mine in zip(engines, packed, strict=True):
            found += [batch for _, batch in engine.process(mine, ended=number == batches - 1)]
    return group, pa.Table.from_batches(found, engines[0].queries[0].schema)


@pytest.mark.parametrize("models", ["always", "never"])
@pytest.mark.parametrize("text", WITHIN)
def test_shards_answer_within_a_bound_as_one_session(text: str, models: str) -> None:
    many = 0
    for case in range(CASES):
        rng = np.random.default_rng([9, case])
        text_of_case = text.format(asked(rng)[0])
        tables = {
            n: pa.Table.from_pylist(mixed(rng) if case % 2 else signals(rng, 6), SCHEMA) for n in "ST" if n in text
        }
        want, catalog = inline(text_of_case, tables, "ts", models=models)
        group, found = sharded(text_of_case, tables, catalog, random.Random(case), models=models)
        assert WITHIN[text] in "; ".join(group.reasons), group.reasons
        assert (group.shards == 1) == WITHIN[text].startswith("one shard")
        assert answer(found) == answer(want)
        many += len(want)
    assert many > 10 * CASES


@pytest.mark.parametrize("text", STORED)
def test_shards_answer_on_stored_segments_as_one_session(text: str) -> None:
    many = 0
    for case in range(CASES):
        rng = np.random.default_rng([10, case])
        tables = {
            n: ed.fit(
                pa.Table.from_pylist(signals(rng, 6), SCHEMA), key="k", time="ts", value="x", error=0.3, max_gap=9
            )
            for n in "ST"
            if n in text
        }
        want, catalog = inline(text, tables, None)
        group, found = sharded(text, tables, catalog, random.Random(case))
        assert STORED[text] in "; ".join(group.reasons), group.reasons
        assert answer(found) == answer(want)
        many += len(want)
    assert many > 10 * CASES
