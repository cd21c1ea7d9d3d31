"""The real sets are optional: what is said when they are not there, and that what is there can be read."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from eddyline.core.errors import JobError
from eddyline.datasets import real


def test_without_a_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(real.VARIABLE, raising=False)
    assert real.folder() is None and real.available() == []
    with pytest.raises(JobError, match=r"set EDDYLINE_DATA to the folder that holds fx_quotes\.parquet"):
        real.read("fx_quotes")


def test_with_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pq.write_table(pa.table({"ts": [1, 2], "log_seq": [9, 3], "query": ["a", "b"]}), tmp_path / "zeek_dns.parquet")
    monkeypatch.setenv(real.VARIABLE, str(tmp_path))
    assert real.available() == ["zeek_dns"]
    assert real.read("zeek_dns", ["query"]).to_pydict() == {"query": ["a", "b"]}
    assert real.read("zeek_dns", ["query"], in_arrival_order=True).to_pydict() == {"query": ["b", "a"]}
    with pytest.raises(JobError, match=r"fx_quotes\.parquet is not in the folder"):
        real.read("fx_quotes")
    with pytest.raises(JobError, match="no order of arrival of its own"):
        real.read("fx_quotes", in_arrival_order=True)


@pytest.mark.skipif(not real.available(), reason="the real data sets are not here (EDDYLINE_DATA)")
@pytest.mark.parametrize("name", real.available())
def test_each_set_has_its_time(name: str) -> None:
    column = real.SETS[name]
    names = pq.read_schema(real.path(name)).names
    assert column is None or column in names
    assert name not in real.ARRIVAL or real.ARRIVAL[name] in names
