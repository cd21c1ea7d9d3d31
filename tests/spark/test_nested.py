"""Structures and lists on Spark: fields, element_at and explode over files that our readers read."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import eddyline

pytestmark = pytest.mark.spark
ROWS = [
    {
        "ts": t,
        "k": t % 3,
        "user": None if t % 7 == 0 else {"id": t % 5},
        "tags": None if t % 11 == 0 else ["u", "v", "w"][: t % 4],
    }
    for t in range(60)
]
TEXTS = (
    "SELECT user.id, count(*) AS n, sum(size(tags)) AS s FROM S [RANGE 9] GROUP BY user.id",
    "SELECT tag, count(*) AS n FROM (SELECT k, explode(tags) AS tag FROM S [ROWS 8]) GROUP BY tag",
    "SELECT a.k, try_element_at(b.tags, -1) AS l FROM S [RANGE 3] a, S [RANGE 5] b WHERE a.k = b.k AND b.user.id > 2",
)


def test_the_answers_are_those_of_the_inline_engine(spark: Any, tmp_path: Path) -> None:
    pq.write_table(pa.Table.from_pylist(ROWS), tmp_path / "s.parquet")
    (tmp_path / "s.jsonl").write_text("".join(json.dumps(r) + "\n" for r in ROWS), encoding="utf-8")
    for file, texts in (("s.parquet", TEXTS), ("s.jsonl", TEXTS[:1])):
        for text in texts:
            answers = []
            for runtime in (None, spark):
                session = eddyline.Session(runtime)
                session.stream("S", str(tmp_path / file), timestamp="ts")
                answers.append(Counter(tuple(r.values()) for r in session.query(text).to_arrow().to_pylist()))
            assert answers[0] == answers[1], text
            assert len(answers[0]) > 20
