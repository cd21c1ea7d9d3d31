"""The files of snapshots: when they are on the disk, who can read them, what killed writes leave."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from eddyline.core.errors import EddylineError
from eddyline.engine.snapshot import Snapshots
from eddyline.io import durable


def tree(n: int) -> dict[str, Any]:
    return {"n": n, "a": np.arange(n, n + 4), "b": np.arange(100)}


def test_everything_is_on_the_disk_before_it_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: set[Path] = set()
    write, sync = durable.write, durable._sync

    def noted_write(path: Path, data: bytes, *, synced: bool = True) -> None:
        if path.suffix == ".json":
            assert synced
            pieces = set((path.parent / "pieces").iterdir())
            assert pieces and pieces | {path.parent / "pieces"} <= noted_write.before  # type: ignore[attr-defined]
        write(path, data, synced=synced)

    def noted_sync(path: Path) -> None:
        sync(path)
        synced.add(path)

    noted_write.before = synced  # type: ignore[attr-defined]
    monkeypatch.setattr(durable, "write", noted_write)
    monkeypatch.setattr(durable, "_sync", noted_sync)
    snapshots = Snapshots(tmp_path / "s")
    for n in (1, 2, 3):
        snapshots.save(tree(n))
    assert tmp_path / "s" in synced and tmp_path in synced  # the names of the manifests, and of the directory


def test_only_the_owner_can_read_them(tmp_path: Path) -> None:
    directory = tmp_path / "above" / "s"
    Snapshots(directory).save(tree(1))
    found = [directory, *directory.rglob("*")]
    assert len(found) > 4
    assert {p.stat().st_mode & 0o777 for p in found if p.is_dir()} == {0o700}
    assert {p.stat().st_mode & 0o777 for p in found if p.is_file()} == {0o600}


def test_what_killed_writes_leave_is_removed_and_other_files_are_not(tmp_path: Path) -> None:
    Snapshots(tmp_path).save(tree(1))
    kept = sorted(tmp_path.rglob("*"))
    (tmp_path / "notes.tmp").write_text("of the user")
    (tmp_path / "pieces" / "readme").write_text("of the user")
    left = [tmp_path / "2.json.tmp", tmp_path / "pieces" / ("a" * 40), tmp_path / "pieces" / ("b" * 40 + ".tmp")]
    for clean in (lambda: Snapshots(tmp_path).load(), lambda: Snapshots(tmp_path).save(tree(1))):
        for path in left:
            path.write_text("half")
        clean()
        assert not [p for p in left if p.exists()]
    (tmp_path / "2.json").unlink()
    assert sorted(tmp_path.rglob("*")) == sorted([*kept, tmp_path / "notes.tmp", tmp_path / "pieces" / "readme"])


def test_a_piece_that_no_snapshot_names_is_not_relied_on(tmp_path: Path) -> None:
    """A loss of power may leave a name without its data."""
    other = tmp_path / "other"
    Snapshots(other).save(tree(1))
    (tmp_path / "s" / "pieces").mkdir(parents=True)
    for piece in (other / "pieces").iterdir():
        (tmp_path / "s" / "pieces" / piece.name).write_bytes(b"")
    Snapshots(tmp_path / "s").save(tree(1))
    assert Snapshots(tmp_path / "s").load()["a"].tolist() == [1, 2, 3, 4]


def test_a_piece_that_is_gone_is_written_again(tmp_path: Path) -> None:
    snapshots = Snapshots(tmp_path)
    snapshots.save(tree(1))
    for piece in (tmp_path / "pieces").iterdir():
        piece.unlink()
    snapshots.save(tree(1))
    assert snapshots.load()["a"].tolist() == [1, 2, 3, 4]


def test_a_manifest_under_the_number_of_another_is_refused(tmp_path: Path) -> None:
    snapshots = Snapshots(tmp_path)
    first, second = (tmp_path / f"{snapshots.save(tree(n))}.json" for n in (1, 2))
    new = second.read_bytes()
    second.write_bytes(first.read_bytes())
    with pytest.raises(
        EddylineError, match=r"2\.json does not hold what was written; remove 2\.json to go on from 1\."
    ):
        Snapshots(tmp_path).load()
    second.unlink()
    assert Snapshots(tmp_path).load()["n"] == 1
    second.write_bytes(new)
    assert Snapshots(tmp_path).load()["n"] == 2


def test_a_damaged_snapshot_before_the_newest_does_not_matter(tmp_path: Path) -> None:
    for n in (1, 2):
        Snapshots(tmp_path).save(tree(n))
    (tmp_path / "1.json").write_text("{")
    assert Snapshots(tmp_path).load()["n"] == 2
    Snapshots(tmp_path).save(tree(3))
    assert Snapshots(tmp_path).load()["n"] == 3


def test_names_that_are_no_numbers(tmp_path: Path) -> None:
    snapshots = Snapshots(tmp_path)
    snapshots.save(tree(1))
    for name in ("007.json", "٣.json", "job.json", "-5.json"):
        (tmp_path / name).write_text("{}")
    assert snapshots.numbers() == [1]


def test_a_snapshot_that_cannot_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    snapshots = Snapshots(tmp_path)
    snapshots.save(tree(1))

    def full(*_: Any, **__: Any) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(durable, "write", full)
        with pytest.raises(EddylineError, match=r"cannot be written: No space left on device; what was saved before"):
            snapshots.save(tree(2))
    assert snapshots.load()["n"] == 1


def test_every_bit_of_a_manifest_counts(tmp_path: Path) -> None:
    Snapshots(tmp_path).save({"n": 1, "text": "x", "f": 0.5, "none": None})
    path = tmp_path / "1.json"
    whole = path.read_bytes()
    changed = 0
    for i in range(len(whole)):
        for bit in (0, 2, 5):
            path.write_bytes(whole[:i] + bytes([whole[i] ^ 1 << bit]) + whole[i + 1 :])
            try:
                found = Snapshots(tmp_path).load()
            except EddylineError:
                changed += 1
            else:  # other spelling of the same
                assert found == {"n": 1, "text": "x", "f": 0.5, "none": None}
    assert changed > 2 * len(whole)
    assert json.loads(whole)["number"] == 1
