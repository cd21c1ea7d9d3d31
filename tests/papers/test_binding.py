"""Every query printed in the papers is read and bound; those that need no repair, as printed."""

from __future__ import annotations

import pytest

from eddyline.core.errors import CqlError
from eddyline.cql import bind
from tests.papers.catalogs import PaperQuery, catalog, paper_queries

QUERIES = paper_queries()


@pytest.mark.parametrize("query", QUERIES, ids=lambda q: q.key)
def test_binds(query: PaperQuery) -> None:
    assert len(bind(query.text, catalog(query.catalog)).plan.schema) > 0


@pytest.mark.parametrize("query", [q for q in QUERIES if q.repaired], ids=lambda q: q.key)
def test_a_repair_is_needed_and_explained(query: PaperQuery) -> None:
    assert query.why
    with pytest.raises(CqlError):
        bind(query.printed, catalog(query.catalog))


def test_all_four_papers_are_there() -> None:
    assert {q.source.split(",")[0] for q in QUERIES} == {"babu", "amri", "cbr", "pulse"}
