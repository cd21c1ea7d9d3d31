"""Recovery when rows make a vectorised call fail: find the failing rows, keep the results of the rest.

A kernel that can identify its failing rows raises ``Failure`` with their mask. Any other exception is bisected: the
call is repeated on halves until the failing rows stand alone. Parts that succeed are not computed again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pyarrow as pa

from eddyline.core.errors import DataError, EddylineError, JobError, clipped
from eddyline.expr.arrays import Bools, Kernel, Value, null_where, to_numpy, valid_mask
from eddyline.expr.types import DATE


class Failure(Exception):
    """``mask`` marks the failing rows; ``values`` holds the results of the others (anything at the failing ones)."""

    def __init__(self, mask: Bools, reason: str | Callable[[int], str], values: pa.Array) -> None:
        self.mask, self.reason, self.values = mask, reason, values
        super().__init__("some rows failed")

    def reason_at(self, row: int) -> str:
        return self.reason if isinstance(self.reason, str) else self.reason(row)


class RowErrors(DataError):
    """Raised where errors are not collected row by row: the errors of a batch, and the first of them as its text."""

    def __init__(self, errors: dict[int, DataError]) -> None:
        self.errors = errors
        super().__init__(str(errors[min(errors)]))


def within(values: pa.Array, limits: tuple[int, int]) -> pa.Array:
    """The dates or timestamps, unless some lie outside the years 1 to 9999."""
    numbers = to_numpy(values)
    low, high = limits
    if len(numbers) and (numbers.min() < low or numbers.max() > high):
        bad = (numbers < low) | (numbers > high)
        valid = valid_mask(values)
        bad = bad if valid is None else bad & valid
        if bad.any():
            raise Failure(bad, f"{'date' if values.type == DATE else 'timestamp'} overflow", values)
    return values


def _both(first: Failure, second: Failure) -> Failure:
    earlier = first.mask.copy()
    return Failure(
        first.mask | second.mask, lambda row: (first if earlier[row] else second).reason_at(row), second.values
    )


def then(first: Kernel, second: Kernel) -> Kernel:
    """One kernel after another; what fails in the first keeps its reason and the others go on."""

    def kernel(*args: Value) -> pa.Array:
        try:
            between = first(*args)
        except Failure as f:
            try:
                values = second(f.values)
            except Failure as g:
                raise _both(f, g) from None
            raise Failure(f.mask, f.reason, values) from None
        return second(between)

    return kernel


def reason_of(error: BaseException) -> str:
    """The reason in a few words, without a full stop.

    >>> reason_of(pa.ArrowInvalid("divide by zero"))
    'division by zero'
    """
    if isinstance(error, DataError):
        return str(error)
    text = str(error).strip().split("\n")[0].rstrip(".")
    if isinstance(error, EddylineError):
        return text
    text = clipped(text)  # a foreign message may quote any amount of data
    if isinstance(error, pa.ArrowInvalid):
        return {"overflow": "integer overflow", "divide by zero": "division by zero"}.get(text, text)
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def recover(
    kernel: Kernel,
    args: Sequence[Value],
    length: int,
    returns: pa.DataType,
    error: BaseException,
    record: Callable[[int, str], None],
) -> pa.Array:
    """The result of a call that raised: NULL in the failing rows; each of them is recorded with its reason.

    >>> import pyarrow.compute as pc
    >>> args = [pa.array([6, 1, 8]), pa.array([3, 0, 2])]
    >>> recover(pc.divide_checked, args, 3, pa.int64(), ValueError(), lambda row, why: print(row, why)).to_pylist()
    1 division by zero
    [2, None, 4]
    """
    pieces: list[pa.Array] = []

    def cut(start: int, stop: int, why: BaseException) -> None:
        if isinstance(why, Failure):
            for row in why.mask.nonzero()[0].tolist():
                record(start + row, why.reason_at(row))
            pieces.append(null_where(why.values, why.mask))
            return
        if stop - start == 1:
            record(start, reason_of(why))
            pieces.append(pa.nulls(1, returns))
            return
        middle = (start + stop) // 2
        for low, high in ((start, middle), (middle, stop)):
            part = [a.slice(low, high - low) if isinstance(a, pa.Array) else a for a in args]
            try:
                pieces.append(kernel(*part))
            except (MemoryError, JobError):
                raise
            except Exception as e:
                cut(low, high, e)

    if length:
        cut(0, length, error)
    return pa.concat_arrays(pieces) if pieces else pa.nulls(0, returns)
