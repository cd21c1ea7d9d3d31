"""Spill directories that cannot be written to, and spilled rows that are gone or damaged: one sentence, no answer."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pytest

import eddyline as ed
from eddyline.core.errors import EddylineError
from eddyline.synopses import spill as spilling

ROWS = 1_500
TEXT = "SELECT Istream(R.ts, S.ts AS u) FROM R [ROWS UNBOUNDED], S [ROWS UNBOUNDED] WHERE R.a = S.a"


def stream(seed: int) -> pa.Table:
    """Keys in order, but for a few: rows are spilled, and some of them are needed again."""
    rng = np.random.default_rng(seed)
    keys = np.where(rng.random(ROWS) < 0.05, rng.integers(0, ROWS, ROWS), np.arange(ROWS))
    return pa.table({"ts": np.arange(ROWS), "a": keys})


def run(folder: Path, harm: Callable[[Path], Any]) -> int:
    """How many results there are; half way every file of spilled rows comes to harm."""
    tables = {"R": stream(1), "S": stream(2)}
    session = ed.Session(spill=folder)
    for name, table in tables.items():
        session.stream(name, schema=table.schema, timestamp="ts")
    query = session.query(TEXT, constraints="exact(collect=20, W=10)")
    with patch.object(spilling, "BUFFER_BYTES", 600):
        for at in range(0, ROWS, 50):
            if at == ROWS // 2:
                files = sorted(folder.rglob("*.arrow"))
                assert files
                for path in files:
                    harm(path)
            for name, table in tables.items():
                session.push(name, table.slice(at, 50))
        session.finish()
        return int(query.to_arrow().num_rows)


def cut(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


def emptied(path: Path) -> None:
    os.truncate(path, 0)


@pytest.mark.parametrize("harm", [cut, emptied, Path.unlink])
def test_spilled_rows_that_cannot_be_read_end_the_query(harm: Callable[[Path], Any], tmp_path: Path) -> None:
    with pytest.raises(EddylineError, match=r"\d\.arrow cannot be read, or was damaged .* Go on from a snapshot") as e:
        run(tmp_path, harm)
    assert e.value.exit_status == 1


def test_nothing_happens_to_files_that_are_left_alone(tmp_path: Path) -> None:
    session = ed.Session()
    for name, seed in (("R", 1), ("S", 2)):
        session.stream(name, stream(seed), timestamp="ts")
    assert run(tmp_path, Path.stat) == session.query(TEXT).to_arrow().num_rows


def test_a_directory_in_which_nothing_can_be_made() -> None:
    with pytest.raises(EddylineError, match="cannot spill to /proc: "):
        run(Path("/proc"), Path.stat)
