"""One step of a batch of partial results through a state module: values in, row numbers out."""

from __future__ import annotations

import numpy as np

from eddyline.kernels.compile import kernel
from eddyline.kernels.hashing import u

LEAST, NEVER = np.int64(-1 << 63), np.int64((1 << 63) - 1)

_I1, _I2 = "int64[::1]", "int64[:, ::1]"


@kernel(f"void({_I1}, int64, {_I2}, int64, {_I2}, int64)", borrows=True)
def take_values(rows, shift, codes, attribute, out, place):
    """The values of an attribute that the ``rows`` of a state have, into a column of ``out``; row r is at place r +
    ``shift`` of ``codes``."""
    for i in range(len(rows)):
        out[u(i), u(place)] = codes[u(rows[u(i)] + shift), u(attribute)]


@kernel(f"void({_I2}, int64, int64, int64, {_I1}, {_I1})", borrows=True)
def search_times(lines, target, weight, remains, max_enter, min_leave):
    """When the rows of input ``target`` that partial results match enter at the latest and leave at the earliest. The
    last two lines are time and source of each partial result; rows leave ``remains`` later than the time that is
    searched says (NEVER: they never leave). At one instant a row that enters (``weight`` 1) matches rows of the inputs
    before its own, and one that leaves rows of those after it."""
    times, sources = u(len(lines) - 2), u(len(lines) - 1)
    for i in range(lines.shape[1]):
        time, source = lines[times, u(i)], lines[sources, u(i)]
        if weight > 0:
            max_enter[u(i)] = time - 1 if source < target else time
            leave = time + 1
        else:
            max_enter[u(i)] = time - 1
            leave = time + 1 if source > target else time
        min_leave[u(i)] = LEAST if remains == NEVER else leave - remains


@kernel(f"void({_I2}, {_I1}, {_I2}, {_I2})", borrows=True)
def part(lines, carried, some, others):
    """Divide partial results into ``some``, from all parts of them, and the ``others``; of the ``lines`` those that are
    ``carried`` along, the rest is undefined. What lies between two that are taken is copied as a whole."""
    n, few = lines.shape[1], some.shape[1]
    for c in range(len(carried)):
        line = carried[u(c)]
        begin = 0
        for taken in range(few):
            at = taken * n // few
            some[u(line), u(taken)] = lines[u(line), u(at)]
            for i in range(begin, at):
                others[u(line), u(i - taken)] = lines[u(line), u(i)]
            begin = at + 1
        for i in range(begin, n):
            others[u(line), u(i - few)] = lines[u(line), u(i)]


@kernel(f"void({_I2}, {_I1}, {_I1}, {_I1}, int64, {_I2})", work=lambda *a: len(a[2]), borrows=True)
def extend(lines, carried, requests, found, target, out):
    """The partial results that come of ``requests``: of the ``lines`` those that are ``carried`` along, and what was
    ``found`` in line ``target``."""
    for i in range(len(requests)):
        out[u(target), u(i)] = found[u(i)]
    for c in range(len(carried)):
        line = carried[u(c)]
        for i in range(len(requests)):
            out[u(line), u(i)] = lines[u(line), u(requests[u(i)])]
