"""``ed.sweep``: one query on models for many values of its parameters (Pulse 2.1.2, historical processing).

What is correct: for each row of the parameters the result is that of the query with these values written into it.
The query is bound once, with constants that stand for the parameters. What reads none of them is computed once; the
rest runs for each row. A comparison of lines with a parameter, the usual case, is one kernel for all rows. Where a
parameter is no constant of an expression (the width of a window), the query is bound for each row.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa

from eddyline.core import arguments as check
from eddyline.core.delta import Delta, Float64s
from eddyline.core.errors import CqlError, DataError, JobError, did_you_mean
from eddyline.core.time import TimeKind
from eddyline.cql import bind
from eddyline.engine.session import Session
from eddyline.expr.nodes import Call, Case, Cast, Expr, Literal, UserCall, columns_of, walk
from eddyline.io.resolve import open_source
from eddyline.kernels.polynomials import GE, GT, LE, LT
from eddyline.kernels.sweep import sweep_lines
from eddyline.models import program as pg
from eddyline.models.arithmetic import evaluate, refuse_divisions_by_zero
from eddyline.models.pieces import Pieces, for_kernel, padded
from eddyline.models.segments import FROM, TO
from eddyline.models.sources import FittedRows, ticks
from eddyline.operators.model_query import ModelOperator
from eddyline.plan.logical import ModelQuery, StreamScan
from eddyline.plan.models import CLOSED

PLACE: Final = re.compile(r"'(?:[^']|'')*'|\"[^\"]*\"|`[^`]*`|(?<![:\w]):([A-Za-z_]\w*)")
FIRST_STAND_IN: Final = (
    7.0123456789e-101  # a constant that no query contains, for the first parameter; others are near it
)
RESULT_ROWS_AT_ONCE: Final = 4_000_000  # that are computed before they are handed over: more take more memory
_CODES: Final = {"lt": LT, "le": LE, "ge": GE, "gt": GT}
_TURNED: Final = {LT: GT, LE: GE, GE: LE, GT: LT}
_CLOSEDNESS: Final = pa.array(["()", "[)", "(]", "[]"])


def sweep(
    text: str, streams: Mapping[str, Any], parameters: Mapping[str, Sequence[float]] | pa.Table,
    *, base: Path | str | None = None,
) -> pa.Table:  # fmt: skip
    """The results of a query on models for every row of its parameters, which stand in its text as ``:name``.

    ``streams`` are segment tables by name: tables, or paths of their Parquet files. ``parameters`` are columns of
    numbers of the same length. The result has the parameters, then the columns of the query; columns of text and
    ``_closed`` come as dictionaries, and rows in order of the parameters.

    >>> import eddyline as ed
    >>> samples = [{"ts": t, "room": "a", "heat": 20.0 + 0.5 * t} for t in range(100)]
    >>> heat = ed.fit(samples, key="room", time="ts", value="heat", error=0.1)
    >>> found = ed.sweep("SELECT room, heat FROM S WHERE heat > :limit", {"S": heat}, {"limit": [30, 50, 90]})
    >>> found.select(["limit", "_from", "_to"]).to_pylist()
    [{'limit': 30.0, '_from': 20.0, '_to': 100.0}, {'limit': 50.0, '_from': 60.0, '_to': 100.0}]
    """
    return pa.Table.from_batches(*_batches(text, streams, parameters, base))


def _batches(
    text: str, streams: Mapping[str, Any], parameters: Mapping[str, Sequence[float]] | pa.Table,
    base: Path | str | None,
) -> tuple[list[pa.RecordBatch], pa.Schema]:  # fmt: skip
    values = checked_parameters(check.text(text, "a query"), parameters)
    session = _declared(streams, base)
    tables: dict[str, Delta] = {}
    made: list[pa.RecordBatch] = []
    schema: pa.Schema | None = None
    for rows, swept in _planned(text, values, session):
        query = _Swept(swept, _inputs(swept, session, streams, base, tables))
        for batch in query.run(rows):
            made.append(batch)
        schema = query.schema(list(values))
    assert schema is not None
    return [pa.RecordBatch.from_arrays(b.columns, schema=schema) for b in made], schema


def _declared(streams: Any, base: Path | str | None) -> Session:
    if not isinstance(streams, Mapping):
        raise JobError(f"streams are segment tables by name, such as {{'S': table}}, not {check.shown(streams)}.")
    session = Session(base=base)
    for name, source in streams.items():
        session.stream(name, source)
    return session


def checked_parameters(text: str, parameters: Any) -> dict[str, Float64s]:
    """Each parameter's values by its name in the text; all of the same length."""
    if isinstance(parameters, pa.Table):
        parameters = {n: parameters[n].to_pylist() for n in parameters.column_names}
    if not isinstance(parameters, Mapping) or not parameters:
        raise JobError(f"parameters are columns of numbers by name, not {check.shown(parameters)}.")
    named = [m.group(1) for m in PLACE.finditer(text) if m.group(1)]
    for name in parameters:
        if name not in named:
            raise JobError(f"the query has no parameter :{name}.{did_you_mean(str(name), named)}")
    missing = next((n for n in named if n not in parameters), None)
    if missing is not None:
        raise JobError(f"the parameter :{missing} has no values; give it some in parameters.")
    found: dict[str, Float64s] = {}
    for name, given in parameters.items():
        try:
            found[name] = np.array(list(given), np.float64)
        except (TypeError, ValueError):
            raise JobError(f"the values of :{name} must be numbers, and {check.shown(given)} are not.") from None
        if found[name].ndim != 1:
            raise JobError(f"the values of :{name} are one list of numbers, not {check.shown(given)}.")
        if not np.isfinite(found[name]).all() or not len(found[name]):
            raise JobError(f"the values of :{name} must be finite numbers, at least one.")
    if len({len(v) for v in found.values()}) > 1:
        raise JobError("all parameters must have the same number of values: one per run of the query.")
    return found


@dataclass(frozen=True, slots=True)
class _Plan:
    """A bound query; ``names`` are the parameters by the constants that stand for them. It is empty if the values are
    part of the query's text."""

    query: ModelQuery
    names: Mapping[float, str]


def _planned(
    text: str, values: Mapping[str, Float64s], session: Session
) -> Iterator[tuple[dict[str, Float64s], _Plan]]:
    """The rows of the parameters with the plan that runs them: one for all, or one for each."""
    stand = {name: FIRST_STAND_IN * (1 + i / 1024) for i, name in enumerate(values)}
    try:
        query = _bound(_written(text, stand), session)
    except CqlError:
        query = None  # a constant is wanted there: perhaps a window
    if query is not None:
        places = [m.group(1) for m in PLACE.finditer(text) if m.group(1)]
        known = [e.value for e in _literals(query.program.root)]
        if all(known.count(v) >= places.count(n) for n, v in stand.items()):
            yield dict(values), _Plan(query, {v: n for n, v in stand.items()})
            return
    for i in range(len(next(iter(values.values())))):
        one = {n: float(v[i]) for n, v in values.items()}
        yield {n: v[i : i + 1] for n, v in values.items()}, _Plan(_bound(_written(text, one), session), {})


def _written(text: str, values: Mapping[str, float]) -> str:
    def one(match: re.Match[str]) -> str:
        name = match.group(1)
        if name is None:
            return match.group(0)
        value = values[name]
        return str(int(value)) if value == int(value) and abs(value) < 2**53 else repr(value)

    return PLACE.sub(one, text)


def _bound(text: str, session: Session) -> ModelQuery:
    plan = bind(text, session.catalog).plan
    if not isinstance(plan, ModelQuery) or any(isinstance(m, FittedRows) for m in plan.models):
        raise JobError("sweep runs queries on models: fit the samples first (ed.fit), and query the segments.")
    if plan.predict:
        raise JobError("sweep answers for all time at once: leave PREDICT out.")
    return plan


def sweep_schema(
    text: str, streams: Mapping[str, Any], names: Sequence[str], base: Path | str | None = None
) -> pa.Schema:
    """The columns of ``sweep`` with parameters of these names; nothing but the streams' schemas is read."""
    values = checked_parameters(check.text(text, "a query"), {n: [1.0] for n in names})
    session = _declared(streams, base)
    return next(_schema(plan.query, names) for _, plan in _planned(text, values, session))


def _schema(query: ModelQuery, names: Sequence[str]) -> pa.Schema:
    """The parameters, then the query's columns; texts come as dictionaries."""
    fields = [pa.field(n, pa.float64()) for n in names]
    if query.program.sample is not None:
        fields.append(pa.field("_time", pa.int64() if query.kind is TimeKind.INTEGER else pa.timestamp("us")))
    for f in query.schema:
        if f.name == CLOSED:
            fields.append(pa.field(f.name, pa.dictionary(pa.uint8(), pa.string())))
        else:
            text = pa.types.is_string(f.type)
            fields.append(pa.field(f.name, pa.dictionary(pa.int32(), pa.string()) if text else f.type))
    return pa.schema(fields)


def _inputs(
    plan: _Plan, session: Session, streams: Mapping[str, Any], base: Path | str | None, tables: dict[str, Delta]
) -> list[Delta]:
    """The rows of each input in order of time, each stream read once."""
    found = []
    by_name = {n.lower(): s for n, s in streams.items()}
    for scan in plan.query.inputs:
        assert isinstance(scan, StreamScan)
        name = scan.stream.lower()
        if name not in tables:
            stamp = session.catalog.streams[name].timestamp
            assert stamp is not None
            opened = open_source(by_name[name], None if base is None else Path(base))
            rows = pa.Table.from_batches([b.rows for b in opened.open()], opened.schema)
            rows = rows.combine_chunks()
            columns = {n: _whole(rows[n]) for n in rows.column_names}
            time = ticks(columns[stamp])
            if len(time) and (np.diff(time) < 0).any():
                order = np.argsort(time, kind="stable")
                time, columns = time[order], {n: c.take(pa.array(order)) for n, c in columns.items()}
            tables[name] = Delta(time, columns)
        found.append(tables[name])
    return found


def _whole(column: pa.ChunkedArray) -> pa.Array:
    one = column.combine_chunks() if column.num_chunks != 1 else column.chunk(0)
    one = one.chunk(0) if isinstance(one, pa.ChunkedArray) else one
    return one.dictionary_decode() if pa.types.is_dictionary(one.type) else one


class _Swept:
    """A plan with its inputs as pieces, ready to run for rows of parameters."""

    def __init__(self, plan: _Plan, inputs: Sequence[Delta]) -> None:
        query = plan.query
        scans = [i for i in query.inputs if isinstance(i, StreamScan)]
        self.plan, self.query = plan, query
        self.operator = ModelOperator(
            "sweep", query.schema, query.program, query.models, [s.schema for s in scans], [s.alias for s in scans],
            query.kind, query.horizon,
        )  # fmt: skip
        last = 0
        for delta, store in zip(inputs, self.operator.stores, strict=True):
            store.add(delta.time, {n: delta.columns[n] for n in store.schema.names})
            last = max(last, int(delta.time[-1]) if len(delta) else 0)
        self.end = float(pg.END_OF_MODELS) + 1.0
        given = [s.pieces(self.end, last + 1.0) for s in self.operator.stores]
        # What reads no parameter is computed once, and is an input from then on.
        self.pieces = list(given)
        self.root = self._frozen(query.program.root)

    def _frozen(self, node: pg.Node) -> pg.Node:
        if isinstance(node, pg.Source):
            return node
        if not any(e.value in self.plan.names for e in _literals(node)):
            self.pieces.append(pg.run(node, self.pieces, self.query.program.scale))
            return pg.Source(len(self.pieces) - 1)
        if isinstance(node, pg.Join):
            return replace(node, left=self._frozen(node.left), right=self._frozen(node.right))
        return replace(node, input=self._frozen(node.input))

    def run(self, rows: Mapping[str, Float64s]) -> Iterator[pa.RecordBatch]:
        lines = self._lines()
        if lines is not None:
            yield from self._all_at_once(rows, *lines)
            return
        names = list(rows)
        for i in range(len(rows[names[0]])):
            literals = {v: Literal(float(rows[n][i]), pa.float64()) for v, n in self.plan.names.items()}
            result = pg.run(_replaced(self.root, literals), self.pieces, self.query.program.scale)
            self.operator.done = -np.inf
            sampled = self.query.program.sample is not None
            delta = self.operator._samples(result, self.end) if sampled else self.operator._segments(result, self.end)
            yield self._batch({n: np.full(len(delta), rows[n][i]) for n in names}, delta)

    def _batch(self, given: Mapping[str, Float64s], delta: Delta) -> pa.RecordBatch:
        columns: list[Any] = [pa.array(v) for v in given.values()]
        if self.query.program.sample is not None:
            time = pa.array(delta.time)
            columns.append(time if self.query.kind is TimeKind.INTEGER else time.view(pa.timestamp("us")))
        columns += [self._shown(delta.columns[f.name]) for f in self.query.schema]
        return pa.RecordBatch.from_arrays(columns, schema=self.schema(list(given)))

    def _shown(self, column: pa.Array) -> pa.Array:
        return column.dictionary_encode() if pa.types.is_string(column.type) else column

    def schema(self, names: Sequence[str]) -> pa.Schema:
        return _schema(self.query, names)

    # ── a comparison of lines with one parameter ──────────────────────────────────────────────────────────────────

    def _lines(self) -> tuple[Pieces, Float64s, int, str] | None:
        """(pieces, lines, comparison, parameter) if the query compares lines with a parameter and shows lines."""
        node: pg.Node = self.root
        items: Sequence[tuple[str, Expr]] | None = None
        if isinstance(node, pg.Map):
            items, node = node.items, node.input
        if self.query.program.sample is not None or not isinstance(node, pg.Restrict) or len(node.conjuncts) != 1:
            return None
        if not isinstance(node.input, pg.Source):
            return None
        pieces = self.pieces[node.input.input]
        condition = node.conjuncts[0]
        if not isinstance(condition, Call) or condition.function not in _CODES:
            return None
        code, (a, b) = _CODES[condition.function], condition.args
        if self._parameter(a) is not None:
            a, b, code = b, a, _TURNED[code]
        name = self._parameter(b)
        if name is None or not columns_of(a) & pieces.values.keys():
            return None
        piece_count = len(pieces)
        try:
            refuse_divisions_by_zero(a, pieces)
            one = evaluate(a, pieces)
            if items is not None:
                pieces = pg.run(pg.Map(pg.Source(0), tuple(items)), [pieces], self.query.program.scale)
        except DataError:
            return None  # it may be of pieces that the condition leaves out
        if len(pieces) != piece_count:  # a map that cuts pieces, as abs() does
            return None
        if not one.plain or one.c.shape[1] > 2 or any(not v.plain or v.c.shape[1] > 2 for v in pieces.values.values()):
            return None
        return pieces, padded(one.c, 2), code, name

    def _parameter(self, e: Expr) -> str | None:
        while isinstance(e, Cast):
            e = e.operand
        return self.plan.names.get(e.value) if isinstance(e, Literal) and isinstance(e.value, float) else None

    def _all_at_once(
        self, rows: Mapping[str, Float64s], pieces: Pieces, line: Float64s, code: int, name: str
    ) -> Iterator[pa.RecordBatch]:
        modelled = [n for n, m in self.query.program.columns if m]
        values = np.column_stack([padded(pieces.values[n].c, 2) for n in modelled])
        on_ticks = self.query.kind is TimeKind.TIMESTAMP
        columns = {n: self._shown(c) for n, c in pieces.columns.items()}
        arrays = for_kernel(line, pieces.base, pieces.low, pieces.high, pieces.closed)
        row_count = len(rows[name])
        step = max(1, RESULT_ROWS_AT_ONCE // max(1, len(pieces)))
        dropped = np.zeros(1, np.int64)
        for start in range(0, row_count, step):
            constants = np.ascontiguousarray(rows[name][start : start + step])
            room = len(constants) * len(pieces) + 2
            row, low, high = np.empty(room, np.int64), np.empty(room), np.empty(room)
            closed, out = np.empty(room, np.uint8), np.empty((values.shape[1], room))
            count = np.zeros(len(constants), np.int64)
            made = sweep_lines(
                *arrays, self.query.program.scale, constants, code, *for_kernel(values), on_ticks, count, row, low,
                high, closed, out, dropped,
            )  # fmt: skip
            given = {n: np.repeat(v[start : start + step], count) for n, v in rows.items()}
            where = pa.array(row[:made])
            shown: dict[str, Any] = {n: c.take(where) for n, c in columns.items()}
            for at, when in ((FROM, low), (TO, high)):
                shown[at] = self.operator._times(when[:made])
            shown[CLOSED] = pa.DictionaryArray.from_arrays(pa.array(closed[:made]), _CLOSEDNESS)
            for j, n in enumerate(modelled):
                for k in (0, 1):
                    shown[f"{n}_{k}"] = pa.array(out[2 * j + k, :made])
            arranged = [pa.array(v) for v in given.values()] + [shown[f.name] for f in self.query.schema]
            yield pa.RecordBatch.from_arrays(arranged, schema=self.schema(list(given)))
        self.operator.slivers += int(dropped[0])


# ── programs with constants that stand for parameters ─────────────────────────────────────────────────────────────


def _literals(node: pg.Node) -> Iterator[Literal]:
    """The constants of a program, those of its inputs included."""
    expressions: list[Expr] = []
    below: tuple[pg.Node, ...] = ()
    match node:
        case pg.Restrict():
            expressions, below = list(node.conjuncts), (node.input,)
        case pg.Map():
            expressions, below = [e for _, e in node.items], (node.input,)
        case pg.Join():
            expressions, below = list(node.conjuncts), (node.left, node.right)
        case pg.Aggregate():
            expressions = [e for _, e in node.groups] + [e for _, _, e in node.functions]
            below = (node.input,)
    for e in expressions:
        yield from (x for x in walk(e) if isinstance(x, Literal))
    for n in below:
        yield from _literals(n)


def _replaced(node: pg.Node, by: Mapping[float, Literal]) -> pg.Node:
    match node:
        case pg.Restrict():
            return replace(node, input=_replaced(node.input, by), conjuncts=_all(node.conjuncts, by))
        case pg.Map():
            items = tuple((n, _value(e, by)) for n, e in node.items)
            return replace(node, input=_replaced(node.input, by), items=items)
        case pg.Join():
            left, right = _replaced(node.left, by), _replaced(node.right, by)
            return replace(node, left=left, right=right, conjuncts=_all(node.conjuncts, by))
        case pg.Aggregate():
            functions = tuple((n, f, _value(e, by)) for n, f, e in node.functions)
            groups = tuple((n, _value(e, by)) for n, e in node.groups)
            return replace(node, input=_replaced(node.input, by), groups=groups, functions=functions)
        case _:
            return node


def _all(expressions: Sequence[Expr], by: Mapping[float, Literal]) -> tuple[Expr, ...]:
    return tuple(_value(e, by) for e in expressions)


def _value(e: Expr, by: Mapping[float, Literal]) -> Expr:
    match e:
        case Literal():
            return by.get(e.value, e) if isinstance(e.value, float) else e
        case Call() | UserCall():
            return replace(e, args=_all(e.args, by))
        case Cast():
            return replace(e, operand=_value(e.operand, by))
        case Case():
            branches = tuple((_value(c, by), _value(v, by)) for c, v in e.branches)
            return replace(e, branches=branches, default=_value(e.default, by))
        case _:
            return e
