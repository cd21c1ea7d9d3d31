"""The columns of one query in the names of another: operators that are shared have the names of the query that built
them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa

from eddyline.core.aligned import Aligned
from eddyline.core.delta import Delta
from eddyline.core.schema import Schema
from eddyline.engine.queues import Queue


class Renaming:
    """From the names ``before`` to the names ``after``, place by place.

    Batches may have more columns than the plan asked for, because windows that share a store bring all columns that any
    of them keeps. These have the same alias before them as the others.

    >>> renaming = Renaming(["p.size", "p.src"], ["q.size", "q.src"])
    >>> renaming.name("p.size"), renaming.name("p.port"), renaming.name("other")
    ('q.size', 'q.port', 'other')
    """

    def __init__(self, before: Sequence[str], after: Sequence[str]) -> None:
        self._names = dict(zip(before, after, strict=True))
        self.changes = any(a != b for a, b in self._names.items())
        aliases: dict[str, set[str]] = {}
        for a, b in self._names.items():
            (left, dot, column), (right, _, same) = a.partition("."), b.partition(".")
            aliases.setdefault(left if dot and column == same else "", set()).add(right)
        self._aliases = {a: next(iter(b)) for a, b in aliases.items() if a and len(b) == 1}

    @staticmethod
    def by_alias(before: Sequence[str], after: Sequence[str]) -> Renaming:
        """Where two queries ask for different columns of one stream.

        >>> Renaming.by_alias(["p.ts", "p.size"], ["q.size"]).name("p.port")
        'q.port'
        """
        alias = after[0].partition(".")[0]
        return Renaming(before, [f"{alias}.{n.partition('.')[2]}" for n in before])

    def name(self, name: str) -> str:
        found = self._names.get(name)
        if found is None:
            alias, dot, column = name.partition(".")
            found = f"{self._aliases[alias]}.{column}" if dot and alias in self._aliases else name
        return found

    def columns(self, columns: Mapping[str, Any]) -> dict[str, Any]:
        return {self.name(n): c for n, c in columns.items()}

    def state(self, state: Any) -> Any:
        """The state of an operator for one that does the same under other names."""
        if isinstance(state, Mapping):
            columns = all(isinstance(v, pa.Array) for v in state.values())
            return {self._names.get(k, k) if columns else k: self.state(v) for k, v in state.items()}
        if isinstance(state, Aligned):
            return replace(state, rows=self.state(state.rows))
        if isinstance(state, list):
            return [self.state(v) for v in state]
        if isinstance(state, pa.RecordBatch):
            return state.rename_columns([self._names.get(n, n) for n in state.schema.names])
        return state


class RenamingQueue(Queue):
    """A queue whose reader has other names for the columns than the operator that fills it."""

    def __init__(self, schema: Schema, renaming: Renaming) -> None:
        super().__init__(schema)
        self._renaming = renaming

    def push(self, delta: Delta, frontier: int, ticket: int | None = None) -> None:
        if len(delta):
            delta = delta.with_columns(self._renaming.columns(delta.columns))
        super().push(delta, frontier, ticket)
