"""Queries over whole tables with their state counted, with and without constraints."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from time import process_time
from typing import Any

import numpy as np
import pyarrow as pa

import eddyline as ed

STEPS = 40


@dataclass(frozen=True, slots=True)
class Replayed:
    """Rows and bytes of state are averages over the second half of the run, ``join_rows`` and ``join_bytes`` those of
    the state of joins alone: windows, groups and distinct rows below a join have state of their own. ``told`` is what
    the join knows, None where no join under constraints ran; ``refused`` says why."""

    rows: float
    bytes: float
    join_rows: float
    join_bytes: float
    results: int
    digest: int
    seconds: float
    disk: int
    told: dict[str, Any] | None
    refused: str


def replay(
    streams: Mapping[str, pa.Table], text: str, constraints: str, *, relations: Mapping[str, pa.Table] | None = None,
    unique: Mapping[str, Sequence[str]] | None = None,
) -> Replayed:  # fmt: skip
    """Push the streams side by side by time, in steps."""
    session = ed.Session()
    for name, table in streams.items():
        session.stream(name, schema=table.schema, timestamp="ts", unique=(unique or {}).get(name, ()))
    for name, table in (relations or {}).items():
        session.relation(name, table)
    query = session.query(text, constraints=constraints)
    times = {n: t.column("ts").cast(pa.int64()).to_numpy() for n, t in streams.items()}
    low, high = min(t[0] for t in times.values()), max(t[-1] for t in times.values())
    edges = np.linspace(low, high + 1, STEPS + 1).astype(np.int64)
    rows, bytes_, join_rows, join_bytes = [], [], [], []
    results, digest, seconds = 0, 0, 0.0
    for a, b in pairwise(edges.tolist()):
        start = process_time()
        for name, table in streams.items():
            i, j = np.searchsorted(times[name], [a, b])
            if i < j:
                session.push(name, table.slice(i, j - i))
            session.heartbeat(name, int(b))
        for batch in query.fetch():
            results += batch.num_rows
            digest += sum(hash(tuple(row.values())) for row in batch.to_pylist())
        seconds += process_time() - start
        report = query.report()
        rows.append(report["state"]["rows"])
        bytes_.append(report["state"]["bytes"])
        joins = [o for o in report["operators"] if "join" in o["name"]]
        join_rows.append(sum(o["rows"] for o in joins))
        join_bytes.append(sum(o["bytes"] for o in joins))
    told = next((s for s in query.statistics().values() if "synopses" in s and "graph" in s), None)
    refusals = [d.evidence.get("refused", {}).get("constrained-join", "") for d in query.decisions]
    half = STEPS // 2
    disk = query.report()["state"]["spilled_bytes"]
    averages = [float(np.mean(x[half:])) for x in (rows, bytes_, join_rows, join_bytes)]
    return Replayed(*averages, results, digest, seconds, disk, told, next((r for r in refusals if r), ""))
