"""A spatial grid for proximity, the same for samples and for segments.

Two objects that are closer than ``reach`` are both within half of it of a point between them, and so of the cell that
holds this point. Everybody is therefore copied into every cell that is at most half of ``reach`` away: pairs are looked
for among those with the same cell. A segment is copied into a cell for the time that it is that near. A pair near a
border is found in each cell that both are near, on either side alike.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from eddyline.core.delta import Float64s, Int64s
from eddyline.models.segments import FROM, SAMPLES, TO, SegmentLayout, coefficients_of, polynomial_array

ROWS = 1 << 20  # cells of a column of the grid: no coordinate has more


def samples_on_grid(table: pa.Table, cell: float, reach: float) -> pa.Table:
    """Samples with columns x and y, once for each cell that they are near."""
    x, y = table["x"].to_numpy(), table["y"].to_numpy()
    left, right = (np.floor((x + side * reach / 2) / cell).astype(np.int64) for side in (-1, 1))
    low, high = (np.floor((y + side * reach / 2) / cell).astype(np.int64) for side in (-1, 1))
    row, i, j = _boxes(left, right, low, high)
    return table.take(row).append_column("cell", pa.array(i * ROWS + j))


def segments_on_grid(table: pa.Table, cell: float, reach: float) -> pa.Table:
    """Segments with linear x and y, once for each cell that they come near, for the time that they do."""
    layout = SegmentLayout.of(table.schema)
    assert layout is not None
    start, end = (table[n].cast(pa.int64()).to_numpy() for n in (FROM, TO))
    x, y = (coefficients_of(table[n]) for n in ("x", "y"))
    width = (end - start) * layout.scale
    ends = [np.sort(np.column_stack([c[:, 0], c[:, 0] + c[:, 1] * width]), axis=1) for c in (x, y)]
    corners = [
        np.floor((side + by * reach / 2) / cell).astype(np.int64)
        for of in ends
        for side, by in ((of[:, 0], -1), (of[:, 1], 1))
    ]
    row, i, j = _boxes(*corners)
    low, high = np.zeros(len(row)), width[row].astype(np.float64)
    for c, at in ((x[row], i), (y[row], j)):
        near, far = at * cell - reach / 2, (at + 1) * cell + reach / 2
        with np.errstate(divide="ignore", invalid="ignore"):
            enters, leaves = (near - c[:, 0]) / c[:, 1], (far - c[:, 0]) / c[:, 1]
        moves = c[:, 1] != 0
        low = np.where(moves, np.maximum(low, np.minimum(enters, leaves)), low)
        high = np.where(moves, np.minimum(high, np.maximum(enters, leaves)), high)
        high = np.where(moves | ((near <= c[:, 0]) & (c[:, 0] <= far)), high, -1.0)
    first = start[row] + np.floor(low / layout.scale).astype(np.int64)
    last = np.minimum(start[row] + np.ceil(high / layout.scale).astype(np.int64) + 1, end[row])
    keep = np.flatnonzero((high >= low) & (last > first))
    keep = keep[np.argsort(first[keep], kind="stable")]
    row, first, last = row[keep], first[keep], last[keep]
    by = (first - start[row]) * layout.scale
    moved = [np.column_stack([c[row, 0] + c[row, 1] * by, c[row, 1]]) for c in (x, y)]
    cells = pa.array((i * ROWS + j)[keep])
    return _table(table, layout, row, cells, first, last, moved)


def _table(
    table: pa.Table, layout: SegmentLayout, row: Int64s, cells: pa.Array, first: Int64s, last: Int64s,
    values: list[Float64s],
) -> pa.Table:  # fmt: skip
    wider = replace(layout, key=("cell", *layout.key))
    keys = [table[k].combine_chunks() for k in layout.key]
    schema = wider.schema([pa.int64(), *(k.type for k in keys)])
    times = [pa.array(t).cast(layout.time_type) for t in (first, last)]
    many = pc.take(table[SAMPLES].combine_chunks(), pa.array(row))
    columns = [cells, *(k.take(pa.array(row)) for k in keys), *times, many, *map(polynomial_array, values)]
    return pa.Table.from_arrays(columns, schema=schema)


def _boxes(left: Int64s, right: Int64s, low: Int64s, high: Int64s) -> tuple[Int64s, Int64s, Int64s]:
    """All cells of boxes: (number of the box, column, row)."""
    wide, tall = right - left + 1, high - low + 1
    many = wide * tall
    row = np.repeat(np.arange(len(many)), many)
    place = np.arange(len(row)) - np.repeat(np.cumsum(many) - many, many)
    return row, left[row] + place // tall[row], low[row] + place % tall[row]
