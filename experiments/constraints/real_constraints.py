"""Section 6.11, on real streams: which constraints hold, what they save, and what is not usable.

Flights replayed at departure, joined with the weather of their origin and hour and with their aircraft; DNS look-ups
joined with the TLS handshakes of the same client and name.
"""

from __future__ import annotations

from typing import Any

import matplotlib.pyplot as plt
import pyarrow as pa
import pyarrow.compute as pc

from eddyline.datasets import real
from experiments.constraints.replay import Replayed, replay
from experiments.report import VARIABLE, Claim, NotHereError, Number, Options, Outcome, Verdict, main

SETS = ("nyc_flights", "nyc_weather", "nyc_planes", "zeek_dns", "zeek_ssl")
FLIGHTS = (
    "SELECT Istream(F.ts, W.ts AS measured, F.flight, W.temp, P.seats)"
    " FROM Flights [RANGE 1 DAY] F, Weather [RANGE 1 DAY] W, Planes P"
    " WHERE F.origin = W.origin AND F.hour_at = W.hour_at AND F.tailnum = P.tailnum"
)
NAMES = (
    "SELECT Istream(D.ts, S.ts AS shaken) FROM Dns [RANGE 5 MINUTES] D, Ssl [RANGE 5 MINUTES] S"
    " WHERE D.client = S.client AND D.name = S.name"
)


def flights(options: Options) -> tuple[dict[str, pa.Table], dict[str, pa.Table]]:
    rows = options.tuples(60_000, 4_000)
    f = real.read("nyc_flights", ["ts", "time_hour", "origin", "tailnum", "flight"], options.data)
    f = f.filter(pc.is_valid(f["ts"])).sort_by("ts").slice(0, rows)
    w = real.read("nyc_weather", ["ts", "origin", "temp"], options.data).sort_by("ts")
    last = pc.max(f["ts"])
    w = w.filter(pc.less_equal(w["ts"], last))
    p = real.read("nyc_planes", ["tailnum", "seats"], options.data)
    hours = [pc.cast(c, pa.timestamp("us", "UTC")).cast(pa.int64()) for c in (f["time_hour"], w["ts"])]
    made = {
        "Flights": f.drop_columns(["time_hour"]).append_column("hour_at", hours[0]),
        "Weather": w.append_column("hour_at", hours[1]),
    }
    return {n: _plain(t) for n, t in made.items()}, {"Planes": p}


def names(options: Options) -> dict[str, pa.Table]:
    rows = options.tuples(40_000, 4_000)
    d = real.read("zeek_dns", ["ts", "src_ip", "query"], options.data).sort_by("ts").slice(0, rows)
    s = real.read("zeek_ssl", ["ts", "src_ip", "server_name"], options.data).sort_by("ts").slice(0, rows)
    return {n: _plain(t.rename_columns(["ts", "client", "name"])) for n, t in (("Dns", d), ("Ssl", s))}


def _plain(table: pa.Table) -> pa.Table:
    """Times without a zone."""
    at = table.schema.get_field_index("ts")
    return table.set_column(at, "ts", table["ts"].cast(pa.timestamp("us", "UTC")).cast(pa.timestamp("us")))


def run(options: Options) -> Outcome:
    there = [] if options.data is None else real.available(options.data)
    missing = [n for n in SETS if n not in there]
    if missing:
        raise NotHereError(f"it needs {missing[0]}.parquet: set {VARIABLE} or give --data.")
    streams, relations = flights(options)
    found: dict[str, dict[str, Replayed]] = {}
    for name, text, mine, constant in (("flights", FLIGHTS, streams, relations), ("names", NAMES, names(options), {})):
        found[name] = {m: replay(mine, text, m, relations=constant) for m in ("off", "exact", "lossy")}
    lines: list[dict[str, Any]] = []
    claims, numbers = [], []
    for name, by_mode in found.items():
        off, exact, lossy = (by_mode[m] for m in ("off", "exact", "lossy"))
        claims.append(Claim(f"{name}: the exact answer", (exact.results, exact.digest) == (off.results, off.digest)))
        numbers += [
            Number(f"{name}: rows without constraints", None, off.rows, ""),
            Number(f"{name}: rows exact over those", None, exact.rows / off.rows, ""),
            Number(f"{name}: rows lossy over those", None, lossy.rows / off.rows, ""),
            Number(f"{name}: bytes exact over those without", None, exact.bytes / off.bytes, ""),
            Number(f"{name}: results missing in lossy mode", None, 1 - lossy.results / max(1, off.results)),
        ]
        told = exact.told or {"constraints": [], "graph": [exact.refused]}
        lines.append({"join": name, "graph": told["graph"]})
        lines += [{"join": name, **c} for c in told["constraints"]]
        used = [c["constraint"] for c in told["constraints"] if c["used"]]
        claims.append(Claim(f"{name}: a constraint can be used", bool(used)))
    figure, axis = plt.subplots(figsize=(6, 3.2))
    for offset, mode in enumerate(("off", "exact", "lossy")):
        axis.bar(
            [x + 0.25 * offset for x in range(len(found))], [f[mode].rows for f in found.values()], 0.25, label=mode
        )
    axis.set(ylabel="rows in memory", yscale="log", xticks=[0.25 + x for x in range(len(found))])
    axis.set_xticklabels(list(found))
    axis.legend()
    figure.tight_layout()
    return Outcome(lines, Verdict("Constraints in real streams", claims, numbers), figure)


if __name__ == "__main__":
    main(run)
