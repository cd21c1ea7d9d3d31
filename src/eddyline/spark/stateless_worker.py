"""The Python part of a stateless plan: it judges one Arrow batch after another, in a worker.

``Judge`` is a small program over arrays, a list of steps in the plan's order: ``Keep`` drops rows, ``Compute`` adds
columns. Rows that a step drops are not seen by the next. The answer has one row for each row that came in, because
that is what Spark wants of a function of columns; dropped rows are marked.

Errors follow ``expr.predicates``: within one ``Keep`` a row that any conjunct drops has no error, and a step never
forgets an error of an earlier one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from eddyline.adapting.filter_choice import Filtering
from eddyline.core.errors import DataError
from eddyline.core.time import TimeKind
from eddyline.expr.arrays import Bools, Int64s, array_of, scatter
from eddyline.expr.evaluate import Compiled, compile_expr
from eddyline.expr.nodes import Expr, columns_of
from eddyline.expr.predicates import Conjunction
from eddyline.operators.adaptive_select import OrdersItself
from eddyline.operators.failed_rows import described, for_row
from eddyline.spark import worker_state as learned
from eddyline.spark.failures import carried
from eddyline.spark.filter_statistics import report_text
from eddyline.spark.types import engine_array, spark_array


@dataclass(frozen=True, slots=True)
class Keep:
    """Only the rows for which every conjunct is TRUE; the conjuncts stand in written order."""

    conjuncts: tuple[Expr, ...]


@dataclass(frozen=True, slots=True)
class Compute:
    """More columns, by names that no other column has."""

    items: tuple[tuple[str, Expr], ...]


Step = Keep | Compute


def read_by(steps: Iterable[Step]) -> frozenset[str]:
    """The columns that steps read, those that they compute included."""
    exprs = [e for s in steps for e in (s.conjuncts if isinstance(s, Keep) else [e for _, e in s.items])]
    return frozenset[str]().union(*map(columns_of, exprs))


@dataclass(frozen=True, slots=True)
class Judge:
    """``inputs`` are the columns as they are shipped, ``outputs`` those that go back, with the types Spark wants.

    ``diverting``: a row with an error is marked with its text; otherwise the first error stops the query. ``filtering``
    says which conjunctions order themselves, and ``plan`` under which name a worker keeps what they have learned. With
    ``reports`` the last answer of a task has the statistics of the worker beside it, as a text (``filter_statistics``).

    >>> from eddyline.expr.nodes import Call, Column, Literal
    >>> a = Column("a", pa.int64())
    >>> small = Keep((Call("lt", (a, Literal(3, pa.int64())), pa.bool_()),))
    >>> inverse = Compute((("b", Call("divide", (Literal(1.0, pa.float64()), a), pa.float64())),))
    >>> judge = Judge((("a", pa.int64()),), (small, inverse), (("b", pa.float64()),), diverting=True)
    >>> for row in next(judge.run(iter([(pa.array([0, 2, 5]),)]))).to_pylist():
    ...     print(row)
    {'keep': False, 'error': "division by zero in '1.0 / a'", 'b': None}
    {'keep': True, 'error': None, 'b': 0.5}
    {'keep': False, 'error': None, 'b': None}
    """

    inputs: tuple[tuple[str, pa.DataType], ...]
    steps: tuple[Step, ...]
    outputs: tuple[tuple[str, pa.DataType], ...]
    diverting: bool = False
    filtering: Filtering | None = None
    plan: str = ""
    reports: bool = False

    @property
    def drops(self) -> bool:
        """Whether some rows may be marked as dropped."""
        return self.diverting or any(isinstance(s, Keep) for s in self.steps)

    @property
    def watched(self) -> bool:
        """Whether there is something to report: an order that was found, or rows that were diverted."""
        return self.filters or self.diverting

    @property
    def filters(self) -> bool:
        """Whether some conjunction may order itself."""
        return self.filtering is not None and any(isinstance(s, Keep) for s in self.steps)

    @property
    def schema(self) -> pa.Schema:
        """The fields of the answer: ``keep``, ``error`` and ``report`` where they can have values, then the outputs."""
        marks = [("keep", pa.bool_())] if self.drops else []
        texts = [(n, pa.string()) for n, there in (("error", self.diverting), ("report", self.reports)) if there]
        return pa.schema([*marks, *texts, *self.outputs])

    def run(self, batches: Iterator[Sequence[pa.Array]]) -> Iterator[pa.StructArray]:
        """One answer for each batch; the expressions are compiled once."""
        compiled = [self._compile(number, s) for number, s in enumerate(self.steps)]
        later = [read_by(self.steps[i + 1 :]) | {n for n, _ in self.outputs} for i in range(len(self.steps))]
        history = learned.plan_history(self.plan) if self.reports else None
        last: _Rows | None = None  # held back until it is known whether another batch comes
        for columns in batches:
            if last is not None:
                yield self._answer(last)
            rows = _Rows(self.inputs, columns)
            with carried():
                self._judge(rows, compiled, later, columns)
            if history is None:
                yield self._answer(rows)
            else:
                last = rows
                history.rows += rows.length
                history.kept += rows.alive
                if rows.errors:
                    history.invalid += len(rows.errors)
                    history.invalid_rows.extend(rows.failed(self.inputs, columns, learned.ROWS_KEPT))
        if history is not None and last is not None:
            history.tasks += 1
            yield self._answer(last, report_text(self.plan, history))

    def _compile(self, number: int, step: Step) -> _Compiled:
        if isinstance(step, Compute):
            return [(name, compile_expr(e)) for name, e in step.items]
        if self.filtering is None:
            return Conjunction(step.conjuncts)
        return learned.conjunction(self.plan, number, self.filtering, step.conjuncts)

    def _judge(
        self,
        rows: _Rows,
        compiled: Sequence[_Compiled],
        later: Sequence[frozenset[str]],
        columns: Sequence[pa.Array],
    ) -> None:
        for step, needed in zip(compiled, later, strict=True):
            failed = rows.compute(step, needed) if isinstance(step, list) else rows.keep(step, needed)
            if failed and not self.diverting:
                place = min(rows.errors)
                row = {name: c[place].as_py() for (name, _), c in zip(self.inputs, columns, strict=False)}
                aliases = {alias: alias for alias in (name.rpartition(".")[0] for name in row) if alias}
                raise for_row(rows.errors[place], described(row, None, TimeKind.INTEGER, aliases))

    def _answer(self, rows: _Rows, report: str | None = None) -> pa.StructArray:
        arrays: list[pa.Array] = []
        if self.drops:
            arrays.append(rows.kept())
        if self.diverting:
            arrays.append(rows.texts({row: str(e) for row, e in rows.errors.items()}))
        if self.reports:
            arrays.append(rows.texts({} if report is None else {0: report}))
        arrays += [spark_array(rows.column(name), type) for name, type in self.outputs]
        return pa.StructArray.from_arrays(arrays, fields=list(self.schema))


_Compiled = Conjunction | OrdersItself | list[tuple[str, Compiled]]


class _Rows:
    """The rows that are still alive, and where they stood in the batch."""

    def __init__(self, inputs: Sequence[tuple[str, pa.DataType]], columns: Sequence[pa.Array]) -> None:
        self.length = len(columns[0])
        pairs = zip(inputs, columns, strict=False)  # without inputs a column comes for its length alone
        self.columns = {name: engine_array(c, type) for (name, type), c in pairs}
        self.places: Int64s | None = None  # None: all are alive
        self.errors: dict[int, DataError] = {}

    @property
    def alive(self) -> int:
        return self.length if self.places is None else len(self.places)

    def keep(self, conjunction: Conjunction | OrdersItself, needed: frozenset[str]) -> dict[int, DataError]:
        selection = conjunction.evaluate(self.columns, self.alive)
        return self._drop(selection.keep, selection.errors, needed)

    def compute(self, items: Sequence[tuple[str, Compiled]], needed: frozenset[str]) -> dict[int, DataError]:
        errors: dict[int, DataError] = {}
        for name, compiled in items:
            values, failed = compiled.rows(self.columns, self.alive)
            self.columns[name] = values
            for row, error in failed.items():
                errors.setdefault(row, error)
        good = np.ones(self.alive, np.bool_)
        good[list(errors)] = False
        return self._drop(good, errors, needed)

    def _drop(self, keep: Bools, errors: dict[int, DataError], needed: frozenset[str]) -> dict[int, DataError]:
        for row, error in errors.items():
            self.errors[row if self.places is None else int(self.places[row])] = error
        self.columns = {n: c for n, c in self.columns.items() if n in needed}
        if not keep.all():
            chosen = array_of(keep)
            self.columns = {n: c.filter(chosen) for n, c in self.columns.items()}
            self.places = np.flatnonzero(keep) if self.places is None else self.places[keep]
        return errors

    def failed(
        self, inputs: Sequence[tuple[str, pa.DataType]], columns: Sequence[pa.Array], most: int
    ) -> Iterator[dict[str, Any]]:
        """The last rows that made an expression fail, by the names that users know, with ``_reason``."""
        for place in sorted(self.errors)[-most:]:
            values = {
                name.partition(".")[2] or name: c[place].as_py() for (name, _), c in zip(inputs, columns, strict=False)
            }
            yield {**values, "_reason": str(self.errors[place])}

    def kept(self) -> pa.Array:
        mask = np.ones(self.length, np.bool_)
        if self.places is not None:
            mask[:] = False
            mask[self.places] = True
        return array_of(mask)

    def texts(self, by_row: Mapping[int, str]) -> pa.Array:
        if not by_row:
            return pa.nulls(self.length, pa.string())
        return pa.array([by_row.get(i) for i in range(self.length)], pa.string())

    def column(self, name: str) -> pa.Array:
        values = self.columns[name]
        return values if self.places is None else scatter(values, self.places, self.length)
