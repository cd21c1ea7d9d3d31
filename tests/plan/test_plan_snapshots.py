"""The plans of the papers' queries, as text in ``snapshots``: a change of a plan is a difference that one can review.

``EDDYLINE_UPDATE_PLANS=1 python -m pytest tests/plan/test_plan_snapshots.py`` writes them again. What is not the plan's
(sizes and counts) is left out, so that a snapshot changes only with the plan, what it keeps, what was decided when it
was made, and how its rows would be divided over shards.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

import pyarrow as pa
import pytest

import eddyline as ed
from eddyline.cql import bind
from eddyline.spark.explain_shards import travel
from eddyline.spark.program import plan_group
from tests.papers.catalogs import PaperQuery, catalog, paper_queries

FOLDER = Path(__file__).with_name("snapshots")
UPDATE = os.environ.get("EDDYLINE_UPDATE_PLANS") == "1"
QUERIES = [q for q in paper_queries() if q.expect != "model"]
SHARDS = 4


def drawn(query: PaperQuery) -> str:
    """The plan of a query before its first element, and how Spark would divide its rows."""
    schemas = catalog(query.catalog)
    session = ed.Session()
    for stream in schemas.streams.values():
        session.stream(stream.name, schema=stream.schema.to_arrow(), timestamp="ts")
    tables = {name: pa.table({f.name: pa.array([], f.type) for f in r.schema}) for name, r in schemas.relations.items()}
    for name, relation in schemas.relations.items():
        session.relation(relation.name, tables[name])
    plan = session.query(query.text).explain()
    plan = re.sub(r" Now [\d,]+ rows?, [^.]*(\.\d+)?[^.]*\.$", "", plan, flags=re.MULTILINE)
    group = plan_group([bind(query.text, schemas)], schemas, lambda name: tables[name.lower()], shards=SHARDS)
    divided = [f"  {line}" for line in travel(group.shares, group.reasons)]
    return "\n".join([f"# {query.source}", plan, "", f"over {SHARDS} shards", *divided, ""])


@pytest.mark.parametrize("query", QUERIES, ids=lambda q: q.key)
def test_the_plan_is_the_one_that_was_reviewed(query: PaperQuery) -> None:
    path, found = FOLDER / f"{query.key}.txt", drawn(query)
    if UPDATE:
        path.parent.mkdir(exist_ok=True)
        path.write_text(found, encoding="utf-8")
    assert path.exists(), f"there is no {path.name}; write it with EDDYLINE_UPDATE_PLANS=1 and review it."
    assert found == path.read_text(encoding="utf-8"), "review the change, then write it with EDDYLINE_UPDATE_PLANS=1"


def test_a_plan_is_drawn_the_same_again() -> None:
    for query in QUERIES:
        assert drawn(query) == drawn(query)


def test_no_snapshot_is_left_over() -> None:
    assert {p.stem for p in FOLDER.iterdir()} == {q.key for q in QUERIES}
