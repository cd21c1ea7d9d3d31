"""The parts of a star join: its relations, and the protocol of routes to them. It loads no kernel."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import pyarrow as pa

from eddyline.core.delta import Bools, Int64s
from eddyline.core.schema import Schema
from eddyline.expr.nodes import Expr

# The number of partners in a relation, by its number, of each of the rows with these numbers.
Look = Callable[[int, Int64s], Int64s]


class Routes(Protocol):
    """Chooses the order in which rows are joined with the relations. The operator applies the order."""

    def look_up(self, columns: Mapping[str, pa.Array], length: int, times: Int64s, look: Look) -> Bools:
        """Look rows up in the relations; returns which rows have partners in all of them."""

    def adapts(self) -> list[str]: ...
    def statistics(self) -> dict[str, Any]: ...
    def state(self) -> dict[str, Any]: ...
    def load(self, state: Mapping[str, Any]) -> None: ...


@dataclass(frozen=True, slots=True)
class StarRelation:
    """A constant relation: its rows join with those of the changing input for which ``theirs`` equal ``mine``."""

    label: str
    schema: Schema
    mine: tuple[Expr, ...]
    theirs: tuple[Expr, ...]
