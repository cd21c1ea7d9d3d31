"""adaptive_filter: the rows that Spark's own conjunction keeps, with fewer calls of the functions."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import eddyline as ed
import eddyline.spark as eds
from eddyline.core.errors import JobError
from tests.spark.files import write_parts

ROWS = 20_000


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    def columns(numbers: range) -> dict[str, list[Any]]:
        return {"id": list(numbers), "text": [f"t{n % 100}" for n in numbers], "tags": [[n] for n in numbers]}

    return write_parts(tmp_path_factory.mktemp("rows"), ROWS, 2, columns)


def counted(function: Any, path: Path) -> Any:
    """Leaves a byte in a file for each call: workers are other processes."""

    def call(*values: Any) -> Any:
        with path.open("ab", buffering=0) as f:
            f.write(b".")
        return function(*values)

    return call


@pytest.mark.parametrize("policy", ["default", "a-greedy"])
def test_same_rows_with_fewer_calls(spark: Any, folder: Path, tmp_path: Path, policy: str) -> None:
    df = spark.read.parquet(str(folder))
    often = ed.predicate(counted(lambda n: n % 20 != 0, tmp_path / "often"), "id", name="often")
    rare = ed.predicate(counted(lambda t: t in ("t3", "t7"), tmp_path / "rare"), "text", name="rare")
    got = eds.adaptive_filter(df, "id < 18000", often, rare, policy=policy)
    assert got.columns == ["id", "text", "tags"]
    found = sorted(r.id for r in got.collect())
    assert found == [n for n in range(18_000) if n % 20 and n % 100 in (3, 7)]
    calls = {n: (tmp_path / n).stat().st_size for n in ("often", "rare")}
    assert calls["rare"] <= 18_000  # Spark itself has dropped the others
    assert calls["often"] < 9_000  # as written it would be 18,000


def test_streaming_and_strict_order(spark: Any, folder: Path, tmp_path: Path) -> None:
    df = spark.readStream.schema("id long, text string, tags array<long>").parquet(str(folder))
    guard = ed.predicate(counted(lambda n: n % 2 == 0, tmp_path / "guard"), "id")
    second = ed.predicate(counted(lambda n: 1 / (n % 2 - 1) < 0 and n < 10, tmp_path / "second"), "id")
    kept = eds.adaptive_filter(df, guard, second, strict_order=True)
    name = "adaptive_filter_streaming"
    query = kept.writeStream.format("memory").queryName(name).trigger(availableNow=True).start()
    query.awaitTermination()
    assert sorted(r.id for r in spark.table(name).collect()) == [0, 2, 4, 6, 8]
    assert (tmp_path / "guard").stat().st_size == ROWS
    assert (tmp_path / "second").stat().st_size == ROWS // 2


@pytest.mark.parametrize(
    ("predicates", "words"),
    [
        ([], "needs at least one predicate"),
        ([len], "write ed.predicate"),
        ([ed.predicate(len, "txt")], "Did you mean 'text'"),
        ([3], "a CQL condition"),
        (["id < 3) OR (id > 5"], "unexpected '\\)'"),
    ],
)
def test_mistakes(spark: Any, folder: Path, predicates: list[Any], words: str) -> None:
    with pytest.raises(JobError, match=words):
        eds.adaptive_filter(spark.read.parquet(str(folder)), *predicates)
