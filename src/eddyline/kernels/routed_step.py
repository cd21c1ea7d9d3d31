"""What a batch of partial results brings to a state module, and what it takes along: values in, row numbers out."""

from __future__ import annotations

from eddyline.kernels.compile import kernel
from eddyline.kernels.hashing import u

_I1, _I2 = "int64[::1]", "int64[:, ::1]"


@kernel(f"void({_I1}, int64, {_I2}, int64, {_I2}, int64)", borrows=True)
def take_values(rows, shift, codes, attribute, out, place):
    """The values of an attribute that the ``rows`` of a state have, into a column of ``out``; row r is at place r +
    ``shift`` of ``codes``."""
    for i in range(len(rows)):
        out[u(i), u(place)] = codes[u(rows[u(i)] + shift), u(attribute)]


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
