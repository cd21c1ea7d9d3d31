"""The arguments and the result of every builder of a built-in function."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from eddyline.expr.arrays import Kernel


@dataclass(frozen=True, slots=True)
class Argument:
    """``literal`` is set where the argument is a constant."""

    type: pa.DataType
    literal: pa.Scalar | None = None

    @property
    def value(self) -> Any:
        """The Python value of a literal; None also where there is none."""
        return None if self.literal is None else self.literal.as_py()


@dataclass(frozen=True, slots=True)
class Built:
    """``strict`` kernels give NULL for a NULL argument, so they may run on the values of a dictionary instead;
    ``expensive`` ones cost microseconds a row and deserve a selection."""

    kernel: Kernel
    can_fail: bool = False
    strict: bool = True
    expensive: bool = False


Builder = Callable[[Sequence[Argument], pa.DataType], Built]


def plain(kernel: Kernel) -> Builder:
    """A kernel that needs to know nothing about its arguments and cannot fail."""
    built = Built(kernel)
    return lambda arguments, returns: built
