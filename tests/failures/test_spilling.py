"""Spill directories that cannot be written to, and spilled rows that are gone or damaged: one sentence, no answer."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pytest

import eddyline as ed
from eddyline import cli
from eddyline.core.errors import EddylineError, JobError
from eddyline.core.schema import Field, Schema
from eddyline.kernels.constrained_filter import keep_known
from eddyline.synopses import spill, spill_runs
from eddyline.synopses.spill_file import SpillFile
from eddyline.synopses.spill_folder import SpillFolder
from eddyline.synopses.spill_runs import SortedRuns
from eddyline.synopses.spill_segment import Segment, SpilledRows
from tests.failures.attack import Attack, spilling

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
    with patch.object(spill, "BUFFER_BYTES", 600):
        for at in range(0, ROWS, 50):
            if at == ROWS // 2:
                files = sorted(folder.rglob("*.rows"))
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


def flipped(path: Path) -> None:
    """One bit in every 256 bytes: of runs and of rows."""
    data = bytearray(path.read_bytes())
    for at in range(0, len(data), 256):
        data[at] ^= 4
    path.write_bytes(data)


@pytest.mark.parametrize("harm", [cut, emptied, flipped, Path.unlink])
def test_spilled_rows_that_cannot_be_read_end_the_query(harm: Callable[[Path], Any], tmp_path: Path) -> None:
    with pytest.raises(
        EddylineError, match=r"\d\.rows cannot be read, or was damaged .* Continue from a snapshot"
    ) as e:
        run(tmp_path, harm)
    assert e.value.exit_status == 1


def test_nothing_happens_to_files_that_are_left_alone(tmp_path: Path) -> None:
    session = ed.Session()
    for name, seed in (("R", 1), ("S", 2)):
        session.stream(name, stream(seed), timestamp="ts")
    assert run(tmp_path, Path.stat) == session.query(TEXT).to_arrow().num_rows


def test_every_flipped_bit_is_noticed(tmp_path: Path) -> None:
    """Whatever is read of a segment: keys of a run, their places, rows."""
    rng = np.random.default_rng(3)
    number, keys = np.arange(3000), rng.integers(0, 900, (3000, 2))
    texts = pa.array([f"text {i}" if i % 7 else None for i in range(3000)])
    rows = SpilledRows(number, number + 9, number % 5, keys, {"v": texts, "w": texts.dictionary_encode()})
    file = SpillFile(tmp_path / "0.rows")
    parts = [SortedRuns.of(file, Segment(file, rows.take(at), 0), keys[at], (0, 1)) for at in np.split(number, 5)]
    runs = SortedRuns.merged(file, parts)
    whole = SpilledRows.concat(runs.all())
    assert whole.columns["v"].equals(texts) and whole.columns["w"].equals(texts)
    assert (whole.keys == keys).all() and (whole.why == number % 5).all()
    for port in range(2):
        assert sorted(runs.keys(port).tolist()) == sorted(keys[:, port].tolist())
        for key in (0, 17, 899, 900, -1):
            assert runs.look_up(port, np.array([key]))[0].tolist() == np.flatnonzero(keys[:, port] == key).tolist()
        at, found = runs.look_up(port, np.arange(100, 300))
        assert at.tolist() == np.flatnonzero((keys[:, port] >= 100) & (keys[:, port] < 300)).tolist()
        assert (found == keys[at]).all()
    data = file.path.read_bytes()
    assert len(data) == file.bytes == runs.bytes + sum(p.bytes + p.segments[0].bytes for p in parts)
    for at in rng.integers(0, len(data), 60).tolist():
        damaged = bytearray(data)
        damaged[at] ^= 1 << int(rng.integers(8))
        file.path.write_bytes(damaged)
        with pytest.raises(
            EddylineError, match=r"0\.rows cannot be read, or was damaged .* are not those that were written"
        ):
            for group in (runs, *parts):
                for port in range(2):
                    group.keys(port)
            runs.all()


def test_runs_are_merged_and_rows_that_are_gone_are_not_found(tmp_path: Path) -> None:
    """Rows that are taken back or leave their windows before or after their runs are merged."""
    rng = np.random.default_rng(5)
    held = spill.Spill([Schema((Field("a", pa.int64()),))], 1, str(tmp_path))
    number, there = 0, dict[int, int]()
    with patch.object(spill, "BUFFER_BYTES", 2_000), patch.object(spill_runs, "BLOCKS_PER_PIECE", 2):
        for turn in range(120):
            keys = rng.integers(0, 500, 100)
            there |= dict(zip(range(number, number + 100), keys.tolist(), strict=True))
            columns = {"a": pa.array(keys)}
            numbers = np.arange(number, number + 100)
            held.add(0, numbers, numbers + 9, keys.reshape(-1, 1), np.ones(100, np.int64), columns)
            number += 100
            wanted = np.unique(rng.integers(0, 500, 3))
            found = [rows for _, rows in held.take(np.column_stack([0 * wanted, wanted]))]
            expected = sorted(n for n, key in there.items() if key in wanted.tolist())
            assert sorted(n for rows in found for n in rows.number.tolist()) == expected
            for rows in found:
                assert rows.columns["a"].to_pylist() == rows.keys[:, 0].tolist() == [there[n] for n in rows.number]
            there = {n: key for n, key in there.items() if n not in expected}
            if turn % 10 == 9:
                oldest = number - 6_000
                held.expire(0, np.array([number]), np.array([6_000]))
                there = {n: key for n, key in there.items() if n >= oldest}
                left = held.rows_of(0)  # segments go as a whole
                kept = {n: int(a) for r in left for n, a in zip(r.number.tolist(), r.keys[:, 0], strict=True)}
                assert set(there) <= set(kept) and min(kept) > oldest - 200
                there = kept
            assert held.rows() == [len(there)]
    assert max(g.level for g in held.groups[0]) >= 2 and len(held.groups[0]) < 16
    held.clear()
    assert not list(tmp_path.rglob("*.rows"))


def spilled(folder: Path, keys: np.ndarray[Any, Any], pieces: int) -> spill.Spill:
    """Rows with these keys, each piece of which is written at once."""
    held = spill.Spill([Schema((Field("a", pa.int64()),))], 1, str(folder))
    with patch.object(spill, "BUFFER_BYTES", 0):
        for at in np.array_split(np.arange(len(keys)), pieces):
            held.add(0, at, at + 9, keys[at].reshape(-1, 1), np.ones(len(at), np.int64), {"a": pa.array(keys[at])})
    return held


def ask(held: spill.Spill, *keys: int) -> list[int]:
    found = [rows for _, rows in held.take(np.column_stack([np.zeros(len(keys), np.int64), keys]))]
    return sorted(n for rows in found for n in rows.number.tolist())


def test_what_is_not_asked_for_enters_no_filter(tmp_path: Path) -> None:
    """Keys in order: a piece is indexed when a key between its least and its largest is asked for."""
    held = spilled(tmp_path, np.arange(1_000), 10)
    assert ask(held, -1, 1_000, 5_000) == []
    assert [g.level for g in held.groups[0]] == [-1] * 10 and not held.filters[:2].any()
    unsorted = held.disk
    assert ask(held, 321, 322, 2_000) == [321, 322]
    assert [n for n, g in enumerate(held.groups[0]) if g.level == 0] == [3] and held.filters[0, 0, 1] > 0
    assert held.disk > unsorted and ask(held, 321, 323) == [323]
    again = spill.Spill([Schema((Field("a", pa.int64()),))], 1, str(tmp_path))
    again.load(held.state())
    assert again.rows() == [997] and ask(again, *range(310, 330)) == [n for n in range(310, 330) if not 320 < n < 324]
    held.expire(0, np.array([1_000]), np.array([400]))
    assert [len(g) for g in held.groups[0]] == [100] * 4
    assert held.filters[2, 0].tolist() == [600, 999] and ask(held, 321, 650) == [650]
    held.clear()
    again.clear()
    assert not list(tmp_path.rglob("*.rows"))


def test_where_keys_come_in_no_order_pieces_are_indexed_at_once(tmp_path: Path) -> None:
    rng = np.random.default_rng(7)
    held = spill.Spill([Schema((Field("a", pa.int64()),))], 1, str(tmp_path))
    late = 0  # pieces that were written without runs
    with patch.object(spill, "BUFFER_BYTES", 0):
        for turn in range(60):
            keys = rng.integers(0, 1 << 40, 50)
            at = 50 * turn + np.arange(50)
            held.add(0, at, at + 9, keys.reshape(-1, 1), np.ones(50, np.int64), {"a": pa.array(keys)})
            late += held.groups[0][-1].level < 0
            assert ask(held, int(keys[7]), int(rng.integers(0, 1 << 40))) == [50 * turn + 7]
    assert 1 <= late <= 5
    held.clear()


@pytest.mark.parametrize("seed", range(6))
def test_every_spilled_key_is_in_a_filter_or_in_the_range_of_what_is_in_none(seed: int, tmp_path: Path) -> None:
    """However small filters are at first, and whatever is asked for: keys nearly in order, in none, or few."""
    rng = np.random.default_rng(seed)
    held = spill.Spill([Schema((Field("a", pa.int64()),))], 1, str(tmp_path))
    number, near = 0, (3, 40, 1 << 30)[seed % 3]
    with patch.object(spill, "BUFFER_BYTES", (400, 9_000)[seed % 2]), patch.object(spill, "INITIAL_FILTER_KEYS", 4):
        for turn in range(150):
            at = number + np.arange(rng.integers(3, 6))
            keys = at + rng.integers(0, near, len(at))
            held.add(0, at, at + 9, keys.reshape(-1, 1), np.ones(len(at), np.int64), {"a": pa.array(keys)})
            number += len(at)
            if rng.random() < 0.2:
                ask(held, *(number + rng.integers(-20, near, 2)).tolist())
            if turn % 9 == 8:
                held.expire(0, np.array([number]), np.array([200]))
            left = np.concatenate([np.empty(0, np.int64), *(rows.keys[:, 0] for rows in held.rows_of(0))])
            low, high = held.filters[2, 0].tolist()
            lines = np.zeros((len(left), 3), np.int64)
            lines[:, 1] = left
            out = lines[(left < low) | (left > high)]
            assert keep_known(np.ascontiguousarray(out), held.filters, held.bits) == len(out)
    held.clear()


def test_rows_without_runs_that_were_damaged_are_noticed(tmp_path: Path) -> None:
    held = spilled(tmp_path, np.arange(1_000), 2)
    for path in tmp_path.rglob("*.rows"):
        flipped(path)
    with pytest.raises(EddylineError, match="are not those that were written"):
        ask(held, 10)


def test_a_directory_in_which_nothing_can_be_made() -> None:
    with pytest.raises(JobError, match="cannot spill to /proc: "):
        run(Path("/proc"), Path.stat)


def test_the_directory_is_checked_at_the_start(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Also where no query will spill."""
    (tmp_path / "s.csv").write_text("ts,a\n1,2\n")
    (tmp_path / "job.cql").write_text("CREATE STREAM S FROM 's.csv' TIMESTAMP BY ts; SELECT a FROM S;")
    job = str(tmp_path / "job.cql")
    assert cli.main(["run", job, "--runtime", "inline", "--spill", str(tmp_path / "s.csv")]) == 2
    assert "cannot spill to " in capsys.readouterr().err
    assert cli.main(["run", job, "--runtime", "inline", "--spill", str(tmp_path / "new" / "folder")]) == 0
    assert list((tmp_path / "new" / "folder").iterdir()) == []


def test_what_a_killed_process_left_is_swept_away(tmp_path: Path) -> None:
    text = (
        "import os, sys; from eddyline.synopses.spill_folder import SpillFolder; kept = SpillFolder(sys.argv[1]);"
        " (kept.path / '0.rows').write_bytes(b'x'); os.kill(os.getpid(), 9)"
    )
    subprocess.run([sys.executable, "-c", text, str(tmp_path)], check=False)
    assert len(list(tmp_path.rglob("*.rows"))) == 1
    mine = SpillFolder(str(tmp_path))
    assert list(tmp_path.iterdir()) == [mine.path]
    other = SpillFolder(str(tmp_path))  # a folder in use stays
    assert sorted(tmp_path.iterdir()) == sorted([mine.path, other.path])
    del mine, other
    assert list(tmp_path.iterdir()) == []


def test_killed_and_damaged_while_rows_are_spilled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A short form of ``python -m tests.failures.attack --spilling``; the rows are those of a join that spills none."""
    monkeypatch.setenv("EDDYLINE_RUNTIME", "inline")
    parts = spilling()
    off = parts["job"].replace("exact(collect=20, W=10)", "off")
    (tmp_path / "off").mkdir()
    plain = Attack(tmp_path / "off", 1, **{**parts, "job": off})
    (tmp_path / "exact").mkdir()
    attack = Attack(tmp_path / "exact", 1, **parts)
    assert attack.expected == plain.expected and len(plain.expected["pairs"]) > 300
    copies = attack.kills(2)
    attack.damages(6, [*attack.stages(2), *copies])
    assert attack.outcomes["killed"] == 2 and attack.outcomes["exact rows"] >= 2
    run = attack.folder / "rest"
    gc.collect()  # sessions of this process that were refused
    SpillFolder(str(run))
    assert list(run.iterdir()) == []  # nothing of the killed runs is left
