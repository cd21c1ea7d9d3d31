"""Structures in a source: each of their fields becomes a column of its own, named by its path (``payload.user.id``).

So the engine has flat columns only, and of a Parquet file only the fields that a query reads are decoded. A structure
that is NULL has NULL in all its fields. Structures inside lists stay as they are.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

import pyarrow as pa

STRUCTURE: Final = pa.lib.Type_STRUCT
PATH: Final = b"eddyline.path"  # metadata of a column that is a field of a structure: the names on the way


def flat_schema(schema: pa.Schema) -> pa.Schema:
    """
    >>> user = pa.struct([("id", pa.int64()), ("name", pa.string())])
    >>> flat_schema(pa.schema([("ts", pa.int64()), ("payload", pa.struct([("user", user)]))])).names
    ['ts', 'payload.user.id', 'payload.user.name']
    """
    return pa.schema([leaf for f in schema for leaf in _leaves(f, ())])


def _leaves(field: pa.Field, above: tuple[str, ...]) -> Iterator[pa.Field]:
    path = (*above, field.name)
    if pa.types.is_struct(field.type):
        for i in range(field.type.num_fields):
            yield from _leaves(field.type.field(i), path)
    elif above:
        yield path_field(path, field.type)
    else:
        yield field


def path_field(path: tuple[str, ...], type: pa.DataType) -> pa.Field:
    return pa.field(".".join(path), type, metadata={PATH: "\0".join(path).encode()})


def path_of(field: pa.Field) -> tuple[str, ...]:
    """The names on the way to a column, its own name where it is no field of a structure."""
    stored = (field.metadata or {}).get(PATH)
    return (field.name,) if stored is None else tuple(stored.decode().split("\0"))


def has_structures(schema: pa.Schema) -> bool:
    return STRUCTURE in [t.id for t in schema.types]


def flat_batch(batch: pa.RecordBatch) -> pa.RecordBatch:
    """
    >>> batch = pa.RecordBatch.from_pylist([{"p": {"a": 1}}, {"p": None}])
    >>> flat_batch(batch).to_pydict()
    {'p.a': [1, None]}
    """
    if not has_structures(batch.schema):
        return batch
    names, columns = list[str](), list[pa.Array]()
    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        if pa.types.is_struct(column.type):
            fields = [column.type.field(i).name for i in range(column.type.num_fields)]
            names += [f"{name}.{f}" for f in fields]
            columns += column.flatten()
        else:
            names.append(name)
            columns.append(column)
    return flat_batch(pa.RecordBatch.from_arrays(columns, names=names))


def nested_schema(schema: pa.Schema) -> pa.Schema:
    """The schema of the source itself, with structures; fields keep their order.

    >>> flat = flat_schema(pa.schema([("p", pa.struct([("a", pa.int64()), ("b", pa.string())]))]))
    >>> nested_schema(flat).field("p").type
    StructType(struct<a: int64, b: string>)
    """
    tree: dict[str, Any] = {}
    for f in schema:
        at = tree
        *above, last = path_of(f)
        for name in above:
            at = at.setdefault(name, {})
        at[last] = f.type

    def type_of(node: Any) -> pa.DataType:
        return pa.struct([(n, type_of(t)) for n, t in node.items()]) if isinstance(node, dict) else node

    return pa.schema([(n, type_of(t)) for n, t in tree.items()])


def value_at(row: Mapping[str, Any], path: tuple[str, ...]) -> Any:
    """What stands there. Where a value stands in the way, it is shown in a mapping, which fits no type of a column.

    >>> value_at({"p": {"a": 1}}, ("p", "a")), value_at({"p": None}, ("p", "a")), value_at({"p": 4}, ("p", "a"))
    (1, None, {'p': 4})
    """
    found: Any = row
    for above, name in zip(("", *path), path, strict=False):
        if found is None:
            return None
        if not isinstance(found, Mapping):
            return {above: found}
        found = found.get(name)
    return found


def wrapped(path: tuple[str, ...], value: Any) -> dict[str, Any]:
    """
    >>> wrapped(("p", "a"), 1)
    {'p': {'a': 1}}
    """
    for name in reversed(path):
        value = {name: value}
    return dict(value)


def flat_row(row: Mapping[Any, Any]) -> Mapping[Any, Any]:
    """A row of Python values, mappings in it taken apart.

    >>> flat_row({"ts": 1, "p": {"a": {"b": 2}}})
    {'ts': 1, 'p.a.b': 2}
    """
    if not any(isinstance(v, Mapping) for v in row.values()):
        return row
    out: dict[Any, Any] = {}
    for name, value in row.items():
        out |= {f"{name}.{k}": v for k, v in flat_row(value).items()} if isinstance(value, Mapping) else {name: value}
    return out
