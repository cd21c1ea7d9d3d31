"""Functions of a text and of parameters: vectorised for each value of the parameters.

Arrow's kernels take their parameters (a pattern, a length) once for a whole column. Constant parameters fit that. Where
parameters come from columns, the rows are grouped by their values, and the kernel runs once for each group. With
nearly as many values as rows that would be no faster, and the function is called row by row.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from eddyline.expr.arrays import Kernel, Value, broadcast, from_numpy, row_wise, scatter, valid_mask
from eddyline.expr.builtins.base import Argument, Builder, Built

ROWS_PER_VALUE = 16  # a kernel of Arrow for fewer rows costs more than as many calls in Python

Fast = Callable[..., pa.Array]  # texts, and the parameters as Python values


def by_value(
    fast: Fast,
    slow: Callable[..., Any],
    returns: pa.DataType,
    can_fail: Callable[..., bool] = lambda *_: False,
    subject: int = 0,
    expensive: bool = False,
) -> Builder:
    """``fast`` gives for a column of texts what ``slow`` gives for each of them, NULL for NULL; both may raise.
    ``can_fail`` says of constant parameters whether some text could fail; parameters of columns are asked as None.
    ``subject`` is the place of the text among the arguments. ``expensive``: also where the parameters are constant."""
    one_by_one = row_wise(slow, returns)

    def build(arguments: Sequence[Argument], _: pa.DataType) -> Built:
        others = [i for i in range(len(arguments)) if i != subject]
        values = [arguments[i].value for i in others]
        columns = [i for i in others if arguments[i].literal is None]
        if not columns and arguments[subject].literal is None and None not in values:

            def constant(*args: Value) -> pa.Array:
                return _of_texts(fast, args[subject], values, returns)

            return Built(constant, can_fail=can_fail(*values), expensive=expensive)

        def kernel(*args: Value) -> pa.Array:
            return _grouped(fast, one_by_one, returns, subject, args)

        return Built(kernel, can_fail=can_fail(*(None for _ in others)), expensive=True)

    return build


def _grouped(fast: Fast, slow: Kernel, returns: pa.DataType, subject: int, args: Sequence[Value]) -> pa.Array:
    length = next(len(a) for a in args if isinstance(a, pa.Array))
    if any(isinstance(a, pa.Scalar) and not a.is_valid for a in args):
        return pa.nulls(length, returns)
    others = [a for i, a in enumerate(args) if i != subject]
    codes, values = _numbered([a for a in others if isinstance(a, pa.Array)], length)
    if len(values) * ROWS_PER_VALUE > length:
        return slow(*args)
    texts = broadcast(args[subject], length)
    order = np.argsort(codes, kind="stable")
    ends = np.searchsorted(codes[order], np.arange(len(values) + 1))
    pieces, rows = [], []
    for i, value in enumerate(values):
        mine = order[ends[i] : ends[i + 1]]
        given = iter(value)
        parameters = [next(given) if isinstance(a, pa.Array) else a.as_py() for a in others]
        pieces.append(_of_texts(fast, texts.take(pa.array(mine)), parameters, returns))
        rows.append(mine)
    if not pieces:
        return pa.nulls(length, returns)
    return scatter(pa.concat_arrays(pieces), np.concatenate(rows), length)


def _of_texts(fast: Fast, texts: pa.Array, parameters: Sequence[Any], returns: pa.DataType) -> pa.Array:
    """NULL for NULL also where the parameters alone are wrong: without a text nothing was asked of them."""
    return pa.nulls(len(texts), returns) if texts.null_count == len(texts) else fast(texts, *parameters)


def _numbered(columns: Sequence[pa.Array], length: int) -> tuple[Any, list[tuple[Any, ...]]]:
    """Each row's number among the different values of the columns, −1 where one is NULL, and the values."""
    codes = np.zeros(length, np.int64)
    for c in columns:
        encoded = c.dictionary_encode()
        indices = encoded.indices.fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64)
        codes = codes * max(1, len(encoded.dictionary)) + indices
        _, codes = np.unique(codes, return_inverse=True)
    for c in columns:
        valid = valid_mask(c)
        if valid is not None:
            codes = np.where(valid, codes, -1)
    kept, first, numbers = np.unique(codes, return_index=True, return_inverse=True)
    if len(kept) and kept[0] < 0:
        first, numbers = first[1:], numbers - 1
    at = from_numpy(first.astype(np.int64), None, pa.int64())
    values = list(zip(*(c.take(at).to_pylist() for c in columns), strict=True)) if columns else [()] * len(first)
    return numbers, values
