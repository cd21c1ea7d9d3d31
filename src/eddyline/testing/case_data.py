"""Random inputs of cases: times of both kinds, streams with ties, NULLs, disorder and late rows, relations."""

from __future__ import annotations

import datetime as dt
import random
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final

import pyarrow as pa

from eddyline.core.time import TimeKind
from eddyline.testing.case_queries import EXPIRY, RELATION_COLUMNS, STREAM_COLUMNS
from eddyline.testing.reference import Element, RelationData, StreamData

_ARROW: Final = {"int": pa.int64(), "double": pa.float64(), "string": pa.string(), "time": pa.timestamp("us")}
_EPOCH: Final = dt.datetime(1970, 1, 1)


@dataclass(frozen=True, slots=True)
class TimeScale:
    """The time of a case: ``unit`` ticks to a step of the generator, which counts steps from ``origin``. ``expiring``:
    streams have a column with the time until which an element stays."""

    kind: TimeKind = TimeKind.INTEGER
    unit: int = 1
    origin: int = 0
    expiring: bool = False

    def ticks(self, step: int) -> int:
        return (self.origin + step) * self.unit

    def value(self, ticks: int | None) -> Any:
        """A time as it stands in a row."""
        if ticks is None or self.kind is TimeKind.INTEGER:
            return ticks
        return _EPOCH + dt.timedelta(microseconds=ticks)

    def width(self, steps: int, rng: random.Random, bare: bool = True) -> str:
        """A number of steps as a window's width is written, in any unit that can say it.

        >>> TimeScale(TimeKind.TIMESTAMP, 500_000).width(3, random.Random(1))
        '1.5 SECONDS'
        """
        ticks = steps * self.unit
        if self.kind is TimeKind.INTEGER:
            texts = [f"{ticks}", f"{ticks}", f"{ticks} SECONDS"] if bare else [f"{ticks} SECONDS"]
        else:
            seconds = f"{Decimal(ticks) / 1_000_000:f}"
            texts = [f"{ticks} MICROSECONDS", f"{seconds} SECONDS"]
            if bare:
                texts += [seconds, seconds]
            if ticks % 1000 == 0:
                texts.append(f"{ticks // 1000} MILLISECONDS")
        return rng.choice(texts)

    def schema(self) -> pa.Schema:
        """The columns of a stream."""
        columns = STREAM_COLUMNS + EXPIRY if self.expiring else STREAM_COLUMNS
        return pa.schema([(n, self._type(t) if n in ("ts", "u") else _ARROW[t]) for n, t in columns])

    def relation_schema(self, name: str) -> pa.Schema:
        columns = [(n, _ARROW[t]) for n, t in RELATION_COLUMNS]
        sign = [("g", pa.int64())] if name in ("Q", "B") else []
        return pa.schema([*([] if name == "K" else [("t", self._type("int"))]), *sign, *columns])

    def _type(self, otherwise: str) -> pa.DataType:
        return _ARROW["time" if self.kind is TimeKind.TIMESTAMP else otherwise]


def draw_scale(rng: random.Random) -> TimeScale:
    """Mostly integers from 0; also before 0, far away, and timestamps down to the microsecond."""
    origin = rng.choice([0, 0, 0, -23, 1_000_003])
    if rng.random() < 0.7:
        return TimeScale(origin=origin)
    return TimeScale(TimeKind.TIMESTAMP, rng.choice([1, 500_000, 1_000_000]), origin)


def draw_stream(rng: random.Random, count: int, length: int, scale: TimeScale) -> StreamData:
    """Elements in order of arrival: disorder within the slack, a few rows beyond it, seldom a row without a time."""
    slack = rng.choice([0, 0, 1, 3, 6])
    start = rng.choice([0, 0, rng.randint(0, length // 3)])
    times = [rng.randint(start, length) for _ in range(count)]
    # Ties: elements come in bursts, at times in so few that a window of rows passes over whole elements at once.
    bursts, share = rng.choice([(count // 3, 0.0), (count // 3, 0.6), (count // 3, 0.6), (2, 0.8)])
    instants = rng.choices(range(start, length + 1), k=max(2, bursts))
    times = [rng.choice(instants) if rng.random() < share else t for t in times]
    arrival = sorted(times, key=lambda t: t + rng.uniform(0, slack))
    for _ in range(rng.choice([0, 0, 1, 2])):  # held up on the way, most of them for too long
        late = arrival.pop(rng.randrange(len(arrival)))
        arrival.insert(rng.randint(0, len(arrival)), late)
    elements: list[Element] = [(scale.ticks(t), draw_row(rng, scale.value(scale.ticks(t)))) for t in arrival]
    if scale.expiring:
        elements = [(ts, {**row, "u": _expiry(rng, ts, scale)}) for ts, row in elements]
    if rng.random() < 0.08:
        more = {"u": None} if scale.expiring else {}
        elements.insert(rng.randint(0, len(elements)), (None, {**draw_row(rng, None), **more}))
    return StreamData(tuple(elements), slack * scale.unit)


def _expiry(rng: random.Random, ts: int | None, scale: TimeScale) -> Any:
    """Mostly a few steps after the element, now and then before it, or never."""
    if ts is None or rng.random() < 0.08:
        return None
    return scale.value(ts + rng.choice([rng.randint(0, 15), rng.randint(0, 5), rng.randint(-3, 0)]) * scale.unit)


def draw_row(rng: random.Random, ts: Any) -> dict[str, Any]:
    return {
        "ts": ts,
        "a": rng.choice([1, 2, 3, rng.choice([1, 2, None])]),
        "b": rng.choice([0, 1, 2, 3, 4, None]),
        "x": rng.choice([rng.randint(-4, 12) / 4] * 12 + [None, None, 0.1, float("nan"), float("inf"), -0.0]),
        "s": rng.choice(["u", "u", "v", "w", "", None]),
    }


def draw_relation(rng: random.Random, name: str, length: int, scale: TimeScale) -> RelationData:
    """K is constant; P has a key, Q a sign, B both, R neither."""
    rows: list[dict[str, Any]] = [
        {
            "k": rng.choice([1, 2, 3, None]),
            "v": rng.choice([0, 1, 2, 3, 4, None]),
            "w": rng.choice(["u", "v", "w", None]),
        }
        for _ in range(rng.randint(0, 6 if name == "K" else 9))
    ]
    if name == "K":
        return RelationData(tuple(rows))
    times: list[int | None] = sorted(rng.randint(0, length) for _ in rows)  # type: ignore[assignment]
    if rows and rng.random() < 0.3:  # a late row or one without a time
        times[rng.randrange(len(rows))] = rng.choice([0, 0, length // 2, None])
    stamps = [scale.value(None if t is None else scale.ticks(t)) for t in times]
    signed = name in ("Q", "B")
    held: list[dict[str, Any]] = []
    elements: list[Mapping[str, Any]] = []
    for stamp, row in zip(stamps, rows, strict=True):
        if not signed:
            elements.append({"t": stamp, **row})
        elif held and rng.random() < 0.4:
            elements.append({"t": stamp, "g": -1, **held.pop(rng.randrange(len(held)))})
        else:
            held.append(row)
            elements.append({"t": stamp, "g": rng.choice([1] * 12 + [-1, None]), **row})  # seldom an invalid element
    return RelationData(tuple(elements), "t", ("k",) if name in ("P", "B") else (), "g" if signed else None)
