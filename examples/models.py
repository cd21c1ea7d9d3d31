# %% [markdown]
# # Signals as polynomials
#
# A year of a sensor as a few thousand lines: ask at any instant, ask for a hundred limits at once, be warned before it
# happens. Run it with `python examples/models.py [folder for the pictures]`, or cell by cell.

# %%
import sys
import tempfile
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import eddyline as ed

pictures = Path(sys.argv[1]) if __name__ == "__main__" and len(sys.argv) > 1 else Path(tempfile.mkdtemp())
pictures.mkdir(parents=True, exist_ok=True)
MINUTE, DAY, YEAR = 60, 86_400, 365 * 86_400

# %% [markdown]
# ## A year of a cold room
#
# A sample every minute: the seasons, a compressor that works in cycles of hours, the noise of the sensor.

# %%
rng = np.random.default_rng(4)
ts = np.arange(0, YEAR, MINUTE)
season = 1.5 * np.sin(2 * np.pi * ts / YEAR)
day = 1.2 * np.sin(2 * np.pi * ts / DAY) ** 3
celsius = 4 + season + day + rng.normal(scale=0.04, size=len(ts))
samples = pa.table({"ts": ts, "room": np.zeros(len(ts), np.int64), "celsius": celsius})

# %% [markdown]
# Every sample within 0.25 °C of its line. The archive holds the lines.

# %%
segments = ed.fit(samples, key="room", time="ts", value="celsius", error=0.25)
folder = Path(tempfile.mkdtemp())
pq.write_table(samples, folder / "samples.parquet")
pq.write_table(segments, folder / "segments.parquet")
sizes = [(folder / f"{name}.parquet").stat().st_size for name in ("samples", "segments")]
print(f"{len(samples):,} samples are {len(segments):,} segments: {len(samples) / len(segments):.0f} samples each,")
print(f"{sizes[0] / 1e6:.1f} MB are {sizes[1] / 1e6:.2f} MB: {sizes[0] / sizes[1]:.0f} times smaller")

# %% [markdown]
# ## The value at any instant, and when a condition held
#
# A query over the archive is one over all instants, between samples, too.

# %%
session = ed.Session()
session.stream("heat", str(folder / "segments.parquet"))
every = session.query("SELECT room, celsius FROM heat WHERE celsius > 6.3 SAMPLE EVERY 7")
intervals = session.query("SELECT room, celsius FROM heat WHERE celsius > 6.3")
seconds, warm = every.to_arrow(), intervals.to_arrow()
hours = (warm["_to"].to_numpy() - warm["_from"].to_numpy()).sum() / 3600
print(f"{hours:.1f} hours above 6.3 °C in {len(warm)} intervals; {len(seconds):,} instants at steps of 7 seconds")

# %%
figure, (above, below) = plt.subplots(2, 1, figsize=(8, 6))
first = 88 * DAY
part = (ts >= first) & (ts < first + 3 * DAY)
above.plot(ts[part] / DAY, celsius[part], ".", ms=1.5, color="0.7", label="samples")
for row in segments.to_pylist():
    if first <= row["_from"] < first + 3 * DAY:
        x = np.array([row["_from"], row["_to"]])
        y = row["celsius"][0] + row["celsius"][1] * (x - row["_from"])
        above.plot(x / DAY, y, color="tab:blue", lw=1.5)
        above.fill_between(x / DAY, y - 0.25, y + 0.25, color="tab:blue", alpha=0.15, lw=0)
for low, high in zip(warm["_from"].to_pylist(), warm["_to"].to_pylist(), strict=True):
    if first <= low < first + 3 * DAY:
        above.axvspan(low / DAY, high / DAY, color="tab:red", alpha=0.2, lw=0)
above.axhline(6.3, color="tab:red", lw=0.8)
above.set(xlabel="day", ylabel="°C", title="samples, segments with their error band, and where celsius > 6.3")
below.plot(ts / DAY, celsius, color="0.6", lw=0.3)
below.set(xlabel="day", ylabel="°C", title=f"the year: {len(samples):,} samples, {len(segments):,} segments")
for low, high in zip(warm["_from"].to_pylist(), warm["_to"].to_pylist(), strict=True):
    below.axvspan(low / DAY, high / DAY, color="tab:red", alpha=0.4, lw=0.5)
figure.tight_layout()
figure.savefig(pictures / "models-year.png", dpi=110)

# %% [markdown]
# ## A hundred limits at the price of one
#
# How long was it above each of a hundred limits? One plan, one pass for each limit over the lines.

# %%
limits = np.linspace(1, 7, 100)
found = ed.sweep("SELECT room, celsius FROM heat WHERE celsius > :limit", {"heat": segments}, {"limit": limits})
length = found["_to"].to_numpy() - found["_from"].to_numpy()
hours_above = np.array([length[found["limit"].to_numpy() == c].sum() for c in limits]) / 3600
by_samples = np.array([(celsius > c).sum() for c in limits]) / 60
worst = np.abs(hours_above - by_samples).max() / by_samples.max()
print(f"{len(found):,} intervals for {len(limits)} limits; off the samples' hours by at most {worst:.1%} of the year")

# %%
figure, axis = plt.subplots(figsize=(7, 3.6))
axis.plot(limits, hours_above, label="from segments, all limits at once")
axis.plot(limits, by_samples, "k:", label="counted from all samples")
axis.set(xlabel="limit, °C", ylabel="hours of the year above it")
axis.legend()
figure.tight_layout()
figure.savefig(pictures / "models-sweep.png", dpi=110)

# %% [markdown]
# ## Before it happens
#
# Two ships say where they are and how fast they go. `PREDICT` answers ahead, and takes back what a later message
# corrects: a row with `_sign` −1.

# %%
ships = [
    {"ts": 0, "id": 1, "x": 0.0, "v": 1.0},
    {"ts": 0, "id": 2, "x": 60.0, "v": -0.5},
    {"ts": 20, "id": 1, "x": 20.0, "v": 0.2},
]
session = ed.Session()
session.stream("S", ships, timestamp="ts")
alert = session.query("""
    SELECT a.id, b.id AS other, b.x - a.x AS gap
    FROM   S a MODEL a.x = a.x + a.v * t JOIN S b MODEL b.x = b.x + b.v * t ON a.id < b.id
    WHERE  b.x - a.x < 12
    SAMPLE EVERY 2 HORIZON 60 PREDICT""").to_arrow()
told = [(r["_time"], r["_at"], r["gap"], r["_sign"]) for r in alert.to_pylist()]
ahead = min(at for said, at, _, sign in told if said == 0 and sign > 0)
taken_back = sum(sign < 0 for *_, sign in told)
print(f"at 0 s: closer than 12 from {ahead} s on; at 20 s {taken_back} of these rows were taken back")

# %%
figure, axis = plt.subplots(figsize=(7, 3.6))
t = np.arange(0, 61)
axis.plot(t, 60 - 1.5 * t, "--", color="tab:orange", lw=1, label="the models at 0 s")
corrected = np.where(t < 20, 60 - 1.5 * t, 30 - 0.7 * (t - 20))
axis.plot(t, corrected, color="tab:blue", lw=1, label="the models since 20 s")
axis.axhline(12, color="tab:red", lw=0.8)
for sign, marker, color, text in ((1, "o", "tab:blue", "predicted"), (-1, "x", "tab:red", "taken back")):
    at = np.array([(at, gap) for _, at, gap, one in told if one == sign])
    axis.plot(at[:, 0], at[:, 1], marker, color=color, ms=4 if sign > 0 else 9, label=text)
axis.axvline(20, color="0.6", lw=0.8)
axis.set(xlabel="seconds", ylabel="gap", ylim=(-32, 62), title="closer than 12: predicted at 0 s, corrected at 20 s")
axis.legend()
figure.tight_layout()
figure.savefig(pictures / "models-predict.png", dpi=110)
