"""Snapshots: state trees on disk, written in pieces named by their content.

A snapshot is a manifest (JSON: the tree, with references) and the pieces it refers to. A piece that an earlier
snapshot wrote is not written again, so the bytes written grow with the change, not with the state; the pieces of
windows are cut at fixed row numbers (``Aligned``) so that rows which stay in a window stay in the same piece.

Layout: ``<dir>/<number>.json`` and ``<dir>/pieces/<sha256>``. A manifest is renamed into place after its pieces are
there: a crash leaves the previous snapshot whole. The two newest are kept.
"""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from eddyline.core.aligned import Aligned
from eddyline.core.errors import EddylineError

FORMAT = 1
BLOCK_ROWS = 8192
BLOCK_BYTES = 1 << 16


class Snapshots:
    """The snapshots in one directory.

    >>> import tempfile
    >>> s = Snapshots(Path(tempfile.mkdtemp()))
    >>> s.save({"n": 3, "a": np.arange(4), "rows": {"x": pa.array(["p", None])}})
    1
    >>> back = s.load()
    >>> back["n"], back["a"].tolist(), back["rows"]["x"].to_pylist()
    (3, [0, 1, 2, 3], ['p', None])
    """

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.written = 0  # bytes of pieces written by the last save

    def numbers(self) -> list[int]:
        return sorted(int(p.stem) for p in self.directory.glob("*.json") if p.stem.isdigit())

    def save(self, tree: Mapping[str, Any]) -> int:
        pieces = self.directory / "pieces"
        pieces.mkdir(parents=True, exist_ok=True)
        self.written = 0
        number = (self.numbers() or [0])[-1] + 1
        manifest = {"format": FORMAT, "tree": self._encode(tree, pieces)}
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
            raise EddylineError(f"{numbers[-1]}.json in {str(self.directory)!r} is no snapshot: {e}.") from e
        if not isinstance(manifest, dict) or "format" not in manifest:
            raise EddylineError(f"{numbers[-1]}.json in {str(self.directory)!r} is no snapshot.")
        if manifest["format"] != FORMAT:
            raise EddylineError(
                f"the snapshot in {str(self.directory)!r} has format {manifest['format']}, this version reads {FORMAT};"
                " run the query from the start, or with the version that wrote it."
            )
        try:
            tree = self._decode(manifest["tree"], self.directory / "pieces")
        except FileNotFoundError as e:
            raise EddylineError(
                f"the snapshot in {str(self.directory)!r} is not whole: {e.filename} is missing."
            ) from e
        assert isinstance(tree, dict)
        return tree

    # ── encoding ──────────────────────────────────────────────────────────────────────────────────────────────────

    def _encode(self, value: Any, pieces: Path) -> Any:
        match value:
            case None | bool() | int() | float() | str():
                return {"v": value}
            case np.integer() | np.floating() | np.bool_():
                return {"v": value.item()}
            case Mapping():
                return {"d": {str(k): self._encode(v, pieces) for k, v in value.items()}}
            case list() | tuple():
                return {"l": [self._encode(v, pieces) for v in value]}
            case np.ndarray():
                flat = np.ascontiguousarray(value)
                data = flat.tobytes()
                cut = [self._put(data[i : i + BLOCK_BYTES], pieces) for i in range(0, len(data), BLOCK_BYTES)]
                return {"n": cut, "dtype": str(value.dtype), "shape": list(value.shape)}
            case pa.Array():
                batch = pa.RecordBatch.from_arrays([value], ["x"])
                return {"a": self._put(_ipc(batch), pieces)}
            case pa.RecordBatch():
                return {"b": self._put(_ipc(value), pieces)}
            case Aligned():
                parts = [self._encode(p, pieces) for p in _blocks(value)]
                return {"r": parts, "start": value.start, "length": value.length}
            case _:
                raise TypeError(f"cannot snapshot {type(value).__name__}")

    def _put(self, data: bytes, pieces: Path) -> str:
        name = hashlib.sha256(data).hexdigest()[:40]
        path = pieces / name
        if not path.exists():
            temporary = path.with_suffix(".tmp")
            temporary.write_bytes(data)
            temporary.replace(path)
            self.written += len(data)
        return name

    def _decode(self, value: Any, pieces: Path) -> Any:
        ((kind, inner), *_) = value.items()
        match kind:
            case "v":
                return inner
            case "d":
                return {k: self._decode(v, pieces) for k, v in inner.items()}
            case "l":
                return [self._decode(v, pieces) for v in inner]
            case "n":
                data = b"".join((pieces / n).read_bytes() for n in inner)
                return np.frombuffer(data, value["dtype"]).reshape(value["shape"]).copy()
            case "a":
                return _read((pieces / inner).read_bytes()).column(0)
            case "b":
                return _read((pieces / inner).read_bytes())
            case _:
                return self._join([self._decode(v, pieces) for v in inner])

    @staticmethod
    def _join(parts: list[Any]) -> Any:
        if isinstance(parts[0], np.ndarray):
            return np.concatenate(parts)
        return {n: pa.concat_arrays([p[n] for p in parts]) for n in parts[0]}

    def _clean(self) -> None:
        numbers = self.numbers()
        for n in numbers[:-2]:
            (self.directory / f"{n}.json").unlink()
        used: set[str] = set()
        for n in numbers[-2:]:
            used |= set(_references(json.loads((self.directory / f"{n}.json").read_text())["tree"]))
        for piece in (self.directory / "pieces").iterdir():
            if piece.name not in used:
                piece.unlink()


def _blocks(value: Aligned) -> Iterator[Any]:
    at = value.start
    end = value.start + value.length
    first = True
    while at < end or first:
        stop = min(end, (at // BLOCK_ROWS + 1) * BLOCK_ROWS)
        low, high = at - value.start, stop - value.start
        if isinstance(value.rows, np.ndarray):
            yield value.rows[low:high]
        else:
            yield {n: c.slice(low, high - low) for n, c in value.rows.items()}
        at, first = stop, False


def _references(value: Any) -> Iterator[str]:
    ((kind, inner), *_) = value.items()
    if kind == "d":
        for v in inner.values():
            yield from _references(v)
    elif kind in ("l", "r"):
        for v in inner:
            yield from _references(v)
    elif kind == "n":
        yield from inner
    elif kind in ("a", "b"):
        yield inner


def _ipc(batch: pa.RecordBatch) -> bytes:
    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return sink.getvalue()


def _read(data: bytes) -> pa.RecordBatch:
    with pa.ipc.open_stream(data) as reader:
        return reader.read_next_batch()
