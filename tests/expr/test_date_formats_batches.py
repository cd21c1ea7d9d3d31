"""date_format makes each text once: the same texts as row by row, for batches of few and of many different times."""

from __future__ import annotations

import datetime as dt
import random

import pyarrow as pa
import pytest

from eddyline.expr.builtins.date_formats import MIN_TIMES_TO_COMPARE, date_format


@pytest.mark.parametrize("pattern", ["yyyy-MM-dd", "HH:mm", "EEE h a", "mm:ss", "ss.SSS", "'at' D", "yy MMM"])
def test_batches_have_the_texts_of_their_rows(pattern: str) -> None:
    rng = random.Random(pattern)
    least = dt.datetime(1, 1, 1)
    spans = (60, 86_400 * 3, 86_400 * 365 * 4000)
    for span in spans:
        start = dt.datetime(1969, 12, 31, 23, 59) if span < 1e9 else least
        times = [start + dt.timedelta(seconds=rng.uniform(0, span)) for _ in range(3 * MIN_TIMES_TO_COMPARE)]
        given = [None if rng.random() < 0.1 else t for t in times]
        rows = [date_format(pa.array([t], pa.timestamp("us")), pattern)[0].as_py() for t in given]
        assert date_format(pa.array(given, pa.timestamp("us")), pattern).to_pylist() == rows
    sliced = pa.array(given, pa.timestamp("us")).slice(5)
    assert date_format(sliced, pattern).to_pylist() == rows[5:]


def test_the_first_timestamp_has_a_text() -> None:
    edge = pa.array([-(2**63) + 1, *range(MIN_TIMES_TO_COMPARE)], pa.int64()).view(pa.timestamp("us"))
    assert len(date_format(edge, "yyyy-MM-dd")) == MIN_TIMES_TO_COMPARE + 1
