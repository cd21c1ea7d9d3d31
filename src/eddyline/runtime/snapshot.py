"""Snapshots: state trees on disk, written in pieces named by their content (``state_codec``).

A snapshot is a manifest (JSON: the tree, with references) and the pieces it refers to. A piece that an earlier
snapshot wrote is not written again.

Layout: ``<dir>/<number>.json`` and ``<dir>/pieces/<sha256>``. A manifest is renamed into place after its pieces are
there: a crash leaves the previous snapshot whole. The two newest are kept. What is not what was written, by a fault of
a disk or of a copy, is refused: a manifest has a digest of its tree, and a piece has its own for a name.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from eddyline.core.errors import EddylineError, clipped
from eddyline.runtime.state_codec import FORMAT, Bytes, decode, encode, name_of, references


class Snapshots:
    """The snapshots in one directory.

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

    def numbers(self) -> list[int]:
        return sorted(int(p.stem) for p in self.directory.glob("*.json") if p.stem.isdigit())

    def save(self, tree: Mapping[str, Any]) -> int:
        self.pieces.mkdir(parents=True, exist_ok=True)
        self.written = 0
        number = (self.numbers() or [0])[-1] + 1
        written = encode(tree, self)
        manifest = {"format": FORMAT, "tree": written, "digest": _digest(written)}
        path = self.directory / f"{number}.json"
        temporary = path.with_suffix(".tmp")
        temporary.write_text(json.dumps(manifest))
        temporary.replace(path)
        self._clean()
        return number

    def load(self) -> dict[str, Any]:
        numbers = self.numbers()
        if not numbers:
            raise EddylineError(f"there is no snapshot in {str(self.directory)!r}.")
        try:
            manifest = json.loads((self.directory / f"{numbers[-1]}.json").read_text())
        except ValueError as e:
            raise EddylineError(f"{numbers[-1]}.json in {str(self.directory)!r} is no snapshot: {clipped(e)}.") from e
        if not isinstance(manifest, dict) or "format" not in manifest:
            raise EddylineError(f"{numbers[-1]}.json in {str(self.directory)!r} is no snapshot.")
        if manifest["format"] != FORMAT:
            raise EddylineError(
                f"the snapshot in {str(self.directory)!r} has format {manifest['format']}, this version reads {FORMAT};"
                " run the query from the start, or with the version that wrote it."
            )
        if "tree" not in manifest or manifest.get("digest") != _digest(manifest["tree"]):
            raise self._damaged(f"{numbers[-1]}.json")
        try:
            tree = decode(manifest["tree"], self)
        except FileNotFoundError as e:
            raise EddylineError(
                f"the snapshot in {str(self.directory)!r} is not whole: {e.filename} is missing."
            ) from e
        assert isinstance(tree, dict)
        return tree

    def put(self, name: str, data: Bytes) -> None:
        path = self.pieces / name
        if not path.exists():
            temporary = path.with_suffix(".tmp")
            temporary.write_bytes(data)
            temporary.replace(path)
            self.written += len(data)

    def get(self, name: str) -> bytes:
        data = (self.pieces / name).read_bytes()
        if name_of(data) != name:
            raise self._damaged(f"pieces/{name}")
        return data

    def _damaged(self, what: str) -> EddylineError:
        return EddylineError(
            f"the snapshot in {str(self.directory)!r} is damaged: {what} does not hold what was written; take a copy of"
            " the folder that is whole, or run the query from the start."
        )

    def _clean(self) -> None:
        numbers = self.numbers()
        for n in numbers[:-2]:
            (self.directory / f"{n}.json").unlink()
        used: set[str] = set()
        for n in numbers[-2:]:
            used |= set(references(json.loads((self.directory / f"{n}.json").read_text())["tree"]))
        for piece in self.pieces.iterdir():
            if piece.name not in used:
                piece.unlink()


def _digest(tree: Any) -> str:
    return name_of(json.dumps(tree).encode())
