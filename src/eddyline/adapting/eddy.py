"""An eddy over the conjuncts of a selection: each row takes them in the order that its content suggests.

``tuple_router`` says how rows take their routes. Which errors are raised is the same in every order
(``expr.predicates``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from eddyline.adapting.routing_options import Routing
from eddyline.adapting.tuple_router import TupleRouter
from eddyline.adaptive.filters.pipeline import Pipeline
from eddyline.core.delta import Bools, Int64s
from eddyline.core.errors import DataError
from eddyline.core.time import Clock
from eddyline.expr.members import Conjunct, answering, text_of
from eddyline.expr.observed import ask, lasting
from eddyline.expr.predicates import Selection
from eddyline.streamon.log import DecisionLog


class Eddy(TupleRouter):
    """``conjuncts`` in written order under ``routing``.

    >>> from eddyline.expr.nodes import Call, Column, Literal
    >>> a = Column("a", pa.int64())
    >>> conjuncts = [Call(f, (a, Literal(v, pa.int64())), pa.bool_()) for f, v in (("gt", 1), ("lt", 3))]
    >>> eddy = Eddy(conjuncts, Routing("content-learns"), Pipeline(2))
    >>> eddy.evaluate({"a": pa.array([1, 2, 3, None])}, 4).keep.tolist()
    [False, True, False, False]
    """

    def __init__(
        self,
        conjuncts: Sequence[Conjunct],
        routing: Routing,
        pipeline: Pipeline,
        *,
        clock: Clock | None = None,
        size: int | None = None,
        log: DecisionLog | None = None,
    ) -> None:
        super().__init__([text_of(c) for c in conjuncts], routing, pipeline, clock=clock, size=size, log=log)
        self.conjuncts = self.written = tuple(conjuncts)
        self._compile()

    def _compile(self) -> None:
        self.compiled = tuple(map(answering, self.conjuncts))
        self.read = frozenset[str]().union(*(c.columns for c in self.compiled))

    @property
    def running_order(self) -> tuple[Conjunct, ...]:
        """The order that most rows take."""
        return tuple(self.conjuncts[f] for f in self.usual)

    def evaluate(self, columns: Mapping[str, pa.Array], length: int, times: Int64s | None = None) -> Selection:
        """Which rows satisfy all conjuncts, and the errors of the others. ``times`` of the rows are for decisions."""
        self.begin(columns, length)
        keep, errors = np.zeros(length, np.bool_), dict[int, DataError]()
        needed = self.read if self.attributes is None else self.read.union(self.attributes.names)
        for start, count in self.sub_batches(length):
            part = columns if count == length else {n: columns[n].slice(start, count) for n in needed}
            alive, failed = self._pass(part, count, None if times is None else int(times[start + count - 1]))
            keep[start : start + count] = alive
            errors |= {start + row: error for row, error in failed.items()}
        keep[list(errors)] = False
        return Selection(keep, errors)

    def _pass(
        self, columns: Mapping[str, pa.Array], length: int, now: int | None
    ) -> tuple[Bools, dict[int, DataError]]:
        """Which rows of a sub-batch no conjunct drops, and the errors that last."""
        failures: dict[int, dict[int, DataError]] = {}  # by conjunct and row

        def show(f: int, rows: Int64s) -> np.typing.NDArray[np.int8]:
            passed, errors = ask(self.compiled[f], columns, length, None if len(rows) == length else rows)
            if errors:
                failures.setdefault(f, {}).update({int(rows[i]): e for i, e in errors.items()})
            return passed.astype(np.int8)

        alive = ~(self.route(columns, length, now, show) == 0).any(1)
        return alive, lasting(np.flatnonzero(alive), failures)

    def __getstate__(self) -> dict[str, Any]:
        return {k: v for k, v in self.__dict__.items() if k not in ("compiled", "read")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._compile()
