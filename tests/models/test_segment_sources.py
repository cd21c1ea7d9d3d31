"""Segment tables as they are found: in any order, from several fits, with damaged files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import eddyline as ed
from tests.models.test_queries import comparable, random_segments, segments

TEXT = "SELECT k, x FROM S WHERE x > 0 SAMPLE EVERY 2"


def answer(source: Any) -> list[tuple[Any, ...]]:
    session = ed.Session()
    session.stream("S", source)
    query = session.query(TEXT)
    found = comparable(query.to_arrow())
    assert not query.late()
    return found


@pytest.mark.parametrize("form", ["table", "list", "file", "folder"])
def test_stored_segments_come_by_their_beginnings(form: str, tmp_path: Path) -> None:
    rng = np.random.default_rng(4)
    table = random_segments(rng, 1)
    apart = [table.filter(pa.compute.equal(table["k"], k)) for k in range(3)]  # as of a fit for each key
    assert len(answer(table)) > 20
    if form in ("file", "folder"):
        for k, part in enumerate(apart if form == "folder" else [pa.concat_tables(apart)]):
            pq.write_table(part, tmp_path / f"{k}.parquet", row_group_size=4)
        assert answer(str(tmp_path if form == "folder" else tmp_path / "0.parquet")) == answer(table)
    else:
        assert answer(apart if form == "list" else pa.concat_tables(apart)) == answer(table)


def test_of_segments_that_begin_together_the_one_that_is_stored_later_counts() -> None:
    for first, then in ((1.0, 2.0), (2.0, 1.0)):
        rows: list[tuple[Any, ...]] = [("a", 4, 6, [first, 0.0]), ("b", 0, 2, [7.0, 0.0]), ("a", 4, 6, [then, 0.0])]
        assert answer(segments(rows)) == [("a", then, 4), ("b", 7.0, 0)]


def test_batches_that_arrive_are_late_if_they_begin_earlier() -> None:
    table = random_segments(np.random.default_rng(4), 1)
    session = ed.Session()
    session.stream("S", iter([table.slice(10), table.slice(0, 10)]))
    query = session.query(TEXT)
    with pytest.warns(ed.LateRowsWarning):
        query.to_arrow()
    assert query.late()


def test_a_file_whose_names_are_damaged_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "segments.parquet"
    pq.write_table(random_segments(np.random.default_rng(4), 1), path)
    path.write_bytes(path.read_bytes().replace(b"_to", b"_t\xa5"))
    session = ed.Session()
    with pytest.raises(ed.JobError, match=r"segments\.parquet"):
        session.stream("S", str(path))
        session.query(TEXT).to_arrow()
