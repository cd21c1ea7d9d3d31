"""The last rows of each partition, as chains of row numbers from the newest row back."""

from __future__ import annotations

from eddyline.kernels.compile import kernel


@kernel("void(int64[::1], int64[::1], int64[::1], int64[::1], int64, int64[::1])")
def chain_rows(groups, newest, length, before, first, out):
    """The rows of the given groups, one group behind the other, each from the oldest row to the newest.

    ``newest`` and ``length`` are by group; ``before[r - first]`` is the row before row r in its group.
    """
    at = 0
    for i in range(len(groups)):
        g = groups[i]
        row = newest[g]
        for k in range(length[g] - 1, -1, -1):
            out[at + k] = row
            row = before[row - first]
        at += length[g]
