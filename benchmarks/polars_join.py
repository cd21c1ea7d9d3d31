"""Windowed equi-joins in Polars, lazily and over the same files: one stream after another joined on its key, what lies
further apart than the window filtered out at once, so that little is carried on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from benchmarks.harness import Contestant, Paths, Run

SECONDS = 60


def polars_join(first: str, others: Sequence[tuple[str, str]], columns: Sequence[str]) -> Contestant:
    """``others`` are the further streams, each with the column on which it is joined; ``columns`` the result's, where a
    stream's value has the stream's name in small letters."""
    text = f"{first}" + "".join(f'.join({n}, on="{key}").filter(|ts − ts| ≤ {SECONDS} s)' for n, key in others)

    def open(paths: Paths) -> Run:
        import polars as pl

        width = pl.duration(seconds=SECONDS)

        def scan(name: str) -> Any:
            return pl.scan_parquet(paths[name]).rename({"ts": f"ts_{name}", "val": name.lower()})

        def run() -> Any:
            joined, seen = scan(first), [first]
            for name, key in others:
                near = [(pl.col(f"ts_{a}") - pl.col(f"ts_{name}")).abs() <= width for a in seen]
                joined = joined.join(scan(name), on=key).filter(*near)
                seen.append(name)
            return joined.select(*columns).collect().to_arrow()

        return run

    return Contestant("Polars", text, open)
