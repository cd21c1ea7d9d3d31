"""The catalog: streams, relations, views, named queries and functions of a session or a job, by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import pyarrow as pa

from eddyline.core.errors import JobError, did_you_mean
from eddyline.core.overload import Overload
from eddyline.core.schema import Schema
from eddyline.core.time import TimeKind


@dataclass(frozen=True, slots=True)
class StreamDef:
    """A declared stream. ``timestamp`` None means stamped on arrival; widths in ticks; ``source`` is opened by io."""

    name: str
    schema: Schema  # the source's own column names
    time_kind: TimeKind
    timestamp: str | None = None
    slack: int = 0
    idle: int | None = None  # wall-clock microseconds after which a silent stream stops holding others back
    source: Any = None
    options: Mapping[str, Any] = field(default_factory=dict)
    auto: str | None = None  # the policy that chooses the slack: 'auto(target=99.9)'; None: ``slack`` is fixed
    overload: Overload | None = None  # what happens when more waits than it may hold; None: all is held
    segments: Any = None  # a ``models.segments.SegmentLayout``: its rows are segments of models, not tuples
    unique: tuple[tuple[str, ...], ...] = ()  # columns in which no two elements may agree: who does is invalid
    within: int | None = None  # … that are at most so many ticks apart; None: in the whole stream


@dataclass(frozen=True, slots=True)
class RelationDef:
    """A declared relation: constant unless ``timestamp`` is given; with ``key`` an element replaces, with ``sign``
    (a column of 1/-1 or '+'/'-') it inserts or deletes, otherwise it inserts."""

    name: str
    schema: Schema
    time_kind: TimeKind | None = None
    timestamp: str | None = None
    key: tuple[str, ...] = ()
    sign: str | None = None
    source: Any = None
    options: Mapping[str, Any] = field(default_factory=dict)

    @property
    def constant(self) -> bool:
        return self.timestamp is None


@dataclass(frozen=True, slots=True)
class FunctionDef:
    """A user's function. ``kind``: ``row`` gets Python values, ``pandas`` Series, ``arrow`` Arrow arrays."""

    name: str
    function: Callable[..., Any] = field(hash=False)  # what can be called need not have a hash
    returns: pa.DataType
    arguments: tuple[pa.DataType, ...] | None = None
    kind: Literal["row", "pandas", "arrow"] = "row"
    cost: float | None = None  # seconds a row, declared
    deterministic: bool = True


@dataclass(frozen=True, slots=True)
class AggregateDef:
    """A user's aggregate: ``function`` gets the list of non-NULL argument values of a group (tuples if several)."""

    name: str
    function: Callable[[list[Any]], Any] = field(hash=False)
    returns: pa.DataType


Attribute = tuple[int, str]  # of a query on models: the number of an input in FROM, and the name of a column


@dataclass(frozen=True, slots=True)
class SplitDef:
    """A function that divides the bound of a result (``ERROR WITHIN … SPLIT name``). It gets the name of the result
    column and the attributes that it depends on, each with its mean |x′|, and gives each a share above 0, together at
    most 1."""

    name: str
    function: Callable[[str, Mapping[Attribute, float]], Mapping[Attribute, float]] = field(hash=False)


@dataclass(slots=True)
class Catalog:
    """Names are case-insensitive; the first spelling is kept. Views and named queries keep their bound form."""

    streams: dict[str, StreamDef] = field(default_factory=dict)
    relations: dict[str, RelationDef] = field(default_factory=dict)
    views: dict[str, Any] = field(default_factory=dict)  # name → BoundQuery (views and named queries alike)
    functions: dict[str, FunctionDef] = field(default_factory=dict)
    aggregates: dict[str, AggregateDef] = field(default_factory=dict)
    splits: dict[str, SplitDef] = field(default_factory=dict)

    def add(self, kind: str, definition: Any, name: str | None = None) -> None:
        key = (name or definition.name).lower()
        if kind in ("streams", "relations", "views"):
            for other in ("streams", "relations", "views"):
                if key in getattr(self, other):
                    taken = "views and queries" if other == "views" else other
                    raise JobError(f"the name {name or definition.name!r} is already taken by one of the {taken}.")
        getattr(self, kind)[key] = definition

    def sources(self) -> list[str]:
        return [d.name for d in self.streams.values()] + [d.name for d in self.relations.values()] + list(self.views)

    def suggest(self, name: str) -> str:
        return did_you_mean(name, self.sources())
