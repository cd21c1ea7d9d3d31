"""The state of an input stream in a snapshot."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import Any, Protocol

from eddyline.core.errors import EddylineError
from eddyline.core.time import BEGINNING, Clock
from eddyline.engine.arrivals import MAX_TICKS
from eddyline.engine.auto_rows import JudgedRows
from eddyline.engine.overload_guard import OverloadGuard
from eddyline.engine.reorder import ReorderBuffer, pack, unpack
from eddyline.engine.side_output import SideOutput
from eddyline.engine.stream_reader import StreamReader
from eddyline.engine.unique_keys import UniqueKeys
from eddyline.engine.watermark import Watermark


class Saved(Protocol):
    """The part of an input stream that a snapshot keeps."""

    watermark: Watermark
    behind: int
    active_at: int
    late: SideOutput
    invalid: SideOutput
    shed: SideOutput
    auto: JudgedRows | None
    guard: OverloadGuard | None
    keys: UniqueKeys | None
    altered: dict[str, int | None]
    _clock: Clock
    _buffer: ReorderBuffer
    _readers: list[StreamReader]

    @property
    def name(self) -> str: ...

    def widen_wait(self, what: str, ticks: int | None) -> None: ...


_NUMBERS = ("arrived", "accepted", "first_time", "last_time", "finished", "idle", "_closed")


def save(stream: Saved) -> dict[str, Any]:
    return {
        "version": 1,
        "numbers": {n: getattr(stream, n) for n in (*_NUMBERS, "shown", "behind")},
        "floor": stream.watermark.floor,
        "held": pack(stream._buffer.chunks),
        "readers": {
            r.name: {"since": r.since, "first_time": r.first_time, "waiting": pack(r.chunks)} for r in stream._readers
        },
        "late": stream.late.state(),
        "invalid": stream.invalid.state(),
        "shed": stream.shed.state(),
        "altered": dict(stream.altered),
        "auto": None if stream.auto is None else stream.auto.state(),
        "guard": None if stream.guard is None else stream.guard.state(),
        "keys": None if stream.keys is None else stream.keys.state(),
    }


def restore(stream: Saved, state: Mapping[str, Any]) -> None:
    missing = set(state["readers"]) ^ {r.name for r in stream._readers}
    if missing:
        raise EddylineError(
            f"the snapshot of {stream.name!r} has other readers than now: {', '.join(sorted(missing))}."
        )
    for n in _NUMBERS:
        setattr(stream, n, state["numbers"][n])
    stream.behind = state["numbers"].get("behind", 0)  # earlier versions did not know it
    # The slack is the declared one, and may be another than before; what was closed stays closed (``_closed``).
    stream.watermark.shown = state["numbers"]["shown"]
    stream.watermark.floor = state.get("floor", BEGINNING)
    for what, wait in state.get("altered", {}).items():
        stream.widen_wait(what, wait)
    # Wall-clock silence is not counted while no query reads the stream.
    stream.active_at = stream._clock.now()
    stream._buffer = ReorderBuffer()
    for chunk in unpack(state["held"]):
        stream._buffer.add(chunk.sorted())
    for r in stream._readers:
        mine = state["readers"][r.name]
        r.since, r.first_time = mine["since"], mine["first_time"]
        r.chunks = deque(unpack(mine["waiting"]))
    if stream.auto is not None:
        if state.get("auto") is not None:
            stream.auto.load(state["auto"])
        else:  # it had a fixed slack when it was saved: until its first rows have come, nothing more closes
            stream.watermark.slack = MAX_TICKS
    if stream.guard is not None and state.get("guard") is not None:
        stream.guard.load(state["guard"])
    if stream.keys is not None and state.get("keys") is not None:
        stream.keys.load(state["keys"])
    if "shed" in state:
        stream.shed.load(state["shed"])
    stream.late.load(state["late"])
    stream.invalid.load(state["invalid"])
