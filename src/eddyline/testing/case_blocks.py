"""The parts of random queries: sources, blocks, and what the writers of single operators need of the whole."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from eddyline.core.time import TimeKind
from eddyline.testing.case_expressions import Attribute, Expressions, Type


class Scale(Protocol):
    """What a query needs to know of its time (``case_data.TimeScale``)."""

    @property
    def kind(self) -> TimeKind: ...
    @property
    def expiring(self) -> bool: ...
    def width(self, steps: int, rng: random.Random, bare: bool = True) -> str: ...


@dataclass(frozen=True, slots=True)
class Source:
    """An item of FROM: its text and what it offers. ``ordered`` where FIRST and LAST are defined over it."""

    text: str
    alias: str
    columns: tuple[tuple[str, Type], ...]
    ordered: bool = False

    def scope(self) -> list[Attribute]:
        return [Attribute(f"{self.alias}.{n}", t) for n, t in self.columns]


@dataclass(frozen=True, slots=True)
class Block:
    """SELECT items tail, its items apart so that a relation-to-stream operator can be put around them."""

    items: tuple[tuple[str, Type], ...]  # text and type; named c0, c1 …
    tail: str
    distinct: bool = False

    def listed(self) -> str:
        return ", ".join(f"{text} AS c{i}" for i, (text, _) in enumerate(self.items))

    def text(self) -> str:
        return f"SELECT {'DISTINCT ' if self.distinct else ''}{self.listed()} {self.tail}"


class Writer(Protocol):
    """The part of the writer of queries (``case_queries.QueryWriter``) that a single operator uses."""

    rng: random.Random
    scale: Scale
    expressions: Expressions
    approximate: bool

    def alias(self) -> str: ...
    def stream(self, window: str | None = None) -> Source: ...
    def relation(self) -> Source: ...
    def source(self, depth: int, nested: float = 0.4) -> Source: ...
    def window(self, kind: str | None = None, columns: Sequence[str] = ("a", "s")) -> str: ...
    def where(self, conjuncts: Sequence[str]) -> str: ...
    def items(self, scope: Sequence[Attribute], plain: bool, most: int = 3) -> tuple[tuple[str, Type], ...]: ...
    def equality(self, left: Source, right: Source) -> list[str]: ...
    def residual(self, scope: Sequence[Attribute]) -> list[str]: ...
    def windowless(self, sources: list[Source]) -> None: ...
