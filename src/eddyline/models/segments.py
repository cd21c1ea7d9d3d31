"""Segment tables: what a signal was, as polynomials over stretches of time, in Arrow and in Parquet.

A row is one segment: the key's columns, ``_from`` and ``_to`` (it holds for ``_from`` ≤ t < ``_to``), ``_samples`` (how
many samples it stands for), and for each modelled value its coefficients c₀, c₁, … of the powers of t − ``_from``, in
ticks of an integer time and in seconds of a timestamp. Coefficients are an Arrow extension type over lists of doubles,
so that readers which do not know it see lists. The schema's metadata says that a table holds segments.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow.types import is_fixed_size_list

from eddyline.core.delta import Float64s
from eddyline.core.errors import JobError
from eddyline.core.time import TimeKind

METADATA = b"eddyline.segments"
SPARK_METADATA = b"org.apache.spark.sql.parquet.row.metadata"
EXTENSION = "eddyline.polynomial"
FROM, TO, SAMPLES = "_from", "_to", "_samples"
MAX_INPUT_DEGREE = 4


class PolynomialType(pa.ExtensionType):  # type: ignore[misc]
    """Coefficients of the powers 0 to ``degree``.

    >>> PolynomialType(1).storage_type
    FixedSizeListType(fixed_size_list<item: double>[2])
    """

    def __init__(self, degree: int) -> None:
        self.degree = degree
        super().__init__(pa.list_(pa.float64(), degree + 1), EXTENSION)

    def __arrow_ext_serialize__(self) -> bytes:
        return str(self.degree).encode()

    @classmethod
    def __arrow_ext_deserialize__(cls, storage: pa.DataType, serialized: bytes) -> PolynomialType:
        return cls(int(serialized))

    def __hash__(self) -> int:  # Arrow's own extension types have none, but what asks for a type looks it up
        return hash((EXTENSION, self.degree))


def register() -> None:
    """Make Arrow know the type; once for a process is enough, and again does no harm."""
    try:
        pa.register_extension_type(PolynomialType(1))
    except pa.ArrowKeyError:
        return  # another caller did


register()


@dataclass(frozen=True, slots=True)
class ModelledValue:
    """A value that segments model. ``error`` is its bound, relative to |value| with an absolute ``floor`` if
    ``relative``; None: nothing is known of the error."""

    name: str
    degree: int
    error: float | None = None
    relative: bool = False
    floor: float = 0.0


@dataclass(frozen=True, slots=True)
class SegmentLayout:
    """What the columns of a segment table mean. ``time`` is the name that the samples' column of time had."""

    key: tuple[str, ...]
    values: tuple[ModelledValue, ...]
    kind: TimeKind
    time: str = "_time"
    max_gap: int | None = None

    @property
    def time_type(self) -> pa.DataType:
        return pa.int64() if self.kind is TimeKind.INTEGER else pa.timestamp("us")

    @property
    def scale(self) -> float:
        """Units of t in a tick."""
        return 1.0 / self.kind.ticks_per_second

    def to_json(self) -> bytes:
        values = [{k: getattr(v, k) for k in ("name", "degree", "error", "relative", "floor")} for v in self.values]
        return json.dumps(
            {"version": 1, "key": list(self.key), "values": values, "kind": self.kind.value, "time": self.time,
             "max_gap": self.max_gap}
        ).encode()  # fmt: skip

    @staticmethod
    def of(schema: pa.Schema, place: str = "the table") -> SegmentLayout | None:
        """The layout that a schema's metadata declare; None: it is no segment table."""
        declared = (schema.metadata or {}).get(METADATA) or _written_by_spark(schema)
        if declared is None:
            return None
        return SegmentLayout.from_json(declared, schema.names, place)

    @staticmethod
    def from_json(declared: bytes | str, names: Sequence[str], place: str = "the table") -> SegmentLayout:
        """The layout in a table's metadata; ``names`` are the columns that the table has."""
        try:
            said: dict[str, Any] = json.loads(declared)
            version = said["version"]
            layout = SegmentLayout(
                tuple(said["key"]), tuple(ModelledValue(**v) for v in said["values"]), TimeKind(said["kind"]),
                said["time"], said["max_gap"],
            )  # fmt: skip
            if not layout.values or not all(isinstance(v.degree, int) and v.degree >= 0 for v in layout.values):
                raise ValueError("segments have values, and a degree is a whole number")
        except (KeyError, TypeError, ValueError) as error:
            message = f"{place}: the metadata {METADATA.decode()!r} are not those of a segment table"
            raise JobError(f"{message}: fit it again, or remove them to read plain rows.") from error
        if version != 1:
            raise JobError(f"{place} holds segments of format {version}, and only format 1 is read: fit it again.")
        missing = [n for n in (*layout.key, FROM, TO, *(v.name for v in layout.values)) if n not in names]
        if missing:
            raise JobError(f"{place} is a segment table without its column {missing[0]!r}.")
        return layout

    def schema(self, keys: Sequence[pa.DataType]) -> pa.Schema:
        """The schema of a table with keys of these types."""
        fields = [pa.field(n, t) for n, t in zip(self.key, keys, strict=True)]
        fields += [pa.field(FROM, self.time_type), pa.field(TO, self.time_type), pa.field(SAMPLES, pa.int64())]
        fields += [pa.field(v.name, PolynomialType(v.degree)) for v in self.values]
        return pa.schema(fields, {METADATA: self.to_json()})


def flat_names(layout: SegmentLayout) -> list[str]:
    """The columns in which a plan carries coefficients."""
    return [f"{v.name}#{i}" for v in layout.values for i in range(v.degree + 1)]


def _written_by_spark(schema: pa.Schema) -> str | None:
    """Spark keeps no metadata of a schema, but those of its columns: the layout stands with ``_from``."""
    written = (schema.metadata or {}).get(SPARK_METADATA)
    try:
        fields = json.loads(written)["fields"] if written else ()
        return next((f["metadata"].get(METADATA.decode()) for f in fields if f["name"] == FROM), None)
    except (KeyError, TypeError, ValueError, AttributeError):
        return None  # not as Spark writes it


def coefficients_of(column: pa.Array | pa.ChunkedArray, place: str = "the column") -> Float64s:
    """The coefficients of a column, one row for each segment, also where Arrow did not know the type."""
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks() if column.num_chunks != 1 else column.chunk(0)
        if isinstance(column, pa.ChunkedArray):
            column = column.chunk(0)
    storage = column.storage if isinstance(column, pa.ExtensionArray) else column
    if not (is_list(storage.type) and is_number(storage.type.value_type)):
        raise JobError(f"{place} holds {storage.type}, but coefficients of segments are lists of doubles.")
    if storage.null_count:
        raise JobError(f"{place}: a segment without coefficients (NULL) is none: leave the row out.")
    widths = pc.list_value_length(storage).to_numpy(zero_copy_only=False)
    if len(widths) and (widths != widths[0]).any():
        raise JobError(f"{place}: all segments of a column have the same number of coefficients.")
    width = int(widths[0]) if len(widths) else storage.type.list_size if is_fixed_size_list(storage.type) else 1
    flat = storage.flatten().to_numpy(zero_copy_only=False)
    found: Float64s = np.ascontiguousarray(flat, np.float64).reshape(len(storage), width)
    return found


def is_list(type: pa.DataType) -> bool:
    return bool(pa.types.is_list(type) or pa.types.is_large_list(type) or is_fixed_size_list(type))


def is_number(type: pa.DataType) -> bool:
    return bool(pa.types.is_floating(type) or pa.types.is_integer(type))


def polynomial_array(coefficients: Float64s) -> pa.Array:
    """An Arrow array of the extension type.

    >>> polynomial_array(np.array([[1.0, 2.0]]))[0].as_py()
    [1.0, 2.0]
    """
    type = PolynomialType(coefficients.shape[1] - 1)
    values = pa.array(np.ascontiguousarray(coefficients, np.float64).reshape(-1))
    return pa.ExtensionArray.from_storage(type, pa.FixedSizeListArray.from_arrays(values, type.degree + 1))
