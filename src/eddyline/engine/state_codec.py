"""State trees ↔ pieces named by their content.

A tree (nested dictionaries and lists of numbers, numpy arrays, Arrow arrays and batches) becomes a skeleton, which is
JSON with references, and the pieces that it refers to. A piece is named by the hash of its bytes, so a store that has
it already need not write it again; the rows of windows are cut at fixed row numbers (``Aligned``), so that rows which
stay in a window stay in the same piece. Bytes written therefore grow with the change, not with the state.

Integers of 64 bits that lie near each other, as times and keys do, are kept as 32 bits above the smallest of the piece.
That is half of the bytes, and more: what differs from another column by a constant, as the instants at which rows leave
a window do from their times, becomes the same piece and is not kept at all.
"""

from __future__ import annotations

import hashlib
import io
from collections.abc import Iterator, Mapping
from typing import Any, Final, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from eddyline.core.aligned import Aligned

FORMAT = 6
BLOCK_ROWS = 8192
BLOCK_BYTES = 1 << 16

# Arrow types whose values are kept as they lie in memory, where none is NULL: an IPC message around each block of each
# column would take most of the time of a snapshot.
_TYPES = (
    *(pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64()),
    *(pa.float32(), pa.float64(), pa.date32(), pa.timestamp("us"), pa.timestamp("us", "UTC"), pa.duration("us")),
)
PLAIN: Final[Mapping[str, pa.DataType]] = {str(t): t for t in _TYPES}
WHOLE: Final = frozenset(map(str, (pa.int64(), pa.timestamp("us"), pa.timestamp("us", "UTC"), pa.duration("us"))))

Bytes = bytes | memoryview


class Pieces(Protocol):
    """Where pieces are kept. What is put may be a view of memory that changes later: it is to be used at once."""

    def put(self, name: str, data: Bytes) -> None: ...
    def get(self, name: str) -> Bytes: ...


def encode(value: Any, pieces: Pieces) -> Any:
    """The skeleton of a tree; its pieces are put away.

    >>> class Memory(dict):
    ...     put, get = dict.__setitem__, dict.__getitem__
    >>> memory = Memory()
    >>> skeleton = encode({"n": 3, "a": np.arange(4), "rows": {"x": pa.array(["p", None])}}, memory)
    >>> back = decode(skeleton, memory)
    >>> back["n"], back["a"].tolist(), back["rows"]["x"].to_pylist()
    (3, [0, 1, 2, 3], ['p', None])
    """
    match value:
        case None | bool() | int() | float() | str():
            return {"v": value}
        case np.integer() | np.floating() | np.bool_():
            return {"v": value.item()}
        case Mapping():
            return {"d": {str(k): encode(v, pieces) for k, v in value.items()}}
        case list() | tuple():
            return {"l": [encode(v, pieces) for v in value]}
        case np.ndarray() if value.ndim == 1 and value.dtype == np.int64 and 0 < value.nbytes <= BLOCK_BYTES:
            # One piece only: the smallest of many would change, and every piece with it, when one of them does.
            data, base = _narrow(value)
            return {"n": [_put(data, pieces)], "dtype": "int64", "shape": [len(value)], **base}
        case np.ndarray():
            data = np.ascontiguousarray(value).reshape(-1).view(np.uint8).data
            cut = [_put(data[i : i + BLOCK_BYTES], pieces) for i in range(0, len(data), BLOCK_BYTES)]
            return {"n": cut, "dtype": str(value.dtype), "shape": list(value.shape)}
        case pa.Array() if len(value) and not value.null_count and str(value.type) in PLAIN:
            width = value.type.bit_width // 8
            values = memoryview(value.buffers()[1])[width * value.offset : width * (value.offset + len(value))]
            above: dict[str, int] = {}
            if str(value.type) in WHOLE:
                values, above = _narrow(np.frombuffer(values, np.int64))
            return {"p": _put(values, pieces), "type": str(value.type), **above}
        case pa.Array():
            return {"a": _put(_ipc(pa.RecordBatch.from_arrays([value], ["x"])), pieces)}
        case pa.RecordBatch():
            return {"b": _put(_ipc(value), pieces)}
        case Aligned():
            parts = [encode(p, pieces) for p in _blocks(value)]
            return {"r": parts, "start": value.start, "length": value.length}
        case _:
            raise TypeError(f"cannot save {type(value).__name__}")


def decode(skeleton: Any, pieces: Pieces) -> Any:
    """The inverse of ``encode``."""
    ((kind, inner), *_) = skeleton.items()
    match kind:
        case "v":
            return inner
        case "d":
            return {k: decode(v, pieces) for k, v in inner.items()}
        case "l":
            return [decode(v, pieces) for v in inner]
        case "n":
            data = b"".join(pieces.get(n) for n in inner)
            if "base" in skeleton:
                return _widen(data, skeleton["base"])
            return np.frombuffer(data, skeleton["dtype"]).reshape(skeleton["shape"]).copy()
        case "p":
            values, of = pieces.get(inner), PLAIN[skeleton["type"]]
            if "base" in skeleton:
                values = _widen(values, skeleton["base"]).data
            return pa.Array.from_buffers(
                of, memoryview(values).nbytes * 8 // of.bit_width, [None, pa.py_buffer(values)]
            )
        case "a":
            return _read(pieces.get(inner)).column(0)
        case "b":
            return _read(pieces.get(inner))
        case _:
            return _join([decode(v, pieces) for v in inner])


def references(skeleton: Any) -> Iterator[str]:
    """The names of the pieces that a skeleton needs."""
    ((kind, inner), *_) = skeleton.items()
    if kind == "d":
        for v in inner.values():
            yield from references(v)
    elif kind in ("l", "r"):
        for v in inner:
            yield from references(v)
    elif kind == "n":
        yield from inner
    elif kind in ("a", "b", "p"):
        yield inner


def name_of(data: Bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:40]


def _put(data: Bytes, pieces: Pieces) -> str:
    name = name_of(data)
    pieces.put(name, data)
    return name


def _narrow(values: npt.NDArray[np.int64]) -> tuple[memoryview, dict[str, int]]:
    """The bytes to keep, and what they are above; nothing where they are the values themselves.

    >>> data, base = _narrow(np.array([1 << 40, (1 << 40) + 7]))
    >>> len(data), base["base"] == 1 << 40, _widen(data, 1 << 40).tolist() == [1 << 40, (1 << 40) + 7]
    (8, True, True)
    >>> _narrow(np.array([-(1 << 62), 1 << 62]))[1]
    {}
    """
    low, high = int(values.min()), int(values.max())
    if high - low >= 1 << 32:
        return np.ascontiguousarray(values).view(np.uint8).data, {}
    return (values - low).astype(np.uint32).view(np.uint8).data, {"base": low}


def _widen(data: Bytes, base: int) -> npt.NDArray[np.int64]:
    return np.frombuffer(data, np.uint32).astype(np.int64) + base


def _join(parts: list[Any]) -> Any:
    if isinstance(parts[0], np.ndarray):
        return np.concatenate(parts)
    return {n: pa.concat_arrays([p[n] for p in parts]) for n in parts[0]}


def _blocks(value: Aligned) -> Iterator[Any]:
    at = value.start
    end = value.start + value.length
    rows = value.block or BLOCK_ROWS
    first = True
    while at < end or first:
        stop = min(end, (at // rows + 1) * rows)
        low, high = at - value.start, stop - value.start
        if isinstance(value.rows, np.ndarray):
            yield value.rows[low:high]
        else:
            yield {n: c.slice(low, high - low) for n, c in value.rows.items()}
        at, first = stop, False


def _ipc(batch: pa.RecordBatch) -> bytes:
    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return sink.getvalue()


def _read(data: Bytes) -> pa.RecordBatch:
    with pa.ipc.open_stream(data) as reader:
        return reader.read_next_batch()
