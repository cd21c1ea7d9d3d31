"""The walk of one event in ``docs/architecture.md`` is the one that a real run takes."""

from __future__ import annotations

import importlib
import re
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

import eddyline as ed

PAGE = Path(__file__).resolve().parents[2] / "docs" / "architecture.md"
NAMED = re.compile(r"`((?:core|engine|io|operators|adapting|adaptive|streamon|synopses|plan|spark)(?:\.\w+)+)`")


def section(title: str) -> str:
    found = re.search(rf"^## {re.escape(title)}\n(.*?)(?=^## |\Z)", PAGE.read_text("utf-8"), re.MULTILINE | re.DOTALL)
    assert found is not None, title
    return found.group(1)


def steps() -> Iterator[list[str]]:
    """The functions that each numbered step of the walk names."""
    for step in re.split(r"^\d+\. ", section("One event, inline"), flags=re.MULTILINE)[1:]:
        yield NAMED.findall(step)


def recorded(folder: Path) -> list[str]:
    """Functions of ours in the order of their first call, for a join of three files."""
    for name in "RST":
        pq.write_table(pa.table({"ts": [1, 2, 3], "k": [7, 8, 7]}), folder / f"{name}.parquet")
    session = ed.Session(base=folder)
    for name in "RST":
        session.stream(name, f"{name}.parquet", timestamp="ts")
    query = session.query(
        "SELECT Istream(R.k) FROM R [RANGE 10], S [RANGE 10], T [RANGE 10] WHERE R.k = S.k AND S.k = T.k"
    )
    called: dict[str, None] = {}

    def note(frame: FrameType, event: str, _: Any) -> None:
        module = frame.f_globals.get("__name__", "")
        if event == "call" and module.startswith("eddyline."):
            called.setdefault(f"{module.removeprefix('eddyline.')}.{frame.f_code.co_qualname}")

    threading.setprofile(note)
    sys.setprofile(note)
    try:
        assert query.to_arrow().num_rows == 9
    finally:
        sys.setprofile(None)
        threading.setprofile(None)  # type: ignore[arg-type]
    return list(called)


def test_the_walk_is_the_one_that_a_run_takes(tmp_path: Path) -> None:
    called = recorded(tmp_path)
    places = {name: i for i, name in enumerate(called)}
    last = -1
    for number, names in enumerate(steps(), 1):
        functions = [n for n in names if n not in ("engine.arrivals",)]
        assert functions, f"step {number} names no function"
        for name in functions:
            assert name in places, f"step {number}: {name} was not called"
        first = places[functions[0]]
        assert first > last, f"step {number}: {functions[0]} was called before the step above it"
        last = first


def test_every_name_on_the_page_exists() -> None:
    for name in sorted(set(NAMED.findall(PAGE.read_text("utf-8")))):
        parts = name.split(".")
        for cut in range(len(parts), 0, -1):
            try:
                found: Any = importlib.import_module("eddyline." + ".".join(parts[:cut]))
            except ModuleNotFoundError:
                continue
            for part in parts[cut:]:
                assert hasattr(found, part), name
                found = getattr(found, part)
            break
        else:
            raise AssertionError(name)


def test_every_module_of_the_glossary_exists() -> None:
    root = PAGE.parents[1] / "src" / "eddyline"
    named = set(re.findall(r"`((?!src/)[a-z_]+/[\w/]*(?:\.py)?)`", (PAGE.parent / "glossary.md").read_text("utf-8")))
    assert len(named) > 25
    assert [n for n in sorted(named) if not (root / n).exists()] == []
