"""A kernel that is quickly compiled, for tests of when and where kernels are."""

from __future__ import annotations

from typing import Any

from eddyline.kernels.compile import kernel


@kernel("int64(int64[::1])")
def add_up(values):  # type: ignore[no-untyped-def]
    total = 0
    for i in range(len(values)):
        total += values[i]
    return total


@kernel("int64(int64[::1])")
def twice(values):  # type: ignore[no-untyped-def]
    return 2 * add_up(values)


def expected(values: Any) -> int:
    return int(values.sum())
