"""Nexmark's queries of ``examples/nexmark``: what they lead to is what DuckDB answers over the same tables."""

from __future__ import annotations

import math
import re
from collections import Counter
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from benchmarks.nexmark import STREAMS, Example, comparable, duckdb_batch, examples, last, ours

from eddyline.datasets.nexmark import nexmark

EVENTS, RATE = 6_000, 100.0  # a minute: six windows of ten seconds
# Rows of the answer: fewer would compare nothing with nothing.
LEAST = {"q2": 8, "q4": 5, "q8": 10, "q5": 30, "q7": 6, "q15": 1}
ALL = examples()


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("nexmark")
    for stream in STREAMS:
        pq.write_table(nexmark(stream, events=EVENTS, rate=RATE, seed=3).table(), folder / f"{stream}.parquet")
    return {s: folder / f"{s}.parquet" for s in STREAMS}


def test_all_of_them_are_there() -> None:
    assert [e.name for e in ALL] == [f"q{n}" for n in range(23)]
    page = (Path(__file__).parents[2] / "docs" / "nexmark.md").read_text(encoding="utf-8")
    assert re.findall(r"-- examples/nexmark/(q\d+)\.cql", page) == [e.name for e in ALL]


@pytest.mark.parametrize("example", ALL, ids=lambda e: e.name)
def test_the_answer_is_duckdbs(example: Example, tables: dict[str, Path]) -> None:
    _, answer = ours(example, tables)
    theirs = Counter(comparable(r.values()) for r in duckdb_batch(example, tables).to_pylist())
    assert last(example, answer) == theirs
    assert len(theirs) >= LEAST.get(example.name, 40)


def test_bids_need_not_be_kept_that_no_later_auction_can_ask_for(tables: dict[str, Path]) -> None:
    """``b.dateTime BETWEEN a.dateTime AND a.expires`` says that a bid is not older than its auction."""
    q4 = next(e for e in ALL if e.name == "q4")
    query, _ = ours(q4, tables)
    auctions = math.ceil(EVENTS * 3 / 50)
    assert query.report()["state"]["peak_rows"] <= 3 * auctions + 5  # with the groups' own rows
    assert "nothing of b [ROWS UNBOUNDED] beyond the present instant" in query.explain()
