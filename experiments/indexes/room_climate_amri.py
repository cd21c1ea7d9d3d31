"""Section 9, further: four nodes of one room (room_climate), joined by rounded readings as in the paper.

The readings of location A are split into a stream for each node. Each pair of nodes has an attribute of its own:
temperature (1-2 and 3-4), humidity (1-3 and 2-4), light (1-4 and 2-3), so that each state has three. Readings are
rounded to 0.5 °C, 2 % and 20 units of light. Windows have 200 rows, some 13 minutes; experiments in the room, with
people, a door and a window that open, make other attributes selective from hour to hour.
"""

from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from experiments.indexes.harness import Measured, check_same, measure, time_ratio
from experiments.report import VARIABLE, Claim, NotHereError, Number, Options, Outcome, Verdict, main

PAIRS = {(1, 2): "temperature", (3, 4): "temperature", (1, 3): "humidity", (2, 4): "humidity", (1, 4): "light1",
         (2, 3): "light1"}  # fmt: skip
ROUNDED = {"temperature": 0.5, "humidity": 2.0, "light1": 20.0}
ROWS, READINGS = 200, 100_000
SIZES = "partition=50, costs=counted"
TUNED = f"window=4000, periodic=12000, triggered=20000, {SIZES}"
# The static bitmap has its bits from the first searches of a state.
STATIC = f"window=100000, {SIZES}"
INDEXES: dict[str, str | None] = {
    "amri": f"amri({TUNED})", "bitmap": f"bitmap({STATIC})", "hash 1": f"hash(count=1, {TUNED})",
    "hash 2": f"hash(count=2, {TUNED})", "hash 3": f"hash(count=3, {TUNED})", "hash 7": f"hash(count=7, {TUNED})",
    "single": "single(partition=50)", "mjoin": None,
}  # fmt: skip


def nodes(table: pa.Table, readings: int) -> dict[str, pa.Table]:
    """The first readings of location A, a stream for each of four nodes."""
    table = table.filter(pc.equal(table["location"], "A")).sort_by("ts").slice(0, readings)
    streams = {}
    for node in (1, 2, 3, 4):
        mine = table.filter(pc.equal(table["node_id"], node))
        columns = {"ts": mine["ts"]}
        for name, step in ROUNDED.items():
            columns[name] = pa.array(np.round(mine[name].to_numpy() / step).astype(np.int64))
        streams[f"N{node}"] = pa.table(columns)
    return streams


def query(rows: int) -> str:
    sources = ", ".join(f"N{n} [ROWS {rows}]" for n in (1, 2, 3, 4))
    equal = " AND ".join(f"N{i}.{name} = N{j}.{name}" for (i, j), name in PAIRS.items())
    return f"SELECT Istream(N1.ts AS t) FROM {sources} WHERE {equal}"


def run(options: Options) -> Outcome:
    if options.data is None or not (options.data / "room_climate.parquet").is_file():
        raise NotHereError(f"it needs room_climate.parquet: set {VARIABLE} or give --data.")
    tables = nodes(pq.read_table(options.data / "room_climate.parquet"), options.tuples(READINGS, 4_000))
    found: dict[str, Measured] = {n: measure(tables, index, text=query(ROWS)) for n, index in INDEXES.items()}
    check_same(list(found.values()))
    rows = [
        {"index": n, "operations": m.operations, "seconds": m.seconds, "bytes_per_row": m.bytes_per_row,
         "changes": m.changes, "results": m.results}
        for n, m in found.items()
    ]  # fmt: skip
    counted = [n for n in INDEXES if n != "mjoin"]
    figure, axis = plt.subplots(figsize=(7, 3.6))
    axis.bar(counted, [found[n].operations / 1e6 for n in counted])
    axis.set(ylabel="million operations", yscale="log", title="four nodes of a room, rounded readings")
    figure.tight_layout()
    amri = found["amri"].operations
    claims = [
        Claim("AMRI takes fewer operations than the static bitmap", amri < found["bitmap"].operations),
        Claim("AMRI takes fewer operations than one, two and three hash indices",
              all(amri < found[f"hash {n}"].operations for n in (1, 2, 3))),
    ]  # fmt: skip
    numbers = [
        Number("static bitmap more than AMRI", 0.15, found["bitmap"].operations / amri - 1),
        Number("two hash indices, operations over AMRI's", None, found["hash 2"].operations / amri, "×"),
        Number("seven hash indices, operations over AMRI's", None, found["hash 7"].operations / amri, "×"),
        Number("AMRI's bytes a row", None, found["amri"].bytes_per_row, " B"),
        Number("the MJoin's index bytes a row", None, found["mjoin"].bytes_per_row, " B"),
        Number("AMRI's CPU time over the MJoin's (measured)", None, time_ratio(tables, f"amri({TUNED})", query(ROWS)),
               "×"),
        Number("results", None, float(found["amri"].results), " rows"),
    ]  # fmt: skip
    note = (
        "The paper has the Intel Lab readings, whose raw form is not at hand; 15 and 68 % more results than the bitmap "
        "and the best hash indices in a fixed time. Ours are operations for a fixed input. The bitmap has learned from "
        "its first 100,000 searches of a state. Hours in the room are "
        "alike enough for bits that stay. The rows of a batch (1,024 over four nodes) are in the index before those of "
        "a window leave, hence more than 8 bytes a row."
    )
    return Outcome(rows, Verdict("Room climate (AMRI)", claims, numbers, note), figure)


if __name__ == "__main__":
    main(run)
