"""Snapshots: state trees on disk, written in pieces named by their content (``state_codec``).

A snapshot is a manifest (JSON: the tree, with references) and the pieces it refers to. A piece that an earlier
snapshot wrote is not written again.

Layout: ``<dir>/<number>.json`` and ``<dir>/pieces/<sha256>``. A manifest is written when its pieces are on the disk,
and renamed into place: neither a crash nor a loss of power leaves a snapshot that is not whole, and the one before it
stands. The two newest are kept. What is not what was written, by a fault of a disk or of a copy, is refused: a manifest
has a digest of its number and its tree, and a piece has its own for a name.

A piece that no manifest names may be half of a file, left by a loss of power: it is not relied on but written again.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from eddyline.core.errors import EddylineError, clipped
from eddyline.engine.state_codec import FORMAT, Bytes, decode, encode, name_of, references
from eddyline.io import durable


class DamagedSnapshot(EddylineError):
    """A snapshot is not what was written. ``damage`` says what, without the remedy."""

    def __init__(self, damage: str, remedy: str) -> None:
        super().__init__(f"{damage}; {remedy}")
        self.damage = damage


class Snapshots:
    """The snapshots in one directory, which no other process may use meanwhile (``locking``).

    >>> import tempfile
    >>> import numpy as np
    >>> import pyarrow as pa
    >>> s = Snapshots(Path(tempfile.mkdtemp()))
    >>> s.save({"n": 3, "a": np.arange(4), "rows": {"x": pa.array(["p", None])}})
    1
    >>> back = s.load()
    >>> back["n"], back["a"].tolist(), back["rows"]["x"].to_pylist()
    (3, [0, 1, 2, 3], ['p', None])
    """

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.pieces = directory / "pieces"
        self.written = 0  # bytes of pieces written by the last save
        self._fresh: dict[str, Path] = {}  # pieces that are not yet on the disk
        self._named: dict[int, frozenset[str]] = {}  # by snapshot the pieces that it needs

    def numbers(self) -> list[int]:
        stems = [p.stem for p in self.directory.glob("*.json")]
        return sorted(int(s) for s in stems if s.isdecimal() and s == str(int(s)))

    def newest(self) -> int:
        """The number of the newest snapshot; 0: there is none."""
        return (self.numbers() or [0])[-1]

    def save(self, tree: Mapping[str, Any]) -> int:
        """Write a snapshot and return its number. What an interrupted save has left is removed."""
        number = self.newest() + 1
        try:
            self._save(number, tree)
        except OSError as error:
            raise EddylineError(
                f"the snapshot in {str(self.directory)!r} cannot be written: {error.strerror or error}; what was saved"
                " before stands."
            ) from error
        return number

    def _save(self, number: int, tree: Mapping[str, Any]) -> None:
        durable.make_folder(self.directory)
        durable.make_folder(self.pieces)
        self.written, self._fresh = 0, {}
        for n in self.numbers()[-2:]:
            self._needs(n)
        skeleton = encode(tree, self)
        durable.sync([*self._fresh.values(), self.pieces])
        manifest = {"format": FORMAT, "number": number, "tree": skeleton, "digest": _digest(number, skeleton)}
        durable.write(self.directory / f"{number}.json", json.dumps(manifest).encode())
        durable.sync([self.directory])
        self._named[number] = frozenset(references(skeleton))
        self.clean()

    def load(self) -> dict[str, Any]:
        """The tree of the newest snapshot. What an interrupted save has left is removed, once this one is read."""
        number = self.newest()
        if not number:
            raise EddylineError(f"there is no snapshot in {str(self.directory)!r}.")
        skeleton = self._skeleton(number)
        try:
            tree = decode(skeleton, self)
        except FileNotFoundError as e:
            damage = f"the snapshot in {str(self.directory)!r} is not whole: pieces/{Path(e.filename).name} is missing"
            raise DamagedSnapshot(damage, self._remedy(number)) from e
        except OSError as e:
            raise EddylineError(f"{e.filename} cannot be read: {e.strerror}.") from e
        self._named[number] = frozenset(references(skeleton))
        with contextlib.suppress(OSError):  # one may go on from a directory where nothing can be written
            self.clean()
        assert isinstance(tree, dict)
        return tree

    def _skeleton(self, number: int) -> Any:
        """What a manifest says, if it says what was written."""
        name = f"{number}.json"
        try:
            manifest = json.loads((self.directory / name).read_bytes())
        except OSError as e:
            raise EddylineError(f"{name} in {str(self.directory)!r} cannot be read: {e.strerror}.") from e
        except (ValueError, RecursionError) as e:
            damage = f"{name} in {str(self.directory)!r} is no snapshot: {clipped(e)}"
            raise DamagedSnapshot(damage, self._remedy(number)) from e
        if not isinstance(manifest, dict) or "format" not in manifest:
            raise DamagedSnapshot(f"{name} in {str(self.directory)!r} is no snapshot", self._remedy(number))
        if manifest["format"] != FORMAT:
            raise EddylineError(
                f"the snapshot in {str(self.directory)!r} has format {manifest['format']}, this version reads {FORMAT};"
                " run the query from the start, or with the version that wrote it."
            )
        if "tree" not in manifest or manifest.get("digest") != _digest(number, manifest["tree"]):
            raise self._damaged(name, number)
        return manifest["tree"]

    def put(self, name: str, data: Bytes) -> None:
        path = self.pieces / name
        if any(name in known for known in self._named.values()):
            with contextlib.suppress(OSError):
                if path.stat().st_size == len(data):
                    return
        if name not in self._fresh:
            durable.write(path, data, synced=False)
            self._fresh[name] = path
            self.written += len(data)

    def get(self, name: str) -> bytes:
        data = (self.pieces / name).read_bytes()
        if name_of(data) != name:
            raise self._damaged(f"pieces/{name}", self.newest())
        return data

    def _damaged(self, what: str, number: int) -> DamagedSnapshot:
        damage = f"the snapshot in {str(self.directory)!r} is damaged: {what} does not hold what was written"
        return DamagedSnapshot(damage, self._remedy(number))

    def _remedy(self, number: int) -> str:
        before = [n for n in self.numbers() if n < number]
        older = f"remove {number}.json to go on from {before[-1]}.json, " if before else ""
        return f"{older}take a copy of the folder that is whole, or run the query from the start in an empty one."

    def _needs(self, number: int) -> frozenset[str]:
        """The pieces of a snapshot; none of one that is damaged, since it is of no use."""
        if number not in self._named:
            try:
                self._named[number] = frozenset(references(self._skeleton(number)))
            except EddylineError:
                self._named[number] = frozenset()
        return self._named[number]

    def clean(self) -> None:
        """Remove all but the two newest snapshots, and what no snapshot needs: pieces, and files half written."""
        numbers = self.numbers()
        for n in numbers[:-2]:
            (self.directory / f"{n}.json").unlink()
        self._named = {n: self._needs(n) for n in numbers[-2:]}
        used = frozenset[str]().union(*self._named.values())
        durable.remove(self.directory, rf"\d+\.json{durable.HALF}")
        durable.remove(self.pieces, rf"[0-9a-f]{{40}}({durable.HALF})?", but=used)


def _digest(number: int, tree: Any) -> str:
    return name_of(json.dumps([number, tree]).encode())
