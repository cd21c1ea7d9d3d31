"""From the types of a file or a table to the engine's types, with the rows that do not fit put aside."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from eddyline.core.errors import JobError, did_you_mean, quoted
from eddyline.expr.types import normalise, type_name
from eddyline.io.nested import flat_schema
from eddyline.io.source import InvalidRow, SourceBatch
from eddyline.models.segments import EXTENSION, METADATA

VALUES_TRIED_SINGLY = 4  # a failing cast of so few values is repeated value by value, one of more values by halves


def engine_schema(schema: pa.Schema, place: str) -> pa.Schema:
    """The same columns with engine types; a type that the engine does not have is an error naming the column.

    Fields of structures are columns of their own.

    >>> engine_schema(pa.schema([("a", pa.uint16()), ("b", pa.large_string())]), "t").types
    [DataType(int32), DataType(string)]
    """
    fields = []
    for f in flat_schema(schema):
        try:
            fields.append(pa.field(f.name, normalise(f.type), metadata=f.metadata))
        except ValueError as error:
            if getattr(f.type, "extension_name", "") == EXTENSION:
                raise JobError(
                    f"{place}: column {f.name!r} holds the polynomials of segments, and no metadata "
                    f"{METADATA.decode()!r} say what they model: keep those of the table that they are of. (For the "
                    "result of a query on models, make it a view, and query that.)"
                ) from error
            raise JobError(
                f"{place}: column {f.name!r} has the type {f.type}, which Eddyline does not hold. Declare the columns "
                "that you need, and leave it out: CREATE STREAM name (column type, …) FROM …"
            ) from error
    twice = {n for n in schema.names if schema.names.count(n) > 1}
    if twice:
        raise JobError(f"{place} has more than one column named {sorted(twice)[0]!r}.")
    return pa.schema(fields)


def declared_columns(declared: pa.Schema, known: Sequence[str], place: str) -> pa.Schema:
    """The declared columns as the input spells them (CQL ignores case); each must be there.

    >>> declared_columns(pa.schema([("TS", pa.int64())]), ["ts", "v"], "calls.csv").names
    ['ts']
    """
    fields = []
    for name in declared.names:
        spelled = [name] if name in known else [k for k in known if k.lower() == name.lower()]
        if len(spelled) == 1:
            fields.append(pa.field(spelled[0], declared.field(name).type))
        else:
            raise JobError(
                f"{place} has no column {name!r}.{did_you_mean(name, known)} Its columns are: {', '.join(known)}."
                f"{other_delimiter(known)}"
            )
    return pa.schema(fields)


def other_delimiter(names: Sequence[str]) -> str:
    """The remedy for a single column whose name is a whole line of CSV.

    >>> other_delimiter(["ts;room;celsius"]), other_delimiter(["ts", "a;b"])
    (" These are separated by ';': WITH (delimiter = ';').", '')
    """
    if len(names) != 1:
        return ""
    if "\t" in names[0]:
        return " These are separated by tabs: WITH (format = 'tsv')."
    between = next((d for d in ";|" if d in names[0]), None)
    return "" if between is None else f" These are separated by {between!r}: WITH (delimiter = {between!r})."


def conform(batch: pa.RecordBatch, schema: pa.Schema, place: str, first: int | None = None) -> SourceBatch:
    """The columns of ``schema``, cast to its types. ``first`` is the number of the batch's first row in its place,
    where a user could find a row by its number.

    >>> got = conform(pa.record_batch({"a": pa.array(["1", "x", None])}), pa.schema([("a", pa.int64())]), "t")
    >>> got.rows.to_pydict(), got.invalid
    ({'a': [1, None]}, [InvalidRow(reason="t: column 'a': 'x' is not a value of type bigint", row="{'a': 'x'}")])
    >>> conform(pa.record_batch({"a": ["1", "x"]}), pa.schema([("a", pa.int64())]), "t", 5).invalid[0].reason
    "t, row 6: column 'a': 'x' is not a value of type bigint"
    """
    if batch.schema.names == schema.names and batch.schema.types == schema.types:
        return SourceBatch(batch)
    arrays: list[pa.Array] = []
    bad: dict[int, str] = {}
    for f in schema:
        array, failed = fit(batch.column(f.name), f.type)
        arrays.append(array)
        for row in failed:
            value = batch.column(f.name)[row].as_py()
            where = place if first is None else f"{place}, row {first + int(row)}"
            reason = f"{where}: column {f.name!r}: {quoted(value)} is not a value of type {type_name(f.type)}"
            bad.setdefault(int(row), reason)
    rows = pa.RecordBatch.from_arrays(arrays, names=schema.names)
    if not bad:
        return SourceBatch(rows)
    keep = np.ones(len(rows), np.bool_)
    keep[list(bad)] = False
    invalid = [
        InvalidRow(bad[r], repr(batch.slice(r, 1).to_pylist()[0]), before=r - i) for i, r in enumerate(sorted(bad))
    ]
    return SourceBatch(rows.filter(pa.array(keep)), invalid)


def fit(array: pa.Array, wanted: pa.DataType) -> tuple[pa.Array, npt.NDArray[np.int64]]:
    """The array as ``wanted`` and the positions of the values that do not fit (NULL in the result).

    >>> fit(pa.array([1.0, 2.5]), pa.int64())[1]
    array([1])
    """
    none = np.empty(0, np.int64)
    if array.type == wanted:
        return array, none
    if pa.types.is_dictionary(array.type):
        # A dictionary of the wanted type is a cheaper form of the same column: operators decode it where they must.
        if array.type.value_type == wanted:
            return array, none
        array = array.cast(array.type.value_type)
    try:
        return cast(array, wanted), none
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        pieces: list[pa.Array] = []
        failed: list[int] = []
        _bisect(array, wanted, 0, pieces, failed)
        return pa.concat_arrays(pieces), np.asarray(failed, np.int64)


def cast(array: pa.Array, wanted: pa.DataType) -> pa.Array:
    """A checked cast, except that a finer timestamp is rounded down to the engine's tick, which loses nothing that the
    engine could distinguish."""
    if pa.types.is_timestamp(array.type) and pa.types.is_timestamp(wanted):
        if array.type.unit == "ns" and wanted.unit == "us":
            floored = np.floor_divide(array.cast(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False), 1000)
            return pa.array(floored, pa.int64(), mask=array.is_null().to_numpy(zero_copy_only=False)).cast(wanted)
        return array.cast(pa.timestamp(array.type.unit, wanted.tz)).cast(wanted)
    done = pc.cast(array, wanted)
    if pa.types.is_date(wanted) and pa.types.is_timestamp(array.type):
        # Arrow does not check this cast: a time of day would be lost.
        unit = pa.timestamp(array.type.unit)
        if not done.cast(unit).equals(array.cast(unit)):
            raise pa.ArrowInvalid("a time of day is not part of a date")
    return done


def _bisect(array: pa.Array, wanted: pa.DataType, offset: int, pieces: list[pa.Array], failed: list[int]) -> None:
    try:
        pieces.append(cast(array, wanted))
        return
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        if len(array) == 1:
            pieces.append(pa.nulls(1, wanted))
            failed.append(offset)
            return
    step = 1 if len(array) <= VALUES_TRIED_SINGLY else (len(array) + 1) // 2
    for start in range(0, len(array), step):
        _bisect(array.slice(start, step), wanted, offset + start, pieces, failed)
