"""Vectorised evaluation: an expression becomes a tree of closures over Arrow kernels, once; each batch only calls them.

Errors belong to rows. A kernel that raises is called again to find the rows (``expr.failures``): the failing ones
become NULL and are noted in the frame; the innermost, leftmost error of a row is the one that counts. Operands are
never computed twice, so a user's row function is called at most once for each row.

Laziness is by row: an operand that a CASE, IF, COALESCE, AND or OR would not read for a row cannot fail there. Operands
that cannot fail are computed for all rows, since that is cheaper than choosing rows; others only for the rows that need
them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from eddyline.core.errors import DataError, JobError
from eddyline.expr.arrays import (
    Bools,
    Int64s,
    Kernel,
    Value,
    array_of,
    broadcast,
    mask_of,
    null_where,
    scatter,
    to_numpy,
    valid_mask,
)
from eddyline.expr.builtins import BUILDERS, Argument, Built
from eddyline.expr.casts import build_cast
from eddyline.expr.deferred_errors import noted_part
from eddyline.expr.describe import as_written
from eddyline.expr.failures import Failure, RowErrors, recover
from eddyline.expr.frames import Frame, Node, Part, Retry
from eddyline.expr.lazy import case, coalesce, facts, find_first, junction, on_rows
from eddyline.expr.nodes import Call, Case, Cast, Column, Expr, Literal, UserCall
from eddyline.expr.types import BOOLEAN, INT8, INT16, INT32, INT64, STRING, cast_can_fail
from eddyline.expr.user_functions import build_user_function, vectorised


class Compiled:
    """``compiled(columns, length)`` gives the array of the expression's values, or raises ``RowErrors``.

    >>> a = Column("a", pa.int64())
    >>> double = compile_expr(Call("multiply", (a, Literal(2, pa.int64())), pa.int64()))
    >>> double({"a": pa.array([1, None, 21])}, 3).to_pylist()
    [2, None, 42]
    """

    __slots__ = ("_part", "can_fail", "columns", "expensive", "expr")

    def __init__(self, expr: Expr, part: Part) -> None:
        self.expr, self._part = expr, part
        self.columns: frozenset[str] = part.names
        self.can_fail = part.can_fail
        self.expensive = part.expensive

    def __call__(self, columns: Mapping[str, pa.Array], length: int) -> pa.Array:
        frame = Frame(columns, length)
        value = self._part.run(frame)
        if frame.errors:
            raise RowErrors(frame.errors)
        return value if isinstance(value, pa.Array) else broadcast(value, length)

    def rows(
        self, columns: Mapping[str, pa.Array], length: int, wanted: Bools | None = None
    ) -> tuple[pa.Array, dict[int, DataError]]:
        """The values, NULL in the failing rows, and the error of each of these.

        With ``wanted`` the other rows are not asked, and have arbitrary values.
        """
        frame = Frame(columns, length)
        run = self._part.run
        values = broadcast(run(frame), length) if wanted is None else on_rows(frame, self._part, wanted)
        if frame.errors:
            failing = np.zeros(length, np.bool_)
            failing[list(frame.errors)] = True
            values = null_where(values, failing)
        return values, frame.errors


def compile_expr(expr: Expr) -> Compiled:
    """Compile once, call for each batch."""
    return Compiled(expr, _compile(expr))


def evaluate_rows(
    compiled: Compiled, columns: Mapping[str, pa.Array], length: int
) -> tuple[pa.Array, dict[int, DataError]]:
    """Values and errors by row.

    >>> a, b = Column("a", pa.float64()), Column("b", pa.float64())
    >>> ratio = compile_expr(Call("divide", (a, b), pa.float64()))
    >>> values, errors = evaluate_rows(ratio, {"a": pa.array([1.0, 3.0]), "b": pa.array([0.0, 2.0])}, 2)
    >>> values.to_pylist(), {row: str(e) for row, e in errors.items()}
    ([None, 1.5], {0: "division by zero in 'a / b'"})
    """
    return compiled.rows(columns, length)


def can_fail(expr: Expr) -> bool:
    """Whether some row may make the expression fail; users' functions always may."""
    return _compile(expr).can_fail


# -- compilation ---------------------------------------------------------------------------------------------------


def _compile(e: Expr) -> Part:
    match e:
        case Column():
            return _column(e)
        case Literal():
            return _constant(_scalar(e.value, e.type))
        case Cast():
            return _cast(e)
        case Case():
            whens = [(_compile(c), _compile(v)) for c, v in e.branches]
            return _fold(case(whens, _compile(e.default), e.type))
        case UserCall():
            return _user_call(e)
        case Call(function="and" | "or"):
            return _fold(junction(e.function, [_compile(a) for a in e.args]))
        case Call(function="coalesce"):
            return _fold(coalesce([_compile(a) for a in e.args], e.type))
        case Call(function="if", args=(condition, then, otherwise)):
            return _fold(case([(_compile(condition), _compile(then))], _compile(otherwise), e.type))
        case Call(function="in"):
            return _membership(e)
        case Call(function="nullif", args=(a, b)):
            return _nullif(e, a, b)
        case Call(function="noted", args=(value, note)):
            return noted_part(_compile(value), _compile(note))
        case Call():
            return _call(e)


def _scalar(value: Any, type: pa.DataType) -> pa.Scalar:
    return pa.scalar(value, type)


def _constant(value: pa.Scalar) -> Part:
    return Part(lambda frame: value, value.type, frozenset(), constant=value)


def _column(e: Column) -> Part:
    name = e.name

    def run(frame: Frame) -> pa.Array:
        values = frame.columns[name]
        return values.dictionary_decode() if isinstance(values, pa.DictionaryArray) else values

    return Part(run, e.type, frozenset((name,)))


def _fold(part: Part) -> Part:
    """Replace what reads no column by its value; if that fails, it fails on every row, as long as there are rows."""
    if part.names or part.constant is not None or part.expensive:  # users' functions are called for rows only
        return part
    frame = Frame({}, 1)
    value = broadcast(part.run(frame), 1)[0]
    if not frame.errors:
        return _constant(value)
    error = frame.errors[0]

    def fail(frame: Frame) -> pa.Array:
        for row in range(frame.length) if frame.wanted is None else np.flatnonzero(frame.wanted).tolist():
            frame.errors.setdefault(row, error)
        return pa.nulls(frame.length, part.type)

    return Part(fail, part.type, frozenset(), can_fail=True)


def _call(e: Call) -> Part:
    parts = [_compile(a) for a in e.args]
    built = BUILDERS[e.function]([Argument(p.type, p.constant) for p in parts], e.type)
    part = _with_kernel(e, parts, built)
    if built.strict and sum(p.constant is None for p in parts) == 1:
        part = _over_dictionaries(e, parts, built, part)
    return part


def _membership(e: Call) -> Part:
    """IN looks at its list from left to right until it finds the value; literals cannot fail and need no care."""
    tested, *listed = parts = [_compile(a) for a in e.args]
    if not any(p.can_fail or p.expensive for p in listed):
        return _call(e)
    equal = BUILDERS["eq"]
    kernels = [equal([Argument(tested.type), Argument(p.type)], BOOLEAN).kernel for p in listed]
    names, may_fail, expensive = facts(parts)
    return Part(find_first(tested, listed, kernels), BOOLEAN, names, may_fail, expensive)


def _with_kernel(e: Expr, parts: Sequence[Part], built: Built) -> Part:
    kernel, returns = built.kernel, e.type
    names = frozenset[str]().union(*(p.names for p in parts))
    if all(p.constant is not None for p in parts):
        # only here would a kernel see no array
        ones = [broadcast(p.constant, 1) for p in parts if p.constant is not None]
        return _fold(Part(_guarded(lambda frame: ones, kernel, returns, e), returns, names, built.can_fail))
    runs = [p.run for p in parts]
    if len(runs) == 1:
        (only,) = runs
        evaluate = _guarded(lambda frame: (only(frame),), kernel, returns, e)
    elif len(runs) == 2:
        first, second = runs
        evaluate = _guarded(lambda frame: (first(frame), second(frame)), kernel, returns, e)
    else:
        evaluate = _guarded(lambda frame: tuple(run(frame) for run in runs), kernel, returns, e)
    return Part(
        evaluate,
        returns,
        names,
        built.can_fail or any(p.can_fail for p in parts),
        built.expensive or any(p.expensive for p in parts),
    )


def _guarded(arguments: Callable[[Frame], Sequence[Value]], kernel: Kernel, returns: pa.DataType, e: Expr) -> Node:
    def run(frame: Frame) -> Value:
        args = arguments(frame)
        try:
            return kernel(*args)
        except (MemoryError, JobError):
            raise
        except Exception as error:
            if frame.wanted is not None:
                if not isinstance(error, Failure):
                    raise Retry from error  # to look for failing rows among those that do not count may take long
                error.mask &= frame.wanted
                if not error.mask.any():
                    return error.values
            # Described only now: every level of a deep expression would describe all that is below it.
            return recover(kernel, args, frame.length, returns, error, frame.record(as_written(e)))

    return run


def _over_dictionaries(e: Call, parts: Sequence[Part], built: Built, plain: Part) -> Part:
    """A function of one dictionary-encoded column and literals runs on the dictionary; the rows look up its results."""
    at = next(i for i, p in enumerate(parts) if p.constant is None)
    source = e.args[at]
    if not isinstance(source, Column) or source.type != STRING:
        return plain
    name, kernel, run_plain = source.name, built.kernel, plain.run
    args: list[Value] = [p.constant for p in parts]

    def run(frame: Frame) -> Value:
        values = frame.columns[name]
        if not isinstance(values, pa.DictionaryArray) or len(values.dictionary) > len(values):
            return run_plain(frame)
        call = args.copy()
        call[at] = values.dictionary
        try:
            results = kernel(*call)
        except Exception:  # perhaps a value that no row has: ask the rows
            return run_plain(frame)
        return _look_up(results, values.indices)

    return Part(run, plain.type, plain.names, plain.can_fail, plain.expensive)


def _look_up(results: pa.Array, indices: pa.Array) -> pa.Array:
    if results.type != BOOLEAN or results.null_count or indices.type not in (INT8, INT16, INT32, INT64):
        return results.take(indices)
    table = mask_of(results)
    hits = np.flatnonzero(table)
    if len(hits) <= 1:  # the usual comparison with a literal: compare codes instead of looking up
        return pc.equal(indices, pa.scalar(int(hits[0]) if len(hits) else -1, indices.type))
    found = table.take(to_numpy(indices), mode="clip")  # below a NULL stands any code
    valid = valid_mask(indices)
    return array_of(found) if valid is None else pc.if_else(array_of(valid), array_of(found), pa.scalar(None, BOOLEAN))


def _cast(e: Cast) -> Part:
    part = _compile(e.operand)
    kernel = build_cast(part.type, e.type)
    if part.type == e.type:
        return part
    may_fail = cast_can_fail(part.type, e.type)
    if e.safe and may_fail:
        kernel, may_fail = _null_on_failure(kernel, e.type), False
    return _with_kernel(e, [part], Built(kernel, may_fail))


def _null_on_failure(kernel: Kernel, returns: pa.DataType) -> Kernel:
    def attempt(a: pa.Array) -> pa.Array:
        try:
            return kernel(a)
        except Exception as error:
            return recover(kernel, [a], len(a), returns, error, lambda row, reason: None)

    return attempt


# -- users' functions ----------------------------------------------------------------------------------------------


def _user_call(e: UserCall) -> Part:
    parts = [_compile(a) for a in e.args]
    runs, definition, text = [p.run for p in parts], e.function, as_written(e)
    call, by_rows = build_user_function(definition), definition.kind == "row"

    def run(frame: Frame) -> pa.Array:
        args = [broadcast(r(frame), frame.length) for r in runs]
        if not frame.length:
            return pa.nulls(0, definition.returns)
        if frame.errors:  # these rows are lost already; do not call the function with a NULL that is none
            good = np.ones(frame.length, np.bool_)
            good[list(frame.errors)] = False
            rows = np.flatnonzero(good)
            if not len(rows):
                return pa.nulls(frame.length, definition.returns)
            chosen = [a.filter(array_of(good)) for a in args]
            return scatter(attempt(frame, chosen, rows), rows, frame.length)
        return attempt(frame, args, None)

    def attempt(frame: Frame, args: list[pa.Array], rows: Int64s | None) -> pa.Array:
        length = frame.length if rows is None else len(rows)
        note = frame.record(text)

        def record(row: int, reason: str) -> None:
            note(row if rows is None else int(rows[row]), reason)

        try:
            return call(args, length)
        except (MemoryError, JobError):
            raise
        except Exception as error:
            if by_rows and not isinstance(error, Failure):
                raise
            if not args:
                for row in range(length):
                    record(row, str(error))
                return pa.nulls(length, definition.returns)
            return recover(vectorised(definition), args, length, definition.returns, error, record)

    names = frozenset[str]().union(*(p.names for p in parts))
    return Part(run, definition.returns, names, can_fail=True, expensive=True)


def _nullif(e: Call, a: Expr, b: Expr) -> Part:
    parts = [_compile(a), _compile(b)]
    equal = BUILDERS["eq"]([Argument(p.type, p.constant) for p in parts], BOOLEAN).kernel
    nothing = pa.scalar(None, e.type)

    def kernel(x: Value, y: Value) -> pa.Array:
        return pc.if_else(pc.fill_null(equal(x, y), False), nothing, x)

    return _with_kernel(e, parts, Built(kernel))
