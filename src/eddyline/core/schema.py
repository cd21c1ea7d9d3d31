"""Names and types of columns.

Inside a plan every column has a name that is unique in its node's schema (``alias.column`` below a projection, the
output name above it), so that expressions refer to columns by name and rewriting a plan never renumbers anything.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import pyarrow as pa


@dataclass(frozen=True, slots=True)
class Field:
    name: str
    type: pa.DataType


@dataclass(frozen=True, slots=True)
class Schema:
    """An ordered tuple of uniquely named fields.

    >>> s = Schema((Field("p.size", pa.int64()), Field("p.data", pa.string())))
    >>> s.names
    ('p.size', 'p.data')
    >>> s["p.size"].type
    DataType(int64)
    """

    fields: tuple[Field, ...]
    _by_name: dict[str, Field] = field(init=False, repr=False, compare=False)
    names: tuple[str, ...] = field(init=False, repr=False, compare=False)  # asked several times for each batch

    def __post_init__(self) -> None:
        object.__setattr__(self, "_by_name", {f.name: f for f in reversed(self.fields)})
        object.__setattr__(self, "names", tuple([f.name for f in self.fields]))

    def __getitem__(self, name: str) -> Field:
        return self._by_name[name]

    def __contains__(self, name: object) -> bool:
        return name in self._by_name

    def __iter__(self) -> Iterator[Field]:
        return iter(self.fields)

    def __len__(self) -> int:
        return len(self.fields)

    def to_arrow(self) -> pa.Schema:
        return pa.schema([pa.field(f.name, f.type) for f in self.fields])

    @staticmethod
    def from_arrow(schema: pa.Schema) -> Schema:
        return Schema(tuple(Field(f.name, f.type) for f in schema))
