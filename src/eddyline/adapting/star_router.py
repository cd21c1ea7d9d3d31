"""Routes a star join by content: each row asks the relations in the order that its content suggests (CBR, 4.5).

``tuple_router`` says how rows take their routes. A relation makes of a row as many as it has partners for it, and
that number is what the policy gets: attributes are then tested by the variance that they explain, not by gain ratio.
A relation is asked about a row once however many partners the row has found elsewhere, which is what contests count.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from eddyline.adapting.filter_choice import Filtering
from eddyline.adapting.join_choice import Joining
from eddyline.adapting.routing_options import Routing
from eddyline.adapting.tuple_router import TupleRouter
from eddyline.adaptive.filters.pipeline import Pipeline
from eddyline.core.delta import Bools, Int64s
from eddyline.core.errors import JobError
from eddyline.core.schema import Schema
from eddyline.core.time import Clock
from eddyline.operators.star_relation import Look
from eddyline.streamon.log import DecisionLog


class StarRouter(TupleRouter):
    """Routes rows over relations.

    >>> router = StarRouter(["R", "T"], Routing("sbr"), Pipeline(2))
    >>> partners = np.array([[2, 0, 1], [1, 3, 0]])
    >>> rows = pa.array([1, 2, 3])
    >>> router.look_up({"a": rows}, 3, np.zeros(3, np.int64), lambda r, rows: partners[r, rows]).tolist()
    [True, False, False]
    >>> router.statistics()["asked"]
    [3, 2]
    """

    joins: ClassVar[bool] = True

    def look_up(self, columns: Mapping[str, pa.Array], length: int, times: Int64s, look: Look) -> Bools:
        """Take the rows to the relations; which of them have partners in all."""
        self.begin(columns, length)
        names = () if self.attributes is None else self.attributes.names
        alive: Bools = np.zeros(length, np.bool_)
        for start, count in self.sub_batches(length):
            part = {n: columns[n].slice(start, count) for n in names}
            now = int(times[start + count - 1])
            outputs = self.route(part, count, now, lambda r, rows, start=start: look(r, rows + start))  # type: ignore[misc]
            alive[start : start + count] = (outputs > 0).all(1)
        return alive

    def statistics(self) -> dict[str, Any]:
        """As of an eddy. ``filters`` are the names of the relations, ``passed`` counts partners, and ``selectivity`` is
        matches per row; ``joins`` says so, for printing."""
        return {**super().statistics(), "joins": True}


@dataclass(frozen=True, slots=True)
class StarRouting:
    """How the star joins of a query that asks for routing are run. ``instead`` says why they are not routed."""

    routing: Routing
    clock: Clock
    instead: str | None = None

    @staticmethod
    def of(filtering: Filtering, joining: Joining) -> StarRouting | None:
        """None where a query does not ask for routing."""
        if filtering.routing is None:
            return None
        named = {"tree": joining.tree, "joins": joining.joins, "caches": joining.caches}
        given = [f"'{n}'" for n, value in named.items() if value is not None]
        instead = f"the option {given[0]} says how joins are run" if given else None
        if filtering.strict:
            instead = "strict_order"
        return StarRouting(filtering.routing, filtering.clock, instead)

    def obstacle(self, changing: Schema, name: str = "the join") -> str | None:
        """Why rows of these columns cannot be routed; None where they can."""
        try:
            self.routing.check(changing, name)
        except JobError as error:
            return str(error).rstrip(".")
        return None

    def router(self, name: str, relations: Sequence[str], log: DecisionLog) -> StarRouter:
        """The router of one join."""
        return StarRouter(relations, self.routing, Pipeline(len(relations), operator=name), clock=self.clock, log=log)
