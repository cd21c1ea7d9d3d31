"""What runs while processes are killed: small files, many micro-batches, a join, an aggregate; and the right answers.

Nothing here imports Spark: the test process writes the input, asks the inline engine for the answer, and reads what the
sinks have committed.
"""

from __future__ import annotations

import json
import os
import random
from collections import Counter
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote, urlparse

import pyarrow as pa
import pyarrow.parquet as pq

import eddyline as ed
from eddyline.spark import frames

STREAMS: Final = {
    name: pa.schema([("ts", pa.int64()), ("k", pa.int64()), (value, pa.int64())])
    for name, value in (("R", "a"), ("S", "b"), ("T", "c"))
}
SPAN: Final = 40  # ticks in a file
ROWS: Final = 30  # in a file
KEYS: Final = 7
WITHIN: Final = 55  # longer than a file: results join rows of several micro-batches
AGGREGATE: Final = "SELECT k, count(*) AS n, sum(a) AS total FROM R [RANGE 60 SLIDE 10] GROUP BY k"
DONE: Final = "done.json"
DIFFERENT: Final = "different"  # a batch that was run again and gave other rows leaves its number here

Bag = Counter[tuple[Any, ...]]


def join_text() -> str:
    return frames.join_text({n: s.names for n, s in STREAMS.items()}, ["k"], WITHIN)


def generate(folder: Path, files: int, seed: int) -> None:
    """Files in order of time, whose times of change tell Spark in which order to read them."""
    rng = random.Random(seed)
    for name, schema in STREAMS.items():
        (folder / name).mkdir(parents=True)
        for i in range(files):
            ts = sorted(rng.randrange(i * SPAN, (i + 1) * SPAN) for _ in range(ROWS))
            columns = [ts, [rng.randrange(KEYS) for _ in ts], [i * ROWS + n for n in range(ROWS)]]
            path = folder / name / f"{i:03d}.parquet"
            pq.write_table(pa.table(columns, schema=schema), path)
            os.utime(path, (1_700_000_000 + i, 1_700_000_000 + i))


def expected(folder: Path) -> dict[str, Bag]:
    """The answers of the inline engine to the same input, which has not ended."""
    session = ed.Session()
    for name, schema in STREAMS.items():
        session.stream(name, schema=schema, timestamp="ts")
    queries = {"join": session.query(join_text()), "aggregate": session.query(AGGREGATE)}
    for name in STREAMS:
        session.push(name, pa.concat_tables(pq.read_table(p) for p in sorted((folder / name).glob("*.parquet"))))
    return {n: bag(pa.Table.from_batches(list(q.fetch()), q.schema)) for n, q in queries.items()}


def bag(table: pa.Table) -> Bag:
    """Rows with how often they occur; columns by name, for a sink may order them as it likes."""
    names = sorted(table.column_names)
    return Counter(zip(*(table[n].to_pylist() for n in names), strict=True))


def differences(found: Bag, wanted: Bag) -> str:
    """Empty if they are equal row for row."""
    lost, extra = wanted - found, found - wanted
    if not lost and not extra:
        return ""
    some = [f"lost {r}" for r in sorted(lost)[:3]] + [f"too many {r}" for r in sorted(extra)[:3]]
    return f"{lost.total()} lost, {extra.total()} too many of {wanted.total()}: {'; '.join(some)}"


# ── what the sinks have committed ─────────────────────────────────────────────────────────────────────────────────


def committed(folder: Path, sink: str) -> Bag:
    """The rows of a sink as its readers see them."""
    if sink == "batches":
        paths = sorted(folder.glob("*.parquet"))
    else:
        paths = file_sink_paths(folder)
    tables = [pq.ParquetFile(p).read() for p in paths]
    return sum((bag(t) for t in tables), Counter())


def file_sink_paths(folder: Path) -> list[Path]:
    """The files that the log of Spark's file sink has; others in the folder are left over from failed attempts."""
    log = folder / "_spark_metadata"
    numbers = sorted(p for p in log.iterdir() if p.name.removesuffix(".compact").isdigit()) if log.exists() else []
    compact = [int(p.stem) for p in numbers if p.suffix == ".compact"]
    found: dict[str, bool] = {}
    for path in sorted(numbers, key=lambda p: int(p.stem)):
        if compact and (int(path.stem) < compact[-1] or (int(path.stem) == compact[-1] and not path.suffix)):
            continue
        for line in path.read_text().splitlines()[1:]:
            entry = json.loads(line)
            found[entry["path"]] = entry["action"] == "add"
    return [Path(unquote(urlparse(p).path)) for p, there in found.items() if there]
